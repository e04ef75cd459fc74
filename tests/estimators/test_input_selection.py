"""The inputs of wide tables that are selected by held-out errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qsdp import TrainingProblem
from qsdp._utils import deadline
from qsdp._utils.validation import FloatArray
from qsdp.choosing.distinct_rows import DistinctRows
from qsdp.estimators.input_selection import useful_inputs


def planted(n: int = 200, d: int = 12, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Return data whose targets depend on the first two columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X[:, 0] * X[:, 1] + X[:, 0] + 0.3 * rng.normal(size=n)


@pytest.mark.parametrize("seed", range(3))
def test_inputs_without_a_say_are_left_out(seed: int) -> None:
    X, y = planted(seed=seed)
    kept = useful_inputs(TrainingProblem(X, y, beta=1.0), DistinctRows.from_rows(X), 12)
    assert {0, 1} <= set(kept.tolist())
    assert len(kept) <= 4


@pytest.mark.parametrize("n", [300, 1500])
def test_few_of_many_inputs_are_found(n: int) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 100))
    y = X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=n)
    rows = np.hstack([X, np.ones((n, 1))])
    kept = useful_inputs(TrainingProblem(rows, y, beta=1.0), DistinctRows.from_rows(rows), 100)
    assert {0, 1, 2} <= set(kept.tolist())
    assert len(kept) <= 10


def test_columns_after_the_inputs_stay() -> None:
    # Without the constant column the function would be even, and could not follow the first column.
    X, y = planted()
    with_constant = np.hstack([X, np.ones((len(X), 1))])
    problem, rows = TrainingProblem(with_constant, y, beta=1.0), DistinctRows.from_rows(X)
    kept = useful_inputs(problem, rows, 12)
    assert {0, 1} <= set(kept.tolist()) < set(range(12))


def test_all_inputs_stay_where_rows_are_few_or_time_is_over() -> None:
    X, y = planted(n=19)
    assert useful_inputs(TrainingProblem(X, y, beta=1.0), DistinctRows.from_rows(X), 12).tolist() == list(range(12))
    X, y = planted()
    problem, rows = TrainingProblem(X, y, beta=1.0), DistinctRows.from_rows(X)
    with deadline.within(0.0):
        assert useful_inputs(problem, rows, 12).tolist() == list(range(12))
    assert useful_inputs(problem, rows, 2).tolist() == [0, 1]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), factor=st.integers(1, 3))
def test_weights_are_repetitions_and_the_order_is_none(seed: int, factor: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = planted(n=30, d=6, seed=seed)
    counts = factor * rng.integers(1, 4, size=30)
    weighted = TrainingProblem(X, y, beta=1.0, sample_weight=counts.astype(float))
    again = rng.permutation(np.repeat(np.arange(30), counts))
    repeated = TrainingProblem(X[again], y[again], beta=1.0)
    one, other = (useful_inputs(each, DistinctRows.from_rows(each.X), 6) for each in (weighted, repeated))
    assert one.tolist() == other.tolist()
