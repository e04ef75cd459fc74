r"""Nesterov-Todd scaling of pairs of positive definite matrices, and the largest feasible step.

For positive definite Y and D there is one W with :math:`W D W = Y`. With :math:`Y = L L^T` and the spectral
decomposition :math:`L^T D L = V \Lambda^2 V^T`, the factor :math:`G = L V \Lambda^{-1/2}` of :math:`W = G G^T` takes
both to the same diagonal matrix, :math:`G^{-1} Y G^{-T} = G^T D G = \Lambda`. All functions work on stacks of matrices.
"""

from __future__ import annotations

import numpy as np

from qsdp._utils.validation import FloatArray

__all__ = ["LinAlgError", "centred", "diagonal_of", "diagonals", "largest_steps", "scaling"]

LinAlgError = np.linalg.LinAlgError

#: The ratio of eigenvalues below which the small ones may have lost their digits.
_UNEVEN = 1e-6


def scaling(Y: FloatArray, D: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Return G of shape (..., N, N) and the diagonals of :math:`\Lambda`, shape (..., N).

    Raises
    ------
    LinAlgError
        A matrix is not positive definite in floating point.
    """
    L = np.linalg.cholesky(Y)
    squares, V = np.linalg.eigh(L.swapaxes(-1, -2) @ D @ L)
    if squares[..., 0].min() < _UNEVEN * squares[..., -1].max():
        # Far from the path the square roots are found to twice the digits at twice the cost.
        R = np.linalg.cholesky(D)
        _, values, V = np.linalg.svd(R.swapaxes(-1, -2) @ L)
        return (L @ V.swapaxes(-1, -2)) / np.sqrt(values)[..., None, :], values
    values = np.sqrt(squares)
    return (L @ V) / np.sqrt(values)[..., None, :], values


def largest_steps(scaled: FloatArray, values: FloatArray) -> float:
    r"""Return the largest t for which all :math:`\Lambda + t S` stay positive semidefinite, infinite if all t do."""
    roots = 1.0 / np.sqrt(values)
    lowest = np.linalg.eigvalsh(scaled * (roots[..., :, None] * roots[..., None, :]))[..., 0].min()
    return -1.0 / float(lowest) if lowest < 0.0 else np.inf


def centred(values: FloatArray, mu: float, primal: FloatArray, dual: FloatArray) -> FloatArray:
    r"""Return the scaled right-hand side that aims at :math:`\mu` and takes out the products of the predictor."""
    product = primal @ dual
    aim: FloatArray = -(product + product.swapaxes(-1, -2)) / (values[..., :, None] + values[..., None, :])
    diagonal_of(aim)[...] += mu / values - values
    return aim


def diagonals(values: FloatArray) -> FloatArray:
    """Return diagonal matrices of shape (..., N, N)."""
    matrices = np.zeros((*values.shape, values.shape[-1]))
    diagonal_of(matrices)[...] = values
    return matrices


def diagonal_of(matrices: FloatArray) -> FloatArray:
    """Return the diagonals (..., N) of matrices, to be written to; through indices that takes several times longer."""
    diagonal: FloatArray = np.einsum("...ii->...i", matrices)
    return diagonal
