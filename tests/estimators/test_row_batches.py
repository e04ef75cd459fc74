"""Estimators fitted to rows in batches: as to the rows themselves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import qsdp
from qsdp import QuantizedNetworkClassifier, QuantizedNetworkRegressor, RowBatches
from qsdp.exceptions import InvalidInputError, InvalidTypeError

N_ROWS = 300
FAST: dict[str, Any] = {"beta": 5.0, "encoding": "standard", "tol": 1e-8, "refine": "refit", "random_state": 0}


def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_ROWS, 4)) * [1.0, 5.0, 0.1, 1.0] + [0.0, 20.0, 0.0, 0.0]
    y = X[:, 0] * X[:, 3] + 0.2 * (X[:, 1] - 20.0) + 0.1 * rng.standard_normal(N_ROWS)
    return X, y, rng.integers(0, 3, N_ROWS) * 0.5


def batches(*arrays: Any, size: int = 70, **options: Any) -> RowBatches:
    starts = range(0, len(arrays[0]), size)
    return RowBatches(lambda: (tuple(one[k : k + size] for one in arrays) for k in starts), **options)


# -- what a fit is ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_regressor_is_that_of_the_rows(outputs: int, weighted: bool) -> None:
    X, y, w = rows()
    y = y if outputs == 1 else np.column_stack([y, X[:, 0]])
    given = (X, y, w) if weighted else (X, y)
    here = QuantizedNetworkRegressor(**FAST).fit(*given)
    there = QuantizedNetworkRegressor(**FAST).fit(batches(*given))
    # Encoding, targets and bound are those of a fit here; bits may differ by the tolerance of the solver.
    np.testing.assert_array_equal(there.network_inputs(X), here.network_inputs(X))
    np.testing.assert_array_equal(there.target_scaling_.offset, here.target_scaling_.offset)
    assert there.certificate_.lower_bound == pytest.approx(here.certificate_.lower_bound, rel=1e-6)
    assert there.certificate_.objective == pytest.approx(here.result_.problem.objective(there.network_), rel=1e-9)
    assert there.predict(X).shape == y.shape


@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
@pytest.mark.parametrize("labels", [["no", "yes"], [3, 4], [False, True]])
def test_a_classifier_is_that_of_the_rows(loss: str, labels: list[Any]) -> None:
    X, y, w = rows()
    truth = np.array(labels)[(y > 0.0).astype(int)]
    model = QuantizedNetworkClassifier(loss=loss, class_weight="balanced", **FAST)
    here = qsdp.QuantizedNetworkClassifier(**model.get_params()).fit(X, truth, w)
    there = model.fit(batches(X, truth, w))
    assert there.classes_.tolist() == labels
    assert 0.98 * here.certificate_.lower_bound < there.certificate_.lower_bound <= here.certificate_.objective
    assert there.certificate_.objective == pytest.approx(here.result_.problem.objective(there.network_), rel=1e-9)
    assert there.score(X, truth, w) > 0.8


def test_batches_of_any_size_and_empty_ones_give_the_same() -> None:
    X, y, w = rows()
    first = QuantizedNetworkRegressor(**FAST).fit(batches(X, y, w))
    empty = (X[:0], y[:0], w[:0])
    for cuts in ([0, N_ROWS], [0, 1, 2, 290, N_ROWS]):
        parts = [(X[a:b], y[a:b], w[a:b]) for a, b in pairwise(cuts)]
        given = [empty, *parts[:1], empty, empty, *parts[1:], empty]
        other = QuantizedNetworkRegressor(**FAST).fit(RowBatches(lambda given=given: iter(given)))
        np.testing.assert_array_equal(other.network_inputs(X), first.network_inputs(X))
        assert other.certificate_.lower_bound == pytest.approx(first.certificate_.lower_bound, rel=1e-8)


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_rows_of_weight_zero_are_as_if_they_were_not_there(loss: str) -> None:
    X, y, w = rows()
    odd, count = X.copy(), w > 0.0
    odd[~count] = 1e6
    first = QuantizedNetworkRegressor(loss=loss, **FAST).fit(batches(odd, y, w))
    second = QuantizedNetworkRegressor(loss=loss, **FAST).fit(batches(X[count], y[count], w[count]))
    np.testing.assert_array_equal(first.network_inputs(X), second.network_inputs(X))
    assert first.certificate_.lower_bound == pytest.approx(second.certificate_.lower_bound, rel=1e-6)
    # A whole batch without weight.
    w[:70] = 0.0
    model = QuantizedNetworkRegressor(loss=loss, **FAST).fit(batches(odd, y, w))
    assert model.result_.rows.n_samples == np.count_nonzero(w)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_sample_stands_for_all_rows(monkeypatch: pytest.MonkeyPatch, loss: str) -> None:
    monkeypatch.setattr("qsdp.estimators.collections.SAMPLE", 100)
    X, y, w = rows()
    truth = y > 0.0
    model = QuantizedNetworkClassifier(loss=loss, **FAST).fit(batches(X, truth, w))
    assert model.result_.rows.n_samples == 100
    problem = model.training_problem(X, truth, w)
    assert problem.n_samples == np.count_nonzero(w)
    assert model.certificate_.objective == pytest.approx(problem.objective(model.network_), rel=1e-9)
    assert 0.0 < model.certificate_.lower_bound <= qsdp.solve_relaxation(problem).objective * (1.0 + 1e-9)


def test_frames_with_text_and_missing_entries() -> None:
    X, y, _ = rows()
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=np.where(X[:, 0] > 0.0, "high", "low"))
    frame.loc[::7, "b"] = np.nan
    here = QuantizedNetworkRegressor(**FAST).fit(frame, y)
    there = QuantizedNetworkRegressor(**FAST).fit(batches(frame, y))
    assert there.encoder_.encoding_ == here.encoder_.encoding_
    assert list(there.feature_names_in_) == [*"abcd", "kind"]
    assert there.certificate_.lower_bound == pytest.approx(here.certificate_.lower_bound, rel=1e-6)


def test_fits_to_batches_are_saved(tmp_path: Path) -> None:
    X, y, _ = rows()
    model = QuantizedNetworkRegressor(**FAST).fit(batches(X, y))
    model.save(tmp_path / "model")
    loaded = qsdp.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert not hasattr(loaded, "table_")


# -- passes ----------------------------------------------------------------------------------------------


def test_a_pass_goes_on_from_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qsdp.estimators.collections._EVERY", 50)
    X, y, _ = rows()
    passes: list[int] = []

    def given(stop: int | None) -> Any:
        def read() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            passes.append(0)
            for k in range(0, N_ROWS, 30):
                if len(passes) == 2 and k == stop:
                    raise OSError("the disk is gone")
                passes[-1] += 1
                yield X[k : k + 30], y[k : k + 30]

        return read

    whole = QuantizedNetworkRegressor(**FAST).fit(RowBatches(given(None)))
    passes.clear()
    checkpoint = tmp_path / "statistics"
    with pytest.raises(OSError, match="the disk is gone"):
        QuantizedNetworkRegressor(**FAST).fit(RowBatches(given(210), checkpoint=checkpoint))
    (left,) = tmp_path.iterdir()
    assert left.name.startswith("statistics.")
    seen = []
    original = qsdp.SufficientStatistics.partial_fit
    monkeypatch.setattr(
        qsdp.SufficientStatistics,
        "partial_fit",
        lambda self, X, y, w=None: (seen.append(len(X)), original(self, X, y, w))[1],
    )
    resumed = QuantizedNetworkRegressor(**FAST).fit(RowBatches(given(None), checkpoint=checkpoint))
    assert sum(seen) == N_ROWS - 180
    assert resumed.certificate_.objective == pytest.approx(whole.certificate_.objective, rel=1e-10)
    np.testing.assert_array_equal(resumed.network_.U, whole.network_.U)
    # Another encoding has other statistics.
    seen.clear()
    QuantizedNetworkRegressor(**{**FAST, "encoding": "both"}).fit(RowBatches(given(None), checkpoint=checkpoint))
    assert sum(seen) == N_ROWS


# -- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [None, 3, [(np.zeros((2, 1)), np.zeros(2))], iter([])])
def test_batches_come_from_a_function(given: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"batches must be a function that returns an iterator .* got"):
        RowBatches(given)


@pytest.mark.parametrize("argument", ["y", "sample_weight"])
def test_targets_and_weights_come_with_the_batches(argument: str) -> None:
    X, y, w = rows()
    for estimator in (QuantizedNetworkRegressor, QuantizedNetworkClassifier):
        with pytest.raises(InvalidTypeError, match="y and sample_weight must be None"):
            estimator(**FAST).fit(batches(X, y, w), **{argument: y})


X3, Y3 = np.arange(12.0).reshape(6, 2) % 5, np.array([0.0, 1.0, 2.0, 0.0, 4.0, 1.0])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([X3], InvalidTypeError, r"batch 0 must be a tuple \(X, y\) or \(X, y, sample_weight\); got ndarray"),
        ([(X3, Y3), [X3, Y3]], InvalidTypeError, "batch 1 must be .* got list"),
        ([(X3, Y3, Y3, Y3)], InvalidTypeError, "batch 0 must be"),
        ([(X3, Y3), (X3[:, :1], Y3)], InvalidInputError, r"batch 1 of rows: X must have the columns of .* \(2,\); got"),
        ([(X3, Y3), (X3, X3)], InvalidInputError, r"batch 1 of rows: y must have the columns of the first .* \(2,\)"),
        ([(X3, Y3), (X3, Y3[:-1])], InvalidInputError, "batch 1 of rows: y must have 6 rows, as X has; got 5"),
        ([(X3, Y3), (X3, Y3, -Y3)], InvalidInputError, "batch 1 of rows: sample_weight"),
        ([(X3, Y3), (X3, Y3, Y3[:-1])], InvalidInputError, "batch 1 of rows: sample_weight"),
        ([(X3, Y3), (np.where(X3 > 3.0, np.inf, X3), Y3)], InvalidInputError, "batch 1 of rows: X must be finite"),
        ([(X3, Y3), (X3, np.where(Y3 > 3.0, np.nan, Y3))], InvalidInputError, "batch 1 of rows: y must be finite"),
        ([], InvalidInputError, "X must have at least one row of positive weight; got none"),
        ([(X3[:0], Y3[:0])], InvalidInputError, "X must have at least one row of positive weight; got none"),
        ([(X3, Y3, 0.0 * Y3)], InvalidInputError, "X must have at least one row of positive weight; got none"),
    ],
)
@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize("encoding", ["auto", "none"])
def test_bad_batches_are_named(given: Any, error: type[Exception], message: str, loss: str, encoding: str) -> None:
    model = QuantizedNetworkRegressor(**{**FAST, "loss": loss, "encoding": encoding})
    with pytest.raises(error, match=message):
        model.fit(RowBatches(lambda: iter(given)))


def test_frames_of_other_columns_are_named() -> None:
    X, y, _ = rows()
    frame = pd.DataFrame(X, columns=[f"{name} {'long ' * 20}" for name in "abcd"])
    for other in (frame.iloc[:, :3], frame.rename(columns={frame.columns[3]: "e"}), frame.iloc[:, ::-1]):
        given = [(frame, y), (other, y)]
        with pytest.raises(InvalidInputError, match="batch 1 of rows: X must have the columns of the first batch"):
            QuantizedNetworkRegressor(**FAST).fit(RowBatches(lambda given=given: iter(given)))


def test_a_stream_that_is_used_up_is_refused() -> None:
    X, y, _ = rows()
    parts = [(X[:150], y[:150]), (X[150:], y[150:])]
    stream = iter(parts)
    with pytest.raises(
        InvalidInputError, match=r"a new iterator whenever it is called, .* got no batch after the first pass"
    ):
        QuantizedNetworkRegressor(**FAST).fit(RowBatches(lambda: stream))
    # A list starts anew.
    model = QuantizedNetworkRegressor(**FAST).fit(RowBatches(lambda: parts))
    np.testing.assert_array_equal(
        model.predict(X), QuantizedNetworkRegressor(**FAST).fit(batches(X, y, size=150)).predict(X)
    )


def test_batches_without_weights_weigh_one() -> None:
    X, y, w = rows()
    mixed = [(X[:100], y[:100]), (X[100:], y[100:], w[100:])]
    weights = np.concatenate([np.ones(100), w[100:]])
    for loss in ("squared", "absolute"):
        there = QuantizedNetworkRegressor(loss=loss, **FAST).fit(RowBatches(lambda: iter(mixed)))
        here = QuantizedNetworkRegressor(loss=loss, **FAST).fit(X, y, weights)
        np.testing.assert_array_equal(there.network_inputs(X), here.network_inputs(X))
        objective = here.result_.problem.objective(there.network_)
        assert there.certificate_.objective == pytest.approx(objective, rel=1e-9)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize(
    ("labels", "other"),
    [(["no", "yes"], "maybe"), ([0, 1], 2), ([0, 1], "other"), (["0", "1"], 0)],
)
def test_labels_that_the_sample_lacks_are_named(
    monkeypatch: pytest.MonkeyPatch, loss: str, labels: list[Any], other: Any
) -> None:
    monkeypatch.setattr("qsdp.estimators.collections.SAMPLE", 20)
    X, y, _ = rows()
    truth = np.array(labels, dtype=object)[(y > 0.0).astype(int)]
    last = np.array([other] * 2, dtype=object)
    given = [(X[:200], truth[:200]), (X[200:202], last)]
    for one in given:
        assert len(one[0]) == len(one[1])
    # The sample of this seed has none of the last rows.
    with pytest.raises(InvalidInputError, match=rf"batch 1 of rows: y must hold labels .* got {other!r}"):
        QuantizedNetworkClassifier(loss=loss, **FAST).fit(RowBatches(lambda: iter(given)))
