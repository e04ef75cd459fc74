"""Piecewise linear and quadratic losses, defined by an interval of multipliers and a curvature."""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from qsdp._utils.validation import FloatArray, check_real
from qsdp.losses._loss import ClassLoss, Curvature, Loss, constant, weighted_sum

__all__ = ["Absolute", "Hinge", "Huber", "PiecewiseQuadratic", "Squared", "SquaredHinge"]


class PiecewiseQuadratic(Loss):
    r"""Base class of losses :math:`\ell(t, y) = \max_{a \le \nu \le b} \nu (y - t) - c\,\nu^2 / 2`.

    The interval [a, b] of the multiplier :math:`\nu = -\ell'` contains zero and may depend on the target. The number
    c is the inverse of the curvature, and zero for a piecewise linear loss. The conjugate is therefore
    :math:`u y + c u^2 / 2` for :math:`-u` in the interval, and everything else follows. A subclass defines
    `interval`, `inverse_curvature`, `values`, `expression` and `rescaled`.

    Attributes
    ----------
    inverse_curvature : float
        c >= 0.
    """

    inverse_curvature: ClassVar[float] = 0.0

    @abc.abstractmethod
    def interval(self, target: FloatArray) -> tuple[float | FloatArray, float | FloatArray]:
        """Return a <= 0 and b >= 0, possibly infinite, as numbers or as arrays in the shape of the target."""

    def slacks(self, target: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        r"""Return the slack variables' signs and costs :math:`(\sigma_g, c_g)`, one pair for every finite interval end.

        The loss is :math:`\min_{x \ge 0} \sum_g c_g x_g` plus its quadratic part, subject to
        :math:`v + \sum_g \sigma_g x_g + c\,\nu = y`. The dual slacks are :math:`c_g - \sigma_g \nu \ge 0`. If every
        entry has one finite end, there is a single pair. Entries without a finite end have a void pair.
        """
        low, high = (np.broadcast_to(end, target.shape) for end in self.interval(target))
        ones = np.ones_like(target)
        upper, lower = np.isfinite(high), np.isfinite(low)
        pairs = [
            (np.where(upper, ones, 0.0), np.where(upper, high, 1.0)),
            (np.where(lower, -ones, 0.0), np.where(lower, -low, 1.0)),
        ]
        if not np.any(upper & lower) and np.all(upper | lower):
            return [(np.where(upper, pairs[0][0], pairs[1][0]), np.where(upper, pairs[0][1], pairs[1][1]))]
        return [pair for pair, finite in zip(pairs, (upper, lower), strict=True) if np.any(finite)]

    def gradient(self, prediction: FloatArray, target: FloatArray) -> FloatArray:
        """Return minus the multiplier that attains the maximum."""
        residual = target - prediction
        low, high = self.interval(target)
        if self.inverse_curvature > 0.0:
            return -np.clip(residual / self.inverse_curvature, low, high)
        return np.where(residual > 0.0, -np.asarray(high), np.where(residual < 0.0, -np.asarray(low), 0.0)) + 0.0

    def conjugates(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """Return ``u (y + c u / 2)`` where -u is in the interval, and infinity elsewhere."""
        low, high = self.interval(target)
        inside = (-dual >= low) & (-dual <= high)
        return np.where(inside, dual * (target + 0.5 * self.inverse_curvature * dual), math.inf)

    def conjugate_expression(self, dual: Any, target: FloatArray, weight: FloatArray) -> Any:
        """Return ``u y + c u^2 / (2 w)`` where -u is in the interval times w."""
        import cvxpy as cp

        low, high = (np.broadcast_to(end, target.shape) for end in self.interval(target))
        # Infinite ends impose no constraint.
        ends = [(side, end) for side, end in ((-1.0, high), (1.0, -low)) if np.any(np.isfinite(end))]
        domain = []
        for side, end in ends:
            finite = np.isfinite(end)
            limit = np.where(finite, weight, 0.0) * np.where(finite, end, 0.0)
            domain.append(cp.multiply(np.where(finite, side, 0.0), dual) <= limit)
        value = cp.sum(cp.multiply(constant(target, "y"), dual))
        if self.inverse_curvature > 0.0:
            value += 0.5 * self.inverse_curvature * cp.sum_squares(cp.multiply(1.0 / np.sqrt(weight), dual))
        return value, domain

    def project_dual(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """Clip the dual to [-b, -a]."""
        low, high = self.interval(target)
        return np.clip(dual, -np.asarray(high), -np.asarray(low))

    def prox(self, point: FloatArray, target: FloatArray, step: float | FloatArray) -> FloatArray:
        r"""Return ``point + step nu``, where nu is ``(y - point) / (c + step)`` clipped to the interval."""
        low, high = self.interval(target)
        multiplier = (target - point) / (self.inverse_curvature + step)
        clipped = np.clip(multiplier, low, high)
        moved = point + step * clipped
        # Inside the interval, a piecewise linear loss moves the point exactly onto the kink.
        return moved if self.inverse_curvature > 0.0 else np.where(clipped == multiplier, target, moved)

    @property
    def has_curvature(self) -> bool:
        """True unless the loss is piecewise linear."""
        return self.inverse_curvature > 0.0

    def curvature(self, prediction: FloatArray, target: FloatArray) -> Curvature:
        """Return 1 / c inside the interval, 0 outside."""
        return Curvature(self.curvature_floor(prediction, target, 0.0))

    def curvature_floor(self, prediction: FloatArray, target: FloatArray, reach: float) -> FloatArray:
        """Return 1 / c where no step within `reach` leaves the quadratic piece, else 0."""
        if self.inverse_curvature == 0.0:
            return np.zeros_like(prediction)
        low, high = self.interval(target)
        residual = target - prediction
        c = self.inverse_curvature
        inside = (residual - reach >= c * np.asarray(low)) & (residual + reach <= c * np.asarray(high))
        return np.where(inside, 1.0 / c, 0.0)

    def verified_multiplier(
        self, multiplier: FloatArray, target: FloatArray, weight: FloatArray | None = None
    ) -> FloatArray:
        """Clip the multiplier to the interval times the weight, rounded towards zero."""
        return np.clip(multiplier, *self._ends(target, weight))

    def verified_values(
        self, multiplier: FloatArray, target: FloatArray, weight: FloatArray | None = None
    ) -> tuple[FloatArray, int, float] | None:
        r"""Return the terms :math:`\nu y` and :math:`-\nu\, c \nu / (2 w)`, unsummed because they may cancel.

        The second term has at most three roundings, of two products and a quotient; halving is exact.
        """
        low, high = self._ends(target, weight)
        if not np.all((multiplier >= low) & (multiplier <= high)):
            return None
        if self.inverse_curvature == 0.0:
            return multiplier * target, 1, 0.0
        curved = 0.5 * self.inverse_curvature * multiplier
        unit = curved if weight is None else curved / weight
        return np.stack([multiplier * target, -multiplier * unit]), 3, 0.0

    def _ends(self, target: FloatArray, weight: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        r"""Round the interval times w towards zero: floats a', b' with :math:`w a \le a' \le 0 \le b' \le w b`.

        A computed product is a float nearest to the exact one, so the next float towards zero does not exceed it.
        """
        low, high = (np.asarray(end, dtype=np.float64) for end in self.interval(target))
        if weight is None:
            return low, high
        return np.nextafter(low * weight, 0.0), np.nextafter(high * weight, 0.0)


class _MarginLoss(ClassLoss, PiecewiseQuadratic):
    """Base class of losses of the margin ``m = y t``."""

    labels: ClassVar[bool] = True


@dataclass(frozen=True)
class Squared(PiecewiseQuadratic):
    """Squared error ``(t - y)^2``, without a factor 1/2; the conjugate is ``u y + u^2 / 4`` for all ``u``."""

    name: ClassVar[str] = "squared"
    smooth: ClassVar[bool] = True
    bounded_dual: ClassVar[bool] = False
    quadratic: ClassVar[bool] = True
    inverse_curvature: ClassVar[float] = 0.5

    @property
    def lipschitz(self) -> float:
        """Infinite: the slope grows without bound."""
        return math.inf

    def interval(self, target: FloatArray) -> tuple[float, float]:
        """Return minus and plus infinity."""
        return -math.inf, math.inf

    def values(self, prediction: FloatArray, target: FloatArray) -> FloatArray:
        """Return ``(t - y)^2``."""
        return np.square(prediction - target)

    def gradient(self, prediction: FloatArray, target: FloatArray) -> FloatArray:
        """Return ``2 (t - y)``."""
        return 2.0 * (prediction - target)

    def conjugates(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """Return ``u (y + u / 4)``."""
        return dual * (target + 0.25 * dual)

    def project_dual(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """Return a copy: every dual is in the domain."""
        return dual.copy()

    def prox(self, point: FloatArray, target: FloatArray, step: float | FloatArray) -> FloatArray:
        """Return ``(point + 2 step y) / (1 + 2 step)``."""
        return (point + 2.0 * step * target) / (1.0 + 2.0 * step)

    def curvature(self, prediction: FloatArray, target: FloatArray) -> Curvature:
        """Return 2."""
        return Curvature(np.full_like(prediction, 2.0))

    def typical_curvature(self, prediction: FloatArray, target: FloatArray, step: float) -> FloatArray:
        """Return 2."""
        return np.full_like(prediction, 2.0)

    def expression(self, prediction: Any, target: FloatArray, weight: float | FloatArray = 1.0) -> Any:
        """Return the sum of squares."""
        import cvxpy as cp

        residual = prediction - constant(target, "y")
        if np.isscalar(weight):
            return cp.sum_squares(residual)
        return cp.sum_squares(cp.multiply(constant(np.sqrt(weight), "sqrt(weights)"), residual))

    def rescaled(self, scale: float) -> tuple[Loss, float]:
        """Return the loss itself and ``scale^2``."""
        return self, _squared_scale(scale)


@dataclass(frozen=True)
class Absolute(PiecewiseQuadratic):
    """Absolute error ``|t - y|``; the conjugate is ``u y`` for ``|u| <= 1``."""

    name: ClassVar[str] = "absolute"
    smooth: ClassVar[bool] = False
    bounded_dual: ClassVar[bool] = True

    @property
    def lipschitz(self) -> float:
        """One."""
        return 1.0

    def interval(self, target: FloatArray) -> tuple[float, float]:
        """Return -1 and 1."""
        return -1.0, 1.0

    def values(self, prediction: FloatArray, target: FloatArray) -> FloatArray:
        """Return ``|t - y|``."""
        return np.abs(prediction - target)

    def expression(self, prediction: Any, target: FloatArray, weight: float | FloatArray = 1.0) -> Any:
        """Return the sum of absolute values."""
        return _weighted_sum("abs", prediction - constant(target, "y"), weight)

    def rescaled(self, scale: float) -> tuple[Loss, float]:
        """Return the loss itself and `scale`."""
        return self, check_real("scale", scale, strict=True)


@dataclass(frozen=True)
class Huber(PiecewiseQuadratic):
    """Huber loss of ``r = t - y``: ``r^2`` for ``|r| <= delta``, ``2 delta |r| - delta^2`` beyond.

    This is CVXPY's convention, twice the loss of SciPy and of statistics books. It tends to the squared
    loss ``r^2`` as ``delta`` grows. The conjugate is ``u y + u^2 / 4`` for ``|u| <= 2 delta``.

    Parameters
    ----------
    delta : float, default 1.0
        Residual at which the loss changes from quadratic to linear; finite and positive.
    """

    delta: float = 1.0

    name: ClassVar[str] = "huber"
    smooth: ClassVar[bool] = True
    bounded_dual: ClassVar[bool] = True
    inverse_curvature: ClassVar[float] = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", check_real("delta", self.delta, strict=True))

    @property
    def lipschitz(self) -> float:
        """Slope of the two lines, ``2 delta``."""
        return 2.0 * self.delta

    def interval(self, target: FloatArray) -> tuple[float, float]:
        """Return ``-2 delta`` and ``2 delta``."""
        return -self.lipschitz, self.lipschitz

    def values(self, prediction: FloatArray, target: FloatArray) -> FloatArray:
        """Return ``k (2 |r| - k)`` with ``k = min(|r|, delta)``."""
        size = np.abs(prediction - target)
        clipped = np.minimum(size, self.delta)
        values: FloatArray = clipped * (2.0 * size - clipped)
        return values

    def expression(self, prediction: Any, target: FloatArray, weight: float | FloatArray = 1.0) -> Any:
        """Return the sum of CVXPY's ``huber`` atoms."""
        return _weighted_sum("huber", prediction - constant(target, "y"), weight, self.delta)

    def rescaled(self, scale: float) -> tuple[Loss, float]:
        """Return the loss with ``delta / scale``, and ``scale^2``."""
        factor = _squared_scale(scale)
        return Huber(self.delta / scale), factor


@dataclass(frozen=True)
class Hinge(_MarginLoss):
    """Hinge loss ``max(0, 1 - m)`` of the margin ``m = y t``; the conjugate is ``-p`` for ``0 <= p = -y u <= 1``."""

    name: ClassVar[str] = "hinge"
    smooth: ClassVar[bool] = False
    bounded_dual: ClassVar[bool] = True

    @property
    def lipschitz(self) -> float:
        """One."""
        return 1.0

    def interval(self, target: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return 0 and the label, in increasing order."""
        return np.minimum(target, 0.0), np.maximum(target, 0.0)

    def values(self, prediction: FloatArray, target: FloatArray) -> FloatArray:
        """Return ``max(0, 1 - m)``."""
        return np.maximum(0.0, 1.0 - target * prediction)

    def expression(self, prediction: Any, target: FloatArray, weight: float | FloatArray = 1.0) -> Any:
        """Build the sum of positive parts as a CVXPY expression."""
        import cvxpy as cp

        return _weighted_sum("pos", 1.0 - cp.multiply(constant(target, "y"), prediction), weight)


@dataclass(frozen=True)
class SquaredHinge(_MarginLoss):
    """Squared hinge loss ``max(0, 1 - m)^2``; the conjugate is ``-p + p^2 / 4`` for ``p = -y u >= 0``."""

    name: ClassVar[str] = "squared_hinge"
    smooth: ClassVar[bool] = True
    bounded_dual: ClassVar[bool] = False
    inverse_curvature: ClassVar[float] = 0.5

    @property
    def lipschitz(self) -> float:
        """Infinite: the slope grows without bound as the margin falls."""
        return math.inf

    def interval(self, target: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return 0 and infinity with the label's sign, in increasing order."""
        return np.where(target > 0.0, 0.0, -math.inf), np.where(target > 0.0, math.inf, 0.0)

    def values(self, prediction: FloatArray, target: FloatArray) -> FloatArray:
        """Return ``max(0, 1 - m)^2``."""
        return np.square(np.maximum(0.0, 1.0 - target * prediction))

    def expression(self, prediction: Any, target: FloatArray, weight: float | FloatArray = 1.0) -> Any:
        """Build the sum of squared positive parts as a CVXPY expression."""
        import cvxpy as cp

        margins = cp.pos(1.0 - cp.multiply(constant(target, "y"), prediction))
        return _weighted_sum("square", margins, weight)


def _weighted_sum(atom: str, argument: Any, weight: float | FloatArray, *parameters: float) -> Any:
    """Build the weighted sum of a CVXPY atom over all entries."""
    import cvxpy as cp

    return weighted_sum(getattr(cp, atom)(argument, *parameters), weight)


def _squared_scale(scale: float) -> float:
    """Compute ``scale^2``; raise an error unless it is a positive finite float."""
    scale = check_real("scale", scale, strict=True)
    return check_real("scale ** 2", scale * scale, strict=True)
