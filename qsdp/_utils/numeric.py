"""Double precision: its unit, and scaling by powers of two, which rounds nothing."""

from __future__ import annotations

import math

import numpy as np

from qsdp._utils.validation import FloatArray

__all__ = ["EPS", "divided_by_power", "exponent_of"]

#: Distance from 1.0 to the next larger float, 2.2e-16; rounding is at most half of it relative to the result.
EPS = float(np.finfo(np.float64).eps)


def exponent_of(value: float) -> int:
    """Return the exponent e for which ``value / 2**e`` is within 1/2 .. 1, and 0 for zero."""
    return math.frexp(value)[1]


def divided_by_power(values: FloatArray, exponent: int) -> FloatArray:
    """Return ``values / 2**exponent``, also where the power itself is no float."""
    half = exponent // 2
    quotients: FloatArray = np.ldexp(np.ldexp(values, -half), half - exponent)
    return quotients
