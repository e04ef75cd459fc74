"""The constant column, and the data as a map of quadratic forms, against explicit matrices."""

from __future__ import annotations

import tracemalloc
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qsdp import BilinearNetwork, TrainingProblem

FUZZ = settings(max_examples=60, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)


def append_constant(X: np.ndarray) -> np.ndarray:
    return np.hstack([X, np.ones((len(X), 1))])


def signs(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(0, 2, size=shape) * 2 - 1


@FUZZ
@given(seed=seeds, d=st.integers(1, 5), m=st.integers(1, 6))
def test_a_lifted_network_has_affine_factors(seed: int, d: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    X, U, V = rng.standard_normal((7, d)), signs(rng, m, d), signs(rng, m, d)
    s, t, alpha = signs(rng, m), signs(rng, m), rng.standard_normal(m)
    network = BilinearNetwork(np.c_[U, s], np.c_[V, t], alpha)
    expected = [sum(alpha[j] * (float(x @ U[j]) + s[j]) * (float(x @ V[j]) + t[j]) for j in range(m)) for x in X]
    np.testing.assert_allclose(network.predict(append_constant(X)), expected, rtol=1e-12, atol=1e-12 * m * d**2)


@FUZZ
@given(seed=seeds, d=st.integers(1, 5), m=st.integers(1, 6))
def test_the_odd_part_of_a_lifted_network_is_linear(seed: int, d: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((7, d))
    network = BilinearNetwork(signs(rng, m, d + 1), signs(rng, m, d + 1), rng.standard_normal(m))
    odd = 0.5 * (network.predict(append_constant(X)) - network.predict(append_constant(-X)))
    slope = np.zeros(d)
    for u, v, weight in zip(network.U, network.V, network.alpha, strict=True):
        slope += weight * (int(v[-1]) * u[:-1].astype(float) + int(u[-1]) * v[:-1].astype(float))
    np.testing.assert_allclose(odd, X @ slope, rtol=1e-12, atol=1e-12 * m * d**2)


@FUZZ
@given(seed=seeds, d=st.integers(1, 5), m=st.integers(1, 6))
def test_without_the_column_networks_are_even(seed: int, d: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((7, d))
    network = BilinearNetwork(signs(rng, m, d), signs(rng, m, d), rng.standard_normal(m))
    np.testing.assert_array_equal(network.predict(X), network.predict(-X))


# -- the map of quadratic forms ------------------------------------------------------------------------

#: Coefficients and whether matrices have the last row and column.
MAPS: list[tuple[tuple[float, float, float], bool]] = [
    ((1.0, 0.0, 0.0), False),
    ((-0.5, 0.0, 0.0), False),
    ((0.1, 1.0, 0.0), True),
    ((-0.3, 0.7, 0.4), True),
    ((0.0, 1.0, 0.0), True),
    ((0.0, 0.0, 2.0), True),
]
maps = pytest.mark.parametrize(("coefficients", "lifted"), MAPS, ids=str)


def explicit(data: Any) -> np.ndarray:
    """The data matrices of shape (n, N, N), entry by entry."""
    (a, b, c), d = data.coefficients, data.X.shape[1]
    matrices = np.zeros((len(data.X), d + data.lifted, d + data.lifted))
    for i, x in enumerate(data.X):
        for j in range(d):
            for k in range(d):
                matrices[i, j, k] = a * x[j] * x[k]
            if data.lifted:
                matrices[i, j, d] = matrices[i, d, j] = 0.5 * b * x[j]
        if data.lifted:
            matrices[i, d, d] = c
    return matrices


def random_map(seed: int, n: int, d: int, coefficients: Any, lifted: bool) -> tuple[Any, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return TrainingProblem(rng.standard_normal((n, d)), np.ones(n), beta=1.0, activation=coefficients).map, rng


@maps
@settings(FUZZ, max_examples=30)
@given(seed=seeds, n=st.integers(1, 7), d=st.integers(1, 5))
def test_forward_and_adjoint_against_explicit_matrices(
    coefficients: Any, lifted: bool, seed: int, n: int, d: int
) -> None:
    data, rng = random_map(seed, n, d, coefficients, lifted)
    N = d + lifted
    assert (data.n_rows, data.size) == (n, N)
    matrices, S, nu = explicit(data), rng.standard_normal((N, N)), rng.standard_normal(n)
    values, M = data.forward(S), data.adjoint(nu)
    assert values.shape == (n,)
    assert M.shape == (N, N)
    np.testing.assert_allclose(values, np.einsum("ijk,jk->i", matrices, S), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(M, np.einsum("i,ijk->jk", nu, matrices), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(M, M.T)
    v = rng.standard_normal(N)
    np.testing.assert_allclose(data.adjoint_times(nu, v), M @ v, rtol=1e-11, atol=1e-11)
    assert values @ nu == pytest.approx(np.vdot(S, M), rel=1e-11, abs=1e-11)
    # Only the symmetric part counts.
    np.testing.assert_allclose(data.forward(S.T), values, rtol=1e-12, atol=1e-12)
    # The CVXPY expression is the same map.
    expression = data.expression(cp.Constant(S))
    np.testing.assert_allclose(np.ravel(expression.value), values, rtol=1e-12, atol=1e-12)


@maps
def test_inner_products_and_features_against_explicit_matrices(coefficients: Any, lifted: bool) -> None:
    data, _ = random_map(0, 5, 3, coefficients, lifted)
    matrices = explicit(data)
    expected = np.einsum("ijk,ljk->il", matrices, matrices)
    features, N = data.features(), data.size
    assert features.shape == (5, N * (N + 1) // 2)
    np.testing.assert_allclose(features @ features.T, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(data.inner_products(data), expected, rtol=1e-12, atol=1e-12)


@maps
def test_rank_one_matrices_of_neurons_give_the_activation(coefficients: Any, lifted: bool) -> None:
    data, rng = random_map(0, 6, 3, coefficients, lifted)
    a, b, c = coefficients
    q = rng.standard_normal(3)
    u = np.r_[q, np.ones(int(lifted))]
    np.testing.assert_allclose(data.forward(np.outer(u, u)), a * (data.X @ q) ** 2 + b * (data.X @ q) + c, rtol=1e-12)


@maps
def test_mean_size_is_the_mean_frobenius_norm(coefficients: Any, lifted: bool) -> None:
    data, _ = random_map(2, 8, 3, coefficients, lifted)
    squares = np.square(explicit(data)).sum(axis=(1, 2))
    assert data.mean_size() == pytest.approx(np.sqrt(squares.mean()), rel=1e-12)


@pytest.mark.parametrize("lifted", [False, True])
def test_memory_stays_far_below_one_matrix_a_sample(lifted: bool) -> None:
    n, d = 2000, 60
    data, rng = random_map(3, n, d, (0.5, 1.0, 0.25) if lifted else (1.0, 0.0, 0.0), lifted)
    S, nu = rng.standard_normal((data.size, data.size)), rng.standard_normal(n)
    tracemalloc.start()
    try:
        data.forward(S)
        data.adjoint(nu)
        data.mean_size()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A few copies of the data; a matrix for every sample would be 60 of them.
    assert peak < 6 * data.X.nbytes
