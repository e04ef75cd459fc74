"""Sparsification: reduce many neurons to a few with the same predictions."""

from __future__ import annotations

import numpy as np
import scipy

from qsdp._utils import deadline
from qsdp._utils.numeric import EPS
from qsdp._utils.tuning import NEGLIGIBLE
from qsdp._utils.validation import FloatArray

__all__ = ["sparsify"]

#: Smallest feasibility tolerance of HiGHS.
_TOLERANCE = 1e-10

#: SciPy's status of a linear program that reached a limit.
_TIME_OVER = 1


def sparsify(columns: FloatArray, weights: FloatArray, penalties: FloatArray) -> FloatArray:
    r"""Find weights with the same :math:`\sum_j a_j f_j`, no larger cost and linearly independent columns.

    Parameters
    ----------
    columns : ndarray of shape (n, k)
    weights, penalties : ndarray of shape (k,)
        Non-negative.

    Returns
    -------
    ndarray of shape (k,)
        Weights with at most n positive entries; more precisely, at most the rank of `columns`.

    Notes
    -----
    The simplex method finds a vertex of :math:`\{w \ge 0 : \sum_j w_j f_j = \sum_j a_j f_j\}` of least cost. If it
    fails or a time limit passes first, the weights are returned unchanged.
    """
    used = np.flatnonzero(weights > 0.0)
    if not len(used) or deadline.over():
        return weights
    F = columns[:, used]
    if F.shape[0] > F.shape[1]:
        F = np.asarray(scipy.linalg.qr(F, mode="r", check_finite=False)[0][: F.shape[1]], dtype=np.float64)
    # Dependent rows, which rounding makes nearly dependent, can end the simplex method without a result.
    triangle, order = scipy.linalg.qr(F.T, mode="r", pivoting=True, check_finite=False)
    sizes = np.abs(triangle.diagonal())
    rank = int(np.count_nonzero(sizes > max(F.shape) * EPS * sizes[0]))
    if rank == len(used):
        return weights
    if rank == 0:
        return np.zeros_like(weights)
    F = F[order[:rank]]
    norms = np.linalg.norm(F, axis=0)
    norms[norms == 0.0] = 1.0
    aim = F @ weights[used]
    unit = float(np.abs(aim).max()) or 1.0
    costs, rows, right = penalties[used] / norms / float(penalties[used].max()), F / norms, aim / unit
    if not all(np.all(np.isfinite(part)) for part in (costs, rows, right)):
        return weights
    program = scipy.optimize.linprog(
        costs,
        A_eq=rows,
        b_eq=right,
        method="highs-ds",
        options={
            "primal_feasibility_tolerance": _TOLERANCE,
            "dual_feasibility_tolerance": _TOLERANCE,
            "time_limit": deadline.left(),
            # It takes longer than it saves on dense programs, and SciPy 1.17's writes out of bounds at costs of 1e7.
            "presolve": False,
        },
    )
    if program.x is None or program.status == _TIME_OVER:
        return weights
    basis = np.flatnonzero(program.x > NEGLIGIBLE * program.x.max(initial=0.0))
    exact = scipy.linalg.lstsq(F[:, basis] / norms[basis], aim, check_finite=False)[0]
    vertex = np.zeros_like(weights)
    vertex[used[basis]] = np.maximum(exact, 0.0) / norms[basis]
    return vertex
