"""Coordinates of a scatter plot with equal axes, and of curves, for the template of the page, in SVG units."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from qsdp._utils.validation import FloatArray

__all__ = ["CURVE_SIZE", "curve", "scatter"]

#: Size of the picture and the vertical ends of its axes, in units in which a letter is 13 high.
_WIDTH, _HEIGHT, _TOP, _BOTTOM = 440, 270, 12, 226

#: Width and height of the picture of a curve.
CURVE_SIZE = (200, 80)

#: Width of a character of a label, and of the space around labels; wider ones only move the axes.
_CHARACTER, _SPACE = 7.5, 16

#: Labels are decimal numbers below this magnitude, and powers of ten beyond it.
_DECIMAL = 1e7


def scatter(x: FloatArray, y: FloatArray, **texts: str) -> dict[str, Any]:
    """Return points on equal axes, ticks and the diagonal; texts are `x_label`, `y_label` and `caption`."""
    both = np.concatenate([x, y])
    low, high = float(both.min()), float(both.max())
    margin = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    low, high = low - margin, high + margin
    ticks, labels = _ticks(low, high)
    # The left end leaves space for the labels, the right end for half of the last one.
    width = _CHARACTER * max(map(len, labels))
    left, right = _SPACE + width, _WIDTH - max(_SPACE, width / 2)

    def across(values: Any) -> list[float]:
        return np.round(left + (right - left) * (np.asarray(values) - low) / (high - low), 1).tolist()  # type: ignore[no-any-return]

    def up(values: Any) -> list[float]:
        return np.round(_BOTTOM + (_TOP - _BOTTOM) * (np.asarray(values) - low) / (high - low), 1).tolist()  # type: ignore[no-any-return]

    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "left": left,
        "right": right,
        "top": _TOP,
        "bottom": _BOTTOM,
        "x_ticks": list(zip(across(ticks), labels, strict=True)),
        "y_ticks": list(zip(up(ticks), labels, strict=True)),
        "points": list(zip(across(x), up(y), strict=True)),
        **texts,
    }


def curve(x: FloatArray, y: FloatArray, low: float, high: float) -> tuple[str, float]:
    """Return the points of a polyline over the range of x, with y from `low` to `high`, and the height of zero."""
    width, height = CURVE_SIZE
    across = width * (x - x[0]) / (x[-1] - x[0] or 1.0)
    up = height * (high - np.append(y, 0.0)) / (high - low or 1.0)
    points = " ".join(f"{first:.1f},{second:.1f}" for first, second in zip(across, up[:-1], strict=True))
    return points, round(float(up[-1]), 1)


def _ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """Return three to seven round values of an axis, and their labels, all in the same notation."""
    power = 10.0 ** math.floor(math.log10(high - low))
    step = next(factor * power for factor in (0.1, 0.2, 0.5, 1.0, 2.0) if high - low <= 6.0 * factor * power)
    ticks = [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
    exponent, largest = math.floor(math.log10(step) + 1e-9), max(map(abs, ticks))
    if largest < _DECIMAL and exponent >= -4:
        return ticks, [f"{value:,.{max(0, -exponent)}f}" for value in ticks]
    digits = max(0, math.floor(math.log10(largest) + 1e-9) - exponent)
    return ticks, ["0" if value == 0.0 else f"{value:.{digits}e}" for value in ticks]
