"""Coordinates of charts for the template of the HTML page, in SVG units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qsdp._utils.summary import format_share
from qsdp._utils.validation import FloatArray

__all__ = ["Axis", "curve", "scatter"]

#: Size of a chart and the ends of its axes, in units in which a letter is 13 high.
_FRAME = {"width": 440, "height": 270, "left": 56, "right": 426, "top": 12, "bottom": 226}


@dataclass(frozen=True)
class Axis:
    """Axis from `low` to `high`, linear or logarithmic."""

    low: float
    high: float
    log: bool = False

    @classmethod
    def around(cls, values: FloatArray) -> Axis:
        """Return a linear scale that contains the values, with a margin."""
        low, high = float(np.min(values)), float(np.max(values))
        room = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
        return cls(low - room, high + room)

    @classmethod
    def around_sizes(cls, values: FloatArray) -> Axis:
        """Return a logarithmic scale that contains positive values, with a margin."""
        return cls(float(np.min(values)) / 1.2, float(np.max(values)) * 1.2, log=True)

    def shares(self, values: Any) -> FloatArray:
        """Return positions of values along the axis, from 0 at `low` to 1 at `high`."""
        if self.log:
            return np.asarray(np.log(np.asarray(values) / self.low) / math.log(self.high / self.low))
        return (np.asarray(values, dtype=np.float64) - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Return three to seven round tick values."""
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            steps = (1.0, 3.0) if self.high < 1e4 * self.low else (1.0,)
            values = [step * 10.0**power for power in powers for step in steps]
            return [value for value in values if self.low <= value <= self.high]
        span = self.high - self.low
        power = 10.0 ** math.floor(math.log10(span))
        step = next(one * power for one in (0.1, 0.2, 0.5, 1.0, 2.0) if span <= 6.0 * one * power)
        return [step * k for k in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]

    def between(self, start: str, end: str, values: Any) -> list[float]:
        """Return SVG coordinates of values between two lines of the frame."""
        first, last = _FRAME[start], _FRAME[end]
        return np.round(first + (last - first) * self.shares(values), 1).tolist()  # type: ignore[no-any-return]


def curve(
    sizes: Sequence[float], values: FloatArray, point: tuple[float, float], *, percent: bool, **texts: str
) -> dict[str, Any]:
    """Return the chart of the mean and range of values (K, R) against K sizes, with one marked point.

    Texts are `x_label`, `y_label`, `caption` of the line and `star_name` of the point.
    """
    across, up = Axis.around_sizes(np.append(sizes, point[0])), Axis.around(np.append(values, point[1]))
    x = across.between("left", "right", sizes)
    low, mean, high = (up.between("bottom", "top", some(axis=1)) for some in (values.min, values.mean, values.max))
    line = list(zip(x, mean, strict=True))
    band = [*zip(x, low, strict=True), *zip(x[::-1], high[::-1], strict=True)]
    (left,), (top,) = across.between("left", "right", [point[0]]), up.between("bottom", "top", [point[1]])
    return {**_axes(across, up, percent), "band": band, "line": line, "dots": line, "star": (left, top), **texts}


def scatter(x: FloatArray, y: FloatArray, **texts: str) -> dict[str, Any]:
    """Return the chart of points on equal scales, with the diagonal; texts are `x_label`, `y_label` and `caption`."""
    both = Axis.around(np.concatenate([x, y]))
    ends, points = ([both.between("left", "right", a), both.between("bottom", "top", b)] for a, b in (
        ([both.low, both.high], [both.low, both.high]), (x, y),
    ))  # fmt: skip
    line, dots = (list(zip(*pair, strict=True)) for pair in (ends, points))
    return {**_axes(both, both, False), "band": [], "line": line, "dots": dots, "star": None, **texts}


def _axes(across: Axis, up: Axis, percent: bool) -> dict[str, Any]:
    def texts(values: Sequence[float], percent: bool) -> list[str]:
        return [format_share(value, ".6g") if percent else f"{value:,.6g}" for value in values]

    x, y = across.ticks(), up.ticks()
    return {
        **_FRAME,
        "x_ticks": list(zip(across.between("left", "right", x), texts(x, False), strict=True)),
        "y_ticks": list(zip(up.between("bottom", "top", y), texts(y, percent), strict=True)),
    }
