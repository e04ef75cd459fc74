"""What READMEs and pages quote from records: blocks from `<!-- measured: NAME.PART ... -->` to `<!-- end -->`.

A block has the quotes that it names, in their order: rows of a table, whose heading stays as it is in the README, or
paragraphs. `quotes(records)` in the file of an experiment returns its quotes by PART; `PROGRAMS` makes those of
programs that are no experiments from what they wrote.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import typer

from benchmarks._tried import quotes as campaigns
from benchmarks.experiments._common import duration, table_row

#: Of an experiment or a program, and one of its parts; None is not measured yet.
Quoted = Callable[[str, str], str | None]
Row = Mapping[str, Any]

WIDTH = 120
MARK = "<!-- measured: "
_BLOCK = re.compile(rf"^({MARK}(.*?) -->\n)((?:\|[^\n]*\n\|[-:|]+\n)?)(.*?)^(<!-- end -->)$", re.DOTALL | re.MULTILINE)


def filled(text: str, quoted: Quoted) -> str:
    """Return a text with the quotes that its blocks name."""
    if len(_BLOCK.findall(text)) < f"\n{text}".count(f"\n{MARK}"):
        raise typer.BadParameter(f"a block that begins with {MARK!r} has no end")
    return _BLOCK.sub(lambda found: _block(*found.group(1, 2, 3, 5), quoted), text)


def _block(begin: str, names: str, heading: str, end: str, quoted: Quoted) -> str:
    parts = []
    for place in names.split():
        name, _, part = place.partition(".")
        found = quoted(name, part)
        if found is None:
            parts.append(f"| {place}: not measured yet |" if heading else f"{place}: not measured yet.")
        else:
            # Tables and what is with them are as they come.
            parts.append(found if heading or "\n" in found else _wrapped(found))
    return begin + heading + ("\n" if heading else "\n\n").join(parts) + "\n" + end


def _wrapped(paragraph: str) -> str:
    # A number stays with its per cent.
    whole = textwrap.fill(paragraph.replace(" %", "\0%"), WIDTH, break_long_words=False, break_on_hyphens=False)
    return whole.replace("\0", " ")


def prediction(report: Row) -> dict[str, str]:
    found, sizes = report["rows_a_second"], (100, 500, 2500)
    kinds = {
        "`predict`, numbers": "network, {} neurons",
        "`predict`, integers of 8 bits": "integers, {} neurons, predict",
        "exported C, as neurons": "integers, {} neurons, C of neurons",
        "exported C, as a quadratic form": "integers, {} neurons, C of form",
    }
    rows = [table_row(shown, *(f"{found[kind.format(m)] / 1e6:.2g}" for m in sizes)) for shown, kind in kinds.items()]
    others = (
        f"Logistic regression has {found['logistic regression'] / 1e6:.0f}, boosting (100 iterations) "
        f"{found['boosting, 100 iterations'] / 1e6:.2g}. `qsdp predict` of files, all told: CSV "
        f"{found['qsdp predict, CSV']:,.0f} rows a second, Parquet {found['qsdp predict, Parquet']:,.0f}."
    )
    return {"networks": "\n".join(rows), "others": others}


def microcontrollers(report: Row) -> dict[str, str]:
    names = {
        "qsdp, encoding auto, columns of 32 bits": "`QuantizedNetworkClassifier()`",
        "qsdp, encoding auto, columns of 16 bits": "`QuantizedNetworkClassifier()`, `column_width=16`",
        "qsdp, encoding auto, columns of 32 bits, not packed": "`QuantizedNetworkClassifier()`, `packed=False`",
        "qsdp, encoding standard, columns of 16 bits": '`encoding="standard"`, `column_width=16`',
        "qsdp, encoding thresholds, columns of 16 bits": '`encoding="thresholds"`, `column_width=16`',
    }

    def shown(row: Row) -> str:
        packed = f", {row['packed_bytes']} bytes of bits" if row["packed_bytes"] else ""
        sizes = (f"{row[f'{on}_flash']}, {row[f'{on}_ram']}, {row[f'{on}_time']:,}" for on in ("avr", "m3"))
        return table_row(row["set"], names.get(row["model"], row["model"]) + packed, f"{row['accuracy']:.1f} %", *sizes)

    first = report["rows"][0]["set"]
    rows = [row for row in report["rows"] if row["set"] == first or row["model"] not in _VARIANTS]
    equal = sum(row["equal"] for row in report["rows"])
    classes = f"Of {len(report['rows'])} models {equal} had the same classes on the devices as in Python."
    return {"models": "\n".join(map(shown, rows)), "classes": classes}


#: What is shown of one set alone.
_VARIANTS = (
    "qsdp, encoding auto, columns of 32 bits",
    "qsdp, encoding auto, columns of 32 bits, not packed",
    "qsdp, encoding thresholds, columns of 16 bits",
)


def encryption(report: Row) -> dict[str, str]:
    """Quote seconds, bytes and errors of one encrypted input."""
    rows = []
    for row in report["rows"]:
        outputs = f", {row['outputs']} outputs" if row["outputs"] > 1 else ""
        times = ", ".join(duration(row[f"{step}_seconds"]) for step in ("encrypt", "evaluate", "decrypt"))
        sent = ", ".join(f"{row[f'{way}_bytes'] / 1e3:,.0f} kB" for way in ("sent", "received"))
        network = f"{row['neurons']} neurons, {row['inputs']} inputs{outputs}"
        rows.append(table_row(network, times, sent, f"{row['error']:.2g}, {row['bound']:.2g}"))
    keys = [max(row[name] for row in report["rows"]) for name in ("keys_seconds", "public_bytes")]
    once = f"Keys take {duration(keys[0])} and {keys[1] / 1e6:.0f} MB at most, once."
    return {"networks": "\n".join(rows), "keys": once}


def verilog_luts(report: Row) -> dict[str, str]:
    """Quote accuracies and tables of circuits, and what is printed of others."""
    rows = [table_row("the network itself", f"{row['model']:.1f} %", "", "") for row in report["rows"][:1]]
    rows += [
        table_row(
            f"{row['digits']} digits of coefficients, {row['products']:,} products of two bits",
            f"{row['accuracy']:.1f} %",
            f"{row['tables']:,}",
            f"{row['tables_from_sums']:,}",
        )
        for row in report["rows"]
    ]
    # Comparisons of pixels are in the tables of TreeLUT and not in those of DWN.
    for row in report["published"]:
        tables = ("", f"{row['tables']:,}") if row["model"].startswith("TreeLUT") else (f"{row['tables']:,}", "")
        rows.append(table_row(f"{row['model']}, printed", f"{row['accuracy']:.1f} %", *tables))
    return {"circuits": "\n".join(rows)}


def determinism(report: Row) -> dict[str, str]:
    rows = []
    for row in report["rows"]:
        cells = [str(row[name]) for name in ("python", "numpy", "scipy", "kernels", "threads")]
        for fit in ("estimator", "sample"):
            cells += [f"`{row[fit]}` (`{row[f'{fit}_signs']}`)", f"{row[f'{fit}_bound']:.10g}"]
        rows.append(table_row(*cells).replace("openblas ", ""))
    return {"versions": "\n".join(rows)}


PROGRAMS: dict[str, Callable[[Row], dict[str, str]]] = {
    "campaigns": campaigns,
    **{made.__name__: made for made in (prediction, microcontrollers, encryption, verilog_luts, determinism)},
}
