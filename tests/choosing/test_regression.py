"""Ridge regressions at rows left out, against regressions that leave them out, and the beta that is read off them."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

import qsdp
from qsdp import TrainingProblem
from qsdp._utils.validation import FloatArray
from qsdp.choosing import regression
from qsdp.choosing.beta import choose_beta
from qsdp.choosing.regression import DistinctRows, Functions, RidgeFit, left_out_fit, regression_targets
from qsdp.losses import get_loss


def errors_of(problem: TrainingProblem, rows: DistinctRows) -> FloatArray:
    return left_out_fit(problem, rows).errors


def features_of(problem: TrainingProblem, scale: float) -> FloatArray:
    """Return all entries of the matrices of the rows, (n, N^2), with the inputs multiplied by a scale."""
    scaled = TrainingProblem(scale * problem.X, problem.y, beta=problem.beta, activation=problem.activation)
    basis = np.eye(scaled.size)
    products = [scaled.weight_map.forward(np.outer(u, v)) for u in basis for v in basis]
    return np.stack(products, axis=1)


def ridge(features: FloatArray, targets: FloatArray, weights: FloatArray, penalty: float) -> FloatArray:
    """Return the coefficients of a weighted ridge regression."""
    root = np.sqrt(weights)[:, None]
    lhs = np.vstack([root * features, math.sqrt(penalty) * np.eye(features.shape[1])])
    rhs = np.vstack([root * targets, np.zeros((features.shape[1], targets.shape[1]))])
    return np.linalg.lstsq(lhs, rhs, rcond=None)[0]


def penalty_of(fit: RidgeFit, features: FloatArray, targets: FloatArray, weights: FloatArray) -> float:
    """Return the penalty of a fit, which decides its training loss."""

    def excess(logarithm: float) -> float:
        residuals = targets - features @ ridge(features, targets, weights, math.exp(logarithm))
        return math.log(np.sum(weights[:, None] * np.square(residuals)) / fit.training_loss)

    return math.exp(brentq(excess, -20.0, 20.0, xtol=1e-12))


def left_out_errors(
    features: FloatArray, targets: FloatArray, weights: FloatArray, penalty: float, group: Any
) -> FloatArray:
    """Return the squared errors of regressions without each row, summed over equal rows and sorted."""
    errors = np.zeros(group.max() + 1)
    for i in range(len(features)):
        others = np.arange(len(features)) != i
        prediction = features[i] @ ridge(features[others], targets[others], weights[others], penalty)
        errors[group[i]] += weights[i] * np.sum((targets[i] - prediction) ** 2)
    return np.sort(errors)


@pytest.mark.parametrize("activation", [None, "relu_like"])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_errors_are_those_of_regressions_without_the_row(activation: str | None, n_outputs: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(14, 3))[[*range(14), 2, 2, 5]]
    y = rng.normal(size=(17, n_outputs)) + X[:, :1] ** 2
    weights = rng.uniform(0.5, 2.0, size=17)
    problem = TrainingProblem(X, y.squeeze(), beta=1.0, activation=activation, sample_weight=weights)
    rows = DistinctRows.from_rows(X)
    assert rows.count == 14
    fit, targets = left_out_fit(problem, rows), y.reshape(17, -1)
    features = features_of(problem, fit.scale)
    penalty = penalty_of(fit, features, targets, weights)
    expected = left_out_errors(features, targets, weights, penalty, rows.group)
    np.testing.assert_allclose(np.sort(fit.errors), expected, rtol=1e-6)
    for other in (0.1 * penalty, 10.0 * penalty):
        assert expected.sum() <= left_out_errors(features, targets, weights, other, rows.group).sum()


@given(seed=st.integers(0, 10**6))
def test_weights_are_repetitions_and_the_order_is_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y, counts = rng.normal(size=(12, 2)), rng.normal(size=12), rng.integers(1, 4, size=12)
    weighted = TrainingProblem(X, y, beta=1.0, sample_weight=counts.astype(float))
    order = rng.permutation(counts.sum())
    repeated = TrainingProblem(np.repeat(X, counts, axis=0)[order], np.repeat(y, counts)[order], beta=1.0)
    one, other = (errors_of(problem, DistinctRows.from_rows(problem.X)) for problem in (weighted, repeated))
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


def test_outliers_are_moved_for_losses_that_bear_them() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 1))
    y = np.sign(np.sin(3.0 * x[:, 0]))
    y[:4] = 1e4
    # They are moved to 4.4 times the distance of the quartiles, -1 and 1, beyond these.
    moved = TrainingProblem(x, np.clip(y, -9.8, 9.8), beta=1.0)
    rows = DistinctRows.from_rows(x)
    for loss in ("absolute", "huber"):
        problem = TrainingProblem(x, y, beta=1.0, loss=loss)
        np.testing.assert_array_equal(errors_of(problem, rows), errors_of(moved, rows))


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


@pytest.mark.parametrize("most", [5, 12, 40])
def test_orthonormal_functions_are_projections_on_the_first_rows(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qsdp.choosing.regression.MAX_FUNCTIONS", most)
    rng = np.random.default_rng(0)
    data = TrainingProblem(rng.normal(size=(40, 6)), np.zeros(40), beta=1.0, activation="relu_like").weight_map
    weights = rng.uniform(0.5, 2.0, size=40)
    targets = rng.normal(size=(40, 2))
    functions, entries = Functions(data), data.features()
    basis = np.linalg.qr(entries[:most].T)[0]
    projected = entries @ basis @ basis.T
    found, roots = functions.decomposed(data, weights, targets), np.sqrt(weights)[:, None]
    values = roots * functions.values(data, found.axes)
    np.testing.assert_allclose(values @ values.T, roots * (projected @ projected.T) * roots.T, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(values.T @ values, np.diag(found.eigenvalues), atol=1e-6)
    np.testing.assert_allclose(found.values, values, atol=1e-8)
    np.testing.assert_allclose(found.products, values.T @ (roots * targets), atol=1e-8)
    if most == 40:
        # There are 28 entries, so that no rows are needed.
        np.testing.assert_array_equal(functions.spanning(data), entries)


def test_rows_that_repeat_take_a_smaller_beta() -> None:
    # Targets that no function of new rows tells, but which those of old rows have again.
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 6)), rng.choice([-1.0, 1.0], size=60)
    again = np.r_[np.arange(60), np.repeat(np.arange(30), 4)]
    once, repeated, twice = (
        TrainingProblem(X[rows], y[rows], beta=1.0, activation="relu_like")
        for rows in (np.arange(60), again, np.tile(np.arange(60), 2))
    )
    shares = [choose_beta(one).beta / qsdp.beta_max(one) for one in (once, repeated, twice)]
    assert shares[1] < 0.5 * shares[0]
    assert shares[2] == pytest.approx(shares[0], rel=1e-6)


def test_the_expected_loss_is_that_of_all_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = X[:, 0] * X[:, 1] + rng.normal(size=400)
    choice = choose_beta(TrainingProblem(X, y, beta=1.0))
    # The variance of the noise is one, and a little is added by what was learned: z of 400 is 20 times a deviation.
    assert 0.75 * 400 < choice.expected_loss < 1.4 * 400
    doubled = choose_beta(TrainingProblem(X, y, beta=1.0, sample_weight=np.full(400, 2.0)))
    assert doubled.expected_loss == pytest.approx(2.0 * choice.expected_loss, rel=1e-3)
    assert choose_beta(TrainingProblem(X, np.zeros(400), beta=1.0)).expected_loss == 0.0


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
    assert choose_beta(weighted).beta == pytest.approx(choose_beta(repeated).beta, rel=1e-6)


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize(("loss", "classes"), [("squared", True), ("squared", False), ("logistic", True)])
def test_beta_is_half_the_size_of_the_gradient_that_the_regression_leaves(
    loss: str, classes: bool, n_outputs: int
) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 4))
    scores = np.stack([X[:, 0] * X[:, 1] + X[:, 2], X[:, 3] - X[:, 1]], axis=1)[:, :n_outputs]
    y = (scores + rng.normal(size=scores.shape) * (0.8, 0.2)[:n_outputs]).squeeze()
    y = np.sign(y) if classes else y
    weights = rng.uniform(0.5, 2.0, size=60)
    problem = TrainingProblem(X, y, beta=1.0, loss=loss, activation="relu_like", sample_weight=weights)
    fit = left_out_fit(problem, DistinctRows.from_rows(X))
    features, targets = features_of(problem, fit.scale), y.reshape(60, -1)
    penalty = penalty_of(fit, features, targets, weights)
    residuals = targets - features @ ridge(features, targets, weights, penalty)

    def sizes(values: FloatArray) -> list[float]:
        """Return beta_max of a squared loss for each output, which is proportional to the size."""
        problems = [
            TrainingProblem(X, one, beta=1.0, activation="relu_like", sample_weight=weights) for one in values.T
        ]
        return [qsdp.beta_max(one) for one in problems]

    size = min(sizes(residuals)) if classes else np.mean(sizes(residuals))
    expected = 0.5 * size / max(sizes(targets)) * qsdp.beta_max(problem)
    # Sizes are known to a hundredth.
    assert choose_beta(problem).beta == pytest.approx(expected, rel=0.03)


def test_noise_takes_a_larger_beta_but_never_a_network_of_zeros() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    problems = [TrainingProblem(X, y, beta=1.0) for y in (X[:, 0] * X[:, 1], rng.normal(size=400))]
    # Too few rows to leave any out.
    problems.append(problems[1].take(np.arange(7)))
    exact, noise, few = (choose_beta(problem).beta / qsdp.beta_max(problem) for problem in problems)
    assert 0.0 < exact < noise < 1.0
    assert 0.0 < few < 1.0


@pytest.mark.parametrize("most", [10, 1000])
@pytest.mark.parametrize("power", [-310, 310])
def test_beta_of_huge_and_tiny_data_is_that_of_data_in_other_units(
    power: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regression, "MAX_FUNCTIONS", most)
    monkeypatch.setattr(Functions.__init__, "__defaults__", (most,))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6))
    y, unit = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=40), 2.0**power
    one, other = (choose_beta(TrainingProblem(scale * X, y, beta=1.0)) for scale in (1.0, unit))
    assert other.beta == pytest.approx(one.beta * unit**2, rel=1e-6)
    assert other.expected_loss == pytest.approx(one.expected_loss, rel=1e-9)
