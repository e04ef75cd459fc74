"""Tables and panels as HTML: escaped, without scripts, in the colours of the page around them."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

__all__ = ["duration", "number", "panel", "size", "some", "text"]

#: Letters of a text, and numbers of a list, that are shown at most.
_LONGEST, _MOST = 120, 5

_CELL = "padding:0.1em 0.8em 0.1em 0;text-align:left;vertical-align:top;border:none"


def text(value: object) -> str:
    """Return a value as escaped text of bounded length."""
    shown = str(value)
    return html.escape(shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…")


def number(value: float, digits: int = 6) -> str:
    """Return a number with some digits."""
    return f"{value:.{digits}g}"


def duration(seconds: float) -> str:
    """Return seconds, as milliseconds where there are less than one."""
    return f"{seconds:.3g} s" if seconds >= 1.0 or seconds == 0.0 else f"{1e3 * seconds:.3g} ms"


def some(values: Sequence[float]) -> str:
    """Return the first few of many numbers."""
    shown = ", ".join(number(value, 4) for value in values[:_MOST])
    return f"{shown}, … ({len(values)} in all)" if len(values) > _MOST else shown


def size(bits: int) -> str:
    """Return bits, and bytes for people."""
    amount, units = bits / 8.0, ["bytes", "KiB", "MiB", "GiB"]
    while amount >= 1024.0 and len(units) > 1:
        amount, units = amount / 1024.0, units[1:]
    return f"{bits:,} bits ({amount:.4g} {units[0]})"


def panel(title: str, rows: Iterable[tuple[str, str]], pictures: Iterable[str] = ()) -> str:
    """Return a heading, a table of facts and the pictures beside it.

    Parameters
    ----------
    title : str
    rows : iterable of (str, str)
        Name and value of each fact; escaped here.
    pictures : iterable of str
        SVG elements, empty ones left out.
    """
    body = "".join(
        f'<tr style="background:none"><th scope="row" style="{_CELL};font-weight:normal;opacity:0.75">{text(name)}</th>'
        f'<td style="{_CELL}">{text(value)}</td></tr>'
        for name, value in rows
    )
    drawn = "".join(f"<div>{picture}</div>" for picture in pictures if picture)
    beside = f'<div style="display:flex;flex-direction:column;gap:0.6em">{drawn}</div>' if drawn else ""
    return (
        '<div style="font-size:0.95em;line-height:1.35">'
        f'<div style="font-weight:bold;margin-bottom:0.3em">{text(title)}</div>'
        '<div style="display:flex;flex-wrap:wrap;gap:1em 2em;align-items:flex-start">'
        f'<table style="border-collapse:collapse;border:none;margin:0"><tbody>{body}</tbody></table>'
        f"{beside}</div></div>"
    )
