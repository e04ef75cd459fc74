"""Quadratic models of several moves at once: which go together, and the best second layer of some neurons."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray

__all__ = ["block_minimum", "compatible", "cross_changes", "cross_curvatures"]

#: Share of the predicted fall that a move must keep beside those taken before it.
_KEPT = 0.5

#: Passes over the weights of a block: it is cheap beside its model.
_PASSES = 20


def cross_curvatures(images: FloatArray, curvature: FloatArray) -> FloatArray:
    r"""Return :math:`\sum_i w_{ic} g_{ij} g_{il}` of shape (C, B, B) for images g (B, n) and curvatures w (C, n)."""
    return np.stack([(images * w) @ images.T for w in curvature])


def cross_changes(images: FloatArray, curvature: FloatArray, alpha: FloatArray) -> FloatArray:
    r"""Return about :math:`\sum_i g_{ij} g_{il}\, \alpha_j^T H_i \alpha_l` of shape (B, B).

    H is the curvature of the loss, of which :math:`\alpha_j^T H_i \alpha_j` are known, shape (B, n). Exact for one
    output, and where the weights of all neurons are multiples of one another.
    """
    # Rounding makes curvatures of almost zero negative.
    scaled = images * np.sqrt(np.maximum(curvature, 0.0))
    norms = np.linalg.norm(alpha, axis=1)
    directions = alpha / np.where(norms > 0.0, norms, 1.0)[:, None]
    cross: FloatArray = (scaled @ scaled.T) * (directions @ directions.T)
    return cross


def compatible(predicted: FloatArray, cross: FloatArray) -> npt.NDArray[np.intp]:
    """Return the moves to make together: each, in the given order, keeps half its fall beside those before it.

    Parameters
    ----------
    predicted : ndarray of shape (B,)
        Changes of the loss by single moves, negative.
    cross : ndarray of shape (B, B)
        Changes by two moves together beyond the sum of their own.
    """
    taken, beside = [], np.zeros(len(predicted))
    for j, alone in enumerate(predicted.tolist()):
        if alone + beside[j] < _KEPT * alone:
            taken.append(j)
            beside += cross[j]
    return np.array(taken, dtype=np.intp)


def block_minimum(slopes: FloatArray, cross: FloatArray, alpha: FloatArray, penalty: float) -> FloatArray:
    r"""Return the step of weights (B, C) that minimises a quadratic model plus the penalty of their magnitudes.

    Parameters
    ----------
    slopes : ndarray of shape (B, C)
        Gradient of the loss.
    cross : ndarray of shape (C, B, B)
        Its curvatures, with positive diagonals.
    alpha : ndarray of shape (B, C)
        Weights as they are.
    penalty : float

    Notes
    -----
    Coordinate descent, the outputs side by side.
    """
    gradient, weights = slopes.copy(), alpha.copy()
    diagonals = np.einsum("cjj->jc", cross)
    for _ in range(_PASSES):
        for j, diagonal in enumerate(diagonals):
            point = weights[j] - gradient[j] / diagonal
            value = np.sign(point) * np.maximum(np.abs(point) - penalty / diagonal, 0.0)
            gradient += (cross[:, j] * (value - weights[j])[:, None]).T
            weights[j] = value
    return weights - alpha
