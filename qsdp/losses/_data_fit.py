"""Loss of a data set: a loss function with targets and sample weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from qsdp._utils.numeric import EPS
from qsdp._utils.tuning import HALVINGS
from qsdp._utils.validation import FloatArray
from qsdp.losses._loss import CHECKED_ROUNDINGS, Curvature, Linearization, Loss
from qsdp.losses._piecewise import PiecewiseQuadratic
from qsdp.roundoff import rounded_down

__all__ = ["DataFit"]


@dataclass(frozen=True, eq=False)
class DataFit:
    r"""Weighted loss :math:`\sum_i w_i \ell(t_i, y_i)` of predictions t, as used by solvers and certificates.

    Multipliers :math:`\nu` and duals u belong to the weighted sum: :math:`\nu_i = -w_i \ell'`.

    Attributes
    ----------
    loss : Loss
    target : ndarray of shape (n, C)
        Predictions, multipliers and duals have the same shape, also for one output.
    weights : ndarray of shape (n,) or None
        Positive sample weights; None means one for all.
    """

    loss: Loss
    target: FloatArray
    weights: FloatArray | None = None

    @cached_property
    def factors(self) -> FloatArray | None:
        """Weights of shape (n, 1), which broadcast with the target, or None."""
        return None if self.weights is None else self.weights[:, None]

    @property
    def quadratic(self) -> bool:
        """Whether the data enter only through their Gram matrix."""
        return self.loss.quadratic

    @property
    def total_weight(self) -> float:
        """Sum of the weights, or n without weights."""
        return float(len(self.target)) if self.weights is None else float(self.weights.sum())

    @cached_property
    def value_at_zero(self) -> float:
        """Loss of the zero network."""
        return self.value(np.zeros_like(self.target))

    @property
    def zero_dual(self) -> FloatArray:
        """Minus the gradient at zero: the multiplier of the zero network."""
        return -self.gradient(np.zeros_like(self.target))

    def weighted(self, array: FloatArray) -> FloatArray:
        """Multiply an array in the shape of the target, or with one number per sample, by the weights."""
        return array if self.weights is None else (array.T * self.weights).T

    def per_weight(self, array: FloatArray) -> FloatArray:
        """Divide an array in the shape of the target by the weights."""
        return array if self.factors is None else array / self.factors

    # -- parts ------------------------------------------------------------------------------------------------

    def output(self, k: int) -> DataFit:
        """Return the fit of output k, for outputs that do not interact."""
        return replace(self, target=np.ascontiguousarray(self.target[:, [k]]))

    @property
    def n_parts(self) -> int:
        """Number of fits that do not interact: one if the loss couples the outputs, else one for each output."""
        return 1 if self.loss.coupled else int(self.target.shape[1])

    @property
    def parts(self) -> list[DataFit]:
        """Fits that do not interact: this one if the loss couples the outputs, else one for each output."""
        return [self] if self.n_parts == 1 else [self.output(k) for k in range(self.n_parts)]

    def coupled_outputs(self, outputs: npt.NDArray[np.intp]) -> npt.NDArray[np.intp] | None:
        """Return the outputs that columns feed if the loss couples them; else there is one, and the result is None."""
        return outputs if self.loss.coupled else None

    def rows(self, chosen: Any) -> DataFit:
        """Return the fit restricted to the samples `chosen`."""
        return replace(self, target=self.target[chosen], weights=None if self.weights is None else self.weights[chosen])

    def whitened(self) -> tuple[FloatArray, DataFit]:
        r"""Return :math:`\sqrt{w}` of shape (n,), and the unweighted fit of predictions multiplied by it.

        This is valid only for a quadratic loss, whose weights multiply squares.
        """
        if self.weights is None:
            return np.ones(len(self.target)), self
        roots: FloatArray = np.sqrt(self.weights)
        return roots, replace(self, target=(self.target.T * roots).T, weights=None)

    # -- values -------------------------------------------------------------------------------------------------

    def value(self, prediction: FloatArray) -> float:
        r"""Return :math:`\sum_i w_i \ell(t_i, y_i)`, for predictions of shape (n, C), or (n,) for one output."""
        return float(np.sum(self.values(np.reshape(prediction, self.target.shape))))

    def values(self, prediction: FloatArray) -> FloatArray:
        """Return the weighted loss of every entry, or of every sample if the outputs are coupled."""
        assert prediction.shape == self.target.shape
        return self.weighted(self.loss.values(prediction, self.target))

    def rounding(self, prediction: FloatArray, error: FloatArray) -> float:
        """Bound the rise of the value if the predictions of each sample have errors of at most `error` (n,)."""
        if self.loss.coupled:
            moved = self.loss.lipschitz * math.sqrt(prediction.shape[1]) * error
            return float(np.sum(self.weighted(moved)))
        values = np.maximum(self.values(prediction - error[:, None]), self.values(prediction + error[:, None]))
        return float(np.sum(values - self.values(prediction)))

    def gradient(self, prediction: FloatArray) -> FloatArray:
        """Return the gradient with respect to the predictions."""
        assert prediction.shape == self.target.shape
        return self.weighted(self.loss.gradient(prediction, self.target))

    def value_and_derivatives(self, prediction: FloatArray) -> tuple[float, FloatArray, Curvature]:
        """Return `value`, `gradient` and `curvature` at predictions (n, C), in less time than one after the other."""
        values, gradient, curvature = self.loss.values_and_derivatives(prediction, self.target)
        return float(np.sum(self.weighted(values))), self.weighted(gradient), self._weighted_curvature(curvature)

    def line_minimum(self, base: FloatArray, direction: FloatArray, penalty: float) -> float:
        r"""Find the t that minimises the loss at ``base + t direction`` plus ``penalty |t|``.

        The derivative is nondecreasing; its sign change is bracketed by doubling and located by Brent's method. If
        there is no minimum, t is large.
        """

        def slope(t: float) -> float:
            return float(np.vdot(direction, self.gradient(base + t * direction)))

        start = slope(0.0)
        if abs(start) <= penalty:
            return 0.0
        sign = 1.0 if start < 0.0 else -1.0

        def rise(t: float) -> float:
            return sign * slope(sign * t) + penalty

        low, high = 0.0, 1.0
        for _ in range(HALVINGS):
            if rise(high) >= 0.0:
                return sign * float(scipy.optimize.brentq(rise, low, high, xtol=64.0 * EPS * high, rtol=64.0 * EPS))
            low, high = high, 2.0 * high
        return sign * high

    def dual_value(self, nu: FloatArray) -> float:
        r"""Return :math:`-\sum_i w_i \ell^*(-\nu_i / w_i)`, or minus infinity outside the domain.

        With weights, a multiplier that is outside only by the rounding of the division counts as inside.
        """
        if self.factors is None:
            return -float(np.sum(self.loss.conjugates(-nu, self.target)))
        unit = -nu / self.factors
        inside = self.loss.project_dual(unit, self.target)
        # Coupled outputs must sum to one as exactly as the conjugate itself requires.
        rounding = 8.0 * EPS * self.target.shape[1] if self.loss.coupled else 4.0 * EPS * np.abs(unit)
        if not np.all(np.abs(inside - unit) <= rounding):
            return -math.inf
        return -float(np.sum(self.weighted(self.loss.conjugates(inside, self.target))))

    def safe_dual_value(self, nu: FloatArray) -> float:
        """Return `dual_value` minus an allowance for rounding, relative to the magnitudes of its terms."""
        value = self.dual_value(nu)
        # Terms err by up to 64 times the roundoff; the stand-alone checker allows the same.
        return value - EPS * (self.target.size + 64) * (abs(value) + self.value_at_zero)

    def verified_dual_value(self, nu: FloatArray) -> float:
        r"""Return a proven lower bound on :math:`-\sum_i w_i \ell^*(-\nu_i / w_i)` for exactly these floats.

        It is minus infinity outside the domain, which is tested exactly. Sums use `math.fsum`, which rounds once. No
        less is allowed for than in the stand-alone checker, so that it confirms the bound.
        """
        verified = self.loss.verified_values(nu, self.target, self.factors)
        # Reject numbers that would overflow; they do not occur for real data.
        if verified is None or not np.abs(verified[0]).sum() < 1e300:
            return -math.inf
        terms, roundings, slack = verified
        return rounded_down(terms, max(roundings, CHECKED_ROUNDINGS), slack)

    # -- multipliers ----------------------------------------------------------------------------------------------

    def project(self, nu: FloatArray) -> FloatArray:
        r"""Project `nu` onto the multipliers for which `dual_value` is finite, entry by entry."""
        assert nu.shape == self.target.shape
        if self.factors is None:
            return -self.loss.project_dual(-nu, self.target)
        projected: FloatArray = -self.factors * self.loss.project_dual(-nu / self.factors, self.target)
        return projected

    def verified_multiplier(self, nu: FloatArray) -> FloatArray:
        """Return a multiplier near `nu` that `verified_dual_value` accepts, up to the row sums of coupled losses."""
        # Adding zero removes negative zeros, so that equal proofs are equal bytes.
        return self.loss.verified_multiplier(np.asarray(nu, dtype=np.float64), self.target, self.factors) + 0.0

    def row_defects(self, nu: FloatArray) -> FloatArray:
        """Bound the deviation of `nu` from an exactly feasible vector, shape (n,); see `Loss.row_defects`."""
        return self.loss.row_defects(nu)

    # -- minimisation -----------------------------------------------------------------------------------------------

    def curvature(self, prediction: FloatArray) -> Curvature:
        """Return the second derivatives, or one-sided ones where they jump."""
        return self._weighted_curvature(self.loss.curvature(prediction, self.target))

    def _weighted_curvature(self, curvature: Curvature) -> Curvature:
        if self.factors is None:
            return curvature
        coupling = None if curvature.coupling is None else np.sqrt(self.factors) * curvature.coupling
        return Curvature(self.factors * curvature.diagonal, coupling)

    def linearize(self, prediction: FloatArray, nu: FloatArray) -> Linearization:
        """Linearise the relation of predictions and multipliers."""
        w = self.factors
        if w is None:
            return self.loss.linearize(prediction, nu, self.target)
        unit = self.loss.linearize(prediction, nu / w, self.target)
        return Linearization(w * unit.multiplier, unit.compliance / w, unit.distance * float(np.mean(w)))

    def slacks(self) -> list[tuple[FloatArray, FloatArray]]:
        """Return signs and costs of the slacks of a piecewise quadratic loss, see `PiecewiseQuadratic.slacks`."""
        assert isinstance(self.loss, PiecewiseQuadratic)
        pairs = self.loss.slacks(self.target)
        return pairs if self.factors is None else [(signs, self.factors * costs) for signs, costs in pairs]

    def compliance(self) -> FloatArray:
        r"""Return :math:`c / w_i` for a piecewise quadratic loss, in the shape of the target."""
        assert isinstance(self.loss, PiecewiseQuadratic)
        return self.per_weight(np.full_like(self.target, self.loss.inverse_curvature))

    def typical_curvature(self, prediction: FloatArray, step: float) -> FloatArray:
        """Return the curvature over a step of size `step`."""
        return self.weighted(self.loss.typical_curvature(prediction, self.target, step))

    def curvature_floor(self, prediction: FloatArray, reach: float) -> FloatArray:
        """Return a lower bound on the curvature within `reach`, see `Loss.curvature_floor`."""
        return self.weighted(self.loss.curvature_floor(prediction, self.target, reach))

    def expression(self, prediction: Any) -> Any:
        """Build `value` as a convex CVXPY expression."""
        return self.loss.expression(prediction, self.target, 1.0 if self.factors is None else self._full_weights())

    def conjugate_expression(self, dual: Any) -> Any:
        """Build the conjugate at a dual (n, C) as a convex CVXPY expression, with constraints of its domain."""
        weight = np.ones_like(self.target) if self.factors is None else np.broadcast_to(self.factors, self.target.shape)
        return self.loss.conjugate_expression(dual, self.target, weight)

    # -- units ------------------------------------------------------------------------------------------------------

    def rescaled(self, scale: float) -> tuple[DataFit, float]:
        """Return the fit of predictions and targets divided by `scale`, and the factor to multiply its value by."""
        loss, factor = self.loss.rescaled(scale)
        return replace(self, loss=loss, target=self.target / scale), factor

    def root_mean_square(self) -> float:
        """Return the weighted root mean square of the targets."""
        largest = float(np.abs(self.target).max())
        if largest == 0.0:
            return 0.0
        squares = (self.target / largest) ** 2
        if self.factors is not None:
            squares *= self.factors / np.mean(self.factors)
        return largest * math.sqrt(float(np.mean(squares)))

    def _full_weights(self) -> FloatArray:
        assert self.factors is not None
        return self.factors if self.loss.coupled else np.array(np.broadcast_to(self.factors, self.target.shape))
