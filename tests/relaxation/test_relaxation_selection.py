"""The choice of beta: what is held out, and which share is taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qsdp
from qsdp import QuantizedNetworkClassifier, TrainingProblem
from qsdp._utils import deadline
from qsdp._utils.validation import FloatArray
from qsdp.relaxation.rows import Cells, DistinctRows
from qsdp.relaxation.selection import FALLBACK, SHARES, START, _Codes, _folds, _ShareSearch, beta_choice


def cells_of(problem: TrainingProblem) -> Cells:
    return Cells.of(problem, DistinctRows.of(problem.X))


def test_cells_are_rows_of_equal_inputs_and_targets() -> None:
    X = np.array([[2.0, 0.0], [1.0, 0.0], [2.0, 0.0], [2.0, 0.0], [1.0, 0.0]])
    cells = cells_of(TrainingProblem(X, [5.0, 3.0, 4.0, 5.0, 3.0], beta=1.0))
    np.testing.assert_array_equal(cells.cell, [2, 0, 1, 2, 0])
    np.testing.assert_array_equal(cells.group, [0, 1, 1])
    np.testing.assert_array_equal(cells.counts, [2, 1, 2])
    np.testing.assert_array_equal(cells.rows, np.ones(5))


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
    np.testing.assert_array_equal(cells.rows, expected)


def weight_of_rows(problem: TrainingProblem) -> dict[tuple[float, ...], float]:
    """Return the total weight of all samples with equal inputs and targets."""
    weights = np.ones(problem.n_samples) if problem.sample_weight is None else problem.sample_weight
    totals: dict[tuple[float, ...], float] = {}
    for row, weight in zip(np.column_stack([problem.X, problem.y]).tolist(), weights.tolist(), strict=True):
        totals[tuple(row)] = totals.get(tuple(row), 0.0) + weight
    return totals


@settings(deadline=None)
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
    folds = _folds(weighted)
    for fold, other in zip(folds, _folds(repeated), strict=True):
        assert fold.share == pytest.approx(other.share, rel=1e-12)
        for own, same in ((fold.training, other.training), (fold.held_out, other.held_out)):
            expected = weight_of_rows(same)
            assert weight_of_rows(own) == pytest.approx(expected, rel=1e-12)
        for row, weight in weight_of_rows(fold.held_out).items():
            # A row is in the fold or not.
            assert weight == pytest.approx(round(weight), rel=1e-12)
            held_out[row] += weight
    assert held_out == pytest.approx(all_rows, rel=1e-12)


def test_distinct_rows_are_taken_as_they_are() -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=40)
    problem = TrainingProblem(X, X[:, 0], beta=1.0, sample_weight=weights)
    for fold in _folds(problem):
        assert set(fold.held_out.sample_weight) | set(fold.training.sample_weight) == set(weights)
        assert len(fold.held_out.y) == 10
        assert fold.share == pytest.approx(fold.training.sample_weight.sum() / weights.sum(), rel=1e-12)


def test_rows_that_repeat_take_a_smaller_beta() -> None:
    # Targets that no function of new rows tells, but which those of old rows have again.
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 6)), rng.choice([-1.0, 1.0], size=60)
    again = np.r_[np.arange(60), np.repeat(np.arange(30), 4)]
    once, repeated, twice = (
        TrainingProblem(X[rows], y[rows], beta=1.0, activation="relu_like")
        for rows in (np.arange(60), again, np.tile(np.arange(60), 2))
    )
    shares = [beta_choice(one).beta / qsdp.beta_max(one) for one in (once, repeated, twice)]
    assert shares[1] < 0.5 * shares[0]
    assert shares[2] == pytest.approx(shares[0], rel=1e-6)


def test_the_expected_loss_is_that_of_all_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = X[:, 0] * X[:, 1] + rng.normal(size=400)
    choice = beta_choice(TrainingProblem(X, y, beta=1.0))
    # The variance of the noise is one, and a little is added by what was learned: z of 400 is 20 times a deviation.
    assert 0.75 * 400 < choice.expected_loss < 1.4 * 400
    doubled = beta_choice(TrainingProblem(X, y, beta=1.0, sample_weight=np.full(400, 2.0)))
    assert doubled.expected_loss == pytest.approx(2.0 * choice.expected_loss, rel=1e-3)
    assert beta_choice(TrainingProblem(X, np.zeros(400), beta=1.0)).expected_loss == 0.0


@dataclass
class Fold:
    """A fold of two classes whose outputs are given for each beta."""

    outputs: dict[float, FloatArray]
    #: Scope that ends with the prediction.
    ends: deadline.Deadline | None = None
    seen: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        n = len(next(iter(self.outputs.values())))
        self.held_out = TrainingProblem(np.arange(1.0, n + 1.0)[:, None], np.ones(n), beta=1.0)
        self.held_out_rows = np.ones(n)

    def predict(self, beta: float) -> FloatArray:
        self.seen.append(beta)
        if self.ends is not None:
            self.ends.expire()
        return self.outputs[beta]


CODES = _Codes(np.array([-1.0]), np.array([1.0]), one_each=False)


def search_of(folds: list[Any], codes: _Codes | None = CODES) -> Any:
    return _ShareSearch(folds, 1.0, codes)


def test_no_fold_begins_when_time_is_over() -> None:
    for ending, expected in ((1, [1, 1, 0, 0]), (None, [1, 1, 1, 1])):
        with deadline.within(1e6) as scope:
            folds = [Fold({START: np.ones((3, 1))}, scope if k == ending else None) for k in range(4)]
            search = search_of(folds)
            search.measure(START)
        assert [len(fold.seen) for fold in folds] == expected
        assert search.losses == ({} if ending else {START: 0.0})


def outputs_with(n_wrong: int, n: int = 100) -> FloatArray:
    """Return outputs of which the last are in the wrong class, or the first where the number is negative."""
    right = np.arange(n) < n - n_wrong if n_wrong >= 0 else np.arange(n) >= -n_wrong
    return np.where(right, 0.5, -0.5)[:, None]


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ((20, 20), START),  # none less
        ((20, -17, 17), START),  # three less of 37 that changed may be chance
        ((20, -13, -9, 9), 0.005),  # eleven less of 29 are not
        ((20, 22, 0), START),  # nobody looks behind what is worse
        ((20, 15, 10, 5, 3, 2), 0.001),
    ],
)
def test_smaller_shares_of_clearly_fewer_wrong_classes(wrong: tuple[int, ...], expected: float) -> None:
    shares = SHARES[SHARES.index(START) :]
    fold = Fold({share: outputs_with(count) for share, count in zip(shares, wrong, strict=False)})
    search = search_of([fold])
    search.measure(START)
    assert search.clearly_fewer_wrong(START) == expected
    assert search_of([fold], codes=None).clearly_fewer_wrong(START) == START
    with deadline.within(0.0):
        assert search_of([fold]).clearly_fewer_wrong(START) == START


@pytest.mark.parametrize(("repetitions", "expected"), [(None, START), (np.full(20, 5.0), 0.01)])
def test_samples_of_several_rows_are_as_clear_as_these(repetitions: Any, expected: float) -> None:
    # Three samples less of nine that changed: 15 > sqrt(45) of their rows, and 15 = sqrt(225) where each is one.
    X, y = np.arange(1.0, 21.0)[:, None], np.ones(20)
    outputs = dict(zip((START, 0.01, 0.005), map(outputs_with, (6, -3, 20), [20] * 3), strict=True))
    fold = Fold(outputs)
    fold.held_out = TrainingProblem(X, y, beta=1.0, sample_weight=np.full(20, 5.0))
    fold.held_out_rows = np.ones(20) if repetitions is None else repetitions
    search = search_of([fold])
    search.measure(START)
    assert search.clearly_fewer_wrong(START) == expected


@pytest.mark.parametrize("seed", [7, 30])
def test_classes_of_weighted_samples_take_the_beta_of_repeated_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 60))
    X = np.column_stack([rng.standard_normal((n, 4)), np.ones(n)])
    scores = X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.7 * rng.standard_normal(n)
    y, counts = np.where(scores > 0.0, 1.0, -1.0), rng.integers(1, 6, n)
    counts[0] = 1
    loss = "logistic" if seed == 7 else "squared"
    weighted = TrainingProblem(X, y, beta=1.0, loss=loss, sample_weight=counts.astype(float))
    repeated = TrainingProblem(np.repeat(X, counts, axis=0), np.repeat(y, counts), beta=1.0, loss=loss)
    assert beta_choice(weighted).beta == pytest.approx(beta_choice(repeated).beta, rel=1e-3)


def test_what_was_measured_in_part_is_measured_in_full_once() -> None:
    shares = (START, 0.01)
    far = outputs_with(0) - 3.0
    folds = [Fold(dict(zip(shares, (outputs_with(20), far), strict=True))) for _ in range(4)]
    search = search_of(folds)
    for share in shares:
        search.measure(share)
    assert [len(fold.seen) for fold in folds] == [2, 2, 1, 1]
    assert search.losses[0.01] == np.inf
    search.measure(0.01, whole=True)
    assert [len(fold.seen) for fold in folds] == [2, 2, 2, 2]
    assert search.losses[0.01] == pytest.approx(sum(fold.held_out.data_fit.value(far) for fold in folds))


def test_codes_of_classes() -> None:
    X = np.arange(1.0, 5.0)[:, None]
    assert _Codes.of(TrainingProblem(X, [0.0, 1.0, 2.0, 1.0], beta=1.0)) is None
    one_each = TrainingProblem(X, 2.0 * np.eye(3)[[0, 1, 2, 1]] - 1.0, beta=1.0, sample_weight=[1.0, 2.0, 3.0, 4.0])
    codes = _Codes.of(one_each)
    assert codes is not None
    outputs = np.array([[0.1, 0.0, 0.0], [0.3, 0.2, 0.0], [-1.0, -3.0, -0.9], [0.0, 0.1, 0.9]])
    np.testing.assert_array_equal(codes.wrong(one_each, outputs), [0.0, 2.0, 0.0, 4.0])
    # Labels of their own: the share of the wrong ones.
    several = TrainingProblem(X, [[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]], beta=1.0)
    codes = _Codes.of(several)
    assert codes is not None
    outputs = np.array([[1.0, -1.0], [0.2, 0.1], [-0.1, -0.1], [0.1, -0.1]])
    np.testing.assert_array_equal(codes.wrong(several, outputs), [0.5, 0.5, 0.0, 1.0])


def test_no_time_takes_the_fallback() -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    problem = TrainingProblem(X, X[:, 0], beta=1.0)
    with deadline.within(0.0):
        beta = beta_choice(problem).beta
    # Nor is the largest beta known to the last digit: its bound is from the first iteration.
    assert 1.0 - 1e-9 < beta / (FALLBACK * qsdp.beta_max(problem)) < 2.0


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
