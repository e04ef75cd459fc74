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

#: Size of a chart and the ends of its axes, in units in which a letter is 13 high. Labels set left and right.
_FRAME = {"width": 440, "height": 270, "top": 12, "bottom": 226}

#: Width of a character of a label, and of the space around labels; wider ones only move the axis.
_CHARACTER, _SPACE = 7.5, 16

#: Labels are decimal numbers below this magnitude, and powers of ten beyond it.
_DECIMAL = 1e7


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

    def labels(self, *, percent: bool = False) -> list[str]:
        """Return the texts of the ticks, all in the same notation."""
        ticks = self.ticks()
        if percent:
            return [format_share(value, ".6g") for value in ticks]
        if self.log:
            return [f"{value:,.6g}" for value in ticks]
        step, largest = abs(ticks[1] - ticks[0]), max(map(abs, ticks))
        place = math.floor(math.log10(step) + 1e-9)
        if largest < _DECIMAL and place >= -4:
            return [f"{value:,.{max(0, -place)}f}" for value in ticks]
        digits = max(0, math.floor(math.log10(largest) + 1e-9) - place)
        return ["0" if value == 0.0 else f"{value:.{digits}e}" for value in ticks]

    def between(self, first: float, last: float, values: Any) -> list[float]:
        """Return SVG coordinates of values on an axis that is drawn from `first` to `last`."""
        return np.round(first + (last - first) * self.shares(values), 1).tolist()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _Frame:
    """Two axes in an SVG picture."""

    across: Axis
    up: Axis
    percent: bool = False

    @property
    def left(self) -> float:
        """Left end of the horizontal axis, which leaves room for the labels of the vertical one."""
        return _SPACE + _CHARACTER * max(map(len, self.up.labels(percent=self.percent)))

    @property
    def right(self) -> float:
        """Right end of the horizontal axis, on which half of a label may lie."""
        return _FRAME["width"] - max(_SPACE, _CHARACTER * max(map(len, self.across.labels())) / 2)

    def x(self, values: Any) -> list[float]:
        """Return horizontal coordinates of values."""
        return self.across.between(self.left, self.right, values)

    def y(self, values: Any) -> list[float]:
        """Return vertical coordinates of values."""
        return self.up.between(_FRAME["bottom"], _FRAME["top"], values)

    def drawn(self) -> dict[str, Any]:
        """Return the variables of the frame and its ticks."""
        return {
            **_FRAME,
            "left": self.left,
            "right": self.right,
            "x_ticks": list(zip(self.x(self.across.ticks()), self.across.labels(), strict=True)),
            "y_ticks": list(zip(self.y(self.up.ticks()), self.up.labels(percent=self.percent), strict=True)),
        }


def curve(
    sizes: Sequence[float], values: FloatArray, point: tuple[float, float], *, percent: bool, **texts: str
) -> dict[str, Any]:
    """Return the chart of the mean and range of values (K, R) against K sizes, with one marked point.

    Texts are `x_label`, `y_label`, `caption` of the line and `star_name` of the point.
    """
    frame = _Frame(
        Axis.around_sizes(np.append(sizes, point[0])), Axis.around(np.append(values, point[1])), percent=percent
    )
    x = frame.x(sizes)
    low, mean, high = (frame.y(some(axis=1)) for some in (values.min, values.mean, values.max))
    line = list(zip(x, mean, strict=True))
    band = [*zip(x, low, strict=True), *zip(x[::-1], high[::-1], strict=True)]
    star = (*frame.x([point[0]]), *frame.y([point[1]]))
    return {**frame.drawn(), "band": band, "line": line, "dots": line, "star": star, **texts}


def scatter(x: FloatArray, y: FloatArray, **texts: str) -> dict[str, Any]:
    """Return the chart of points on equal scales, with the diagonal; texts are `x_label`, `y_label` and `caption`."""
    both = Axis.around(np.concatenate([x, y]))
    frame, ends = _Frame(both, both), [both.low, both.high]
    line, dots = (list(zip(frame.x(a), frame.y(b), strict=True)) for a, b in ((ends, ends), (x, y)))
    return {**frame.drawn(), "band": [], "line": line, "dots": dots, "star": None, **texts}
