"""Decompositions of symmetric matrices: they multiply to the matrix, and what has none is an error."""

from __future__ import annotations

import numpy as np
import pytest

from qsdp._utils.symmetric import eigenvalues, lower_factor, positive_part, root, spectrum
from qsdp._utils.tuning import TILE


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


@pytest.mark.parametrize("shape", [(5, 5), (3, 2, 6, 6), (2, TILE + 3, TILE + 3)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_projection_is_the_nearest_positive_semidefinite_matrix(shape, dtype):
    M = symmetric(*shape).astype(dtype)
    P = positive_part(M)
    assert P.dtype == dtype
    np.testing.assert_array_equal(P, P.swapaxes(-1, -2))
    rounding = shape[-1] ** 2 * np.finfo(dtype).eps
    assert np.linalg.eigvalsh(P).min() >= -rounding
    # Moreau: the remainder is negative semidefinite and orthogonal to the projection.
    assert np.linalg.eigvalsh(M - P).max() <= rounding
    np.testing.assert_allclose(np.sum(P * (M - P), axis=(-2, -1)), 0.0, atol=shape[-1] ** 2 * rounding)


@pytest.mark.parametrize("side", [2, TILE + 3])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_semidefinite_matrices_are_their_own_projection_or_have_none(side, sign):
    F = np.random.default_rng(1).standard_normal((side, side + 2))
    M = sign * (F @ F.T)
    np.testing.assert_allclose(positive_part(M), M if sign > 0.0 else 0.0, atol=1e-12 * side)


def test_the_symmetric_root_is_that_of_the_projection():
    M = symmetric(7, 7)
    R = root(M)
    np.testing.assert_allclose(R, R.T, atol=1e-14)
    np.testing.assert_allclose(R @ R, positive_part(M), atol=1e-13)
    assert np.linalg.eigvalsh(R)[0] >= -1e-14


def test_a_root_with_a_fraction_has_a_column_for_each_larger_eigenvalue():
    vectors, _ = np.linalg.qr(np.random.default_rng(2).standard_normal((4, 4)))
    M = (vectors * [-1.0, 0.01, 2.0, 4.0]) @ vectors.T
    F = root(M, 0.1)
    assert F.shape == (4, 2)
    np.testing.assert_allclose(F @ F.T, (vectors * [0.0, 0.0, 2.0, 4.0]) @ vectors.T, atol=1e-14)
    assert root(-M @ M, 0.1).shape == (4, 0)
