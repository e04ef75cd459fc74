"""Thresholds to choose from: as many as are affordable, and the best splits of trees against an exhaustive search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import qsdp
from qsdp import TrainingProblem
from qsdp._utils import deadline
from qsdp._utils.validation import FloatArray
from qsdp.choosing.distinct_rows import DistinctRows
from qsdp.choosing.regression import LeftOut
from qsdp.encoding import Encoding, TableEncoder
from qsdp.encoding.expressions import Expression
from qsdp.encoding.fitting import thresholds_of
from qsdp.estimators import thresholds
from qsdp.estimators.thresholds import affordable_thresholds, distributions, thresholds_per_column, with_splits


@pytest.mark.parametrize(
    ("n_numbers", "width", "n_outputs", "n_distinct", "expected"),
    [
        (10, 10, 1, 200, [5, 20]),
        # There is no room for twenty, and for twice five.
        (16, 56, 1, 300, [5, 15]),
        (30, 30, 1, 300, [5]),
        (16, 16, 26, 16000, [3]),
        (60, 60, 1, 300, [4]),
        (0, 20, 1, 300, []),
        (300, 300, 1, 300, []),
        (90, 90, 15, 270, []),
        # Solves for many rows factor matrices of half the square of the inputs.
        (5, 60, 1, 4000, [5, 20]),
        (5, 60, 1, 4001, [5]),
        (5, 80, 1, 16000, [5]),
    ],
)
def test_thresholds_to_choose_from_are_those_that_are_affordable(
    n_numbers: int, width: int, n_outputs: int, n_distinct: int, expected: list[int]
) -> None:
    most = affordable_thresholds(width, n_numbers, n_outputs, n_distinct)
    assert thresholds_per_column(n_numbers, most) == expected


@pytest.fixture
def all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fit trees to all rows, also to those that regressions leave out."""
    monkeypatch.setattr(thresholds, "MAX_ROWS", 0)


def standard_of(X: FloatArray) -> tuple[Encoding, list[FloatArray]]:
    encoder = TableEncoder(encoding="standard").fit(X)
    return encoder.encoding_, list(X.T)


def splits_of(
    X: FloatArray, y: FloatArray, weights: FloatArray | None = None, most: int = 1000
) -> list[list[Expression]]:
    """Return the thresholds of every candidate."""
    standard, table = standard_of(X)
    columns = standard.encode(table)
    problem = TrainingProblem(columns, y, beta=1.0, sample_weight=weights)
    spread = distributions(standard, table, weights)
    found = with_splits(standard, table, columns, spread, most, problem, DistinctRows.from_rows(columns))
    candidates = []
    for encoding, inputs, of_a_column in found:
        assert encoding.expressions[: standard.width] == standard.expressions
        own = list(encoding.expressions[standard.width :])
        np.testing.assert_array_equal(inputs, encoding.encode(table))
        assert of_a_column == max(sum(one.position == k for one in own) for k in range(X.shape[1]))
        candidates.append(own)
    return candidates


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.usefixtures("all_rows")
def test_the_first_split_is_the_best_of_all(n_outputs: int, weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds, "_TREES", 1)
    monkeypatch.setattr(thresholds, "_LEAVES", 2)
    rng = np.random.default_rng(n_outputs)
    X = np.column_stack([rng.normal(size=400), rng.integers(0, 9, 400), rng.exponential(size=400)])
    X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.normal(size=(400, n_outputs)) + 0.5 * (X[:, :1] > 0.3) * rng.normal(size=n_outputs)
    weights = rng.uniform(0.5, 2.0, size=400) if weighted else np.ones(400)

    def error(bits: FloatArray) -> float:
        sides = [(weights * side) for side in (bits, 1.0 - bits)]
        return sum(float(w @ np.square(y - np.average(y, axis=0, weights=w)).sum(axis=1)) for w in sides)

    standard, table = standard_of(X)
    spread = distributions(standard, table, weights if weighted else None)
    every = thresholds_of(standard, spread, thresholds._QUANTILES)
    errors = [error(bits) for bits in replace(standard, expressions=every).encode(table).T]
    assert splits_of(X, y, weights if weighted else None) == [[every[int(np.argmin(errors))]]]


@pytest.mark.usefixtures("all_rows")
def test_splits_are_where_the_target_changes() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6))
    # A product of steps of two columns, and two steps of a third; the others are noise.
    y = np.sign(X[:, 0] - 0.4) * np.sign(X[:, 1] + 0.7) + 2.0 * (np.abs(X[:, 2]) > 1.0) + 0.1 * rng.normal(size=3000)
    first, *others = splits_of(X, y)
    found = {k: [one.value for one in first if one.position == k] for k in range(6)}
    for column, place in ((0, 0.4), (1, -0.7), (2, -1.0), (2, 1.0)):
        # Neighbouring quantiles are 0.04 to 0.1 apart here.
        assert min(abs(float(value) - place) for value in found[column]) < 0.06
    assert len(first) == 60
    assert others
    assert all(set(fewer) < set(more) for fewer, more in zip([first, *others], others, strict=False))


@pytest.mark.usefixtures("all_rows")
def test_no_more_splits_than_affordable_are_candidates() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = np.sin(4.0 * X).sum(axis=1)
    assert [len(one) for one in splits_of(X, y, most=70)] == [60, 70]
    assert [len(one) for one in splits_of(X, y, most=20)] == [20]
    assert splits_of(X, y, most=0) == splits_of(X, np.zeros(500)) == []
    with deadline.within(0.0):
        assert splits_of(X, y) == []


@pytest.mark.usefixtures("all_rows")
def test_splits_depend_neither_on_the_order_nor_on_repetitions() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 4))
    y = rng.integers(-3, 4, size=300) + 3.0 * np.sign(X[:, 0]) * np.sign(X[:, 2])
    counts = rng.integers(1, 4, size=300)
    expected = splits_of(X, y, counts.astype(float))
    repeated = rng.permutation(np.repeat(np.arange(300), counts))
    assert splits_of(X[repeated], y[repeated])[0][:5] == expected[0][:5]


def test_targets_of_rows_that_regressions_leave_out_do_not_affect_splits() -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(4500, 3))
    y = np.sin(4.0 * X).sum(axis=1)
    standard, table = standard_of(X)
    columns = standard.encode(table)
    left_out = LeftOut.from_problem(TrainingProblem(columns, y, beta=1.0), DistinctRows.from_rows(columns)).samples
    assert len(left_out) == thresholds.MAX_ROWS
    changed = y.copy()
    changed[left_out] = rng.normal(size=len(left_out))
    assert splits_of(X, changed) == splits_of(X, y)
    assert splits_of(X, rng.permutation(y)) != splits_of(X, y)


def test_many_rows_have_thresholds_at_splits() -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(6500, 20))
    y = (X[:, 1] > 1.3) ^ (X[:, 4] > -1.2) ^ (rng.random(6500) < 0.02)
    model = qsdp.QuantizedNetworkClassifier(random_state=0).fit(X[:4500], y[:4500])
    assert model.encoder_.encoding == "both"
    assert {1, 4} <= set(model.encoder_.encoding_.used)
    # The best function is right on 98 % of new rows, a network on the affordable quantiles of each column on 93.8 %.
    assert model.score(X[4500:], y[4500:]) > 0.945
    scaled = qsdp.QuantizedNetworkClassifier(random_state=0).fit(1024.0 * X[:4500], y[:4500])
    np.testing.assert_array_equal(scaled.predict(1024.0 * X), model.predict(X))
