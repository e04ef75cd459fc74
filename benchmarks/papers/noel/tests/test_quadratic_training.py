"""History, stopping and divergence of the estimators, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.papers.noel import (
    LOSSES,
    QuadraticLogisticRegression,
    QuadraticNetwork,
    QuadraticNetworkClassifier,
)
from qsdp import QSDPWarning
from qsdp.baselines import History
from qsdp.exceptions import InvalidInputError

Logistic, Network = QuadraticLogisticRegression, QuadraticNetworkClassifier
both = pytest.mark.parametrize("estimator", [Logistic, Network], ids=["logistic", "network"])

RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (120, 2))
INSIDE = (np.hypot(*X.T) < 0.7).astype(int)
THREE = np.array(["low", "mid", "top"])[np.digitize(X[:, 0] * X[:, 1] + 0.3 * X[:, 0], [-0.1, 0.1])]


# -- history, stopping, divergence ---------------------------------------------------------------------


@both
def test_history_has_loss_and_accuracy_after_every_epoch(estimator: type) -> None:
    model = estimator(n_epochs=4, random_state=0).fit(X, THREE)
    history = model.history_
    assert history.n_epochs == len(history.accuracy) == len(history.seconds) == 4
    assert history.accuracy[-1] == model.score(X, THREE)
    targets = np.eye(3)[np.searchsorted(model.classes_, THREE)]
    loss = LOSSES["binary_cross_entropy"].values(model.decision_function(X), targets).mean()
    assert history.loss[-1] == pytest.approx(loss, rel=1e-12)


@both
def test_seconds_are_those_of_training_without_measuring(estimator: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock advances by one with every evaluation of all training data, and by nothing else."""
    clock = [0.0]
    evaluate = QuadraticNetwork.decision

    def counted(network: QuadraticNetwork, data: Any) -> Any:
        clock[0] += 1.0
        return evaluate(network, data)

    monkeypatch.setattr("qsdp.baselines._history.time.perf_counter", lambda: clock[0])
    monkeypatch.setattr(QuadraticNetwork, "decision", counted)
    model = estimator(n_epochs=4, random_state=0).fit(X, THREE)
    assert clock[0] == 4.0
    assert model.history_.seconds == [0.0] * 4


def test_a_callback_stops_training() -> None:
    seen: list[int] = []

    def stop(history: History) -> bool:
        seen.append(history.n_epochs)
        return history.n_epochs == 3

    model = Logistic(n_epochs=50, callback=stop, random_state=0).fit(X, INSIDE)
    assert seen == [1, 2, 3]
    assert model.history_.stopped == "callback"


@both
def test_divergence_names_epoch_and_suggestion_and_keeps_the_history(estimator: type) -> None:
    options = {"hidden_layers": [("linear", 4, "relu")]} if estimator is Network else {}
    model = estimator(learning_rate=5.0, n_epochs=40, random_state=0, init_scale=2.0, **options)
    with pytest.warns(QSDPWarning, match=r"training diverged in epoch \d+ .*a smaller learning_rate"):
        model.fit(1e100 * X if estimator is Logistic else 10.0 * X, THREE)
    history = model.history_
    assert history.stopped == "diverged"
    assert history.diverged == history.n_epochs + 1
    assert np.isfinite(history.loss).all()
    for layer in model.network_.layers:
        for value in layer.parameters.values():
            assert np.isfinite(value).all()


# -- bad input -----------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("learning_rate", 0.0, "learning_rate must be a finite number > 0; got 0.0"),
        ("learning_rate", np.nan, "learning_rate must be a finite number > 0; got nan"),
        ("learning_rate", "fast", "learning_rate must be a finite number > 0; got 'fast'"),
        ("n_epochs", 0, "n_epochs must be an integer >= 1; got 0"),
        ("n_epochs", 1.5, "n_epochs must be an integer >= 1; got 1.5"),
        ("batch_size", 0, "batch_size must be an integer >= 1; got 0"),
        ("batch_size", True, "batch_size must be an integer >= 1; got True"),
        ("loss", "squared", r"'squared' is excluded: the algorithms start from delta = yhat - y, A\(55\)"),
        ("loss", "hinge", "'hinge' is excluded: the algorithms start from delta"),
        ("loss", "binary_crossentropy", "did you mean 'binary_cross_entropy'"),
        ("loss", None, "loss must be one of"),
        ("coupling", "free", "coupling must be one of 'full', 'packed', 'tied'; got 'free'"),
        ("shuffle", "no", "shuffle must be True or False; got 'no'"),
        ("patience", 0, "patience must be an integer >= 1; got 0"),
        ("verbose", "yes", "verbose must be True, False or an integer >= 0; got 'yes'"),
        ("callback", 3, "callback must be callable or None; got 3"),
        ("random_state", "seed", "random_state must be None, a non-negative integer"),
    ],
)
def test_bad_parameters(estimator: type, name: str, value: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        estimator(**{name: value}).fit(X, THREE)
