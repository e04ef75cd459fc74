"""Convex problem of the second layer for fixed neurons: solution by a method that suits the loss, and few neurons."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy

from qsdp._utils import deadline
from qsdp._utils.numeric import EPS
from qsdp._utils.tuning import NEGLIGIBLE
from qsdp._utils.validation import FloatArray
from qsdp.column_generation.restricted._nonnegative import nonnegative_minimum
from qsdp.column_generation.restricted._quadratic import RestrictedSolution, solve_quadratic
from qsdp.column_generation.restricted._smooth import (
    Columns,
    Evaluated,
    SmoothProblem,
    ValueLoss,
    curvature_matrix,
    sampling_chances,
    solve_smooth,
)
from qsdp.exceptions import SolverError
from qsdp.losses import DataFit, Loss, PiecewiseQuadratic

__all__ = [
    "Columns",
    "Evaluated",
    "RestrictedSolution",
    "SmoothProblem",
    "ValueLoss",
    "check_solvable",
    "curvature_matrix",
    "is_solvable",
    "nonnegative_minimum",
    "sampling_chances",
    "solve_restricted",
    "sparsify",
]


#: Smallest feasibility tolerance of HiGHS.
_TOLERANCE = 1e-10

#: SciPy's status of a linear program that reached a limit.
_TIME_OVER = 1


def is_solvable(loss: Loss) -> bool:
    """Whether `solve_restricted` has a method for a loss."""
    return isinstance(loss, PiecewiseQuadratic) or loss.has_curvature


def check_solvable(loss: Loss) -> None:
    """Raise `SolverError` if `solve_restricted` has no method for a loss."""
    if not is_solvable(loss):
        raise SolverError(
            f"loss must be a PiecewiseQuadratic or define curvature to optimise second layers; got {loss!r}"
        )


def solve_restricted(
    columns: FloatArray,
    fit: DataFit,
    penalties: FloatArray,
    *,
    outputs: npt.NDArray[np.intp] | None = None,
    tol: float = 1e-10,
    start: FloatArray | None = None,
) -> RestrictedSolution:
    r"""Minimise :math:`L(\sum_j a_j f_j) + \sum_j c_j a_j` over :math:`a \ge 0`.

    Parameters
    ----------
    columns : ndarray of shape (n, k)
        The values :math:`f_j` of k neurons on the data. A neuron whose weight may be negative appears twice, with both
        signs.
    fit : DataFit
        L, of one output or of coupled ones.
    penalties : ndarray of shape (k,)
        c, positive.
    outputs : ndarray of shape (k,), optional
        Output that each column feeds, if there are several.
    tol : float, default=1e-10
        Relative duality gap at which to stop. For piecewise quadratic losses, loose values leave the dual vector well
        inside the feasible set.
    start : ndarray of shape (k,), optional
        Non-negative weights near the solution, as a warm start for other losses; zero by default.

    Raises
    ------
    SolverError
        The loss is neither piecewise quadratic nor has a curvature.

    Notes
    -----
    Piecewise quadratic losses are solved by a primal-dual interior-point method with Mehrotra's corrector. Ends of
    their intervals become columns of the identity, :math:`|r| = \min \{t^+ + t^- : t^+ - t^- = r\}` and so on, so that
    the problem is one quadratic program. The linear systems are dense and of the smaller side, samples or columns. On
    the problems of column generation, this is much faster than sparse solvers, whose factorisations have no zeros to
    exploit. Other losses are minimised by Newton steps, each of which minimises a quadratic model over
    :math:`a \ge 0` (see `nonnegative_minimum`). Once a time limit passes, the best pair so far is returned.
    """
    check_solvable(fit.loss)
    # The last iterations divide by almost zero; overflowed values are not used.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if isinstance(fit.loss, PiecewiseQuadratic):
            return solve_quadratic(columns, fit, penalties, tol)
        start = np.zeros(len(penalties)) if start is None else start
        return solve_smooth(columns, fit, penalties, outputs, tol, start)


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
    # As in `_quadratic`, by QR: small columns beside large ones would lose half of their digits in a Gram matrix.
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
