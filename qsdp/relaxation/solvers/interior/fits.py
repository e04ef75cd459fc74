r"""Optimality conditions of the loss between multiplier and predictions, linearised along the central path.

With predictions v and multiplier :math:`\nu = -\nabla \ell(v)`, every loss gives a relation whose Newton step reads

.. math:: dv + C\, d\nu = -e,

with a positive (semi)definite diagonal compliance C. For the squared loss it is exact: :math:`v + \nu/2 = y`. Piecewise
losses give :math:`v + \sum_g \sigma_g x_g + c \nu = y` with non-negative slacks :math:`x_g` of costs :math:`c_g`;
an example is :math:`|t| = \min \{x_1 + x_2 : x_1 - x_2 = t\}`. The dual slacks :math:`s_g = c_g - \sigma_g \nu`
keep :math:`\nu` in the domain of the conjugate. On the path :math:`x_g s_g = \mu`, so that
:math:`C = c + \sum_g x_g / s_g`.

Other losses are linearised at the predictions, with roughly :math:`C = 1 / \ell''(v)`, see `Loss.linearize`. For
probabilities p, the cross-entropy has the curvature :math:`\mathrm{Diag}(p) - p p^T`, singular along a constant. With
:math:`C = 1/p` its relation holds up to a multiplier :math:`\eta` per sample, where :math:`\sum_k d\nu_k = 0`.

Real weights :math:`w = x_1 - x_2` with dual slacks :math:`c \mp L^T \nu` are complementary pairs, too.

Arrays have shape (C, n), one row per output, with a single row unless the outputs are coupled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.losses import DataFit, Loss, PiecewiseQuadratic

__all__ = ["Fit", "JoinedFit", "SlackFit", "WeightedFit", "fit_of", "unfit"]


def unfit(loss: Loss) -> str | None:
    """Return the property that a loss lacks for this method, or None."""
    if isinstance(loss, PiecewiseQuadratic) or loss.has_curvature:
        return None
    return "a PiecewiseQuadratic loss or second derivatives (`curvature`)"


class Fit(ABC):
    """Multiplier nu of shape (C, n), the slacks if the loss has any, and their steps.

    Parameters
    ----------
    nu : ndarray of shape (C, n)
    """

    #: Number of complementary pairs of slacks.
    n_pairs = 0

    @property
    def point_weights(self) -> FloatArray:
        """Real weights of shape (C, p) of a point of the relaxation."""
        return self.weights

    #: Multiple of the tolerance above which an expected gap is not certified, except for callbacks and time limits.
    certify_below = 10.0

    def __init__(self, nu: FloatArray) -> None:
        self.nu = nu
        #: Real weights of shape (C, p), and the derivative of each by its entry of L' nu, after `linearise`.
        self.weights = self.stiffness = np.zeros((len(nu), 0))
        self._step = self._stored = np.zeros_like(nu)

    @abstractmethod
    def linearise(self, prediction: FloatArray) -> FloatArray:
        """Compute the compliance C, of shape (C, n), at the current multiplier and these predictions."""

    @abstractmethod
    def error(self, mu: float, *, corrected: bool) -> FloatArray:
        """Compute the residual e for the target `mu`, with the second-order correction if `corrected`."""

    def centre(self, prediction: FloatArray, mu: float) -> None:  # noqa: B027 (nothing to do without slacks)
        """Choose slacks that match these predictions, with products near `mu`."""

    def distance(self) -> float:
        """Return the Fenchel-Young gap of multiplier and predictions at the last `linearise`; 0 if it is linear."""
        return 0.0

    def products(self) -> float:
        """Compute the complementarity: the inner product of slacks and dual slacks, zero without slacks."""
        return 0.0

    def products_after(self, length: float) -> float:
        """Compute what `products` would return after a step of this length along the last direction."""
        return 0.0

    def reach(self) -> float:
        """Return the largest step length that the slacks allow along the last direction."""
        return np.inf

    def direct(self, step: FloatArray) -> None:
        """Set the step of the multiplier, and compute those of the slacks from it."""
        self._step = step

    def keep(self) -> None:
        """Store the last direction for `move`."""
        self._stored = self._step

    def move(self, length: float) -> None:
        """Take a step of this length along the direction stored by `keep`."""
        self.nu = self.nu + length * self._stored


def fit_of(fit: DataFit, nu: FloatArray) -> Fit:
    """Create the `Fit` of a loss at a multiplier of shape (C, n) inside the domain of the conjugate."""
    if fit.quadratic:
        return SquaredFit(fit, nu)
    if isinstance(fit.loss, PiecewiseQuadratic):
        slacks = [(signs.T, costs.T) for signs, costs in fit.slacks()]
        return SlackFit(fit.target.T, fit.compliance().T, slacks, nu)
    return SmoothFit(fit, nu)


class SquaredFit(Fit):
    """Squared loss of one output, whose optimality condition is linear."""

    #: The gap matches the expected gap; from 1.5 to 10 it does not matter.
    certify_below = 2.0

    def __init__(self, fit: DataFit, nu: FloatArray) -> None:
        super().__init__(nu)
        self._target, self._compliance = fit.target.T, fit.compliance().T

    def linearise(self, prediction: FloatArray) -> FloatArray:
        """Update the residual of the optimality condition; return the inverse curvature of the loss."""
        self._residual = prediction + self._compliance * self.nu - self._target
        return self._compliance

    def error(self, mu: float, *, corrected: bool) -> FloatArray:
        """Return the residual of the optimality condition, which depends on no target."""
        return self._residual


class SlackFit(Fit):
    """Piecewise linear or quadratic loss of one output, or a bound on linear functions.

    Parameters
    ----------
    target, flat : ndarray of shape (1, n)
        y and c.
    slacks : sequence of pairs of ndarray of shape (1, n)
        Signs and costs.
    nu : ndarray of shape (1, n)
    """

    def __init__(
        self, target: FloatArray, flat: FloatArray, slacks: Sequence[tuple[FloatArray, FloatArray]], nu: FloatArray
    ) -> None:
        super().__init__(nu)
        self._target, self._flat = target, flat
        self._signs, costs = (
            np.array([pair[i] for pair in slacks]).reshape(len(slacks), *target.shape) for i in range(2)
        )
        self._s = costs - self._signs * nu
        self.x = np.full(self._signs.shape, float(np.abs(target).sum()) / max(1, target.size) or 1.0)
        self.n_pairs = self._signs.size
        self._aim = self._dx = self._ds = self._stored_x = self._stored_s = np.zeros_like(self.x)

    def centre(self, prediction: FloatArray, mu: float) -> None:
        """Set the slacks to the parts of the residual, moved off the boundary."""
        residual = self._target - prediction - self._flat * self.nu
        self.x = np.maximum(self._signs * residual, 0.0) + mu / self._s

    def linearise(self, prediction: FloatArray) -> FloatArray:
        """Return the compliance of the slacks and of the quadratic part."""
        self._residual = prediction + self._flat * self.nu - self._target + (self._signs * self.x).sum(axis=0)
        self._ratio = self.x / self._s
        compliance: FloatArray = self._flat + self._ratio.sum(axis=0)
        return compliance

    def error(self, mu: float, *, corrected: bool) -> FloatArray:
        """Return the residual of the relation, including the target steps of the slacks."""
        aim = mu - self._dx * self._ds if corrected else mu
        self._aim = aim / self._s - self.x
        error: FloatArray = self._residual + (self._signs * self._aim).sum(axis=0)
        return error

    def products(self) -> float:
        """Compute the complementarity: the inner product of slacks and dual slacks."""
        return float(np.vdot(self.x, self._s))

    def products_after(self, length: float) -> float:
        """Compute the complementarity after a step of this length along the last direction."""
        return float(np.vdot(self.x + length * self._dx, self._s + length * self._ds))

    def reach(self) -> float:
        """Return the largest step length for which slacks and dual slacks stay positive."""
        return _reach((self._dx, self.x), (self._ds, self._s))

    def direct(self, step: FloatArray) -> None:
        """Set the steps of the multiplier and of the slacks."""
        super().direct(step)
        self._ds = -self._signs * step
        self._dx = self._aim - self._ratio * self._ds

    def keep(self) -> None:
        """Store the steps of the multiplier and of the slacks."""
        super().keep()
        self._stored_x, self._stored_s = self._dx, self._ds

    def move(self, length: float) -> None:
        """Take a step of this length of the multiplier and of the slacks."""
        super().move(length)
        self.x = self.x + length * self._stored_x
        self._s = self._s + length * self._stored_s


class SmoothFit(Fit):
    """Smooth loss, linearised at the predictions.

    The iterates of the multiplier may leave the domain of the conjugate; the relation to the predictions returns them.
    """

    def __init__(self, fit: DataFit, nu: FloatArray) -> None:
        super().__init__(nu)
        self._fit = fit

    def linearise(self, prediction: FloatArray) -> FloatArray:
        """Linearise the optimality condition at the predictions; return the inverse of the second derivatives."""
        relation = self._fit.linearize(prediction.T, self.nu.T)
        self._distance = relation.distance
        compliance = relation.compliance.T
        self._error = compliance * (self.nu - relation.multiplier.T)
        return compliance

    def error(self, mu: float, *, corrected: bool) -> FloatArray:
        """Return the residual of the linearised optimality condition."""
        return self._error

    def distance(self) -> float:
        """Return the Fenchel-Young gap of the multiplier and the predictions."""
        return self._distance


class WeightedFit(Fit):
    r"""Loss of predictions to which real weights add.

    The dual constraints :math:`|L^T \nu| \le c` give two complementary pairs for each weight:
    :math:`w = x_1 - x_2` with slacks :math:`s_1 = c - L^T \nu` and :math:`s_2 = c + L^T \nu`. After the elimination of
    their steps, :math:`dw = D L^T d\nu` plus a constant, with the stiffness :math:`D = x_1 / s_1 + x_2 / s_2`.

    Parameters
    ----------
    fit : Fit
        Its multiplier is strictly feasible.
    columns : ndarray of shape (n, p)
        L.
    radius : float
        c.
    weights : ndarray of shape (C, p)
        Initial weights.
    mu : float
        Product of the pairs of zero weights.
    """

    def __init__(self, fit: Fit, columns: FloatArray, radius: float, weights: FloatArray, mu: float) -> None:
        super().__init__(fit.nu)
        self._fit, self._columns, self._radius, self.certify_below = fit, columns, radius, fit.certify_below
        self._signs = np.array([1.0, -1.0])[:, None, None]
        self._s = radius - self._signs * (fit.nu @ columns)
        self.x = np.maximum(self._signs * weights, 0.0) + mu / self._s
        self.n_pairs = fit.n_pairs + self.x.size
        self.weights = self.x[0] - self.x[1]
        self._aim = self._dx = self._ds = self._stored_x = self._stored_s = np.zeros_like(self.x)

    @property
    def point_weights(self) -> FloatArray:
        """Real weights, zero where the weight is closer to its bound than the dual constraint is to its own."""
        sizes, slacks = self.x.max(axis=0), self._s.min(axis=0) / self._radius
        # Without large weights, the products of the pairs show what is large.
        largest = max(float(sizes.max()), float(np.sqrt(np.mean(self.x * self._s))))
        return np.where(sizes > slacks * largest, self.weights, 0.0)

    def centre(self, prediction: FloatArray, mu: float) -> None:
        """Choose the slacks of the loss that match the predictions and those of the weights."""
        self._fit.centre(prediction + self.weights @ self._columns.T, mu)

    def linearise(self, prediction: FloatArray) -> FloatArray:
        """Compute the compliance of the loss at these predictions plus those of the weights, and the stiffness."""
        self._ratio = self.x / self._s
        self.stiffness = self._ratio.sum(axis=0)
        return self._fit.linearise(prediction + self.weights @ self._columns.T)

    def error(self, mu: float, *, corrected: bool) -> FloatArray:
        """Compute the residual of the loss, including the target steps of the weights."""
        aim = mu - self._dx * self._ds if corrected else mu
        self._aim = aim / self._s - self.x
        error: FloatArray = self._fit.error(mu, corrected=corrected) + (self._aim[0] - self._aim[1]) @ self._columns.T
        return error

    def distance(self) -> float:
        """Return the Fenchel-Young gap of the loss."""
        return self._fit.distance()

    def products(self) -> float:
        """Compute the complementarity of the loss and of the weights."""
        return self._fit.products() + float(np.vdot(self.x, self._s))

    def products_after(self, length: float) -> float:
        """Compute the complementarity after a step of this length along the last direction."""
        pairs = float(np.vdot(self.x + length * self._dx, self._s + length * self._ds))
        return self._fit.products_after(length) + pairs

    def reach(self) -> float:
        """Return the largest step length that all slacks allow."""
        return min(self._fit.reach(), _reach((self._dx, self.x), (self._ds, self._s)))

    def direct(self, step: FloatArray) -> None:
        """Set the steps of the multiplier, of the weights and of all slacks."""
        self._fit.direct(step)
        self._ds = -self._signs * (step @ self._columns)
        self._dx = self._aim - self._ratio * self._ds

    def keep(self) -> None:
        """Store the last direction for `move`."""
        self._fit.keep()
        self._stored_x, self._stored_s = self._dx, self._ds

    def move(self, length: float) -> None:
        """Take a step of this length along the stored direction."""
        self._fit.move(length)
        self.nu = self._fit.nu
        self.x = self.x + length * self._stored_x
        self._s = self._s + length * self._stored_s
        self.weights = self.x[0] - self.x[1]


class JoinedFit(Fit):
    """Two fits of one output side by side: of the leading entries of the multiplier, and of the others."""

    def __init__(self, first: Fit, second: Fit) -> None:
        self._parts = first, second
        self._n = first.nu.shape[1]
        self.n_pairs = first.n_pairs + second.n_pairs
        super().__init__(np.hstack([first.nu, second.nu]))

    def linearise(self, prediction: FloatArray) -> FloatArray:
        """Linearise both fits at their predictions; return their compliances side by side."""
        parts = zip(self._parts, self._split(prediction), strict=True)
        return np.hstack([part.linearise(values) for part, values in parts])

    def error(self, mu: float, *, corrected: bool) -> FloatArray:
        """Compute the residuals of both fits side by side."""
        return np.hstack([part.error(mu, corrected=corrected) for part in self._parts])

    def distance(self) -> float:
        """Add the Fenchel-Young gaps of both fits."""
        return sum(part.distance() for part in self._parts)

    def products(self) -> float:
        """Add the complementarities of both fits."""
        return sum(part.products() for part in self._parts)

    def products_after(self, length: float) -> float:
        """Add the complementarities of both fits after a step of this length along the last direction."""
        return sum(part.products_after(length) for part in self._parts)

    def reach(self) -> float:
        """Return the largest step length that the slacks of both fits allow."""
        return min(part.reach() for part in self._parts)

    def direct(self, step: FloatArray) -> None:
        """Set the steps of the multipliers of both fits."""
        for part, part_step in zip(self._parts, self._split(step), strict=True):
            part.direct(part_step)

    def keep(self) -> None:
        """Store the last directions of both fits for `move`."""
        for part in self._parts:
            part.keep()

    def move(self, length: float) -> None:
        """Take a step of this length along the stored directions of both fits."""
        for part in self._parts:
            part.move(length)
        self.nu = np.hstack([part.nu for part in self._parts])

    def _split(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        return values[:, : self._n], values[:, self._n :]


def _reach(*pairs: tuple[FloatArray, FloatArray]) -> float:
    """Return the largest length of the first of each pair of steps for which the second, positive, stays positive."""
    lowest = min(float((step / whole).min(initial=0.0)) for step, whole in pairs)
    return -1.0 / lowest if lowest < 0.0 else np.inf
