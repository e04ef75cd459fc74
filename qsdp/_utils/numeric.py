"""Double precision: machine epsilon, symmetrisation, and exact scaling by powers of two."""

from __future__ import annotations

import math

import numpy as np

from qsdp._utils.tuning import TILE
from qsdp._utils.validation import FloatArray

__all__ = [
    "CANCELLED",
    "DIGITS",
    "EPS",
    "HALF_DIGITS",
    "LARGEST_INTEGER",
    "MARGIN",
    "ROUNDING",
    "SAFE",
    "UNDERFLOW_MARGIN",
    "UNIT",
    "divided_by_power",
    "exponent_of",
    "largest_magnitude",
    "symmetrised",
    "triangle_side",
]

#: Integers up to this one are exact in double precision.
LARGEST_INTEGER = 2**53

#: Relative differences up to this count as rounding errors; they are far below any relevant difference.
ROUNDING = 1e-9

#: Factor that covers the rounding of error terms themselves, which are sums of up to 1e13 terms.
MARGIN = 1.01

#: Unit roundoff of double precision.
UNIT = 2.0**-53

#: Factor that covers the rounding of a few operations, where a bound must not exceed a limit.
SAFE = 1.0 - 8192.0 * UNIT

#: Allowance for the underflow of the smallest numbers, products of data of 1e-100.
UNDERFLOW_MARGIN = 2.0**-980

#: Distance from 1.0 to the next larger float, 2.2e-16; the relative rounding error is at most half of it.
EPS = float(np.finfo(np.float64).eps)

#: Sums below this fraction of their terms, 1.1e-13, are rounding errors: moves that gain less could alternate forever.
CANCELLED = 512.0 * EPS

#: Relative difference of numbers that agree in half of their digits, 1.5e-8.
HALF_DIGITS = math.sqrt(EPS)

#: Decimal digits in which numbers near one agree if they differ by rounding errors alone: 12.
DIGITS = int(-math.log10(CANCELLED))


def exponent_of(value: float) -> int:
    """Compute the exponent e for which ``value / 2**e`` is within 1/2 .. 1; 0 for zero."""
    return math.frexp(value)[1]


def triangle_side(count: int) -> int:
    """Compute the side of a triangle with this number of entries, diagonal included; of the largest that fits."""
    # From k (k + 1) / 2 entries on, the root of twice their number is k or more; below (k + 1)^2 / 2, it is k.
    side = math.isqrt(2 * count)
    return side if side * (side + 1) <= 2 * count else side - 1


def largest_magnitude(array: FloatArray) -> float:
    """Compute the largest magnitude of an entry (0 if there are none) without a temporary array."""
    return max(float(array.max(initial=0.0)), -float(array.min(initial=0.0)))


def symmetrised(M: FloatArray) -> FloatArray:
    """Symmetrise a square matrix in place, ``(M + M') / 2``, and return it.

    Touching new memory costs more than computing the means: a tenth of a second for a matrix of side 3000.
    """
    if len(M) <= TILE:
        M += M.T
        M *= 0.5
        return M
    tiles = [slice(start, start + TILE) for start in range(0, len(M), TILE)]
    for k, rows in enumerate(tiles):
        for columns in tiles[k:]:
            mean = 0.5 * (M[rows, columns] + M[columns, rows].T)
            M[rows, columns], M[columns, rows] = mean, mean.T
    return M


def divided_by_power(values: FloatArray, exponent: int) -> FloatArray:
    """Compute ``values / 2**exponent``, even if the power itself is not representable."""
    half = exponent // 2
    # Products with powers of two give the same results as ldexp, and are much faster.
    quotients: FloatArray = values * 2.0**-half
    quotients *= 2.0 ** (half - exponent)
    return quotients
