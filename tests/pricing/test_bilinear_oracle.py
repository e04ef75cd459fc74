"""The oracle of bilinear networks against brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qsdp.pricing import BilinearOracle, tree_upper


def all_signs(n: int) -> np.ndarray:
    return np.array(list(itertools.product([1.0, -1.0], repeat=n)))


def true_maximum(M: np.ndarray) -> float:
    U = all_signs(len(M))
    return float((U @ M @ U.T).max())


def random_matrix(rng: np.random.Generator, n: int, kind: str) -> np.ndarray:
    A = rng.standard_normal((n, n))
    if kind == "integer":
        A = rng.integers(-2, 3, size=(n, n)).astype(float)
    elif kind == "rank one":
        A = np.outer(A[0], A[0])
    elif kind == "zero rows":
        A *= np.outer(rng.random(n) < 0.6, np.ones(n))
        A *= np.outer(np.ones(n), np.abs(A).sum(axis=1) > 0)
    elif kind == "ill-scaled":
        scale = 10.0 ** rng.uniform(-6, 6, n)
        A *= np.outer(scale, scale)
    elif kind == "sparse":
        A *= rng.random((n, n)) < 0.2
    elif kind == "diagonal":
        A = np.diag(A[0])
    return 0.5 * (A + A.T)


KINDS = ["normal", "integer", "rank one", "zero rows", "ill-scaled", "sparse", "diagonal"]


def check_atoms(price, M: np.ndarray, threshold: float = 0.0) -> None:
    assert price.U.dtype == price.V.dtype == np.int8
    assert np.all(np.abs(price.U) == 1)
    assert np.all(np.abs(price.V) == 1)
    products = np.einsum("ki,ij,kj->k", price.U.astype(float), M, price.V.astype(float))
    np.testing.assert_allclose(price.values, products, rtol=1e-12, atol=1e-14 * np.abs(M).sum())
    assert np.all(price.values > threshold)
    assert np.all(np.diff(price.values) <= 0.0)
    seen = set()
    for u, v in zip(price.U, price.V, strict=True):
        versions = {
            (a * s).tobytes() + (b * s).tobytes() for a, b in ((u, v), (v, u)) for s in (np.int8(1), np.int8(-1))
        }
        assert not versions & seen
        seen |= versions


@settings(max_examples=150, deadline=None)
@given(n=st.integers(1, 8), kind=st.sampled_from(KINDS), seed=st.integers(0, 10**6))
def test_proof_is_the_brute_force_maximum(n: int, kind: str, seed: int) -> None:
    M = random_matrix(np.random.default_rng(seed), n, kind)
    price = BilinearOracle(n).prove(M)
    truth = true_maximum(M)
    assert price.exact
    assert price.value == pytest.approx(truth, rel=1e-13)
    assert truth <= price.upper <= truth * (1 + 1e-9)
    check_atoms(price, M)
    assert tree_upper(M, price.trees[0]) == pytest.approx(price.upper, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 10), kind=st.sampled_from(KINDS), seed=st.integers(0, 10**6), share=st.floats(0.0, 1.2))
def test_search_never_exceeds_the_proof_and_returns_atoms(n: int, kind: str, seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    M = random_matrix(rng, n, kind)
    oracle = BilinearOracle(n)
    proven = oracle.prove(M)
    threshold = share * proven.value
    price = oracle.search(M, threshold=threshold, n_starts=20, max_atoms=5, rng=rng)
    assert price.value <= proven.upper
    assert price.upper == np.inf
    assert not price.exact
    assert price.trees == ()
    assert len(price.U) <= 5
    check_atoms(price, M, threshold)
