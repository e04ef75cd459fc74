"""Convex quadratic programs over non-negative weights, by Newton's method on the weights that are not zero."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dposv

from qsdp._utils import deadline
from qsdp._utils.numeric import EPS
from qsdp._utils.validation import FloatArray

__all__ = ["nonnegative_minimum"]

#: Maximum number of Newton steps; most programs take about ten.
_STEPS = 200

#: Share of the diagonal that is added to it, so that dependent columns leave a definite matrix.
_RIDGE = 64.0 * EPS


def nonnegative_minimum(H: FloatArray, g: FloatArray, start: FloatArray, tol: float = 0.0) -> FloatArray:
    r"""Return a minimiser of :math:`\tfrac12 a^T H a + g^T a` over :math:`a \ge 0`, starting from `start`.

    Parameters
    ----------
    H : ndarray of shape (k, k)
        Positive semidefinite.
    g, start : ndarray of shape (k,)
    tol : float, default=0.0
        Largest violation of the conditions of optimality, in units of g.

    Notes
    -----
    An active-set method. Every step solves for the weights that are positive or want to grow; those at zero that the
    solution makes negative are left out. The step goes to the solution with negative weights set to zero if that is
    better than the first point where a weight becomes zero. The objective falls, so no set of weights occurs twice.
    """
    a = np.maximum(start, 0.0)
    slope = H @ a + g
    for _ in range(_STEPS):
        grow = (a == 0.0) & (slope < -tol)
        if (not np.any(grow) and np.abs(slope[a > 0.0]).max(initial=0.0) <= tol) or deadline.over():
            break
        free, step = _direction(H, a, slope, grow)
        if not len(free):
            break
        falling = step < 0.0
        reach = min(1.0, float((a[free] / -step)[falling].min(initial=1.0)))
        straight = np.zeros_like(a)
        straight[free] = reach * step
        blocked = free[falling & (a[free] + reach * step <= EPS * a[free])]
        straight[blocked] = -a[blocked]
        bent = np.zeros_like(a)
        bent[free] = np.maximum(step, -a[free])
        rates = H @ np.stack([straight, bent], axis=1)
        changes = np.stack([straight, bent], axis=1)
        values = slope @ changes + 0.5 * np.einsum("kj,kj->j", changes, rates)
        best = int(np.argmin(values))
        if not values[best] < 0.0:
            break
        a = np.maximum(a + changes[:, best], 0.0)
        slope = slope + rates[:, best]
    return a


def _direction(
    H: FloatArray, a: FloatArray, slope: FloatArray, grow: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Return the weights that move, and the Newton step of these that makes no weight at zero negative."""
    positive = a > 0.0
    while True:
        free = np.flatnonzero(positive | grow)
        K = H[np.ix_(free, free)]
        K[np.diag_indices(len(free))] += _RIDGE * K.diagonal() + np.finfo(np.float64).tiny
        _, step, info = dposv(K, -slope[free], lower=True)
        if info != 0 or not len(free):
            return free[:0], step[:0]
        wrong = free[(step < 0.0) & ~positive[free]]
        if not len(wrong):
            return free, step
        grow = grow.copy()
        grow[wrong] = False
