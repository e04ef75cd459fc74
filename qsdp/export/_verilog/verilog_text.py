"""Verilog source of a `BitModel`, and of the comparisons that convert columns to bits."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from qsdp.export._c.c_text import printable, string
from qsdp.export._description import described
from qsdp.export._templates import render
from qsdp.export._verilog.bits import BitModel
from qsdp.export._verilog.words import Word, Words

__all__ = ["KEYWORDS", "bench_text", "output_width", "verilog_source"]

#: Keywords of Verilog-2005 and the most common ones of SystemVerilog, which cannot name a module.
KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """
        always and assign automatic begin bit buf bufif0 bufif1 byte case casex casez cell class cmos config const
        deassign default defparam design disable do edge else end endcase endconfig endfunction endgenerate
        endmodule endprimitive endspecify endtable endtask enum event final for force forever fork function generate
        genvar highz0 highz1 if ifnone import incdir include initial inout input instance int integer interface join
        large liblist library local localparam logic macromodule medium module nand negedge new nmos nor
        noshowcancelled not notif0 notif1 null or output package packed parameter pmos posedge primitive priority
        program property protected pull0 pull1 pulldown pullup pulsestyle_ondetect pulsestyle_onevent pure rcmos
        real realtime reg release repeat return rnmos rpmos rtran rtranif0 rtranif1 scalared sequence showcancelled
        signed small specify specparam static string strong0 strong1 struct super supply0 supply1 table task this
        time tran tranif0 tranif1 tri tri0 tri1 triand trior trireg type typedef union unique unsigned use uwire var
        vectored virtual void wait wand weak0 weak1 while wire with wor xnor xor
        """,
    )
)


def verilog_source(name: str, model: BitModel, words: Words | None) -> str:
    """Write the file of a model: modules with bits as inputs and, if there are words, modules with columns."""
    description = model.description
    return render(
        "model.v",
        name=name,
        upper=name.upper(),
        model=model,
        C=model.n_outputs,
        width=output_width(model),
        size=_choice_size(model),
        decision=description.decision,
        classes=description.classes,
        described=described(description.network),
        macros=_macros(model),
        outputs=[_planes(model, k) for k in range(model.n_outputs)],
        words=words,
        meanings=[] if words is None else _meanings(words),
        literal=_literal,
        printable=printable,
    )


def bench_text(name: str, model: BitModel, words: Words | None, n_rows: int, *, registered: bool) -> str:
    """Write a test bench that prints outputs and decisions for a file of rows, either bits or words."""
    return render(
        "bench.v",
        module=name if words is None else f"{name}_columns",
        port="x" if words is None else "columns",
        last_in=(model.n_bits if words is None else words.width) - 1,
        last_out=model.n_outputs * output_width(model) - 1,
        size=_choice_size(model),
        n_rows=n_rows,
        registered=registered,
    )


def output_width(model: BitModel) -> int:
    """Return the number of bits of an output, a signed integer; enough for any inputs."""
    low, high = model.bounds
    return max(max(-low - 1, high).bit_length() + 1, 2)


def _literal(value: int, width: int) -> str:
    return f"{'-' if value < 0 else ''}{width}'sd{abs(value)}"


def _planes(model: BitModel, k: int) -> tuple[int, dict[int, list[str]]]:
    """Decompose an output into a constant and, by power of two, bits to be counted.

    Coefficients are sums and differences of a minimum number of powers of two. Where a power is subtracted, the negated
    bit is counted and the constant reduced.
    """
    constant, planes = int(model.constant[k]), defaultdict[int, list[str]](list)
    for coefficient, bit in _terms(model, k):
        power, rest = 0, coefficient
        while rest:
            digit = 2 - rest % 4 if rest % 2 else 0
            if digit:
                planes[power].append(bit if digit > 0 else f"!({bit})")
                constant -= (digit < 0) << power
            power, rest = power + 1, (rest - digit) // 2
    return constant, planes


def _terms(model: BitModel, k: int) -> Iterator[tuple[int, str]]:
    """Yield the nonzero coefficients with the bits or products of bits that they multiply."""
    for i in np.flatnonzero(model.linear[k]).tolist():
        yield int(model.linear[k, i]), f"x[{i}]"
    for i, j in np.argwhere(model.pairs[k]).tolist():
        yield int(model.pairs[k, i, j]), f"x[{i}] & x[{j}]"


def _choice_size(model: BitModel) -> int:
    """Return the number of bits of the decision; 0 if there is none."""
    C, decision = model.n_outputs, model.description.decision
    return {"none": 0, "sign": 1, "argmax": max((C - 1).bit_length(), 1)}[decision]


def _macros(model: BitModel) -> dict[str, str]:
    """Return the values of macros: the unit, the error bound, and the names of bits, columns and classes."""
    macros = {
        "WIDTH": str(output_width(model)),
        "OUTPUTS": str(model.n_outputs),
        "UNIT": repr(model.unit),
        "ERROR": repr(float(model.error.max())),
    }
    names = model.description.names
    kinds = {
        "CLASS": names.get("classes", ()),
        "COLUMN": names.get("columns", ()),
        # The bits of a network alone are numbered, not named.
        "BIT": model.names if names else (),
    }
    for kind, texts in kinds.items():
        macros.update({f"{kind}_{number}": string(str(text)) for number, text in enumerate(texts)})
    return macros


def _meanings(words: Words) -> list[tuple[Word, str]]:
    """Pair the words with names of columns, and scales or codes."""
    assert words.description.encoding is not None
    meanings = []
    for word in words.words:
        column, scale = words.description.encoding.columns[word.position], words.scales[word.position]
        symbols = [f"{code} {symbol}" for code, symbol in enumerate(column.categories or ()) if symbol is not None]
        what = f"scale {float(scale or 1):.9g}" if column.categories is None else ", ".join(symbols)
        meanings.append((word, f"{column.name}, {what}"))
    return meanings
