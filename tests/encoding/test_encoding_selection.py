"""The choice between encodings: errors at rows left out, against regressions that really leave them out."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qsdp import TrainingProblem
from qsdp._utils import deadline
from qsdp._utils.validation import FloatArray
from qsdp.encoding import EncodingRule
from qsdp.encoding.selection import (
    _SCALES,
    _STRENGTHS,
    first_clear_best,
    is_clear_gain,
    left_out_errors,
    regression_targets,
)
from qsdp.losses import get_loss
from qsdp.relaxation.rows import DistinctRows


def brute_force(problem: TrainingProblem, rows: DistinctRows) -> FloatArray:
    """Return the sorted squared errors of ridge regressions on all entries of S, summed over equal rows."""
    scaled = (
        TrainingProblem(
            scale * problem.X,
            problem.y,
            beta=problem.beta,
            activation=problem.activation,
            sample_weight=problem.sample_weight,
        )
        for scale in _SCALES
    )
    return min((brute_force_of_one_scale(one, rows) for one in scaled), key=np.sum)


def brute_force_of_one_scale(problem: TrainingProblem, rows: DistinctRows) -> FloatArray:
    """Return the errors for the data as they are."""
    weights = np.ones(problem.n_samples) if problem.sample_weight is None else problem.sample_weight
    basis = np.eye(problem.size)
    features = np.stack(
        [
            problem.weight_map.forward(np.outer(basis[i], basis[j]))
            for i in range(problem.size)
            for j in range(problem.size)
        ],
        axis=1,
    )
    targets = problem.y.reshape(problem.n_samples, -1)
    total = np.bincount(rows.group, weights)
    scale = (total[:, None] * (features @ features.T)[np.ix_(rows.first, rows.first)]).trace() / rows.count

    def errors(strength: float) -> FloatArray:
        found = np.zeros(rows.count)
        for i in range(problem.n_samples):
            others = np.arange(problem.n_samples) != i
            F, root = features[others], np.sqrt(weights[others])[:, None]
            lhs = np.vstack([root * F, math.sqrt(strength) * np.eye(F.shape[1])])
            rhs = np.vstack([root * targets[others], np.zeros((F.shape[1], targets.shape[1]))])
            prediction = features[i] @ np.linalg.lstsq(lhs, rhs, rcond=None)[0]
            found[rows.group[i]] += weights[i] * np.sum((targets[i] - prediction) ** 2)
        return found

    return np.sort(min(map(errors, (scale * _STRENGTHS).tolist()), key=np.sum))


@pytest.mark.parametrize("activation", [None, "relu_like"])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_errors_are_those_of_regressions_without_the_row(activation: str | None, n_outputs: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(14, 3))[[*range(14), 2, 2, 5]]
    y = rng.normal(size=(17, n_outputs)) + X[:, :1] ** 2
    weights = rng.uniform(0.5, 2.0, size=17)
    problem = TrainingProblem(X, y.squeeze(), beta=1.0, activation=activation, sample_weight=weights)
    rows = DistinctRows.of(X)
    assert rows.count == 14
    np.testing.assert_allclose(np.sort(left_out_errors(problem, rows)), brute_force(problem, rows), rtol=1e-6)


@given(seed=st.integers(0, 10**6))
def test_weights_are_repetitions_and_the_order_is_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y, counts = rng.normal(size=(12, 2)), rng.normal(size=12), rng.integers(1, 4, size=12)
    weighted = TrainingProblem(X, y, beta=1.0, sample_weight=counts.astype(float))
    order = rng.permutation(counts.sum())
    repeated = TrainingProblem(np.repeat(X, counts, axis=0)[order], np.repeat(y, counts)[order], beta=1.0)
    one, other = (left_out_errors(problem, DistinctRows.of(problem.X)) for problem in (weighted, repeated))
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


def steps(x: FloatArray) -> FloatArray:
    """Return bits for thresholds of one column."""
    return (x > np.linspace(-1.5, 1.5, 7)).astype(float)


def candidates(x: FloatArray, y: FloatArray, loss: str = "squared") -> Iterator[tuple[str, TrainingProblem]]:
    for name, X in (("numbers", x), ("both", np.hstack([x, steps(x)])), ("never", None)):
        assert X is not None, "asked for although the one before was no gain"
        yield name, TrainingProblem(X, y, beta=1.0, activation="relu_like", loss=loss)


def with_outliers() -> tuple[FloatArray, FloatArray]:
    """Return steps of a column, of which four targets are huge."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 1))
    y = np.sign(np.sin(3.0 * x[:, 0]))
    y[:4] = 1e4
    return x, y


@pytest.mark.parametrize("loss", ["absolute", "huber"])
def test_outliers_do_not_choose_for_losses_that_bear_them(loss: str) -> None:
    x, y = with_outliers()
    assert chosen(x, y) == "numbers"
    with pytest.raises(AssertionError, match="asked for"):
        chosen(x, y, loss=loss)
    # They are moved to 4.4 times the distance of the quartiles, -1 and 1, beyond these.
    moved_targets = np.clip(y, -9.8, 9.8)
    problem, moved = (
        TrainingProblem(x, target, beta=1.0, loss=name) for target, name in ((y, loss), (moved_targets, "squared"))
    )
    rows = DistinctRows.of(x)
    np.testing.assert_array_equal(left_out_errors(problem, rows), left_out_errors(moved, rows))


@pytest.mark.parametrize("loss", ["absolute", "huber"])
def test_targets_that_are_mostly_equal_have_no_outliers(loss: str) -> None:
    targets = np.where(np.arange(100) < 3, 5.0, 0.0)[:, None]
    np.testing.assert_array_equal(regression_targets(targets, get_loss(loss), None), targets)


def test_weights_are_repetitions_for_outliers() -> None:
    rng = np.random.default_rng(0)
    targets, counts = rng.standard_t(1, size=(40, 2)), rng.integers(1, 5, size=40)
    weighted = regression_targets(targets, get_loss("absolute"), counts.astype(float))
    repeated = regression_targets(np.repeat(targets, counts, axis=0), get_loss("absolute"), None)
    np.testing.assert_array_equal(np.repeat(weighted, counts, axis=0), repeated)
    assert np.abs(weighted).max() < np.abs(targets).max()


def chosen(x: FloatArray, y: FloatArray, loss: str = "squared") -> str:
    return first_clear_best(candidates(x, y, loss), DistinctRows.of(x))[0]


def test_more_inputs_are_taken_where_they_help_only() -> None:
    rng = np.random.default_rng(1)
    x, noise = rng.normal(size=(200, 1)), 0.1 * rng.normal(size=200)
    assert chosen(x, x[:, 0] ** 2 - x[:, 0] + noise) == "numbers"
    with pytest.raises(AssertionError, match="asked for"):
        # The next is asked for after a gain.
        chosen(x, np.sign(np.sin(3.0 * x[:, 0])) + noise)


def test_no_time_and_few_rows_leave_the_first() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 1))
    y = np.sign(np.sin(3.0 * x[:, 0]))
    with deadline.within(0.0):
        assert chosen(x, y) == "numbers"
    assert chosen(x[:7], y[:7]) == "numbers"


def test_as_many_inputs_are_no_candidate() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(50, 2))
    y = rng.normal(size=50)
    both = [(name, TrainingProblem(x * factor, y, beta=1.0)) for name, factor in (("one", 1.0), ("same", 2.0))]
    assert first_clear_best(both, DistinctRows.of(x))[0] == "one"


def test_clear_gains_are_large_and_certain() -> None:
    errors = np.full(100, 1.0)
    assert is_clear_gain(np.full(100, 0.02), errors)
    assert not is_clear_gain(np.full(100, 0.009), errors)
    uncertain = np.tile([1.0, -0.9], 50)
    assert not is_clear_gain(uncertain, errors)
    assert is_clear_gain(np.tile(uncertain, 20), np.tile(errors, 20))


def numbers(n: int, d: int, n_binary: int = 0) -> FloatArray:
    """Return distinct rows of d numbers and so many of two values."""
    rng = np.random.default_rng(0)
    return np.hstack([rng.normal(size=(n, d)), rng.integers(0, 2, size=(n, n_binary)).astype(float)])


@pytest.mark.parametrize(
    ("n", "d", "n_binary", "n_outputs", "expected"),
    [
        (200, 10, 0, 1, [5, 20]),
        # Columns of two values have no thresholds; there is no room for twenty of the others, and for twice five.
        (300, 16, 40, 1, [5, 15]),
        (300, 30, 0, 1, [5]),
        (5000, 16, 0, 26, [3]),
        (300, 60, 0, 1, [4]),
        (300, 0, 20, 1, []),
        (300, 300, 0, 1, []),
    ],
)
def test_thresholds_to_choose_from_are_those_that_are_affordable(
    n: int, d: int, n_binary: int, n_outputs: int, expected: list[int]
) -> None:
    X = numbers(n, d, n_binary)
    names = [f"x{j}" for j in range(X.shape[1])]
    standard, _ = EncodingRule.recommended("standard", X.shape[1]).fit(list(X.T), names)
    rules = EncodingRule.finer(standard, standard.encode(list(X.T)), n_outputs, n)
    assert [(rule.encoding, rule.n_thresholds) for rule in rules] == [("both", count) for count in expected]
