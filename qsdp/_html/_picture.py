"""Small pictures as SVG elements, drawn without any library, legible on light and dark pages."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from qsdp._utils.validation import FloatArray

__all__ = ["bars", "curves", "histogram", "interval"]

#: Of one lightness, between that of black and white, and not told apart by red and green.
BLUE, ORANGE = "#3a87c8", "#d9772b"

_WIDTH, _LETTER, _LINE = 300, 6.2, 15

#: Points of a curve that are drawn at most.
_POINTS = 200


def interval(low: float, high: float, labels: tuple[str, str]) -> str:
    """Return a bar from 0 to `high`, of which what is up to `low` is filled; empty unless ``0 <= low <= high``."""
    if not (math.isfinite(high) and 0.0 <= low <= high and high > 0.0):
        return ""
    end = _WIDTH * low / high
    parts = [
        f'<rect x="0" y="2" width="{end:.2f}" height="12" fill="{BLUE}"/>',
        f'<rect x="{end:.2f}" y="2" width="{_WIDTH - end:.2f}" height="12" fill="{ORANGE}" fill-opacity="0.45"/>',
        _text(0, 29, f"{labels[0]} {low:.5g}"),
        _text(_WIDTH, 29, f"{labels[1]} {high:.5g}", anchor="end"),
    ]
    return _svg(34, parts, f"{labels[0]} {low:.5g} and {labels[1]} {high:.5g} on a scale from 0")


def bars(values: Mapping[str, float], show: Callable[[float], str]) -> str:
    """Return horizontal bars with names and what `show` makes of the numbers; empty without a positive one."""
    largest = max(values.values(), default=0.0)
    if not (largest > 0.0 and math.isfinite(largest)):
        return ""
    left = 8.0 + _LETTER * max(map(len, values))
    right = 8.0 + _LETTER * max(len(show(value)) for value in values.values())
    parts = []
    for row, (name, value) in enumerate(values.items()):
        y, length = _LINE * row, (_WIDTH - left - right) * max(value, 0.0) / largest
        parts += [
            _text(0, y + 11, name),
            f'<rect x="{left:.2f}" y="{y + 3}" width="{max(length, 0.5):.2f}" height="9" fill="{BLUE}"/>',
            _text(left + length + 5, y + 11, show(value)),
        ]
    described = ", ".join(f"{name} {show(value)}" for name, value in values.items())
    return _svg(_LINE * len(values), parts, described)


def histogram(levels: Sequence[int | str], counts: FloatArray, title: str) -> str:
    """Return a bar for the share of every level, with the levels below; empty without counts."""
    total = float(np.sum(counts))
    if not total:
        return ""
    shares, slot = np.asarray(counts, dtype=np.float64) / total, _WIDTH / len(levels)
    parts, top, height = [_text(0, 11, title)], 18.0, 46.0
    for k, (level, share) in enumerate(zip(levels, shares, strict=True)):
        bar = height * float(share / shares.max())
        x = slot * k
        parts.append(
            f'<rect x="{x + 0.1 * slot:.2f}" y="{top + height - bar:.2f}" width="{0.8 * slot:.2f}" '
            f'height="{bar:.2f}" fill="{BLUE}"/>'
        )
        # Of many levels only the ends have room for their names.
        if len(levels) <= 12 or k in {0, len(levels) - 1}:
            share_text = f" ({100.0 * share:.0f} %)" if len(levels) <= 4 else ""
            middle = min(max(x + 0.5 * slot, 9.0), _WIDTH - 9.0)
            parts.append(_text(middle, top + height + 13, f"{level}{share_text}", anchor="middle"))
    parts.append(_axis(top + height))
    described = ", ".join(f"{level}: {100.0 * s:.0f} %" for level, s in zip(levels, shares, strict=True))
    return _svg(top + height + 18, parts, f"{title}: {described}"[:400])


def curves(
    series: Sequence[FloatArray], title: str, ends: tuple[str, str] = ("", ""), places: FloatArray | None = None
) -> str:
    """Return curves on one logarithmic scale, of positive values only.

    They stand over their index, or over increasing `places`; `ends` is written below the first and the last.
    """
    drawn = [_thinned(np.asarray(values, dtype=np.float64)) for values in series]
    finite = np.concatenate([np.empty(0), *(values[np.isfinite(values) & (values > 0.0)] for values in drawn)])
    if len(finite) < 2:
        return ""
    low, high = math.log10(np.min(finite)), math.log10(np.max(finite))
    top, height, left = 18.0, 56.0, 52.0
    parts = [_text(0, 11, title), _axis(top + height, left)]
    for values, colour, dash in zip(drawn, (BLUE, ORANGE), ("", "5,3"), strict=False):
        x = np.arange(len(values)) if places is None else _thinned(places) - places[0]
        x = left + (_WIDTH - left) * x / (x[-1] or 1.0)
        shown = np.where(np.isfinite(values) & (values > 0.0), values, 10.0**low)
        level = (np.log10(shown) - low) / (high - low or 1.0)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, top + height * (1.0 - level), strict=True))
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"{dashes}/>')
    parts += [_text(0, top + 8, f"{10.0**high:.3g}"), _text(0, top + height, f"{10.0**low:.3g}")]
    parts += [_text(left, top + height + 13, ends[0]), _text(_WIDTH, top + height + 13, ends[1], anchor="end")]
    return _svg(top + height + 18, parts, f"{title}: from {10.0**low:.3g} to {10.0**high:.3g}")


def _thinned(values: FloatArray) -> FloatArray:
    """Return at most some values, first and last among them."""
    if len(values) <= _POINTS:
        return values
    kept: FloatArray = values[np.linspace(0, len(values) - 1, _POINTS).round().astype(int)]
    return kept


def _axis(y: float, left: float = 0.0) -> str:
    return f'<line x1="{left}" y1="{y}" x2="{_WIDTH}" y2="{y}" stroke="currentColor" stroke-opacity="0.4"/>'


def _text(x: float, y: float, content: str, anchor: str = "start") -> str:
    if not content:
        return ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="11" fill="currentColor">'
        f"{html.escape(content)}</text>"
    )


def _svg(height: float, parts: Sequence[str], description: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{html.escape(description)}" '
        f'width="{_WIDTH}" height="{height:.0f}" viewBox="0 0 {_WIDTH} {height:.0f}" '
        f'style="max-width:100%;font-family:sans-serif">{"".join(parts)}</svg>'
    )
