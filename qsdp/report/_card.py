"""Reports as model cards: Markdown with YAML metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from qsdp.report._blocks import BarChart, Block, Grid, Paragraph, Section, TextTable

__all__ = ["card", "usage_of_model"]

_LIMITS = """## Uses and limits

What the model is meant for, and what not, is for its authors to say here. A certificate is about the objective on the
training rows. It does not say how the model does on other rows, and an effect of a column is what the network computes,
no cause.
"""


def card(
    name: str,
    lead: str,
    task: str | None,
    scores: Sequence[tuple[str, float]],
    data: str | None,
    sections: Sequence[Section],
    usage: str,
) -> str:
    """Return a model card as UTF-8 text."""
    body = [f"# {_line(name)}", _escaped(lead), f"## How to use it\n\n{usage}", _LIMITS.rstrip()]
    for section in sections:
        body += [f"## {_line(section.title)}", *filter(None, map(_block, section.blocks))]
    return _head(name, task, scores, data) + "\n\n".join(body) + "\n"


def usage_of_model(name: str) -> str:
    """Return instructions, as Markdown, for using a model file of `qsdp fit`."""
    file = _line(f"{name}.qsdp")
    return f"```console\n$ pip install qsdp\n$ qsdp predict {file} new.csv\n$ qsdp export {file} --to c\n```"


def _head(name: str, task: str | None, scores: Sequence[tuple[str, float]], data: str | None) -> str:
    """Return the YAML metadata, between lines of dashes."""
    metric = "accuracy" if task == "tabular-classification" else "r_squared"
    fields: dict[str, Any] = {
        "library_name": "qsdp",
        **({"pipeline_tag": task} if task else {}),
        "tags": [*([task] if task else []), "quantized", "convex-optimization"],
    }
    if scores:
        results = [
            {
                "task": {"type": task},
                "dataset": {"name": f"{data}, {rows}", "type": "csv"},
                "metrics": [{"type": metric, "value": round(score, 6)}],
            }
            for rows, score in scores
            if np.isfinite(score)
        ]
        fields |= {"metrics": [metric], "model-index": [{"name": name, "results": results}]}
    return f"---\n{_yaml(fields)}---\n\n"


def _yaml(value: Any, indent: str = "") -> str:
    """Return mappings and lists as lines of YAML; texts and numbers are written as JSON, which is valid YAML."""
    pairs = (
        [(f"{key}:", one) for key, one in value.items()] if isinstance(value, dict) else [("-", one) for one in value]
    )
    lines = []
    for mark, one in pairs:
        if isinstance(one, (dict, list)):
            inner = _yaml(one, f"{indent}  ")
            lines.append(f"{indent}{mark}\n{inner}" if mark != "-" else f"{indent}- {inner.lstrip()}")
        else:
            lines.append(f"{indent}{mark} {json.dumps(one, ensure_ascii=False)}\n")
    return "".join(lines)


def _line(text: str) -> str:
    """Return text on one line, with HTML tags escaped."""
    return re.sub(r"\s+", " ", text).replace("<", "&lt;")


def _escaped(text: str) -> str:
    """Return plain text as Markdown, leaving code in backquotes unchanged."""
    parts = _line(text).split("`")
    return "`".join(re.sub(r"([*_\\|\[\]])", r"\\\1", part) if k % 2 == 0 else part for k, part in enumerate(parts))


@singledispatch
def _block(block: Block) -> str:
    """Return a block as Markdown; charts are left out, since tables contain their numbers."""
    return ""


@_block.register
def _(block: Paragraph) -> str:
    return _escaped(block.text)


@_block.register
def _(block: TextTable) -> str:
    header = block.header or [""] * len(block.rows[0])
    rules = ["---:" if place in block.numbers else "---" for place in range(len(header))]
    lines = [header, *block.rows]
    texts = ["| " + " | ".join(map(_escaped, line)) + " |" for line in lines]
    table = "\n".join([texts[0], "|" + "|".join(rules) + "|", *texts[1:]])
    return f"{_escaped(block.caption)}\n\n{table}" if block.caption else table


@_block.register
def _(block: BarChart) -> str:
    rows = [(label, text) for label, _, text in block.rows]
    return _block(TextTable(("column", "importance"), rows, frozenset({1}), block.caption)) if rows else ""


@_block.register
def _(block: Grid) -> str:
    rows = [(name, *texts) for name, texts in zip(block.row_names, block.texts, strict=True)]
    numbers = frozenset(range(1, len(block.column_names) + 1))
    return _block(TextTable((block.corner, *block.column_names), rows, numbers, block.caption))
