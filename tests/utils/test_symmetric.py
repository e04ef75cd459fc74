"""Decompositions of symmetric matrices: they multiply to the matrix, and what has none is an error."""

from __future__ import annotations

import numpy as np
import pytest

from qsdp._utils.symmetric import eigenvalues, lower_factor, spectrum


def symmetric(*shape: int) -> np.ndarray:
    matrices = np.random.default_rng(0).standard_normal(shape)
    return matrices + matrices.swapaxes(-1, -2)


@pytest.mark.parametrize("size", [1, 2, 7, 130])
def test_decompositions_multiply_to_the_matrix(size: int) -> None:
    M, close = symmetric(size, size), 1e-13 * size**2
    given = M.copy()
    values, vectors = spectrum(M)
    np.testing.assert_allclose((vectors * values) @ vectors.T, M, atol=close)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(size), atol=close)
    L = lower_factor(M @ M + np.eye(size))
    np.testing.assert_allclose(L @ L.T, M @ M + np.eye(size), atol=close * size)
    assert np.array_equal(L, np.tril(L))
    assert np.array_equal(M, given)


@pytest.mark.parametrize("shape", [(3, 3), (2, 5, 5), (3, 2, 80, 80)])
def test_eigenvalues_of_a_stack_are_those_of_its_matrices(shape: tuple[int, ...]) -> None:
    stack = symmetric(*shape)
    found = eigenvalues(stack)
    assert found.shape == shape[:-1]
    np.testing.assert_allclose(found, np.linalg.eigvalsh(stack), atol=1e-11)


def test_matrices_without_a_decomposition_are_refused() -> None:
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        lower_factor(np.diag([1.0, -1.0]))
    unknown = np.full((4, 4), np.nan)
    for decompose in (spectrum, eigenvalues):
        with pytest.raises(np.linalg.LinAlgError, match="no eigenvalues"):
            decompose(unknown)
