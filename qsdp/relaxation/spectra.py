r"""Eigenvalues of the matrices of dual vectors, through the rows of the data where these are few.

The matrix :math:`\sum_i \nu_i \mathcal{X}_i` of n samples has rank n, or n + 1 if the map is lifted. If n is smaller
than its side N, a triangular factor of the rows and a decomposition of side n give all nonzero eigenvalues.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import scipy.linalg

from qsdp._utils.numeric import EPS
from qsdp._utils.symmetric import eigenvalues, symmetric_part
from qsdp._utils.validation import FloatArray
from qsdp.data_map import DataMap
from qsdp.lifting import QuadraticMap
from qsdp.roundoff import dominating_shift

__all__ = [
    "decomposed",
    "dominating",
    "multiple_of",
    "proven_weights",
    "row_dominating",
    "row_spectrum",
    "spectral_bound",
]


def spectral_bound(M: FloatArray, z: FloatArray) -> float:
    r"""Compute the smallest t with :math:`-t\,\mathrm{Diag}(z) \preceq M \preceq t\,\mathrm{Diag}(z)`.

    Then :math:`\max_{u,v \in \{\pm1\}^D} u^T M v \le t \sum_j z_j`: for any positive `z` this bounds the
    Grothendieck problem from above (the dual of (50), with the diagonal shift written as a scaling).
    """
    return float(dominating(M, z))


def dominating(M: FloatArray, z: FloatArray) -> FloatArray:
    """Compute the smallest t for which ``t Diag(z) +- M`` are positive semidefinite, for z and M or stacks of these."""
    if not z.size:
        return np.zeros(z.shape[:-1])
    roots = np.sqrt(z)
    values = eigenvalues(M / (roots[..., :, None] * roots[..., None, :]))
    dominating: FloatArray = np.maximum(-values[..., 0], values[..., -1])
    return dominating


def row_dominating(data: DataMap, nu: FloatArray, z: FloatArray) -> float:
    """Compute `dominating` for the matrix of `nu`, (n,), for few rows n."""
    _, triangle, core = _factored(data, nu, 1.0 / np.sqrt(z))
    return _largest_eigenvalue(triangle, core)


def multiple_of(data: DataMap, M: FloatArray, nu: FloatArray, z: FloatArray) -> float:
    """Compute `spectral_bound` of the matrix M of the dual vector `nu`, (n,), through its rows if they are few."""
    return row_dominating(data, nu, z) if data.has_few_rows else spectral_bound(M, z)


def proven_weights(data: DataMap, M: FloatArray, nu: FloatArray, z: FloatArray, t: float) -> FloatArray:
    """Return weights, nearly t z, for which ``Diag(weights) +- M`` are proven semidefinite; M is that of `nu`, (n,)."""
    if not data.has_few_rows:
        weights = t * z
        return weights + dominating_shift(M, weights)
    _, triangle, core = _factored(data, nu, 1.0 / np.sqrt(z))
    small = symmetric_part(triangle @ core @ triangle.T)
    # The terms of the product may cancel, so its errors are relative to their sizes, here bounded by row sums. Those of
    # the orthogonal factor are a modest multiple of N eps.
    size = _largest_row_sum(triangle @ triangle.T) * _largest_row_sum(core)
    excess = dominating_shift(small, np.full(len(small), t))
    weights = (t + float(excess.max()) + 20.0 * EPS * data.size * size) * z
    return weights


def decomposed(data: DataMap, M: FloatArray, nu: FloatArray, scales: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute the nonzero eigenvalues, with eigenvectors, of the matrix M of `nu`, (n,), scaled from both sides."""
    if data.has_few_rows:
        return row_spectrum(data, nu, scales)
    values, vectors = scipy.linalg.eigh(M * np.outer(scales, scales), check_finite=False)
    return values, vectors


def row_spectrum(
    data: DataMap, nu: FloatArray, scales: FloatArray, coefficients: tuple[float, float, float] | None = None
) -> tuple[FloatArray, FloatArray]:
    r"""Compute n eigenpairs of the scaled matrix :math:`\sum_i \nu_i \mathcal{X}_i`, for few rows n.

    `coefficients` replace those of the map.
    """
    basis, triangle, core = _factored(data, nu, scales, coefficients)
    values, vectors = scipy.linalg.eigh(triangle @ core @ triangle.T, check_finite=False)
    return values, basis @ vectors


def _factored(
    data: DataMap, nu: FloatArray, scales: FloatArray, coefficients: tuple[float, float, float] | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Factor the scaled matrix :math:`\sum_i \nu_i \mathcal{X}_i` as :math:`Q R K R^T Q^T`; return Q, R and K.

    The columns of Q are orthonormal and R is triangular: they factor the scaled rows, of which the last belongs to the
    entry that a lift adds.
    """
    data = cast(QuadraticMap, data)
    a, b, c = coefficients or data.coefficients
    d, core = data.X.shape[1], np.diag(a * nu)
    rows = data.X * scales[:d]
    if data.lifted:
        edge = 0.5 * b * nu[:, None]
        core = np.block([[core, edge], [edge.T, np.array([[c * nu.sum()]])]])
        rows = scipy.linalg.block_diag(rows, scales[d:])
    basis, triangle = np.linalg.qr(rows.T)
    return basis, triangle, core


def _largest_row_sum(M: FloatArray) -> float:
    return float(np.abs(M).sum(axis=1).max())


def _largest_eigenvalue(triangle: FloatArray, core: FloatArray) -> float:
    """Compute the largest magnitude of an eigenvalue of :math:`R K R^T`."""
    return float(np.abs(eigenvalues(symmetric_part(triangle @ core @ triangle.T))).max())
