"""Reports as one HTML page without scripts, which loads no files and follows the reader's light or dark colours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import singledispatch
from html import escape
from itertools import groupby

import numpy as np

from qsdp.report._blocks import BarChart, Block, Curve, Grid, Interval, Paragraph, Scatter, Section, TextTable
from qsdp.report._charts import curve_svg, scatter_svg

__all__ = ["page"]

_STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1c1e21; --soft: #5c6470; --rule: #d9dde3; --fill: #f4f6f8;
  --main: #0072b2; --other: #d55e00; --shade: 0, 114, 178; }
@media (prefers-color-scheme: dark) { :root { --back: #15181c; --text: #e4e7eb; --soft: #9aa3af; --rule: #343a42;
  --fill: #1e2329; --main: #56b4e9; --other: #e69f00; --shade: 86, 180, 233; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0.5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.6rem 0 0.6rem; padding-top: 0.8rem; border-top: 1px solid var(--rule); }
p { max-width: 46rem; margin: 0.6rem 0; overflow-wrap: anywhere; }
.lead { font-size: 1.1rem; }
code { font: 0.9em/1.4 ui-monospace, "Liberation Mono", Menlo, Consolas, monospace; background: var(--fill);
  border-radius: 3px; padding: 0.1em 0.3em; }
.scroll { overflow-x: auto; margin: 0.8rem 0; }
table { border-collapse: collapse; font-size: 0.94rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 1.1rem 0.3rem 0; border-bottom: 1px solid var(--rule);
  overflow-wrap: break-word; }
th { font-weight: 600; }
tbody th { font-weight: 400; color: var(--soft); min-width: 6.5rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
figcaption, .note { color: var(--soft); font-size: 0.9rem; padding: 0.2rem 0; }
.note + .scroll { margin-top: 0.2rem; }
.cells td { text-align: right; padding: 0.3rem 0.55rem; border: 1px solid var(--back); white-space: nowrap;
  font-variant-numeric: tabular-nums; }
.cells th { padding: 0.3rem 0.55rem 0.3rem 0; border: none; color: var(--soft); font-weight: 400; min-width: 0;
  max-width: 11rem; }
.cells thead th { text-align: right; vertical-align: bottom; }
td.number, span.number { white-space: nowrap; }
details { margin: 0.8rem 0; }
summary { cursor: pointer; color: var(--soft); font-size: 0.94rem; }
.charts { display: grid; gap: 1rem 2rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); }
figure { margin: 0.8rem 0; max-width: 34rem; }
svg { display: block; width: 100%; height: auto; font-size: 13px; }
svg text { fill: var(--soft); }
.grid { stroke: var(--rule); } .axis { stroke: var(--soft); }
.line { fill: none; stroke: var(--main); stroke-width: 2; } .dot { fill: var(--main); }
.band { fill: var(--main); opacity: 0.2; } .star { fill: var(--other); stroke: var(--back); }
.point { fill: var(--main); opacity: 0.55; } .reference { fill: none; stroke: var(--soft); stroke-dasharray: 5 4; }
.key { display: inline-block; margin-right: 1.2em; }
.key::before { content: ""; display: inline-block; width: 0.8em; height: 0.8em; margin: 0 0.4em 0 0;
  border-radius: 50%; background: var(--main); }
.key.mark::before { background: var(--other); border-radius: 0;
  transform: rotate(45deg) scale(0.8); }
.bar { display: grid; grid-template-columns: minmax(5rem, 11rem) 1fr 6.5rem; gap: 0.8rem; align-items: center;
  font-size: 0.94rem; max-width: 46rem; margin: 0.25rem 0; }
.bar span { overflow-wrap: anywhere; } .bar .number { color: var(--soft); }
.bar div { background: var(--main); height: 0.85rem; border-radius: 2px; min-width: 1px; }
.range { display: flex; height: 1.6rem; max-width: 46rem; border-radius: 3px; overflow: hidden; margin: 0.8rem 0 0.2rem;
  background: var(--fill); }
.range .sure { background: var(--main); }
.range .open { background: repeating-linear-gradient(45deg, var(--other) 0 4px, transparent 4px 8px); }
@media (max-width: 40rem) { body { font-size: 15px; } main { padding: 1rem 0.9rem 3rem; } h1 { font-size: 1.4rem; }
  th, td { padding-right: 0.7rem; } tbody th { min-width: 5rem; } .bar { grid-template-columns: 6.5rem 1fr 5.2rem; } }
@media print { main { max-width: none; } h2 { break-after: avoid; } figure, .bar, tr { break-inside: avoid; } }
"""


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """Return an HTML page as text, for UTF-8."""
    body = "".join(f"<section><h2>{escape(one.title)}</h2>{_blocks(one.blocks)}</section>" for one in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f'<body><main><h1>{escape(title)}</h1><p class="lead">{_text(lead)}</p>{body}</main></body>\n</html>\n'
    )


def _blocks(blocks: Sequence[Block]) -> str:
    """Return blocks one below the other, with charts side by side where there is room."""
    parts = []
    for charts, group in groupby(blocks, lambda block: isinstance(block, (Curve, Scatter))):
        shown = "".join(map(_block, group))
        parts.append(f'<div class="charts">{shown}</div>' if charts else shown)
    return "".join(parts)


def _text(text: str) -> str:
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(text))


def _note(caption: str) -> str:
    return f'<p class="note">{_text(caption)}</p>' if caption else ""


@singledispatch
def _block(block: Block) -> str:
    raise NotImplementedError


@_block.register
def _(block: Paragraph) -> str:
    return f"<p>{_text(block.text)}</p>"


@_block.register
def _(block: TextTable) -> str:
    def cell(tag: str, place: int, text: str, scope: str = "") -> str:
        aligned = ' class="number"' if place in block.numbers else ""
        return f"<{tag}{scope}{aligned}>{_text(text)}</{tag}>"

    heads = "".join(cell("th", place, text, ' scope="col"') for place, text in enumerate(block.header))
    rows = "".join(
        "<tr>"
        + cell("th", 0, row[0], ' scope="row"')
        + "".join(cell("td", place, text) for place, text in enumerate(row[1:], start=1))
        + "</tr>"
        for row in block.rows
    )
    head = f"<thead><tr>{heads}</tr></thead>" if block.header else ""
    table = f'<div class="scroll"><table>{head}<tbody>{rows}</tbody></table></div>'
    if block.folded:
        return f"<details><summary>{_text(block.caption)}</summary>{table}</details>"
    return _note(block.caption) + table


@_block.register
def _(block: Interval) -> str:
    sure = 100.0 * block.low / block.high if block.high > 0.0 else 100.0
    return (
        f'<div class="range"><div class="sure" style="width:{sure:.2f}%"></div>'
        f'<div class="open" style="width:{100.0 - sure:.2f}%"></div></div>{_note(block.caption)}'
    )


@_block.register
def _(block: BarChart) -> str:
    largest = max((value for _, value, _ in block.rows), default=0.0) or 1.0
    rows = "".join(
        f'<div class="bar"><span>{escape(label)}</span><div style="width:{100.0 * value / largest:.1f}%"></div>'
        f'<span class="number">{escape(text)}</span></div>'
        for label, value, text in block.rows
    )
    return _note(block.caption) + rows


@_block.register
def _(block: Grid) -> str:
    largest = float(np.nanmax(block.values, initial=0.0)) or 1.0

    def cell(value: float, text: str) -> str:
        if np.isnan(value):
            return "<td></td>"
        return f'<td style="background:rgba(var(--shade),{0.04 + 0.5 * value / largest:.3f})">{escape(text)}</td>'

    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in block.column_names)
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(map(cell, values, texts))}</tr>'
        for name, values, texts in zip(block.row_names, block.values.tolist(), block.texts, strict=True)
    )
    return (
        f'{_note(block.caption)}<div class="scroll"><table class="cells">'
        f"<thead><tr><th>{escape(block.corner)}</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


@_block.register
def _(block: Curve) -> str:
    keys = f'<span class="key">{escape(block.line_name)}</span><span class="key mark">{escape(block.point_name)}</span>'
    return _figure(block.y_label, curve_svg(block), keys)


@_block.register
def _(block: Scatter) -> str:
    return _figure(block.y_label, scatter_svg(block), _text(block.caption))


def _figure(heading: str, chart: str, key: str) -> str:
    caption = f"<figcaption>{key}</figcaption>" if key else ""
    return f"<figure><figcaption>{escape(heading)}</figcaption>{chart}{caption}</figure>"
