"""Summaries of results: a title and a table of facts provided by each class, rendered as text and as HTML."""

from __future__ import annotations

import html
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qsdp._utils.gap import Gap

__all__ = [
    "Rows",
    "Summarized",
    "Summary",
    "SummaryBelowDiagram",
    "first_few",
    "format_bits",
    "format_count",
    "format_number",
    "format_numbers",
    "format_percent",
    "format_seconds",
    "gap_rows",
    "in_units",
]

Rows = list[tuple[str, str]]

#: Maximum numbers of characters in a line, and of lines in a value or entries in a list.
_CHARACTERS, _LINES = 120, 8

_CELL = "padding:0.1em 0.8em 0.1em 0;text-align:left;vertical-align:top;border:none"


@dataclass(frozen=True)
class Summary:
    """Summary of an object: a title and named facts.

    Attributes
    ----------
    title : str
        Name of its class.
    rows : list of (str, str)
        Name and value of each fact, plain text of any length: the renderer escapes and wraps it, and truncates it after
        eight lines.
    """

    title: str
    rows: Rows

    def text(self) -> str:
        """Render as text: the title, and indented, aligned lines for every fact."""
        rows = [(_truncated(name), _wrapped(value)) for name, value in self.rows]
        width = max((len(name) for name, _ in rows), default=0)
        lines = [
            f"  {name if number == 0 else '':{width}}  {line}"
            for name, value in rows
            for number, line in enumerate(value)
        ]
        return "\n".join([_truncated(self.title), *lines])

    def html(self) -> str:
        """Render as escaped HTML without scripts: a heading and a table in the colours of the surrounding page."""
        body = "".join(
            f'<tr style="background:none"><th scope="row" style="{_CELL};font-weight:normal;opacity:0.75">'
            f'{_escaped(name)}</th><td style="{_CELL}">{_escaped(value, _CHARACTERS * _LINES)}</td></tr>'
            for name, value in self.rows
        )
        return (
            '<div style="font-size:0.95em;line-height:1.35">'
            f'<div style="font-weight:bold;margin-bottom:0.3em">{_escaped(self.title)}</div>'
            f'<table style="border-collapse:collapse;border:none;margin:0"><tbody>{body}</tbody></table></div>'
        )


class Summarized(ABC):
    """Mixin of classes with a summary: notebooks and IPython show it, `repr` stays short."""

    @abstractmethod
    def _summary(self) -> Summary:
        """Return the facts of the object, which must be quick to compute."""

    def _repr_html_(self) -> str:
        return self._summary().html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        summary = self._summary()
        return {"text/plain": summary.text(), "text/html": summary.html()}


class SummaryBelowDiagram:
    """Mixin, before scikit-learn's base class, that shows the summary of the fit below the diagram in notebooks."""

    def _summary(self) -> Summary | None:
        """Return the summary of the fitted estimator, or None before `fit`."""
        return None

    def _panel(self) -> str:
        summary = self._summary()
        return "" if summary is None else summary.html()

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + self._panel()  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._panel()
        return bundle


def gap_rows(gap: Gap, whose: str) -> Rows:
    """Return the facts objective, lower bound and gap."""
    return [
        ("objective", f"{format_number(gap.objective)} {whose}"),
        ("lower bound", f"{format_number(gap.lower_bound)} of every network"),
        ("gap", f"{format_number(gap.gap, 4)}, relative {format_number(gap.relative_gap, 3)}"),
    ]


def format_number(value: float, digits: int = 6) -> str:
    """Format a number with `digits` significant digits."""
    return f"{value:.{digits}g}"


def format_numbers(values: Sequence[float]) -> str:
    """Format numbers, only the first few if there are many."""
    return first_few([format_number(value, 4) for value in values])


def first_few(names: Sequence[str]) -> str:
    """Join names on one line, only the first few if there are many."""
    shown = " ".join(", ".join(names[:_LINES]).split())
    return f"{shown}, … ({len(names)} in all)" if len(names) > _LINES else shown


def format_seconds(seconds: float) -> str:
    """Format seconds, in milliseconds if less than one."""
    return f"{seconds:.3g} s" if seconds >= 1.0 or seconds == 0.0 else f"{1e3 * seconds:.3g} ms"


def format_bits(bits: int) -> str:
    """Format a number of bits, also in bytes with a suitable unit."""
    amount, unit = in_units(bits / 8.0, ["bytes", "KiB", "MiB", "GiB"], 1024.0)
    return f"{bits:,} bits ({amount:.4g} {unit})"


def in_units(amount: float, units: Sequence[str], step: float) -> tuple[float, str]:
    """Convert an amount to the unit in which it is below `step`, of units that are `step` times the one before."""
    unit, *larger = units
    return in_units(amount / step, larger, step) if larger and amount >= step else (amount, unit)


def format_percent(fraction: float, digits: str = ".1f") -> str:
    """Format a fraction as a percentage; `digits` is a format specification."""
    return f"{100.0 * fraction:{digits}} %"


def format_count(n_neurons: int, n_inputs: int, n_outputs: int) -> str:
    """Format the numbers of neurons, inputs and, if there are several, outputs of a network."""
    outputs = f", {n_outputs} outputs" if n_outputs > 1 else ""
    return f"{n_neurons:,} neurons, {n_inputs} inputs{outputs}"


def _truncated(value: str, limit: int = _CHARACTERS) -> str:
    return value if len(value) <= limit else value[: limit - 1] + "…"


def _wrapped(value: str) -> list[str]:
    """Wrap a value into one or more lines, truncated after the maximum number."""
    return textwrap.wrap(value, _CHARACTERS, max_lines=_LINES, placeholder=" …", break_on_hyphens=False) or [""]


def _escaped(value: str, limit: int = _CHARACTERS) -> str:
    return html.escape(_truncated(value, limit))
