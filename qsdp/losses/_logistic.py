"""The logistic loss of labels -1 and +1, and entropies with proven error bounds, also of the cross-entropy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, rel_entr, wrightomega, xlog1py, xlogy

from qsdp._utils.numeric import EPS, HALF_DIGITS, UNIT
from qsdp._utils.validation import FloatArray
from qsdp.losses._loss import (
    CHECKED_ROUNDINGS,
    MIN_CURVATURE,
    ClassLoss,
    Curvature,
    Linearization,
    constant,
    weighted_sum,
)

__all__ = ["LOGARITHM_ROUNDINGS", "Logistic", "both_entropies", "entropies", "logarithm", "secant_slope", "shrinkage"]

#: Bound on the relative error of `logarithm` and of an entropy, in units of the roundoff; see `logarithm`.
LOGARITHM_ROUNDINGS = 160

#: Largest argument of the series of 2 atanh(s), reached at the square root of two, and the number of terms after which
#: the remainder is below a hundredth of a roundoff of the sum.
_LARGEST = (math.sqrt(2.0) - 1.0) / (math.sqrt(2.0) + 1.0)
_TERMS = math.ceil(math.log(UNIT) / (2.0 * math.log(_LARGEST)))


def secant_slope(moved: FloatArray, p: FloatArray) -> FloatArray:
    """Compute the slope of the logarithm at p, or of its secant from p to `own` where that is larger."""
    p = np.maximum(p, MIN_CURVATURE)
    larger = moved > p * (1.0 + HALF_DIGITS)
    ratio = np.where(larger, moved / p, 2.0)
    return np.where(larger, np.log(ratio) / (ratio - 1.0), 1.0) / p


def shrinkage(reach: float) -> float:
    r"""Compute :math:`2 (e^{-r} + r - 1) / r^2`, a lower bound on the mean relative curvature over a step of range r.

    Notes
    -----
    For sums of exponentials :math:`|\ell'''| \le r\, \ell''` (Bach, Self-concordant analysis for logistic
    regression, 2010).
    """
    # Near zero the difference suffers from cancellation, and 1 - r / 3 is a lower bound.
    return 1.0 - reach / 3.0 if reach < EPS**0.25 else 2.0 * (math.expm1(-reach) + reach) / (reach * reach)


def logarithm(x: FloatArray) -> FloatArray:
    r"""Compute the natural logarithm of positive floats with a proven relative error below 128 roundoffs.

    Notes
    -----
    :math:`x = m 2^e` with m between :math:`\sqrt{1/2}` and :math:`\sqrt 2`, and
    :math:`\log m = 2\,\mathrm{artanh}(s)` with :math:`s = (m - 1)/(m + 1)`, where ``m - 1`` is exact. All terms
    of the series have the same sign. There are 2 roundings in s, at most 5k in its power 2k and 2k + 2 in Horner's
    scheme; the whole series has at most 104. If e is not zero, :math:`|\log m|` and :math:`|e| \log 2 / 2` are at
    most :math:`|\log x|`, and the product and the sum add at most 5.
    """
    m, e = np.frexp(x)
    small = m < math.sqrt(0.5)
    m, e = np.where(small, 2.0 * m, m), e - small
    result: FloatArray = e * math.log(2.0) + _twice_artanh((m - 1.0) / (m + 1.0))
    return result


def _twice_artanh(s: FloatArray) -> FloatArray:
    square = s * s
    series = np.zeros_like(s)
    for k in range(_TERMS - 1, -1, -1):
        series = series * square + 1.0 / (2 * k + 1)
    return 2.0 * s * series


def entropies(p: FloatArray) -> FloatArray:
    """Return ``-p log p``, elementwise, for ``0 <= p <= 1``."""
    positive = np.where(p > 0.0, p, 1.0)
    return -positive * logarithm(positive)


def both_entropies(p: FloatArray) -> FloatArray:
    """Return ``-p log p - (1 - p) log(1 - p)``, elementwise, for ``0 <= p <= 1``."""
    # For p >= 1/4, rounding 1 - p changes the logarithm by less than five roundoffs; below, the series takes p itself.
    small = np.minimum(p, 0.25)
    other = np.where(p <= 0.25, (1.0 - small) * _twice_artanh(small / (2.0 - small)), entropies(1.0 - p))
    return entropies(p) + other


@dataclass(frozen=True)
class Logistic(ClassLoss):
    """Logistic loss ``log(1 + exp(-m))``; the conjugate is ``p log p + (1 - p) log(1 - p)`` for ``0 <= p <= 1``."""

    name: ClassVar[str] = "logistic"
    labels: ClassVar[bool] = True
    probabilistic: ClassVar[bool] = True
    smooth: ClassVar[bool] = True
    bounded_dual: ClassVar[bool] = True

    @property
    def lipschitz(self) -> float:
        """One, approached as the margin tends to minus infinity."""
        return 1.0

    def values(self, prediction: FloatArray, target: FloatArray) -> FloatArray:
        """Return ``log(1 + exp(-m))``."""
        return np.logaddexp(0.0, -target * prediction)

    def gradient(self, prediction: FloatArray, target: FloatArray) -> FloatArray:
        """Return ``-y / (1 + exp(m))``."""
        gradient: FloatArray = -target * expit(-target * prediction)
        return gradient

    def values_and_derivatives(
        self, prediction: FloatArray, target: FloatArray
    ) -> tuple[FloatArray, FloatArray, Curvature]:
        """Return all from the same exponentials, of arguments that are not positive."""
        margin = target * prediction
        power = np.exp(-np.abs(margin))
        inverse = 1.0 / (1.0 + power)
        values = np.maximum(-margin, 0.0) + np.log1p(power)
        return values, -target * np.where(margin > 0.0, power * inverse, inverse), Curvature(power * inverse**2)

    def conjugates(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """Return the negative entropy of ``p``; exactly 0 at ``p = 0`` and ``p = 1``."""
        p = -target * dual
        inside = (p >= 0.0) & (p <= 1.0)
        p = np.where(inside, p, 0.0)
        # log1p keeps the second term if 1 - p rounds to 1; at p = 1e-17 it is 3 % of the sum.
        return np.where(inside, xlogy(p, p) + xlog1py(1.0 - p, -p), math.inf)

    def project_dual(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """Clip ``p = -y u`` to ``[0, 1]``."""
        return -target * np.clip(-target * dual, 0.0, 1.0)

    def prox(self, point: FloatArray, target: FloatArray, step: float | FloatArray) -> FloatArray:
        """Solve ``m = q + step s(-m)``, where ``q = y point`` and ``s`` is the sigmoid, by Newton's method.

        Notes
        -----
        As ``s(m) = 1 - s(-m)``, a negative root for ``q`` is minus a positive root for ``-(q + step)``,
        so ``q >= -step / 2`` and ``m >= 0`` may be assumed. There ``exp(-m) / 2 <= s(-m) <= exp(-m)``.
        With the lower bound in place of ``s(-m)``, Wright's omega function gives a starting point at most
        ``log 2`` below the root. On ``m >= 0`` the function ``F(m) = m - q - step s(-m)`` is increasing
        and concave with ``|F''| <= F'``. Newton's method therefore climbs to the root without overshooting,
        and its error falls as ``e <- e^2 / 2``: log 2, 0.24, 0.03, 4e-4, 9e-8, 4e-15, 7e-30.
        """
        q = target * point
        reflected = q < -0.5 * step
        q = np.where(reflected, -(q + step), q)
        # Rounding must not take m below 0, where F is convex and Newton's method could overshoot.
        m = np.maximum(q + wrightomega(np.log(0.5 * np.asarray(step)) - q), 0.0)
        error = math.log(2.0)
        while error > EPS:
            error *= 0.5 * error
            pull = step * expit(-m)
            m = np.maximum(m - (m - q - pull) / (1.0 + pull * expit(m)), 0.0)
        solution: FloatArray = target * np.where(reflected, -m, m)
        return solution

    def expression(self, prediction: Any, target: FloatArray, weight: float | FloatArray = 1.0) -> Any:
        """Return the sum of CVXPY's ``logistic`` atoms."""
        import cvxpy as cp

        values = cp.logistic(-cp.multiply(constant(target, "y"), prediction))
        return weighted_sum(values, weight)

    def conjugate_expression(self, dual: Any, target: FloatArray, weight: FloatArray) -> Any:
        """Return minus the weighted entropies of ``p = -y u / w`` and ``1 - p``."""
        import cvxpy as cp

        p = cp.multiply(-target / weight, dual)
        # Bounds of the entropies stay finite where a solver leaves p outside the domain by a rounding error.
        entropy = cp.Variable(target.shape)
        return -cp.sum(cp.multiply(weight, entropy)), [entropy <= cp.entr(p) + cp.entr(1.0 - p)]

    def curvature(self, prediction: FloatArray, target: FloatArray) -> Curvature:
        """Return ``s(t) s(-t)`` with the sigmoid s."""
        return Curvature(expit(prediction) * expit(-prediction))

    def linearize(self, prediction: FloatArray, multiplier: FloatArray, target: FloatArray) -> Linearization:
        """Linearise the relation with secant slopes where the multiplier's entropy lies beyond the tangent."""
        p, q = expit(-target * prediction), expit(target * prediction)
        probability = target * multiplier
        inside = np.clip(probability, 0.0, 1.0)
        distance = sum(
            float(rel_entr(value, np.maximum(reference, MIN_CURVATURE)).sum())
            for value, reference in ((inside, p), (1.0 - inside, q))
        )
        return Linearization(target * p, secant_slope(probability, p) + secant_slope(1.0 - probability, q), distance)

    def curvature_fraction(self, reach: float) -> float:
        """Bound relative curvatures by `shrinkage` at the reach."""
        return shrinkage(reach)

    def verified_values(
        self, multiplier: FloatArray, target: FloatArray, weight: FloatArray | None = None
    ) -> tuple[FloatArray, int, float] | None:
        r"""Return the entropies of ``p = y nu / w`` and ``1 - p``.

        Notes
        -----
        :math:`p \in [0, 1]` is tested before the division, which cannot move p out of that interval. The division
        moves p by p u at most, and by u / 2 above one half. The entropy H is concave with H(0) = H(1) = 0, so no step
        of h changes it by more than :math:`H(h) \le h (1 - \log h)`. Above one half that is 20 u; below, the change is
        at most :math:`u\, p \log((1 - p) / p) < u`. The slack is nearly twice that, which leaves room for its own
        rounding, and what the stand-alone checker allows. The product with w adds one rounding.
        """
        probability = target * multiplier
        if not (np.all(probability >= 0.0) and np.all(probability <= (1.0 if weight is None else weight))):
            return None
        if weight is None:
            return both_entropies(probability), LOGARITHM_ROUNDINGS, CHECKED_ROUNDINGS * UNIT * probability.size
        slack = CHECKED_ROUNDINGS * UNIT * float(np.sum(np.broadcast_to(weight, probability.shape)))
        return weight * both_entropies(probability / weight), LOGARITHM_ROUNDINGS + 1, slack
