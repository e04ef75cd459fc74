"""Folds whose samples are held out from coarse relaxations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qsdp import QuantizedNetworkClassifier, TrainingProblem
from qsdp.choosing.regression import Cells, DistinctRows
from qsdp.estimators.held_out import held_out_folds


def cells_of(problem: TrainingProblem) -> Cells:
    return Cells.from_problem(problem, DistinctRows.from_rows(problem.X))


def test_cells_are_rows_of_equal_inputs_and_targets() -> None:
    X = np.array([[2.0, 0.0], [1.0, 0.0], [2.0, 0.0], [2.0, 0.0], [1.0, 0.0]])
    cells = cells_of(TrainingProblem(X, [5.0, 3.0, 4.0, 5.0, 3.0], beta=1.0))
    np.testing.assert_array_equal(cells.cell, [2, 0, 1, 2, 0])
    np.testing.assert_array_equal(cells.group, [0, 1, 1])
    np.testing.assert_array_equal(cells.counts, [2, 1, 2])


@pytest.mark.parametrize(
    ("weights", "repetitions", "expected"),
    [
        (None, None, [1, 1, 1]),
        ([2.0, 1.0, 3.0], None, [2, 1, 3]),
        ([4.0, 2.0, 6.0], None, [2, 1, 3]),
        ([0.5, 2.0, 1.0], None, [1, 1, 1]),
        ([2.0, 1.0, 3.0], [1.0, 1.0, 1.0], [1, 1, 1]),
        ([0.5, 2.0, 1.0], [3.0, 3.0, 6.0], [1, 1, 2]),
        ([1e16, 1.0, 1.0], None, [1, 1, 1]),
    ],
)
def test_whole_weights_count_rows(weights: Any, repetitions: Any, expected: list[int]) -> None:
    problem = TrainingProblem(np.eye(3)[::-1], [1.0, 2.0, 3.0], beta=1.0, sample_weight=weights)
    problem = problem.with_repetitions(None if repetitions is None else np.array(repetitions))
    cells = cells_of(problem)
    np.testing.assert_array_equal(cells.counts[cells.cell], expected)


def weight_of_rows(problem: TrainingProblem) -> dict[tuple[float, ...], float]:
    """Return the total weight of all samples with equal inputs and targets."""
    weights = np.ones(problem.n_samples) if problem.sample_weight is None else problem.sample_weight
    totals: dict[tuple[float, ...], float] = {}
    for row, weight in zip(np.column_stack([problem.X, problem.y]).tolist(), weights.tolist(), strict=True):
        totals[tuple(row)] = totals.get(tuple(row), 0.0) + weight
    return totals


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_every_row_is_held_out_once_and_weights_are_repetitions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Rows, and rows with their targets, are equal here and there.
    X, y = rng.integers(0, 3, size=(30, 3)).astype(float), rng.integers(0, 2, size=30).astype(float)
    counts = rng.integers(1, 6, size=30)
    counts[0] = 1
    weighted = TrainingProblem(X, y, beta=1.0, sample_weight=counts.astype(float))
    order = rng.permutation(counts.sum())
    repeated = TrainingProblem(np.repeat(X, counts, axis=0)[order], np.repeat(y, counts)[order], beta=1.0)
    all_rows = weight_of_rows(repeated)
    held_out: dict[tuple[float, ...], float] = dict.fromkeys(all_rows, 0.0)
    folds = held_out_folds(weighted)
    for (*parts, share), (*same_parts, same_share) in zip(folds, held_out_folds(repeated), strict=True):
        assert share == pytest.approx(same_share, rel=1e-12)
        for own, same in zip(parts, same_parts, strict=True):
            expected = weight_of_rows(same)
            assert weight_of_rows(own) == pytest.approx(expected, rel=1e-12)
        for row, weight in weight_of_rows(parts[1]).items():
            # A row is in the fold or not.
            assert weight == pytest.approx(round(weight), rel=1e-12)
            held_out[row] += weight
    assert held_out == pytest.approx(all_rows, rel=1e-12)


def test_distinct_rows_are_taken_as_they_are() -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=40)
    problem = TrainingProblem(X, X[:, 0], beta=1.0, sample_weight=weights)
    for training, held_out, share in held_out_folds(problem):
        assert set(held_out.sample_weight) | set(training.sample_weight) == set(weights)
        assert len(held_out.y) == 10
        assert share == pytest.approx(training.sample_weight.sum() / weights.sum(), rel=1e-12)


def test_weights_of_classes_count_no_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = X[:, 0] > 0
    fit = QuantizedNetworkClassifier(8, class_weight={False: 1, True: 3}, encoding="standard", random_state=0).fit
    rows = fit(X, y).result_.rows
    assert set(rows.sample_weight) == {1.0, 3.0}
    assert set(cells_of(rows).counts) == {1}
    weights = np.r_[np.full(20, 2.0), np.ones(20), [0.0] * 10]
    rows = fit(np.r_[X, X[:10]], np.r_[y, ~y[:10]], weights).result_.rows
    np.testing.assert_array_equal(rows.repetitions, weights[:40])
