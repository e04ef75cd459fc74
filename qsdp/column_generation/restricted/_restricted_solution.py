"""Solution of the restricted problem: choice of the method by the loss."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray
from qsdp.column_generation.restricted._quadratic import RestrictedSolution, solve_quadratic
from qsdp.column_generation.restricted._smooth import solve_smooth
from qsdp.exceptions import SolverError
from qsdp.losses import DataFit, Loss, PiecewiseQuadratic

__all__ = ["check_solvable", "is_solvable", "solve_restricted"]


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
