"""Bounds without a penalty: least squares on explicit features, and the enumerated optimum of other losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from brute_force import global_optimum, random_problem, random_vector_problem

import qsdp
from qsdp.losses import LOSSES
from qsdp.relaxation.bounds import best_dual_bound
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.unpenalized import orthogonal_dual


def monomials(X: np.ndarray, lifted: bool) -> np.ndarray:
    """All products of two columns, with the columns and a constant if lifted."""
    first, second = np.triu_indices(X.shape[1])
    products = X[:, first] * X[:, second]
    return np.hstack([products, X, np.ones((len(X), 1))]) if lifted else products


def residual(features: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Sum of squares that least squares leaves."""
    roots = np.ones((len(y), 1)) if weights is None else np.sqrt(weights)[:, None]
    target = roots * y.reshape(len(y), -1)
    solution = np.linalg.lstsq(roots * features, target, rcond=None)[0]
    return float(np.sum((roots * features @ solution - target) ** 2))


@pytest.mark.parametrize("levels", [2, 4])
@pytest.mark.parametrize("activation", [None, "quadratic", "relu_like", (-0.7, 0.3, 1.1)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_outputs", [None, 3])
def test_squared_loss_has_the_bound_of_least_squares(
    n_outputs: int | None, weighted: bool, activation: Any, levels: int
) -> None:
    rng = np.random.default_rng(levels)
    X, y = rng.standard_normal((40, 3)), rng.standard_normal((40, n_outputs) if n_outputs else 40)
    weights = rng.uniform(0.1, 10.0, 40) if weighted else None
    problem = qsdp.TrainingProblem(X, y, beta=0.0, activation=activation, levels=levels, sample_weight=weights)
    relaxation = qsdp.solve_relaxation(problem)
    expected = residual(monomials(X, problem.lifted), y, weights)
    assert relaxation.lower_bound == pytest.approx(expected, rel=1e-11)
    assert relaxation.objective == pytest.approx(expected, rel=1e-9)
    assert relaxation.status == "optimal"


def test_any_quadratic_function_gives_the_same_bound() -> None:
    problem = random_problem(0, 4, 30, beta=0.0)
    rng = np.random.default_rng(0)
    expected = residual(monomials(problem.X, False), problem.y)
    for _ in range(3):
        gradient = 2.0 * (problem.y - problem.map.forward(rng.standard_normal((4, 4))))
        assert best_dual_bound(problem, [gradient]).value == pytest.approx(expected, rel=1e-11)


@pytest.mark.filterwarnings("ignore:solver")
@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_dependent_columns_and_repeated_rows(shift: float) -> None:
    rng = np.random.default_rng(1)
    X = rng.integers(-1, 2, (25, 3)).astype(float) + shift
    X = np.hstack([X, X[:, :1], np.ones((25, 1))])
    y = rng.standard_normal(25)
    problem = qsdp.TrainingProblem(X, y, beta=0.0)
    # Fifteen products of five columns have rank ten, and equal rows have different targets.
    expected = residual(monomials(X[:, :3] - shift, True), y)
    assert qsdp.solve_relaxation(problem).lower_bound == pytest.approx(expected, rel=1e-6)


@pytest.mark.filterwarnings("ignore:solver")
def test_more_features_than_rows_leave_nothing() -> None:
    problem = random_problem(2, 6, 12, beta=0.0)
    assert qsdp.solve_relaxation(problem).lower_bound <= 1e-9 * np.sum(problem.y**2)


def test_statistics_have_the_bound_of_their_rows() -> None:
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((60, 3)), rng.standard_normal((60, 2))
    statistics = qsdp.SufficientStatistics().partial_fit(X, y)
    problem = qsdp.TrainingProblem.from_statistics(statistics, beta=0.0, activation="relu_like")
    assert qsdp.solve_relaxation(problem).lower_bound == pytest.approx(residual(monomials(X, True), y), rel=1e-7)


@pytest.mark.filterwarnings("ignore:solver")  # The methods stall at the kinks of a loss, above the bound.
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_other_losses_have_the_bound_of_the_enumerated_optimum(loss: str, seed: int) -> None:
    if loss == "cross_entropy":
        problem = random_vector_problem(seed, 2, 30, 3, loss, beta=0.0)
    else:
        problem = random_problem(seed, 2, 30, loss, beta=0.0)
    bound, least = qsdp.solve_relaxation(problem).lower_bound, global_optimum(problem).upper
    assert least * (1.0 - 1e-5) <= bound <= least * (1.0 + 1e-9)


def test_entries_at_the_ends_stay_there() -> None:
    problem = random_problem(1, 2, 30, "hinge", beta=0.0)
    instance = Instance.of(problem)
    nu = problem.targets * np.tile([0.0, 1.0, 0.5], 10)[:, None]
    found = orthogonal_dual(instance, nu)
    assert found is not None
    np.testing.assert_array_equal(found[0::3], 0.0)
    np.testing.assert_array_equal(found[1::3], problem.targets[1::3])
    assert np.all(found[2::3] != nu[2::3])


@pytest.mark.parametrize("seed", range(5))
def test_entries_that_a_correction_moves_out_of_the_domain_stay_at_its_end(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 4))
    features = monomials(X, False)
    null = np.linalg.svd(features.T)[2][10:].T @ rng.standard_normal(20)
    null /= np.abs(null).max()
    problem = qsdp.TrainingProblem(X, np.sign(null), beta=0.0, loss="logistic")
    # The correction ends at `null`, whose largest entry lies outside by less than it was moved inside.
    away = -np.sign(null) * (np.abs(null) == 1.0)
    moved = features @ np.linalg.lstsq(features, away, rcond=None)[0]
    nu = orthogonal_dual(Instance.of(problem), (1.0 + 1e-9) * null[:, None] + 1e-7 * moved[:, None])
    assert nu is not None
    assert np.all(np.abs(nu) <= 1.0)
    assert np.abs(features.T @ nu).max() < 1e-14
