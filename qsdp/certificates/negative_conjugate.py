r"""The value :math:`-\ell^*(-\nu)` of a dual vector, rounded down, with the domain tested exactly.

Sums are those of `math.fsum`, which rounds once. Logarithms are computed here, from sums and products alone:
those of mathematical libraries have errors that nobody proves.
"""

from __future__ import annotations

import math

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.losses import Huber, Loss

__all__ = ["admissible", "bound_of_loss", "logarithm", "row_defects"]

_UNIT = 2.0**-53

#: Relative error of `logarithm` and of an entropy, in units of the roundoff; see there.
LOGARITHM_ROUNDINGS = 160

#: The series of 2 atanh(s) is cut after s^(2 * 12 + 1): for |s| < 0.172 the rest is below 1e-21 of it.
_TERMS = 13
_LN2 = 0.6931471805599453


def admissible(loss: Loss, nu: FloatArray, target: FloatArray) -> FloatArray:
    r"""Return a dual vector near `nu` with :math:`-\nu` in the domain of the conjugate, up to row sums.

    For the cross-entropy the entries of the other classes are at most 0 and that of the class is minus their
    sum, which floats cannot hold exactly: see `row_defects`.
    """
    inside = -loss.project_dual(-np.asarray(nu, dtype=np.float64), target)
    if loss.coupled:
        others = np.where(target == 1.0, 0.0, np.minimum(inside, 0.0))
        # Rounding may have left the sum of the other probabilities above one; the sign of this is right.
        own = np.array([math.fsum([1.0, *row]) for row in others])
        others *= np.where(own < 0.0, (1.0 - 2.0**-50) / (1.0 - np.minimum(own, 0.0)), 1.0)[:, None]
        inside = np.where(target == 1.0, -np.array([math.fsum(row) for row in others])[:, None], others)
    # No minus zeros: equal proofs are equal bytes.
    admitted: FloatArray = inside + 0.0
    return admitted


def row_defects(loss: Loss, nu: FloatArray) -> FloatArray:
    r"""Return by how much entries of :math:`\nu`, and of any rounded multiple, can differ from the vector meant.

    That is zero but for the cross-entropy. There the entry of a sample's class is meant to be minus the sum of
    the others, so that p = u + y sums to one exactly. The defect is given for the multiple 1; it shrinks with
    smaller ones.
    """
    if not loss.coupled:
        return np.zeros(len(nu))
    sums = np.array([abs(math.fsum(row)) for row in nu])
    defects: FloatArray = 1.01 * (sums + 2.0 * _UNIT * np.abs(nu).sum(axis=1))
    return defects


def bound_of_loss(loss: Loss, nu: FloatArray, target: FloatArray) -> float:
    r"""Return a lower bound of :math:`-\ell^*(-\nu)` for these floats; minus infinity outside the domain.

    For the cross-entropy the entry of each sample's class is read as minus the sum of the others.
    """
    name, slack = loss.name, 0.0
    if name in {"squared", "huber", "absolute"}:
        inside = np.abs(nu) <= (loss.lipschitz if isinstance(loss, Huber) else 1.0)
        terms, roundings = (nu * target, 1) if name == "absolute" else (nu * (target - 0.25 * nu), 3)
        within = name == "squared" or bool(np.all(inside))
    elif name == "cross_entropy":
        own = target == 1.0
        p = np.where(own, 0.0, -nu)
        # Rounded once and the sign is right: these are correctly rounded sums.
        p_own = np.array([math.fsum([1.0, *(-row)]) for row in p])
        within = bool(np.all(p >= 0.0) and np.all(p_own >= 0.0))
        p = np.where(own, p_own[:, None], p)
        terms, roundings = _entropies(p) if within else p, LOGARITHM_ROUNDINGS
        # The derivative of p log p is log p + 1, times a rounding of p.
        slack = 4.0 * _UNIT * len(p)
    else:
        p = target * nu
        within = bool(np.all(p >= 0.0) and (name == "squared_hinge" or np.all(p <= 1.0)))
        if name == "logistic":
            terms, roundings = (_both_entropies(p) if within else p), LOGARITHM_ROUNDINGS
        elif name == "hinge":
            terms, roundings = p, 0
        elif name == "squared_hinge":
            terms, roundings = p * (1.0 - 0.25 * p), 3
        else:
            raise NotImplementedError(f"no verified bound for the {name} loss")
    # Numbers that no data have would overflow.
    if not within or not np.abs(terms).sum() < 1e300:
        return -math.inf
    total = math.fsum(terms.ravel())
    error = 1.01 * roundings * _UNIT * math.fsum(np.abs(terms).ravel()) + slack + terms.size * 2.0**-980
    # One rounding of the sum and one of the difference.
    return total - error - 4.0 * _UNIT * (abs(total) + error)


def logarithm(x: FloatArray) -> FloatArray:
    r"""Return the natural logarithm of positive floats with a relative error below 128 roundoffs.

    Notes
    -----
    :math:`x = m 2^e` with m between :math:`\sqrt{1/2}` and :math:`\sqrt 2`, and
    :math:`\log m = 2\,\mathrm{artanh}(s)` with :math:`s = (m - 1)/(m + 1)`, where ``m - 1`` is exact. All terms
    of the series have one sign; s carries 2 roundings, its power 2k at most 5k, Horner's scheme 2k + 2, so
    that 104 bound those of the whole. Where e is not zero, :math:`|\log m|` and :math:`|e| \log 2 / 2` are at most
    :math:`|\log x|`, and the product and the sum add at most 5.
    """
    m, e = np.frexp(x)
    small = m < math.sqrt(0.5)
    m, e = np.where(small, 2.0 * m, m), e - small
    result: FloatArray = e * _LN2 + _twice_artanh((m - 1.0) / (m + 1.0))
    return result


def _twice_artanh(s: FloatArray) -> FloatArray:
    square = s * s
    series = np.zeros_like(s)
    for k in range(_TERMS - 1, -1, -1):
        series = series * square + 1.0 / (2 * k + 1)
    return 2.0 * s * series


def _entropies(p: FloatArray) -> FloatArray:
    """Return ``-p log p``, elementwise, for ``0 <= p <= 1``."""
    positive = np.where(p > 0.0, p, 1.0)
    return -positive * logarithm(positive)


def _both_entropies(p: FloatArray) -> FloatArray:
    """Return ``-p log p - (1 - p) log(1 - p)``, elementwise, for ``0 <= p <= 1``."""
    # From 1/4 on a rounding of 1 - p changes the logarithm by less than five; below, the series takes p itself.
    small = np.minimum(p, 0.25)
    other = np.where(p <= 0.25, (1.0 - small) * _twice_artanh(small / (2.0 - small)), _entropies(1.0 - p))
    return _entropies(p) + other
