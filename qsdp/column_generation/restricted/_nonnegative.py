"""Convex quadratic programs over non-negative weights, by exchanging many weights at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dposv

from qsdp._utils import deadline
from qsdp._utils.validation import FloatArray

__all__ = ["nonnegative_minimum"]

#: Maximum number of exchanges; most programs take about ten.
_EXCHANGES = 300

#: Number of exchanges of all wrong weights that may fail to lower their number, before single ones guarantee an end.
_PATIENCE = 3

#: Multiples of the diagonal that are added to it in turn until an attempt succeeds: dependent columns need one.
_RIDGES = (1e-14, 1e-12, 1e-10, 1e-8, 1e-6)


def nonnegative_minimum(H: FloatArray, g: FloatArray, start: FloatArray, tol: float = 0.0) -> FloatArray:
    r"""Return a minimiser of :math:`\tfrac12 a^T H a + g^T a` over :math:`a \ge 0`, starting from `start`.

    Parameters
    ----------
    H : ndarray of shape (k, k)
        Positive semidefinite.
    g, start : ndarray of shape (k,)
        The start is returned if no attempt succeeds.
    tol : float, default=0.0
        Largest negative slope at a weight of zero.

    Notes
    -----
    Block principal pivoting (Júdice and Pires 1994; Kim and Park 2011): the weights of a set solve the equations of
    optimality, the others are zero; all weights of the wrong sign and all wrong slopes change sides, and a single one
    if that does not help. The distance to the start is penalised a little, so dependent columns do no harm.
    """
    diagonal = H.diagonal()
    # Where a loss is flat, a column may have no curvature.
    diagonal = np.where(diagonal > 0.0, diagonal, diagonal.max(initial=0.0) or 1.0)
    for ridge in _RIDGES:
        shift = ridge * diagonal
        found = _exchanged(H + np.diag(shift), g - shift * start, start > 0.0, tol)
        if found is not None:
            return found
    return start


def _exchanged(H: FloatArray, g: FloatArray, inside: npt.NDArray[np.bool_], tol: float) -> FloatArray | None:
    """Return the minimiser, or None if it was not found; `inside` is a first set of positive weights."""
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
