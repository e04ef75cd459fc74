"""Charts as SVG in the colours of the page around them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from qsdp._utils.summary import format_share
from qsdp._utils.validation import FloatArray
from qsdp.report._blocks import Curve, Scatter

__all__ = ["curve_svg", "scatter_svg"]

#: Size of a chart and its margins, in units in which a letter is 13 high.
_WIDTH, _HEIGHT = 440.0, 270.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 14.0, 12.0, 44.0


@dataclass(frozen=True)
class _Axis:
    """A scale from `low` to `high`, logarithmic if `log`."""

    low: float
    high: float
    log: bool = False

    @classmethod
    def around(cls, values: FloatArray) -> _Axis:
        """Return a linear scale that contains the values, with a margin."""
        low, high = float(np.min(values)), float(np.max(values))
        room = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
        return cls(low - room, high + room)

    @classmethod
    def around_sizes(cls, values: FloatArray) -> _Axis:
        """Return a logarithmic scale that contains positive values, with a margin."""
        return cls(float(np.min(values)) / 1.2, float(np.max(values)) * 1.2, log=True)

    def shares(self, values: Any) -> FloatArray:
        """Return positions of values between the ends of the scale, from 0 to 1."""
        if self.log:
            return np.asarray(np.log(np.asarray(values) / self.low) / math.log(self.high / self.low))
        return (np.asarray(values, dtype=np.float64) - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Return three to seven round values between the ends."""
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            steps = (1.0, 3.0) if self.high < 1e4 * self.low else (1.0,)
            return [one for one in (step * 10.0**power for power in powers for step in steps) if self._holds(one)]
        span = self.high - self.low
        power = 10.0 ** math.floor(math.log10(span))
        step = next(one * power for one in (0.1, 0.2, 0.5, 1.0, 2.0) if span <= 6.0 * one * power)
        first = math.ceil(self.low / step)
        return [step * k for k in range(first, math.floor(self.high / step) + 1)]

    def _holds(self, value: float) -> bool:
        return self.low <= value <= self.high


def curve_svg(curve: Curve) -> str:
    """Return the mean and range of values against sizes, and one marked point, as SVG."""
    size, value = curve.point
    across = _Axis.around_sizes(np.append(curve.sizes, size))
    up = _Axis.around(np.append(curve.values, value))
    x, (low, mean, high) = (
        _x(across, curve.sizes),
        (
            _y(up, reduced)
            for reduced in (curve.values.min(axis=1), curve.values.mean(axis=1), curve.values.max(axis=1))
        ),
    )
    band = _points([*zip(x, low, strict=True), *zip(x[::-1], high[::-1], strict=True)])
    (left,), (top,) = _x(across, [size]), _y(up, [value])
    marks = [
        f'<polygon class="band" points="{band}"/>',
        f'<polyline class="line" points="{_points(zip(x, mean, strict=True))}"/>',
        *(f'<circle class="dot" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in zip(x, mean, strict=True)),
        f'<path class="star" d="M{left:.1f} {top - 7.0:.1f}l7 7l-7 7l-7 -7z"/>',
    ]
    return _svg(across, up, curve.x_label, curve.y_label, marks, percent=curve.percent)


def scatter_svg(scatter: Scatter) -> str:
    """Return points and the diagonal, as SVG."""
    both = _Axis.around(np.concatenate([scatter.x, scatter.y]))
    ends = [both.low, both.high]
    diagonal = _points(zip(_x(both, ends), _y(both, ends), strict=True))
    marks = [
        f'<polyline class="reference" points="{diagonal}"/>',
        *(
            f'<circle class="point" cx="{a:.1f}" cy="{b:.1f}" r="2.6"/>'
            for a, b in zip(_x(both, scatter.x), _y(both, scatter.y), strict=True)
        ),
    ]
    return _svg(both, both, scatter.x_label, scatter.y_label, marks)


def _x(axis: _Axis, values: Any) -> FloatArray:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * axis.shares(values)


def _y(axis: _Axis, values: Any) -> FloatArray:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * axis.shares(values)


def _points(pairs: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in pairs)


def _svg(across: _Axis, up: _Axis, x_label: str, y_label: str, marks: list[str], *, percent: bool = False) -> str:
    """Return axes and the marks on them, as SVG."""
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = [
        f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" '
        f'aria-label="{escape(y_label)} against {escape(x_label)}">'
    ]
    for tick, y in zip(up.ticks(), _y(up, up.ticks()), strict=True):
        text = format_share(tick, ".6g") if percent else f"{tick:,.6g}"
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6.0}" y="{y + 4.0:.1f}" text-anchor="end">{text}</text>')
    for tick, x in zip(across.ticks(), _x(across, across.ticks()), strict=True):
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 4.0}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 17.0}" text-anchor="middle">{tick:,.6g}</text>')
    parts += [
        f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>',
        *marks,
        f'<text x="{0.5 * (_LEFT + right):.1f}" y="{_HEIGHT - 8.0}" text-anchor="middle">{escape(x_label)}</text>',
    ]
    return "".join(parts) + "</svg>"
