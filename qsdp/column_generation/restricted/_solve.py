"""Which method solves which loss."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray
from qsdp.column_generation.restricted._best import RestrictedSolution
from qsdp.column_generation.restricted._quadratic import SLACKS, solve_quadratic
from qsdp.column_generation.restricted._smooth import SMOOTH, solve_smooth
from qsdp.exceptions import SolverError
from qsdp.losses import Loss

__all__ = ["solve_restricted"]


def solve_restricted(
    columns: FloatArray,
    loss: Loss,
    target: FloatArray,
    prices: FloatArray,
    *,
    outputs: npt.NDArray[np.intp] | None = None,
    tol: float = 1e-10,
) -> RestrictedSolution:
    r"""Minimise :math:`\ell(\sum_j a_j f_j, y) + \sum_j c_j a_j` over :math:`a \ge 0`.

    Parameters
    ----------
    columns : ndarray of shape (n, k)
        The values :math:`f_j` of k neurons on the data; a neuron whose weight may be negative stands there
        twice, with both signs.
    loss : Loss
    target : ndarray of shape (n,), or (n, C) for a coupled loss
    prices : ndarray of shape (k,)
        c, positive.
    outputs : ndarray of shape (k,), optional
        Which output each column feeds, for targets (n, C).
    tol : float, default=1e-10
        Relative duality gap at which to stop. Loose ones leave the dual vector well inside the feasible set.

    Returns
    -------
    RestrictedSolution

    Raises
    ------
    SolverError
        The method has no equations for the loss, one from outside this package.

    Notes
    -----
    A primal-dual interior-point method with Mehrotra's corrector. Piecewise linear parts of a loss become columns
    of the identity, :math:`|r| = \min \{t^+ + t^- : t^+ - t^- = r\}` and so on, so that five losses are one
    quadratic program; the logistic loss and the cross-entropy are linearised in every step. The linear systems are
    dense and of the smaller of the two sides, samples or columns. On the problems of column generation this
    is much faster than sparse solvers, whose factorisations do not see that nothing is sparse.
    """
    if loss.name not in SLACKS and loss.name not in SMOOTH:
        raise SolverError(
            f"the second layer has no method for loss {loss.name!r}, only for {', '.join(sorted({*SLACKS, *SMOOTH}))}"
        )
    # The last iterations divide by almost nothing; what overflows is not used.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if loss.name in SLACKS:
            return solve_quadratic(columns, loss, target, prices, tol)
        return solve_smooth(columns, loss, target, prices, outputs, tol)
