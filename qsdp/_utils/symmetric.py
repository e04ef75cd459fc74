"""Decompositions of symmetric matrices by direct LAPACK calls, without the overhead of wrappers for small matrices."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dsyevd, dsyevd_lwork

from qsdp._utils.validation import FloatArray

__all__ = ["eigenvalues", "lower_factor", "spectrum", "symmetric_part"]


def symmetric_part(M: FloatArray) -> FloatArray:
    """Compute (M + M') / 2."""
    return 0.5 * (M + M.T)


def lower_factor(M: FloatArray) -> FloatArray:
    """Compute the lower Cholesky factor of a matrix that is positive definite in floating point.

    Raises
    ------
    numpy.linalg.LinAlgError
        The matrix is not positive definite.
    """
    factor, info = dpotrf(M.T, lower=0)
    if info != 0:
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    lower: FloatArray = factor.T
    return lower


def spectrum(M: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute the eigenvalues of a matrix in ascending order, and its eigenvectors in columns.

    Raises
    ------
    numpy.linalg.LinAlgError
        The eigenvalues are not found, for instance if entries are not numbers.
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
        The eigenvalues are not found, for instance if entries are not numbers.
    """
    N = matrices.shape[-1]
    found = np.empty(matrices.shape[:-1])
    # The workspace that LAPACK's blocks need: SciPy's default is too small for them.
    lwork = int(dsyevd_lwork(N, compute_v=0, lower=1)[0])
    for M, own in zip(matrices.reshape(-1, N, N), found.reshape(-1, N), strict=True):
        own[...], _, info = dsyevd(M.T, compute_v=0, lower=1, lwork=lwork)
        if info != 0:
            raise np.linalg.LinAlgError("the matrix has no eigenvalues")
    return found
