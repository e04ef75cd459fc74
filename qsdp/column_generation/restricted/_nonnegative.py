"""Convex quadratic programs over non-negative weights, by exchanging many weights at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dposv

from qsdp._utils import deadline
from qsdp._utils.validation import FloatArray

__all__ = ["nonnegative_minimum"]

#: Maximum number of block exchanges (about ten are usual), and of single exchanges per weight.
_EXCHANGES, _SINGLE = 100, 10

#: Number of block exchanges without progress before single exchanges, which guarantee termination.
_PATIENCE = 3

#: Multiples of the diagonal that are added to it in turn until an attempt succeeds: dependent columns need one.
_RIDGES = (1e-14, 1e-12, 1e-10, 1e-8)


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
    for ridge in _RIDGES:
        shift = ridge * diagonal
        found = _exchanged(H + np.diag(shift), g - shift * start, start > 0.0, tol)
        if found is not None:
            return found
    return _one_by_one(H + np.diag(_RIDGES[1] * diagonal), g - _RIDGES[1] * diagonal * start, start, tol)


def _exchanged(H: FloatArray, g: FloatArray, inside: npt.NDArray[np.bool_], tol: float) -> FloatArray | None:
    """Run block principal pivoting from the active set `inside`; return the minimiser, or None if it fails."""
    fewest, patience = len(g) + 1, _PATIENCE
    for _ in range(_EXCHANGES):
        own = np.flatnonzero(inside)
        a = np.zeros_like(g)
        if len(own):
            _, a[own], info = dposv(H[np.ix_(own, own)], -g[own], lower=True)
            if info != 0 or deadline.over():
                return None
        slope = H[:, own] @ a[own] + g
        wrong = np.where(inside, a < 0.0, slope < -tol)
        count = int(np.count_nonzero(wrong))
        if count == 0:
            return a
        patience = _PATIENCE if count < fewest else patience - 1
        fewest = min(fewest, count)
        if patience < 0:
            wrong[: np.flatnonzero(wrong)[-1]] = False
        inside = inside ^ wrong
    return None


def _one_by_one(H: FloatArray, g: FloatArray, start: FloatArray, tol: float) -> FloatArray:
    """Run the active-set method of Lawson and Hanson; return the minimiser, or the last weights at a time limit."""
    a, inside = start.copy(), start > 0.0
    for _ in range(_SINGLE * len(g)):
        own, aim, info = np.flatnonzero(inside), np.zeros(0), 0
        if len(own):
            _, aim, info = dposv(H[np.ix_(own, own)], -g[own], lower=True)
        if info != 0 or deadline.over():
            break
        falling = np.flatnonzero(aim <= 0.0)
        if len(falling):
            ratios = a[own[falling]] / np.maximum(a[own[falling]] - aim[falling], np.finfo(np.float64).tiny)
            first = own[falling[np.argmin(ratios)]]
            a[own] += float(ratios.min()) * (aim - a[own])
            a[first], inside[first] = 0.0, False
            continue
        a[own] = aim
        slope = H[:, own] @ aim + g
        slope[own] = 0.0
        if slope.min() >= -tol:
            break
        inside[np.argmin(slope)] = True
    return np.maximum(a, 0.0)
