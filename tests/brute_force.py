"""The global optimum of small training problems, by enumerating every neuron."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass

import cvxpy as cp
import numpy as np

import qsdp


@dataclass(frozen=True)
class Optimum:
    """``lower <= p_b* <= upper``, both evaluated from the data; alpha attains upper."""

    lower: float
    upper: float
    alpha: np.ndarray


def sign_vectors(d: int) -> np.ndarray:
    """All vectors of {-1, +1}^d whose first entry is +1, as rows."""
    tails = np.array(list(itertools.product([1.0, -1.0], repeat=d - 1))).reshape(2 ** (d - 1), d - 1)
    return np.hstack([np.ones((len(tails), 1)), tails])


def bilinear_features(X: np.ndarray) -> np.ndarray:
    """(x.u)(x.v) for every pair up to signs and order, shape (n, number of pairs)."""
    hidden = X @ sign_vectors(X.shape[1]).T
    first, second = np.triu_indices(hidden.shape[1])
    return hidden[:, first] * hidden[:, second]


def quadratic_features(X: np.ndarray) -> np.ndarray:
    """(x.u)^2 for every u up to sign."""
    return (X @ sign_vectors(X.shape[1]).T) ** 2


def global_optimum(problem: qsdp.TrainingProblem, features: np.ndarray | None = None) -> Optimum:
    """Solve the training problem over all neurons; the lower end is an evaluated feasible dual value."""
    if features is None:
        features = bilinear_features(problem.X)
    weight = problem.beta * problem.dimension
    alpha = cp.Variable(features.shape[1])
    prediction = cp.Variable(problem.n_samples)
    fit = prediction == features @ alpha
    objective = problem.loss.expression(prediction, problem.y) + weight * cp.norm1(alpha)
    with warnings.catch_warnings():
        # Both ends are evaluated below, however accurate the solver was.
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        cp.Problem(cp.Minimize(objective), [fit]).solve(
            solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10
        )
    value = problem.loss.value(features @ alpha.value, problem.y) + weight * np.abs(alpha.value).sum()
    best = 0.0
    for nu in (fit.dual_value, -problem.loss.gradient(features @ alpha.value, problem.y)):
        nu = -problem.loss.project_dual(-nu, problem.y)
        steepest = np.abs(features.T @ nu).max()
        scale = min(1.0, weight / steepest) if steepest > 0 else 1.0
        best = max(best, -problem.loss.conjugate(-scale * nu, problem.y))
    return Optimum(best, value, alpha.value)


def random_problem(
    seed: int, d: int, n: int, loss: str = "squared", beta: float = 0.1, coarse: bool = False
) -> qsdp.TrainingProblem:
    """Draw Gaussian data, or coarse data: integers, with ties, equal rows and zero columns."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(n, d)).astype(float) if coarse else rng.standard_normal((n, d))
    if loss in {"logistic", "hinge", "squared_hinge"}:
        y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
        y[:2] = [-1.0, 1.0]
    else:
        y = rng.standard_normal(n) * rng.choice([0.1, 1.0, 10.0])
    return qsdp.TrainingProblem(X, y, beta=beta, loss=loss)
