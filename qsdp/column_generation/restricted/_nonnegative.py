"""Minimisers of convex quadratic functions of non-negative weights."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dposv

from qsdp._utils import deadline
from qsdp._utils.numeric import ROUNDING
from qsdp._utils.tuning import MAX_STEPS, PATIENCE
from qsdp._utils.validation import FloatArray

__all__ = ["nonnegative_minimum"]


def nonnegative_minimum(H: FloatArray, g: FloatArray, start: FloatArray, tol: float = 0.0) -> FloatArray:
    r"""Minimise :math:`\tfrac12 a^T H a + g^T a` over :math:`a \ge 0`, starting from `start`.

    Parameters
    ----------
    H : ndarray of shape (k, k)
        Positive semidefinite.
    g, start : ndarray of shape (k,)
    tol : float, default=0.0
        Largest negative slope at a weight of zero.

    Notes
    -----
    Block principal pivoting (Júdice and Pires 1994; Kim and Park 2011): the weights of a set solve the equations of
    optimality, the others are zero; all weights of the wrong sign and all wrong slopes change sides, and a single one
    if that does not help. The distance to the start is penalised a little, so dependent columns do no harm. Where
    columns are so nearly dependent that this cycles, weights change sides one by one (Lawson and Hanson 1974).
    """
    diagonal = H.diagonal()
    # Where a loss is flat, a column may have no curvature.
    diagonal = np.where(diagonal > 0.0, diagonal, diagonal.max(initial=0.0) or 1.0)
    shift = ROUNDING * diagonal
    shifted, slope = H + np.diag(shift), g - shift * start
    minimum = _exchanged(shifted, slope, start > 0.0, tol)
    return _active_set(shifted, slope, start, tol) if minimum is None else minimum


def _exchanged(H: FloatArray, g: FloatArray, inside: npt.NDArray[np.bool_], tol: float) -> FloatArray | None:
    """Run block principal pivoting from the active set `inside`; return the minimiser, or None if it fails."""
    fewest, patience = len(g) + 1, PATIENCE
    for _ in range(MAX_STEPS):
        free = np.flatnonzero(inside)
        a = np.zeros_like(g)
        a[free], solved = _minimum_on(H, g, free)
        if not solved:
            return None
        slope = H @ a + g
        wrong = np.where(inside, a < 0.0, slope < -tol)
        count = int(np.count_nonzero(wrong))
        if count == 0:
            return a
        patience = PATIENCE if count < fewest else patience - 1
        fewest = min(fewest, count)
        if patience < 0:
            if deadline.over():
                return None
            wrong[: np.flatnonzero(wrong)[-1]] = False
        inside = inside ^ wrong
    return None


def _minimum_on(H: FloatArray, g: FloatArray, free: npt.NDArray[np.intp]) -> tuple[FloatArray, bool]:
    """Return the minimiser over free weights, of any sign, and whether their matrix is positive definite."""
    if not len(free):
        return np.zeros(0), True
    # LAPACK takes columns: a transposed copy, which is the same matrix, needs no other.
    _, minimum, info = dposv(H.take(free, axis=0).take(free, axis=1).T, -g[free], lower=True, overwrite_a=True)
    return minimum, info == 0


def _active_set(H: FloatArray, g: FloatArray, start: FloatArray, tol: float) -> FloatArray:
    """Run the active-set method of Lawson and Hanson; return the minimiser, or the last weights at a time limit."""
    a, inside = start.copy(), start > 0.0
    for _ in range(PATIENCE * len(g)):
        free = np.flatnonzero(inside)
        aim, solved = _minimum_on(H, g, free)
        if not solved or deadline.over():
            break
        falling = np.flatnonzero(aim <= 0.0)
        if len(falling):
            ratios = a[free[falling]] / np.maximum(a[free[falling]] - aim[falling], np.finfo(np.float64).tiny)
            first = free[falling[np.argmin(ratios)]]
            a[free] += float(ratios.min()) * (aim - a[free])
            a[first], inside[first] = 0.0, False
            continue
        a[free] = aim
        slope = H @ a + g
        slope[free] = 0.0
        if slope.min() >= -tol:
            break
        inside[np.argmin(slope)] = True
    return np.maximum(a, 0.0)
