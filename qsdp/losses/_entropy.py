"""Entropies and logarithms with proven error bounds, and slopes of the losses built from them."""

from __future__ import annotations

import math

import numpy as np

from qsdp._utils.numeric import EPS, HALF_DIGITS, UNIT
from qsdp._utils.validation import FloatArray
from qsdp.losses._loss import MIN_CURVATURE

__all__ = ["LOGARITHM_ROUNDINGS", "both_entropies", "entropies", "logarithm", "secant_slope", "shrinkage"]

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
