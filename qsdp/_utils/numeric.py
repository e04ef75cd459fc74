"""Double precision: its unit, and scaling by powers of two, which rounds nothing."""

from __future__ import annotations

import math

import numpy as np

from qsdp._utils.validation import FloatArray

__all__ = ["EPS", "divided_by_power", "exponent_of", "largest_magnitude", "symmetrised"]

#: Side of the blocks in which a matrix becomes symmetric.
_BLOCK = 256

#: Distance from 1.0 to the next larger float, 2.2e-16; rounding is at most half of it relative to the result.
EPS = float(np.finfo(np.float64).eps)


def exponent_of(value: float) -> int:
    """Return the exponent e for which ``value / 2**e`` is within 1/2 .. 1, and 0 for zero."""
    return math.frexp(value)[1]


def largest_magnitude(array: FloatArray) -> float:
    """Return the largest magnitude of an entry, 0 where there are none, without another array."""
    return max(float(array.max(initial=0.0)), -float(array.min(initial=0.0)))


def symmetrised(M: FloatArray) -> FloatArray:
    """Return a square matrix whose entries were replaced, in place, by the means of them and those opposite.

    Memory that is touched for the first time costs more than the means: of a matrix of side 3000, a tenth of a second.
    """
    if len(M) <= _BLOCK:
        M += M.T
        M *= 0.5
        return M
    blocks = [slice(start, start + _BLOCK) for start in range(0, len(M), _BLOCK)]
    for k, rows in enumerate(blocks):
        for columns in blocks[k:]:
            mean = 0.5 * (M[rows, columns] + M[columns, rows].T)
            M[rows, columns], M[columns, rows] = mean, mean.T
    return M


def divided_by_power(values: FloatArray, exponent: int) -> FloatArray:
    """Return ``values / 2**exponent``, also where the power itself is no float."""
    half = exponent // 2
    # Products with powers of two are those of ldexp, and much faster.
    quotients: FloatArray = values * 2.0**-half
    quotients *= 2.0 ** (half - exponent)
    return quotients
