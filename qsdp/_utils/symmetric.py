"""Decompositions of symmetric matrices, and the projection onto the positive semidefinite ones and its roots.

Small matrices take direct LAPACK calls, without the overhead of wrappers.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dpotrf, dsyevd, dsyevd_lwork

from qsdp._utils.tuning import TILE
from qsdp._utils.validation import FloatArray

__all__ = ["diagonal_of", "eigenvalues", "lower_factor", "positive_part", "root", "spectrum", "symmetric_part"]


def symmetric_part(M: FloatArray) -> FloatArray:
    """Compute (M + M') / 2."""
    return 0.5 * (M + M.T)


def diagonal_of(matrices: FloatArray) -> FloatArray:
    """Return a writable view of the diagonals (..., N); indexing or `einsum` takes several times longer."""
    diagonal: FloatArray = matrices.diagonal(0, -2, -1)
    diagonal.setflags(write=True)
    return diagonal


def lower_factor(M: FloatArray, *, overwrite: bool = False) -> FloatArray:
    """Compute the lower Cholesky factor of a matrix that is positive definite in floating point.

    With `overwrite`, the factor may take the memory of M.

    Raises
    ------
    numpy.linalg.LinAlgError
        The matrix is not positive definite.
    """
    factor, info = dpotrf(M.T, lower=0, overwrite_a=overwrite)
    if info != 0:
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    lower: FloatArray = factor.T
    return lower


def spectrum(M: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute the eigenvalues of a matrix in ascending order, and its eigenvectors in columns.

    Raises
    ------
    numpy.linalg.LinAlgError
        The eigenvalues do not converge, for instance if entries are not numbers.
    """
    values, vectors, info = dsyevd(M.T, lower=1)
    if info != 0:
        raise np.linalg.LinAlgError("the matrix has no eigenvalues")
    return values, vectors


def eigenvalues(matrices: FloatArray) -> FloatArray:
    """Compute the eigenvalues (..., N), in ascending order, of a stack of matrices (..., N, N).

    Raises
    ------
    numpy.linalg.LinAlgError
        The eigenvalues do not converge, for instance if entries are not numbers.
    """
    N = matrices.shape[-1]
    stack, lwork = np.empty(matrices.shape[:-1]), _workspace(N)
    for M, values in zip(matrices.reshape(-1, N, N), stack.reshape(-1, N), strict=True):
        values[...], _, info = dsyevd(M.T, compute_v=0, lower=1, lwork=lwork)
        if info != 0:
            raise np.linalg.LinAlgError("the matrix has no eigenvalues")
    return stack


@cache
def _workspace(size: int) -> int:
    """Return the length of the workspace that LAPACK's blocks need: SciPy's default is too small for them."""
    return int(dsyevd_lwork(size, compute_v=0, lower=1)[0])


def positive_part(matrices: FloatArray) -> FloatArray:
    """Project symmetric matrices (..., N, N) onto the positive semidefinite ones (Frobenius norm), in their precision.

    Raises
    ------
    numpy.linalg.LinAlgError
        The eigenvalues do not converge, for instance if entries are not numbers.
    """
    side = matrices.shape[-1]
    if matrices.size == 0:
        return matrices.copy()
    if side <= TILE and matrices.ndim > 2 and matrices.shape[-3] > 1:
        # One call for all matrices: a stack of many small blocks would otherwise take several times as long. Alone, a
        # matrix is projected more accurately below, which decides whether splitting converges on ill-scaled columns.
        values, vectors = np.linalg.eigh(matrices)
        factors = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
        parts: FloatArray = factors @ factors.swapaxes(-1, -2)
        return parts
    positive = np.empty_like(matrices)
    for matrix, part in zip(matrices.reshape(-1, side, side), positive.reshape(-1, side, side), strict=True):
        # For all eigenvectors, divide and conquer takes an eighth less time than SciPy's default driver.
        values, vectors = scipy.linalg.eigh(matrix, check_finite=False, driver="evd")
        first = int(np.searchsorted(values, 0.0))
        # Compute the smaller of the two products.
        if 2 * first > side:
            factor = vectors[:, first:] * np.sqrt(values[first:])
            np.matmul(factor, factor.T, out=part)
        else:
            factor = vectors[:, :first] * np.sqrt(-values[:first])
            np.add(matrix, factor @ factor.T, out=part)
    return positive


def root(M: FloatArray, fraction: float | None = None) -> FloatArray:
    """Compute a matrix F for which F F' is the positive semidefinite part of the symmetric M.

    It is the symmetric root, which is unique; or, with `fraction`, it has a column for each eigenvalue above that
    fraction of the largest one.
    """
    values, vectors = scipy.linalg.eigh(M, check_finite=False)
    if fraction is None:
        symmetric: FloatArray = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        return symmetric
    large = values > fraction * max(float(values[-1]), 0.0)
    columns: FloatArray = vectors[:, large] * np.sqrt(values[large])
    return columns
