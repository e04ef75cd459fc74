r"""Nesterov-Todd scaling of pairs of positive definite matrices, and the largest feasible step.

For positive definite Y and D there is one W with :math:`W D W = Y`. With :math:`Y = L L^T` and the spectral
decomposition :math:`L^T D L = V \Lambda^2 V^T`, the factor :math:`G = L V \Lambda^{-1/2}` of :math:`W = G G^T` scales
both to one diagonal matrix, :math:`G^{-1} Y G^{-T} = G^T D G = \Lambda`. All functions work on stacks of matrices.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.linalg.lapack import dpotrf, dsyevr

from qsdp._utils import deadline
from qsdp._utils.numeric import HALF_DIGITS
from qsdp._utils.symmetric import diagonal_of, eigenvalues, lower_factor, spectrum
from qsdp._utils.validation import FloatArray

__all__ = [
    "LinAlgError",
    "centred",
    "inverse_means",
    "largest_step",
    "predicted_product",
    "predictor_reach",
    "primal_step",
    "scaling",
]

LinAlgError = np.linalg.LinAlgError


def scaling(Y: FloatArray, D: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Return G of shape (..., N, N) and the diagonals of :math:`\Lambda`, shape (..., N).

    Raises
    ------
    LinAlgError
        A matrix is not positive definite in floating point.
    TimeOver
        A limit has passed.
    """
    G, values, size = np.empty_like(Y), np.empty(Y.shape[:-1]), Y.shape[-1]
    stacks = (array.reshape(-1, size, size) for array in (Y, D, G))
    for primal, dual, scaled, scales in zip(*stacks, values.reshape(-1, size), strict=True):
        # For thousands of columns, each of these steps takes seconds.
        deadline.check()
        L = lower_factor(primal)
        product = L.T @ dual @ L
        deadline.check()
        squares, V = spectrum(product)
        if squares[0] < HALF_DIGITS * squares[-1]:
            # Far from the path: compute the square roots to twice as many digits, at twice the cost.
            _, scales[...], rows = np.linalg.svd(lower_factor(dual).T @ L)
            V = rows.T
        else:
            np.sqrt(squares, out=scales)
        np.divide(L @ V, np.sqrt(scales), out=scaled)
    return G, values


def inverse_means(values: FloatArray) -> FloatArray:
    r"""Compute :math:`1 / \sqrt{\Lambda_i \Lambda_j}`, the factors that turn a scaled step into a relative step."""
    roots = 1.0 / np.sqrt(values)
    means: FloatArray = roots[..., :, None] * roots[..., None, :]
    return means


def predictor_reach(change: FloatArray, inverses: FloatArray) -> float:
    r"""Compute the largest predictor step t <= 1 that keeps the dual and the primal matrices semidefinite.

    These are :math:`\Lambda + t S` and :math:`\Lambda - t (\Lambda + S)`, as their scaled steps add up to
    :math:`-\Lambda`. For an eigenvalue e of the relative dual step :math:`\Lambda^{-1/2} S \Lambda^{-1/2}`, the
    relative primal step has the eigenvalue -1 - e. `inverses` are the `inverse_means` of :math:`\Lambda`.
    """
    spectrum = eigenvalues(change * inverses)
    lowest = min(float(spectrum[..., 0].min()), -1.0 - float(spectrum[..., -1].max()))
    return min(1.0, -1.0 / lowest) if lowest < 0.0 else 1.0


def predicted_product(change: FloatArray, values: FloatArray, reach: float) -> float:
    """Compute the inner product of the primal and the dual matrices after a predictor step of length `reach`."""
    product = (1.0 - reach) * float(np.vdot(values, values))
    return product - reach**2 * (float(np.vdot(diagonal_of(change), values)) + float(np.vdot(change, change)))


def primal_step(change: FloatArray, values: FloatArray) -> FloatArray:
    r"""Compute the scaled predictor step of the primal matrices, :math:`-\Lambda - S`."""
    step = -change
    diagonal = diagonal_of(step)
    diagonal -= values
    return step


def largest_step(steps: Iterable[FloatArray], inverses: FloatArray, limit: float) -> float:
    r"""Compute the largest step t <= `limit` that keeps :math:`\Lambda + t S` semidefinite for several stacks S.

    `inverses` are the `inverse_means` of :math:`\Lambda`. A Cholesky factorisation, which takes a fifth of the time of
    the lowest eigenvalue, identifies the matrices whose eigenvalues are no lower than those found before.
    """
    lowest, size = -1.0 / limit, inverses.shape[-1]
    for scaled in steps:
        for matrix in (scaled * inverses).reshape(-1, size, size):
            shifted = matrix.copy()
            shifted.reshape(-1)[:: size + 1] -= lowest
            factor, info = dpotrf(shifted.T, clean=0, overwrite_a=1)
            # A NaN does not make the factorisation fail, but it propagates to the last entry.
            if info != 0 or not factor[-1, -1] > 0.0:
                lowest = min(lowest, _lowest_eigenvalue(matrix))
    return -1.0 / lowest


def _lowest_eigenvalue(matrix: FloatArray) -> float:
    """Return the lowest eigenvalue of a symmetric matrix, which is overwritten.

    Raises
    ------
    LinAlgError
        The eigenvalue is not finite.
    """
    spectrum, _, _, _, info = dsyevr(matrix.T, compute_v=0, range="I", il=1, iu=1, overwrite_a=1)
    if info != 0 or not np.isfinite(spectrum[0]):
        raise LinAlgError("a step has no eigenvalues")
    return float(spectrum[0])


def centred(values: FloatArray, mu: float, primal: FloatArray, dual: FloatArray) -> FloatArray:
    r"""Compute the scaled right-hand side with target :math:`\mu` and Mehrotra's second-order correction."""
    product = primal @ dual
    aim: FloatArray = -(product + product.swapaxes(-1, -2)) / (values[..., :, None] + values[..., None, :])
    diagonal = diagonal_of(aim)
    diagonal += mu / values - values
    return aim
