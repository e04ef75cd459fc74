"""Paths of additive models: objectives beside those of a solver over all neurons, and other rows."""

from __future__ import annotations

import itertools
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from qsdp.choosing.additive_path import AdditivePath
from qsdp.losses import DataFit, get_loss

#: Penalties of weights and of neurons on three inputs.
OMEGA, PRICE = np.array([1.0, 3.0, 0.5]), 2.5


def data(loss: str, n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray, DataFit]:
    """Return columns, inputs and targets that depend on a product."""
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((n, 3))
    columns = np.column_stack([inputs[:, 0], np.sign(inputs[:, 1]), np.ones(n)])
    score = inputs[:, 0] + inputs[:, 1] * inputs[:, 2] + 0.3 * rng.standard_normal(n)
    targets = {
        "squared": np.column_stack([score + 2.0, -score]),
        "logistic": np.where(score > 0.0, 1.0, -1.0)[:, None],
        "cross_entropy": np.eye(3)[np.digitize(score, [-0.5, 0.5])],
    }
    weights = rng.integers(1, 4, n).astype(float) if loss == "logistic" else None
    return columns, inputs, DataFit(get_loss(loss), targets[loss], weights)


def neurons(inputs: np.ndarray) -> np.ndarray:
    """Return the values of all neurons, up to their sign."""
    signs = [np.array(each) for each in itertools.product([1.0, -1.0], repeat=inputs.shape[1])]
    return np.column_stack([(inputs @ u) * (inputs @ v) for u in signs for v in signs if u[0] > 0.0 and v[0] > 0.0])


def optimum(columns: np.ndarray, inputs: np.ndarray, fit: DataFit, beta: float) -> float:
    """Solve the problem over all neurons; the squared loss has a free intercept."""
    F, C = neurons(inputs), fit.target.shape[1]
    W, A, b = cp.Variable((columns.shape[1], C)), cp.Variable((F.shape[1], C)), cp.Variable((1, C))
    outputs = columns @ W + F @ A + (np.ones((len(F), 1)) @ b if fit.quadratic else 0.0)
    penalty = cp.sum(OMEGA @ cp.abs(W)) + PRICE * cp.sum(cp.abs(A))
    problem = cp.Problem(cp.Minimize(fit.expression(outputs) + beta * penalty))
    problem.solve(solver="CLARABEL")
    return float(problem.value)


def objective(path: AdditivePath, columns: np.ndarray, inputs: np.ndarray, fit: DataFit, beta: float) -> float:
    W, U, V, alpha = path.parts()
    assert np.all(np.abs(U) == 1)
    assert np.all(np.abs(V) == 1)
    penalty = float(np.sum(OMEGA @ np.abs(W)) + PRICE * np.abs(alpha).sum())
    return fit.value(path.outputs(columns.T, inputs.T)) + beta * penalty


@pytest.mark.parametrize("loss", ["squared", "logistic", "cross_entropy"])
def test_objectives_are_optimal_to_a_percent(loss: str) -> None:
    columns, inputs, fit = data(loss)
    path = AdditivePath(columns.T, OMEGA, inputs.T, PRICE, fit)
    for share in (0.5, 0.1, 0.02):
        beta = share * path.beta_max()
        path.fit(beta, accurate=True)
        best = optimum(columns, inputs, fit, beta)
        assert (1.0 - 1e-6) * best <= objective(path, columns, inputs, fit, beta) <= 1.02 * best
    W, U, _, alpha = path.parts()
    assert np.any(W)
    assert len(U)
    assert np.all(np.count_nonzero(alpha, axis=1) == 1)


def test_rough_fits_are_near() -> None:
    columns, inputs, fit = data("cross_entropy")
    path = AdditivePath(columns.T, OMEGA, inputs.T, PRICE, fit)
    for beta in path.beta_max() * np.geomspace(0.3, 0.02, 6):
        path.fit(float(beta))
    assert objective(path, columns, inputs, fit, float(beta)) <= 1.1 * optimum(columns, inputs, fit, float(beta))


@pytest.mark.parametrize("loss", ["squared", "logistic", "cross_entropy"])
def test_the_largest_beta_is_where_fits_begin(loss: str) -> None:
    columns, inputs, fit = data(loss)
    path = AdditivePath(columns.T, OMEGA, inputs.T, PRICE, fit)
    largest = path.beta_max()
    path.fit(1.001 * largest, accurate=True)
    W, U, _, _ = path.parts()
    assert not np.any(W)
    assert not len(U)
    if loss == "squared":
        expected = np.broadcast_to(fit.target.mean(axis=0), fit.target.shape)
        np.testing.assert_allclose(path.outputs(columns.T, inputs.T), expected)
    path.fit(0.9 * largest, accurate=True)
    W, U, _, _ = path.parts()
    assert np.any(W) or len(U)


def test_outputs_of_other_rows() -> None:
    columns, inputs, fit = data("squared")
    others: Any = data("squared", n=7, seed=1)
    path = AdditivePath(columns.T, OMEGA, inputs.T, PRICE, fit)
    path.fit(0.05 * path.beta_max())
    W, U, V, alpha = path.parts()
    linear, products = others[0] @ W, ((others[1] @ U.T) * (others[1] @ V.T)) @ alpha
    np.testing.assert_allclose(
        path.outputs(others[0].T, others[1].T),
        linear + products + path.outputs(np.zeros((len(W), 1)), np.zeros((inputs.shape[1], 1))),
    )
    # The intercept of the squared loss makes the residuals add up to zero.
    residuals = fit.target - path.outputs(columns.T, inputs.T)
    np.testing.assert_allclose(residuals.sum(axis=0), 0.0, atol=1e-10)
