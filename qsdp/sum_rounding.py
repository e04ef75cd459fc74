r"""How far sums over all samples may be from those over the few rows that stand for them.

A squared loss depends on columns of the samples, the forms :math:`F_i` and the targets y, through their inner products
only. Sufficient statistics have these products rounded, and a few rows, with columns :math:`\hat F_i` and
:math:`\hat y`, whose products nearly are the rounded ones. Let :math:`T_j` be columns of the samples, in any units in
which :math:`\|T_j\| \le 1`, and :math:`\hat T_j` the columns that stand for them. Statistics guarantee

.. math::

    |F_i^T T_j - \hat F_i^T \hat T_j| \le \gamma s_i, \qquad |T_i^T T_j - \hat T_i^T \hat T_j| \le \gamma, \qquad
    |y^T T_j - \hat y^T \hat T_j| \le \gamma \kappa \|\hat y\| .

The sizes :math:`s_i \ge \|\hat F_i\|` are not the norms of columns: sums that were rounded while a column was large
keep that error when the column becomes small, as it does if centres change. A dual vector of the rows,
:math:`\nu = \hat T c + r`, stands for the dual vector :math:`T c` of the samples. With :math:`a = \|c\|_1`, it follows
that

* the sum of :math:`F_i` times T c differs from :math:`\hat F_i^T \nu` by at most
  :math:`\gamma s_i a + |\hat F_i^T r|`,
* the dual value, :math:`\nu^T y - \|\nu\|^2 / 4`, of T c is smaller than that of :math:`\nu` by at most
  :math:`\gamma a (\kappa \|\hat y\| + a / 4) + |\hat y^T r| + |(\nu - r)^T r| / 2`.

Columns are chosen so that :math:`\hat T` is triangular and that no direction of it is smaller than
:math:`\sqrt\gamma`: in smaller directions, r costs less than the errors of what T c would be there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy

from qsdp._utils.numeric import EPS, MARGIN
from qsdp._utils.validation import FloatArray, ReadOnlyArrays, read_only

__all__ = ["SumRounding"]


@dataclass(frozen=True, eq=False)
class SumRounding(ReadOnlyArrays):
    r"""Bounds on the differences of sums, see the module.

    Attributes
    ----------
    gamma : float
    table : ndarray of shape (k, k)
        :math:`\hat T`, upper triangular; the other rows are zero.
    sizes : ndarray of shape (P,)
        The sizes :math:`s_i`, in the units of the rows of the forms.
    target_ratio : float
        :math:`\kappa \ge 1`.
    """

    gamma: float
    table: FloatArray
    sizes: FloatArray
    target_ratio: float

    def with_sizes(self, sizes: FloatArray) -> SumRounding:
        """Return the same rounding for forms whose columns have other norms."""
        return replace(self, sizes=read_only(sizes))

    def expanded(self, nu: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a, of shape (C,), with an allowance for its rounding, and r (n, C), for dual vectors (n, C)."""
        k = len(self.table)
        c = scipy.linalg.solve_triangular(self.table, nu[:k], check_finite=False)
        rest = nu.copy()
        rest[:k] -= self.table @ c
        return MARGIN * np.abs(c).sum(axis=0), rest

    def of_entries(self, nu: FloatArray) -> tuple[FloatArray, FloatArray]:
        r"""Return bounds :math:`\gamma s_i a`, of shape (P, C), on errors of the sums of forms, and r (n, C).

        The bounds include the rounding of r, and of sums over it.
        """
        a, rest = self.expanded(nu)
        errors = (self.gamma + self._rounding(nu)) * a + self._rounding(nu) * np.linalg.norm(rest, axis=0)
        return np.outer(self.sizes, errors), rest

    def of_values(self, nu: FloatArray, targets: FloatArray) -> float:
        """Bound the amount by which dual vectors (n, C) of the few rows overstate the dual value for all samples."""
        a, rest = self.expanded(nu)
        with np.errstate(invalid="ignore"):
            targets_size = self.target_ratio * np.linalg.norm(targets, axis=0)
        size = targets_size + 0.5 * np.linalg.norm(nu, axis=0) + 0.25 * a
        errors = (self.gamma + self._rounding(nu)) * a + self._rounding(nu) * np.linalg.norm(rest, axis=0)
        left = np.abs((targets * rest).sum(axis=0)) + 0.5 * np.abs(((nu - rest) * rest).sum(axis=0))
        return float((errors * size + left).sum())

    @staticmethod
    def _rounding(nu: FloatArray) -> float:
        return (len(nu) + 16) * EPS
