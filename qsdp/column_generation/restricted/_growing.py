"""Incremental QR factorisation: columns are added a few at a time to a growing orthonormal basis."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import CANCELLED, HALF_DIGITS
from qsdp._utils.validation import FloatArray
from qsdp.column_generation.restricted._best import RestrictedSolution
from qsdp.column_generation.restricted._quadratic import solve_in_basis
from qsdp.losses import DataFit

__all__ = ["GrowingColumns"]


class GrowingColumns:
    r"""Incremental factorisation F = Q R of at most n columns, for restricted problems of the squared loss.

    With sample weights, rows of columns and target are multiplied by their square roots.

    A factorisation of n x k columns takes :math:`4 n k^2` operations each time the problem is solved. Here, k' new
    columns take :math:`6 n k k'` operations once.

    Parameters
    ----------
    fit : DataFit
        Fit of one output with a quadratic loss.

    Attributes
    ----------
    basis : ndarray of shape (n, r)
        Q, with orthonormal columns.
    rows : ndarray of shape (r, k)
        R.
    """

    def __init__(self, fit: DataFit) -> None:
        self._fit = fit
        self._roots, _ = fit.whitened()
        self.basis = np.zeros((len(fit.target), 0))
        self.rows = np.zeros((0, 0))

    def add(self, columns: FloatArray) -> None:
        """Add columns of shape (n, k')."""
        columns = self._roots[:, None] * columns
        within = self.basis.T @ columns
        fresh, beyond = np.linalg.qr(columns - self.basis @ within)
        # Columns that lie in the basis up to rounding leave directions that need not be orthogonal to it.
        while np.abs(again := self.basis.T @ fresh).max(initial=0.0) > CANCELLED:
            within += again @ beyond
            fresh = fresh - self.basis @ again
            new = np.linalg.norm(fresh, axis=0) > HALF_DIGITS
            fresh, turned = np.linalg.qr(fresh[:, new])
            beyond = turned @ beyond[new]
        empty = np.zeros((len(beyond), self.rows.shape[1]))
        self.rows = np.block([[self.rows, within], [empty, beyond]])
        self.basis = np.hstack([self.basis, fresh])

    def select(self, chosen: npt.NDArray[np.intp]) -> None:
        """Drop all columns except `chosen`."""
        turned, self.rows = np.linalg.qr(self.rows[:, chosen])
        self.basis = self.basis @ turned

    def solve(self, chosen: npt.NDArray[np.intp] | slice, penalties: FloatArray, tol: float) -> RestrictedSolution:
        """Solve the restricted problem of some columns (see `solve_restricted`)."""
        return solve_in_basis(self.basis, self.rows[:, chosen], self._fit, penalties, tol)
