r"""Eigenvalues of the matrices of dual vectors, through the rows of the data where these are few.

The matrix :math:`\sum_i \nu_i \mathcal{X}_i` of n samples has rank n, or n + 1 if the map is lifted. If n is smaller
than its side N, a triangular factor of the rows and a decomposition of side n give all nonzero eigenvalues.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
import scipy.linalg

from qsdp._utils.numeric import EPS, MARGIN
from qsdp._utils.symmetric import eigenvalues, symmetric_part
from qsdp._utils.validation import FloatArray
from qsdp.data_map import DataMap
from qsdp.lifting import QuadraticMap
from qsdp.roundoff import dominating_shift, gamma

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
    data = cast(QuadraticMap, data)
    triangle = np.asarray(np.linalg.qr(_scaled_rows(data, 1.0 / np.sqrt(z)).T, mode="r"))
    return _largest_eigenvalue(triangle, _core(data.coefficients, nu, data.lifted))


def multiple_of(data: DataMap, M: FloatArray, nu: FloatArray, z: FloatArray) -> float:
    """Compute `spectral_bound` of the matrix M of the dual vector `nu`, (n,), through its rows if they are few."""
    return row_dominating(data, nu, z) if data.has_few_rows else spectral_bound(M, z)


def proven_weights(data: DataMap, M: FloatArray, nu: FloatArray, z: FloatArray, t: float) -> FloatArray:
    r"""Return weights, nearly t z, for which ``Diag(weights) +- M`` are proven semidefinite; M is that of `nu`, (n,).

    Notes
    -----
    The scaled matrix is :math:`E^T K E` for the scaled rows E. With factors Q and R as computed, let
    :math:`E^T = Q R + \Delta` and :math:`\|Q^T Q - I\| \le \epsilon`. Then

    .. math:: \|E^T K E\| \le (1 + \epsilon) \|R K R^T\|
        + 2 \sqrt{1 + \epsilon}\, \|R K\| \|\Delta\| + \|K\| \|\Delta\|^2 .

    Nothing is assumed about the factorisation: :math:`\Delta` and :math:`\epsilon` are computed, and the rounding of
    all products is bounded by :math:`\gamma_k` times the products of magnitudes, see `qsdp.roundoff`.
    """
    if not data.has_few_rows:
        weights = t * z
        return weights + dominating_shift(M, weights)
    data = cast(QuadraticMap, data)
    rows, core = _scaled_rows(data, 1.0 / np.sqrt(z)), _core(data.coefficients, nu, data.lifted)
    basis, triangle = np.linalg.qr(rows.T)
    N, m = basis.shape
    small = symmetric_part(triangle @ core @ triangle.T)
    norm = t + float(dominating_shift(small, np.full(m, t)).max())
    # Magnitudes of R and K, of which the last entry may cancel, and bounds on |R|, |RK| and |K| and on rounding.
    sizes, terms = np.abs(triangle), _core([abs(value) for value in data.coefficients], np.abs(nu), data.lifted)
    products = sizes @ terms
    norm += gamma(2 * m + len(nu) + 8) * _largest_row_sum(products @ sizes.T)
    whole = float(np.linalg.norm(basis))
    of_basis = _largest_row_sum(basis.T @ basis - np.eye(m)) + gamma(N + 8) * whole**2
    off = float(np.linalg.norm(rows.T - basis @ triangle))
    size = whole * math.sqrt(_largest_row_sum(sizes @ sizes.T)) + float(np.linalg.norm(rows))
    moved = off + gamma(m + 8) * MARGIN * size
    mixed = math.sqrt(_largest_row_sum(products) * _largest_row_sum(products.T))
    proven = (1.0 + of_basis) * norm + (2.0 * (1.0 + of_basis) * mixed + _largest_row_sum(terms) * moved) * moved
    raised: FloatArray = (1.0 + 8.0 * EPS) * proven * z
    return raised


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
    basis, triangle = np.linalg.qr(_scaled_rows(data, scales).T)
    return basis, triangle, _core(coefficients or data.coefficients, nu, data.lifted)


def _scaled_rows(data: QuadraticMap, scales: FloatArray) -> FloatArray:
    d = data.X.shape[1]
    rows: FloatArray = data.X * scales[:d]
    if data.lifted:
        rows = np.asarray(scipy.linalg.block_diag(rows, scales[d:]))
    return rows


def _core(coefficients: Sequence[float], nu: FloatArray, lifted: bool) -> FloatArray:
    """Compute the matrix K for which the matrix of `nu` is :math:`E^T K E` with rows E of the data and of the lift."""
    a, b, c = coefficients
    core = np.diag(a * nu)
    if lifted:
        edge = 0.5 * b * nu[:, None]
        core = np.block([[core, edge], [edge.T, np.array([[c * nu.sum()]])]])
    return core


def _largest_row_sum(M: FloatArray) -> float:
    return float(np.abs(M).sum(axis=1).max())


def _largest_eigenvalue(triangle: FloatArray, core: FloatArray) -> float:
    """Compute the largest magnitude of an eigenvalue of :math:`R K R^T`."""
    return float(np.abs(eigenvalues(symmetric_part(triangle @ core @ triangle.T))).max())
