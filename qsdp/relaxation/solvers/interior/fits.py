r"""How the loss ties the multiplier to the predictions, linearised along the central path.

With predictions v and multiplier :math:`\nu = -\nabla \ell(v)`, every loss gives a relation whose Newton step reads

.. math:: dv + C\, d\nu = -e,

with a positive (semi)definite diagonal compliance C. For the squared loss it is exact: :math:`v + \nu/2 = y`. Piecewise
losses are :math:`v + \sum_g \sigma_g x_g + \nu / \ell'' = y` with non-negative slacks :math:`x_g` of costs
:math:`c_g`, as :math:`|t| = \min \{x_1 + x_2 : x_1 - x_2 = t\}`; their dual slacks :math:`s_g = c_g - \sigma_g \nu`
keep :math:`\nu` in the domain of the conjugate and :math:`x_g s_g = \mu` on the path, so that
:math:`C = 1/\ell'' + \sum_g x_g / s_g`.

Smooth losses are linearised at the predictions, :math:`C = 1 / \ell''(v)`. The curvature of the cross-entropy, with
probabilities p, is :math:`\mathrm{Diag}(p) - p p^T`, singular along a constant: with :math:`C = 1/p` its relation holds
up to a multiplier :math:`\eta` of the sample, and :math:`\sum_k d\nu_k = 0` goes with it.

Arrays are of shape (C, n), one row an output, with a single row unless the outputs are coupled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy.special import expit, rel_entr, softmax

from qsdp._utils.validation import FloatArray
from qsdp.losses import Loss

__all__ = ["LINEARISED", "Fit", "SlackFit", "SmoothFit", "fit_of"]

#: Curvatures below count as that: the loss no longer depends on such a prediction.
_LEAST_CURVATURE = 1e-14


class Fit(Protocol):
    """The multiplier, its slacks, and their steps."""

    #: Number of complementary pairs of slacks.
    n_pairs: int
    #: The multiplier, shape (C, n).
    nu: FloatArray

    def products(self) -> float:
        """Return the sum of the products of complementary slacks."""

    def centre(self, prediction: FloatArray, mu: float) -> None:
        """Choose slacks that fit these predictions, with products near `mu`."""

    def distance(self) -> float:
        """Return how much multiplier and predictions miss of being each other's in value, after `linearise`."""

    def linearise(self, prediction: FloatArray) -> FloatArray:
        """Return C at the present point and for these predictions, shape (C, n)."""

    def error(self, mu: float, *, corrected: bool) -> FloatArray:
        """Return e for the aim `mu`, corrected for the products of the last direction or not."""

    def direct(self, step: FloatArray) -> None:
        """Take the step of the multiplier, which determines the others."""

    def keep(self) -> None:
        """Keep the last direction for `move`."""

    def reach(self) -> float:
        """Return how far the slacks and the multiplier may go along the last direction."""

    def products_after(self, length: float) -> float:
        """Return what `products` would be further along the last direction."""

    def move(self, length: float) -> None:
        """Go along the direction kept."""


def fit_of(loss: Loss, target: FloatArray, nu: FloatArray) -> Fit:
    """Return the fit of a loss, for targets and a multiplier inside the conjugate's domain, both (C, n)."""
    return SlackFit(loss, target, nu) if loss.name in _SLACKS else SmoothFit(loss, target, nu)


#: Slack columns of a loss as pairs (sign, cost), given its targets.
_SLACKS: dict[str, Callable[[Loss, FloatArray], list[tuple[FloatArray, float]]]] = {
    "squared": lambda loss, y: [],
    "absolute": lambda loss, y: [(np.ones_like(y), 1.0), (-np.ones_like(y), 1.0)],
    "huber": lambda loss, y: [(np.ones_like(y), loss.lipschitz), (-np.ones_like(y), loss.lipschitz)],
    "hinge": lambda loss, y: [(y, 1.0), (-y, 0.0)],
    "squared_hinge": lambda loss, y: [(-y, 0.0)],
}

#: Names of the losses with a fit; the smooth ones are written out in `SmoothFit`.
LINEARISED = frozenset({*_SLACKS, "logistic", "cross_entropy"})

#: The inverse curvature of the quadratic part, 0 where there is none.
_INVERSE = {"squared": 0.5, "huber": 0.5, "squared_hinge": 0.5, "absolute": 0.0, "hinge": 0.0}


class SlackFit:
    """A quadratic or piecewise loss.

    Parameters
    ----------
    loss : Loss
    target, nu : ndarray of shape (1, n)
    """

    def __init__(self, loss: Loss, target: FloatArray, nu: FloatArray) -> None:
        self._target, self._inverse, self.nu = target, _INVERSE[loss.name], nu
        slacks = _SLACKS[loss.name](loss, target)
        self._signs = np.array([sign for sign, _ in slacks]).reshape(-1, *target.shape)
        self._s = np.array([cost for _, cost in slacks]).reshape(-1, 1, 1) - self._signs * nu
        self._x = np.full(self._signs.shape, float(np.abs(target).mean()) or 1.0)
        self.n_pairs = self._signs.size
        self._aim = self._dx = self._ds = np.zeros_like(self._x)
        self._step = np.zeros_like(nu)
        self._residual = np.zeros_like(nu)
        self._flat = np.full_like(nu, self._inverse)

    def products(self) -> float:
        """Return the sum of the products of complementary slacks."""
        return float(np.vdot(self._x, self._s)) if self.n_pairs else 0.0

    def centre(self, prediction: FloatArray, mu: float) -> None:
        """Choose the parts of the residual as slacks, moved off the boundary."""
        if self.n_pairs:
            residual = self._target - prediction - self._inverse * self.nu
            self._x = np.maximum(self._signs * residual, 0.0) + mu / self._s

    def distance(self) -> float:
        """Return zero: the relation is linear."""
        return 0.0

    def linearise(self, prediction: FloatArray) -> FloatArray:
        """Return the compliance of the slacks and of the quadratic part."""
        self._residual = prediction + self._inverse * self.nu - self._target
        if not self.n_pairs:
            return self._flat
        self._residual += (self._signs * self._x).sum(axis=0)
        self._ratio = self._x / self._s
        compliance: FloatArray = self._inverse + self._ratio.sum(axis=0)
        return compliance

    def error(self, mu: float, *, corrected: bool) -> FloatArray:
        """Return the residual of the relation, the aims of the slacks moved into it."""
        if not self.n_pairs:
            return self._residual
        aim = mu - self._dx * self._ds if corrected else mu
        self._aim = aim / self._s - self._x
        error: FloatArray = self._residual + (self._signs * self._aim).sum(axis=0)
        return error

    def direct(self, step: FloatArray) -> None:
        """Set the steps of the slacks."""
        self._step = step
        if self.n_pairs:
            self._ds = -self._signs * step
            self._dx = self._aim - self._ratio * self._ds

    def keep(self) -> None:
        """Keep the last direction for `move`."""
        self._kept = self._step, self._dx, self._ds

    def reach(self) -> float:
        """Return how far the slacks may go."""
        if not self.n_pairs:
            return np.inf
        lowest = min(float((self._dx / self._x).min()), float((self._ds / self._s).min()))
        return -1.0 / lowest if lowest < 0.0 else np.inf

    def products_after(self, length: float) -> float:
        """Return the sum of products further along."""
        if not self.n_pairs:
            return 0.0
        return float(np.vdot(self._x + length * self._dx, self._s + length * self._ds))

    def move(self, length: float) -> None:
        """Go along the direction kept."""
        step, dx, ds = self._kept
        self.nu = self.nu + length * step
        if self.n_pairs:
            self._x = self._x + length * dx
            self._s = self._s + length * ds


class SmoothFit:
    r"""A loss that is smooth but not quadratic, linearised at the predictions: :math:`C = 1 / \ell''(v)`.

    The multiplier may leave the domain of the conjugate on the way; its relation to the predictions brings it back.

    Parameters
    ----------
    loss : Loss
        The logistic loss or the cross-entropy.
    target, nu : ndarray of shape (C, n)
    """

    n_pairs = 0

    def __init__(self, loss: Loss, target: FloatArray, nu: FloatArray) -> None:
        self._loss, self._target, self.nu = loss, target, nu
        self._step = self._error = np.zeros_like(nu)

    def products(self) -> float:
        """Return zero: there are no slacks."""
        return 0.0

    def centre(self, prediction: FloatArray, mu: float) -> None:
        """Do nothing: there are no slacks."""

    def distance(self) -> float:
        """Return the relative entropy of the multiplier's probabilities and those of the predictions."""
        return self._distance

    def linearise(self, prediction: FloatArray) -> FloatArray:
        """Return the inverse curvature, for the cross-entropy that of the multinomial of which a constant is free."""
        if self._loss.coupled:
            p = softmax(prediction, axis=0)
            at = self._target - p
            own = np.maximum(self._target - self.nu, 0.0)
            own /= own.sum(axis=0)
            self._distance = float(rel_entr(own, np.maximum(p, _LEAST_CURVATURE)).sum())
            compliance = _slope(self._target - self.nu, p)
        else:
            p, q = expit(-self._target * prediction), expit(self._target * prediction)
            at = self._target * p
            own = np.clip(self._target * self.nu, 0.0, 1.0)
            self._distance = float(
                sum(rel_entr(o, np.maximum(r, _LEAST_CURVATURE)).sum() for o, r in ((own, p), (1.0 - own, q)))
            )
            compliance = _slope(self._target * self.nu, p) + _slope(1.0 - self._target * self.nu, q)
        self._error = compliance * (self.nu - at)
        return compliance

    def error(self, mu: float, *, corrected: bool) -> FloatArray:
        """Return the residual of the relation."""
        return self._error

    def direct(self, step: FloatArray) -> None:
        """Keep the step."""
        self._step = step

    def reach(self) -> float:
        """Return infinity."""
        return np.inf

    def products_after(self, length: float) -> float:
        """Return zero."""
        return 0.0

    def keep(self) -> None:
        """Keep the step for `move`."""
        self._kept = self._step

    def move(self, length: float) -> None:
        """Go along the direction kept."""
        self.nu = self.nu + length * self._kept


def _slope(own: FloatArray, p: FloatArray) -> FloatArray:
    """Return the slope of the logarithm at p, or from p to larger own values that of the secant."""
    p = np.maximum(p, _LEAST_CURVATURE)
    larger = own > p * (1.0 + 1e-6)
    ratio = np.where(larger, own / p, 2.0)
    return np.where(larger, np.log(ratio) / (ratio - 1.0), 1.0) / p
