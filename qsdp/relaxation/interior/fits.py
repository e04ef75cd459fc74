r"""How the loss ties the multiplier to the predictions, linearised along the central path.

With predictions v and multiplier :math:`\nu = -\nabla \ell(v)`, every loss gives a relation whose Newton step reads

.. math:: dv + C\, d\nu = -e,

with a positive (semi)definite compliance C. For the squared loss it is exact: :math:`v + \nu/2 = y`. Piecewise
losses are :math:`v + \sum_g \sigma_g x_g + \nu / \ell'' = y` with non-negative slacks :math:`x_g` of costs
:math:`c_g`, as :math:`|t| = \min \{x_1 + x_2 : x_1 - x_2 = t\}`; their dual slacks :math:`s_g = c_g - \sigma_g \nu`
keep :math:`\nu` in the domain of the conjugate and :math:`x_g s_g = \mu` on the path, so that
:math:`C = 1/\ell'' + \sum_g x_g / s_g`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from qsdp._validation import FloatArray
from qsdp.losses import Loss

__all__ = ["Fit", "SlackFit"]


class Fit(Protocol):
    """The multiplier of one output, its slacks, and their steps."""

    #: Number of complementary pairs of slacks.
    n_pairs: int
    #: What the adjoint of the coordinates takes to the dual matrix.
    multiplier: FloatArray

    def products(self) -> float:
        """Return the sum of the products of complementary slacks."""

    def add_compliance(self, matrix: FloatArray) -> None:
        """Add C to a matrix."""

    def error(self, prediction: FloatArray, mu: float, *, corrected: bool) -> FloatArray:
        """Return e for the aim `mu`, corrected for the products of the last direction."""

    def direct(self, dq: FloatArray) -> None:
        """Take the step of the multiplier, which determines the others."""

    def largest_step(self) -> float:
        """Return how far slacks and multiplier may go along the last direction."""

    def trial_products(self, step: float) -> float:
        """Return what `products` would be after a step along the last direction."""

    def move(self, step: float) -> None:
        """Go along the last direction."""


#: Slack columns of a loss as pairs (sign, cost), given its targets.
_SLACKS: dict[str, Callable[[Loss, FloatArray], list[tuple[FloatArray, float]]]] = {
    "squared": lambda loss, y: [],
    "absolute": lambda loss, y: [(np.ones_like(y), 1.0), (-np.ones_like(y), 1.0)],
    "huber": lambda loss, y: [(np.ones_like(y), loss.lipschitz), (-np.ones_like(y), loss.lipschitz)],
    "hinge": lambda loss, y: [(y, 1.0), (-y, 0.0)],
    "squared_hinge": lambda loss, y: [(-y, 0.0)],
}

#: The inverse curvature of the quadratic part, 0 where there is none.
_INVERSE = {"squared": 0.5, "huber": 0.5, "squared_hinge": 0.5, "absolute": 0.0, "hinge": 0.0}


class SlackFit:
    """A quadratic or piecewise loss in the coordinates of the samples.

    Parameters
    ----------
    loss : Loss
    target : ndarray of shape (n,)
    nu : ndarray of shape (n,)
        In the interior of the conjugate's domain.
    """

    def __init__(self, loss: Loss, target: FloatArray, nu: FloatArray) -> None:
        self._target, self._inverse = target, _INVERSE[loss.name]
        slacks = _SLACKS[loss.name](loss, target)
        self._signs = np.array([sign for sign, _ in slacks]).reshape(-1, len(target))
        self._costs = np.array([cost for _, cost in slacks])[:, None].reshape(-1, 1)
        self.n_pairs = self._signs.size
        self.multiplier = nu
        self._s = self._costs - self._signs * nu
        size = float(np.abs(target).mean()) or 1.0
        self._x = np.full(self._signs.shape, size)
        self._aim = self._dx = self._ds = np.zeros_like(self._x)
        self._dq = np.zeros_like(nu)

    def products(self) -> float:
        """Return the sum of the products of complementary slacks."""
        return float(np.vdot(self._x, self._s)) if self.n_pairs else 0.0

    def add_compliance(self, matrix: FloatArray) -> None:
        """Add the diagonal C to a matrix."""
        compliance = self._inverse + (self._x / self._s).sum(axis=0) if self.n_pairs else self._inverse
        matrix[np.diag_indices(len(matrix))] += compliance

    def error(self, prediction: FloatArray, mu: float, *, corrected: bool) -> FloatArray:
        """Return the residual of the relation, the aims of the slacks moved into it."""
        error = prediction + self._inverse * self.multiplier - self._target
        if self.n_pairs:
            aim = mu - self._dx * self._ds if corrected else mu
            self._aim = aim / self._s - self._x
            error += (self._signs * (self._x + self._aim)).sum(axis=0)
        return error

    def direct(self, dq: FloatArray) -> None:
        """Set the steps of the slacks."""
        self._dq = dq
        if self.n_pairs:
            self._ds = -self._signs * dq
            self._dx = self._aim - self._x / self._s * self._ds

    def largest_step(self) -> float:
        """Return how far the slacks may go."""
        if not self.n_pairs:
            return np.inf
        lowest = min(float((self._dx / self._x).min()), float((self._ds / self._s).min()))
        return -1.0 / lowest if lowest < 0.0 else np.inf

    def trial_products(self, step: float) -> float:
        """Return the sum of products after a step."""
        if not self.n_pairs:
            return 0.0
        return float(np.vdot(self._x + step * self._dx, self._s + step * self._ds))

    def move(self, step: float) -> None:
        """Go along the last direction; dual slacks are those of the new multiplier."""
        self.multiplier = self.multiplier + step * self._dq
        if self.n_pairs:
            self._x = self._x + step * self._dx
            self._s = self._s + step * self._ds
