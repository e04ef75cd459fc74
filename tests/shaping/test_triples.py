"""Covariances of any feasible triple Z, V, W: not symmetric, with V and W apart, and refused if indefinite."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg

import qsdp
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.shaping import GAMMA, SHAPINGS

METHODS = pytest.mark.parametrize("method", SHAPINGS)


def triple(seed: int, N: int = 5, rank: int = 4) -> tuple[np.ndarray, ...]:
    """Return Z, V and W of a random covariance, with uneven diagonals and sizes."""
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((2 * N, rank)) * rng.uniform(0.2, 2.0, (2 * N, 1))
    K = F @ F.T
    return K[:N, N:], K[:N, :N], 7.0 * K[N:, N:]


@METHODS
@pytest.mark.parametrize("seed", range(4))
def test_every_feasible_triple_has_a_covariance(method: str, seed: int) -> None:
    Z, V, W = triple(seed)
    shaped = qsdp.shape_covariance(Z=Z, V=V, W=W, method=method)
    assert shaped.rho == pytest.approx(math.sqrt(V.diagonal().max() * W.diagonal().max()), rel=1e-12)
    assert shaped.min_eigenvalue >= -1e-7
    assert shaped.min_eigenvalue == pytest.approx(np.linalg.eigvalsh(shaped.Q)[0], abs=1e-12)
    np.testing.assert_allclose(shaped.Q.diagonal(), 1.0, atol=1e-12)
    np.testing.assert_array_equal(shaped.Q, shaped.Q.T)
    tolerance = 1e-5 if method == "sdp" else 1e-12
    np.testing.assert_allclose(np.arcsin(shaped.Q[:5, 5:]), shaped.constant * Z / shaped.rho, atol=tolerance)
    assert shaped.constant >= GAMMA - 1e-12


def largest_by_bisection(Z: np.ndarray) -> float:
    """Return the largest c for which sin(c Z) completes to a correlation matrix, by feasibility programs."""
    cp = pytest.importorskip("cvxpy")
    N = len(Z)
    low, high = GAMMA, 0.5 * math.pi / np.abs(Z).max()
    Q, t = cp.Variable((2 * N, 2 * N), PSD=True), cp.Variable()
    target = cp.Parameter((N, N))
    program = cp.Problem(cp.Minimize(t), [Q[:N, N:] == target, cp.diag(Q) <= t])
    while high - low > 1e-4:
        middle = 0.5 * (low + high)
        target.value = np.sin(middle * Z)
        program.solve(solver="CLARABEL")
        low, high = (middle, high) if t.value <= 1.0 else (low, middle)
    return low


@pytest.mark.parametrize("seed", range(2))
def test_the_adaptive_constant_is_the_largest(seed: int) -> None:
    pytest.importorskip("clarabel")
    Z, V, W = triple(seed, N=3, rank=3)
    shaped = qsdp.shape_covariance(Z=Z, V=V, W=W, method="adaptive")
    assert shaped.constant == pytest.approx(largest_by_bisection(Z / shaped.rho), abs=3e-4)


@METHODS
def test_triples_of_a_relaxation_are_shaped_as_the_relaxation_is(method: str) -> None:
    X, y = qsdp.datasets.make_planted(n=40, d=4, n_neurons=3, random_state=0)
    relaxation = qsdp.solve_relaxation(qsdp.TrainingProblem(X, y, beta=0.5))
    own = qsdp.shape_covariance(relaxation, method)
    other = qsdp.shape_covariance(Z=relaxation.Z, V=relaxation.V, W=relaxation.W, method=method)
    assert other.rho == pytest.approx(own.rho, rel=1e-12)
    assert other.constant == pytest.approx(own.constant, rel=1e-5)
    np.testing.assert_allclose(other.Q[:4, 4:], own.Q[:4, 4:], atol=1e-5)


def test_sampled_networks_have_the_predictions_of_z() -> None:
    Z, V, W = triple(1)
    X = np.random.default_rng(0).standard_normal((7, 5))
    expected = 2.0 * np.einsum("ni,ij,nj->n", X, Z, X)
    covariance = qsdp.shape_covariance(Z=Z, V=V, W=W)
    networks = [qsdp.sample_network(covariance, 500, random_state=seed) for seed in range(200)]
    draws = np.array([network.predict(X) for network in networks])
    z = (draws.mean(axis=0) - expected) / (draws.std(axis=0, ddof=1) / math.sqrt(len(draws)))
    # Seven z-values: a false alarm once in 100,000 runs of another seed.
    assert np.abs(z).max() < 4.8


def test_z_may_be_zero_and_w_is_v_unless_given() -> None:
    zero = np.zeros((3, 3))
    assert qsdp.shape_covariance(Z=zero, V=zero, W=np.eye(3)).rho == 0.0
    Z, V, _ = triple(2)
    even = 0.5 * (Z + Z.T)
    V = V + 9.0 * np.eye(5)
    same = qsdp.shape_covariance(Z=even, V=V)
    np.testing.assert_array_equal(same.Q, qsdp.shape_covariance(Z=even, V=V, W=V).Q)


def test_indefinite_matrices_are_refused_and_rounding_is_repaired() -> None:
    Z, V, W = triple(0)
    lowest = scipy.linalg.eigvalsh(np.block([[V, 5.0 * Z], [5.0 * Z.T, W]]))[0]
    assert lowest < -0.1
    with pytest.raises(InvalidInputError, match=f"smallest eigenvalue is {lowest:.3g}: add at least {-lowest:.3g} to"):
        qsdp.shape_covariance(Z=5.0 * Z, V=V, W=W)
    shaped = qsdp.shape_covariance(Z=Z * (1.0 + 1e-7), V=V, W=W)
    assert shaped.min_eigenvalue >= -1e-14
    with pytest.raises(InvalidInputError, match="V must be symmetric"):
        qsdp.shape_covariance(Z=Z, V=V + np.triu(np.ones((5, 5)), 1), W=W)


def test_arguments() -> None:
    Z, V, W = triple(0)
    for arguments in ({}, {"Z": Z}, {"V": V, "W": W}, {"relaxation": object(), "Z": Z, "V": V}):
        with pytest.raises(InvalidInputError, match="either relaxation, or Z and V"):
            qsdp.shape_covariance(**arguments)
    with pytest.raises(InvalidTypeError, match="relaxation must be a Relaxation"):
        qsdp.shape_covariance("none")
    with pytest.raises(InvalidInputError):
        qsdp.shape_covariance(Z=Z, V=V[:3, :3])
    with pytest.raises(InvalidInputError, match="square and of one size"):
        qsdp.shape_covariance(Z=Z, V=V[:3], W=W)
    with pytest.raises(InvalidInputError, match=r"finite|NaN"):
        qsdp.shape_covariance(Z=np.where(np.eye(5) > 0, np.nan, Z), V=V)
