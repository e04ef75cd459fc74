"""The loop over epochs that all training systems share, and what it records."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from qsdp import QSDPWarning
from qsdp.baselines import History
from qsdp.baselines._history import train_epochs
from qsdp.exceptions import InvalidTypeError


class Descent:
    """A training whose parameter is the number of epochs trained; its loss is looked up."""

    def __init__(self, losses: list[float], fails: dict[int, BaseException] | None = None, done_at: int = -1) -> None:
        self.w = np.zeros(2)
        self.losses, self.fails, self.done_at = losses, fails or {}, done_at
        self.trained: list[int] = []

    def train(self, epoch: int) -> object:
        self.trained.append(epoch)
        self.w[0] += 1.0
        if epoch in self.fails:
            raise self.fails[epoch]
        self.w[1] += 1.0
        return "no improvement" if epoch == self.done_at else None

    def measure(self) -> dict[str, float]:
        epoch = self.trained[-1]
        return {"loss": self.losses[epoch], "score": 10.0 + epoch, "norm": 100.0 + epoch}

    def run(self, n_epochs: int, **options: Any) -> History:
        return train_epochs(
            self.train,
            self.measure,
            n_epochs,
            get_state=self.w.copy,
            set_state=lambda w: self.w.__setitem__(slice(None), w),
            history=History(),
            **options,
        )


def test_every_epoch_has_an_entry_in_every_list() -> None:
    training = Descent([5.0, 4.0, 3.0])
    history = training.run(3)
    assert training.trained == [0, 1, 2]
    assert (history.loss, history.score) == ([5.0, 4.0, 3.0], [10.0, 11.0, 12.0])
    assert history.extra == {"norm": [100.0, 101.0, 102.0]}
    assert len(history.seconds) == history.n_epochs == 3
    assert all(seconds >= 0.0 for seconds in history.seconds)
    assert (history.stopped, history.diverged) == ("finished", None)
    assert training.w.tolist() == [3.0, 3.0]


def test_given_history_is_filled_in_place() -> None:
    history, training = History(measure="r2"), Descent([1.0])
    returned = train_epochs(
        training.train, training.measure, 1, get_state=lambda: None, set_state=lambda _: None, history=history
    )
    assert returned is history
    assert history.loss == [1.0]


def test_no_epochs_is_an_empty_history() -> None:
    training = Descent([])
    history = training.run(0)
    assert (history.n_epochs, history.stopped, training.trained) == (0, "finished", [])


def test_seconds_are_those_of_training_only(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    training = Descent([1.0, 1.0])

    def measure() -> dict[str, float]:
        for _ in range(50):
            time.perf_counter()
        return training.measure()

    history = train_epochs(
        training.train, measure, 2, get_state=lambda: None, set_state=lambda _: None, history=History()
    )
    assert history.seconds == [1.0, 1.0]


def test_training_that_says_why_it_is_done_stops_after_the_callback() -> None:
    seen: list[int] = []
    training = Descent([3.0, 2.0, 1.0], done_at=1)
    history = training.run(3, callback=lambda history: seen.append(history.n_epochs))
    assert (history.loss, history.stopped, seen) == ([3.0, 2.0], "no improvement", [1, 2])
    assert training.w.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("told", [False, True])
def test_the_reason_is_the_trainings_own_where_the_callback_stops_too(told: bool) -> None:
    history = Descent([3.0, 2.0], done_at=0).run(2, callback=lambda _: told)
    assert (history.n_epochs, history.stopped) == (1, "no improvement")


@pytest.mark.parametrize("returned", [None, 0, 1, "yes", np.True_])
def test_only_true_itself_stops(returned: object) -> None:
    assert Descent([1.0, 1.0]).run(2, callback=lambda _: returned).stopped == "finished"


@pytest.mark.parametrize("returned", [None, 0, 1, True, np.True_])
def test_only_a_reason_ends_the_training(returned: object) -> None:
    training = Descent([1.0, 1.0])
    history = train_epochs(
        lambda epoch: (training.train(epoch), returned)[1],
        training.measure,
        2,
        get_state=lambda: None,
        set_state=lambda _: None,
        history=History(),
    )
    assert (history.n_epochs, history.stopped) == (2, "finished")


# -- divergence --------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_divergence_stops_with_epoch_and_suggestion(loss: float) -> None:
    training = Descent([5.0, 4.0, loss, 1.0])
    message = (
        rf"training diverged in epoch 3 \(loss {loss}\): the parameters are those after 2 epochs; try a cup of tea"
    )
    with pytest.warns(QSDPWarning, match=message) as caught:
        history = training.run(4, suggestion="a cup of tea")
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert training.trained == [0, 1, 2]
    assert (history.loss, history.extra["norm"]) == ([5.0, 4.0], [100.0, 101.0])
    assert (len(history.seconds), history.stopped, history.diverged) == (2, "diverged", 3)
    assert training.w.tolist() == [2.0, 2.0]


def test_divergence_in_the_first_epoch_keeps_the_start() -> None:
    training = Descent([math.nan])
    with pytest.warns(QSDPWarning, match="epoch 1 .* after 0 epochs; try a smaller learning_rate"):
        history = training.run(5)
    assert (history.n_epochs, history.diverged) == (0, 1)
    assert training.w.tolist() == [0.0, 0.0]


def test_callback_does_not_see_a_diverged_epoch() -> None:
    seen: list[int] = []
    with pytest.warns(QSDPWarning, match="diverged"):
        Descent([1.0, math.nan]).run(3, callback=lambda history: seen.append(history.n_epochs))
    assert seen == [1]


def test_a_score_that_is_not_finite_is_recorded() -> None:
    # R² of a single sample is nan; that is no divergence.
    training = Descent([1.0])
    history = train_epochs(
        training.train,
        lambda: {"loss": 1.0, "score": math.nan},
        2,
        get_state=lambda: None,
        set_state=lambda _: None,
        history=History(),
    )
    assert history.stopped == "finished"
    assert all(map(math.isnan, history.score))


# -- interrupt ---------------------------------------------------------------------------------------


def test_interrupt_keeps_whole_epochs() -> None:
    training = Descent([3.0, 2.0, 1.0], fails={1: KeyboardInterrupt()})
    with pytest.warns(QSDPWarning, match="interrupted: the parameters are those after 1 of 3 epochs"):
        history = training.run(3)
    assert (history.loss, history.stopped, history.diverged) == ([3.0], "interrupted", None)
    # The second epoch had moved one of the two parameters.
    assert training.w.tolist() == [1.0, 1.0]


def test_interrupt_in_the_callback_keeps_the_epoch_it_was_called_for() -> None:
    def callback(history: History) -> None:
        if history.n_epochs == 2:
            raise KeyboardInterrupt

    training = Descent([3.0, 2.0, 1.0])
    with pytest.warns(QSDPWarning, match="after 2 of 3 epochs"):
        history = training.run(3, callback=callback)
    assert history.loss == [3.0, 2.0]
    assert training.w.tolist() == [2.0, 2.0]


def test_other_errors_are_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        Descent([1.0], fails={0: ZeroDivisionError()}).run(1)


# -- callback ----------------------------------------------------------------------------------------


def test_callback_sees_every_epoch_and_may_stop() -> None:
    seen: list[list[float]] = []

    def callback(history: History) -> bool:
        seen.append(list(history.loss))
        return history.loss[-1] <= 2.0

    training = Descent([3.0, 2.0, 1.0])
    history = training.run(3, callback=callback)
    assert seen == [[3.0], [3.0, 2.0]]
    assert (history.loss, history.stopped) == ([3.0, 2.0], "callback")
    assert training.w.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("callback", [1, "print", [print]])
def test_bad_callback_is_refused_before_work_starts(callback: object) -> None:
    training = Descent([1.0])
    with pytest.raises(InvalidTypeError, match="callback must be callable or None; got"):
        training.run(1, callback=callback)
    assert training.trained == []


# -- progress ----------------------------------------------------------------------------------------


def test_progress_bar_counts_epochs(capsys: pytest.CaptureFixture[str]) -> None:
    Descent([3.0, 0.12345]).run(2, verbose=True, name="descent")
    out, shown = capsys.readouterr()
    assert out == ""
    assert "descent" in shown
    assert "2 of 2" in shown
    assert "loss 0.1235" in shown or "loss 0.1234" in shown
    assert "score 11" in shown


def test_silent_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    Descent([3.0]).run(1)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_bar_is_closed_after_a_divergence(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # rich allows one live display at a time: a bar left open would fail the second
        with pytest.warns(QSDPWarning, match="diverged"):
            Descent([1.0, math.nan]).run(2, verbose=True)
    assert "1 of 2" in capsys.readouterr().err


# -- the record --------------------------------------------------------------------------------------


def test_history_as_numbers() -> None:
    history = Descent([2.0, 1.0]).run(2)
    stored = json.loads(json.dumps(history.to_dict()))
    assert stored["loss"] == [2.0, 1.0]
    assert stored["score"] == [10.0, 11.0]
    assert stored["norm"] == [100.0, 101.0]
    assert (stored["measure"], stored["stopped"], stored["diverged"]) == ("accuracy", "finished", None)
    stored["loss"].append(0.0)
    assert history.n_epochs == 2


def test_entries_are_plain_floats() -> None:
    history = History()
    history.add(np.float32(0.5), {"loss": np.float64(1.5), "score": np.int64(1), "own": np.float32(2.0)})
    assert history.to_dict()["own"] == [2.0]
    for values in (history.loss, history.score, history.seconds, history.extra["own"]):
        assert type(values[0]) is float


def test_accuracy_is_the_score_of_a_classifier() -> None:
    assert History(score=[0.5]).accuracy == [0.5]
    with pytest.raises(AttributeError, match="a regressor has no accuracy"):
        History(measure="r2", score=[0.5]).accuracy  # noqa: B018


def test_callable_signatures_are_those_documented() -> None:
    calls: list[str] = []
    order: Callable[[str], Callable[..., Any]] = lambda name: lambda *_: calls.append(name)  # noqa: E731
    train_epochs(
        order("train"),
        lambda: calls.append("measure") or {"loss": 0.0, "score": 0.0},  # type: ignore[func-returns-value]
        1,
        get_state=order("get"),
        set_state=order("set"),
        history=History(),
        callback=order("callback"),
    )
    assert calls == ["get", "train", "measure", "get", "callback"]


@pytest.mark.parametrize(
    ("best", "values", "kept"),
    [("loss", [3.0, 1.0, 2.0, 2.0, 0.5], 2), ("validation_score", [0.1, 0.3, 0.3, 0.2, 0.9], 2)],
)
def test_the_best_epoch_is_kept_and_patience_ends_the_training(best, values, kept):
    state = {"epoch": 0}

    def train(epoch):
        state["epoch"] = epoch + 1

    def measure():
        return {"loss": 1.0, "score": 0.0, best: values[state["epoch"] - 1]}

    options = {"get_state": lambda: dict(state), "set_state": state.update, "best": best}
    history = train_epochs(train, measure, 5, history=History(), patience=2, **options)
    assert (history.n_epochs, history.stopped, history.best_epoch) == (4, "no improvement", kept)
    assert state == {"epoch": kept}
    history = train_epochs(train, measure, 5, history=History(), **options)
    assert (history.n_epochs, history.stopped, history.best_epoch) == (5, "finished", 5)
    assert state == {"epoch": 5}
