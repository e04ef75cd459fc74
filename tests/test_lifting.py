"""The constant column: what it does to data and to networks."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from qsdp import BilinearNetwork
from qsdp.lifting import append_constant

FUZZ = settings(max_examples=60, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)


def signs(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(0, 2, size=shape) * 2 - 1


@FUZZ
@given(seed=seeds, n=st.integers(1, 6), d=st.integers(1, 6))
def test_the_column_is_the_last_one_and_the_data_stay(seed: int, n: int, d: int) -> None:
    X = np.random.default_rng(seed).standard_normal((n, d))
    kept = X.copy()
    lifted = append_constant(X)
    assert lifted.shape == (n, d + 1)
    assert lifted.dtype == np.float64
    np.testing.assert_array_equal(lifted[:, :d], kept)
    np.testing.assert_array_equal(lifted[:, d], 1.0)
    lifted[:] = 7.0
    np.testing.assert_array_equal(X, kept)


def test_order_of_memory_does_not_matter() -> None:
    X = np.random.default_rng(0).standard_normal((5, 3))
    np.testing.assert_array_equal(append_constant(np.asfortranarray(X)), append_constant(X))
    np.testing.assert_array_equal(append_constant(np.repeat(X, 2, axis=0)[::2]), append_constant(X))


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
