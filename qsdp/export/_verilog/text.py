"""Verilog source of a `BitModel`, and of the comparisons that convert columns to bits."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from string import Template
from typing import Any

import numpy as np

from qsdp.export._c.text import comment, string
from qsdp.export._description import described
from qsdp.export._verilog.bits import BitModel
from qsdp.export._verilog.words import Comparison, Words

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

_COLUMNS = Template("""
/* The same from the columns of a table. */
module ${name}_columns (
    input wire [$last_in:0] columns,
    output wire [$last_out:0] scores$choice_port
);
$words
    wire [$last_bit:0] x;
$bits
    $name model (.x(x), .scores(scores)$choice_pin);
endmodule
""")

_REGISTERED = Template("""
/* $module with registers for inputs and outputs: two cycles later, one row a cycle. */
module ${module}_registered (
    input wire clock,
    input wire [$last_in:0] $port,
    output reg [$last_out:0] scores$choice_port
);
    reg [$last_in:0] held;
    wire [$last_out:0] next_scores;$choice_wire
    $module model (.$port(held), .scores(next_scores)$choice_pin);
    always @(posedge clock) begin
        held <= $port;
        scores <= next_scores;$choice_step
    end
endmodule
""")

_BENCH = Template("""
module ${module}_bench;
    reg [$last_in:0] rows [0:$last_row];
    reg [$last_in:0] row;
    reg clock;
    wire [$last_out:0] scores;$choice_wire
    integer i;
    $module$variant model ($clock.$port(row), .scores(scores)$choice_pin);
    initial begin
        $$readmemb("rows.txt", rows);
        clock = 0;
        for (i = 0; i <= $last_row; i = i + 1) begin
            row = rows[i];
            repeat (4) begin #1 clock = !clock; end
            #1 $$display("%b %b", scores, $choice);
        end
        $$finish;
    end
endmodule
""")


def verilog_source(name: str, model: BitModel, words: Words | None) -> str:
    """Write the file of a model: modules with bits as inputs and, if there are words, modules with columns."""
    head = f"{comment(_facts(name, model, words))}\n{_values(name, model)}"
    parts = [f"{head}{_module(name, model)}", _registered(name, model, None)]
    if words is not None:
        parts += [_columns(name, model, words), _registered(name, model, words)]
    return "".join(parts)


def bench_text(name: str, model: BitModel, words: Words | None, n_rows: int, *, registered: bool) -> str:
    """Write a test bench that prints outputs and decisions for a file of rows, either bits or words."""
    return _BENCH.substitute(
        _ports(name, model, words, "wire"),
        last_row=n_rows - 1,
        variant="_registered" if registered else "",
        clock=".clock(clock), " if registered else "",
        choice="next_choice" if _choice_size(model) else "1'b0",
    )


def output_width(model: BitModel) -> int:
    """Return the number of bits of an output, a signed integer; enough for any inputs."""
    low, high = model.bounds
    return max(max(-low - 1, high).bit_length() + 1, 2)


def _ports(name: str, model: BitModel, words: Words | None, kind: str) -> dict[str, Any]:
    """Return the template fields of a module's ports: bits or words, with wires or registers as outputs."""
    size = _choice_size(model)
    last = f"[{size - 1}:0]"
    return {
        "module": name if words is None else f"{name}_columns",
        "port": "x" if words is None else "columns",
        "last_in": (model.n_bits if words is None else words.width) - 1,
        "last_out": model.n_outputs * output_width(model) - 1,
        "choice_port": f",\n    output {kind} {last} choice" if size else "",
        "choice_wire": f"\n    wire {last} next_choice;" if size else "",
        "choice_pin": ", .choice(next_choice)" if size else "",
        "choice_step": "\n        choice <= next_choice;" if size else "",
    }


def _registered(name: str, model: BitModel, words: Words | None) -> str:
    return _REGISTERED.substitute(_ports(name, model, words, "reg"))


def _columns(name: str, model: BitModel, words: Words) -> str:
    """Write the module that compares words and passes the bits to the module that evaluates them."""
    declared = [
        f"    wire signed [{one.width - 1}:0] column_{one.position} = columns[{one.start} +: {one.width}];"
        for one in words.words
    ]
    compared = [f"    assign x[{place}] = {_comparison(one)};" for place, one in enumerate(words.comparisons)]
    ports = _ports(name, model, words, "wire")
    return _COLUMNS.substitute(
        {**ports, "choice_pin": ", .choice(choice)" if ports["choice_pin"] else ""},
        name=name,
        last_bit=model.n_bits - 1,
        words="\n".join(declared),
        bits="\n".join(compared),
    )


def _comparison(one: Comparison) -> str:
    """Write a bit as a Verilog expression; a missing entry is the smallest value of its word."""
    width, column = one.word.width, f"column_{one.word.position}"
    missing = f"{column} == {{1'b1, {{{width - 1}{{1'b0}}}}}}"
    if one.kind == "missing":
        return missing
    test = f"{column} {'>' if one.kind == 'above' else '=='} {_literal(one.value, width)}"
    return f"{test} || {missing}" if one.if_missing else test


def _module(name: str, model: BitModel) -> str:
    width = output_width(model)
    scores = ", ".join(f"score_{k}" for k in reversed(range(model.n_outputs)))
    size = _choice_size(model)
    port = f",\n    output wire [{size - 1}:0] choice" if size else ""
    body = [
        *(_output(model, k, width) for k in range(model.n_outputs)),
        *(f"    wire signed [{width - 1}:0] score_{k} = output_{k}(x);" for k in range(model.n_outputs)),
        f"    assign scores = {{{scores}}};",
        *_decision(model, width),
    ]
    ports = (
        f"    input wire [{model.n_bits - 1}:0] x,\n    output wire [{model.n_outputs * width - 1}:0] scores{port}\n"
    )
    return f"module {name} (\n{ports});\n" + "\n".join(body) + "\nendmodule\n"


def _output(model: BitModel, k: int, width: int) -> str:
    """Write a Verilog function that counts the bits of an output by weight, and adds the counts.

    A function is evaluated once for new inputs. Wires would be evaluated for each input that changes.
    """
    constant, planes = _planes(model, k)
    declared, steps = [], []
    for power, bits in sorted(planes.items()):
        declared.append(f"        reg [{len(bits) - 1}:0] bits_{power};")
        steps.append(f"            bits_{power} = {{{', '.join(reversed(bits))}}};")
        counted = f"output_{k} = output_{k} + (bits_{power}[i] << {power});"
        steps.append(f"            for (i = 0; i < {len(bits)}; i = i + 1) {counted}")
    return "\n".join(
        [
            f"    function signed [{width - 1}:0] output_{k};",
            f"        input [{model.n_bits - 1}:0] x;",
            *declared,
            "        integer i;",
            "        begin",
            f"            output_{k} = {_literal(constant, width)};",
            *steps,
            "        end",
            "    endfunction",
        ]
    )


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
    return {"none": 0, "sign": 1, "labels": C, "argmax": max((C - 1).bit_length(), 1)}[decision]


def _decision(model: BitModel, width: int) -> list[str]:
    """Write the lines that compute the decision."""
    C, size, decision = model.n_outputs, _choice_size(model), model.description.decision
    if decision == "none":
        return []
    if decision != "argmax":
        positive = ", ".join(f"score_{k} > 0" for k in reversed(range(C)))
        return [f"    assign choice = {{{positive}}};"]
    # The comparison is strict: the first of equal scores wins.
    lines = []
    best, chosen = "score_0", f"{size}'d0"
    for k in range(1, C):
        lines.append(f"    wire higher_{k} = score_{k} > {best};")
        lines.append(f"    wire [{size - 1}:0] choice_{k} = higher_{k} ? {size}'d{k} : {chosen};")
        if k < C - 1:
            lines.append(f"    wire signed [{width - 1}:0] best_{k} = higher_{k} ? score_{k} : {best};")
        best, chosen = f"best_{k}", f"choice_{k}"
    return [*lines, f"    assign choice = {chosen};"]


def _values(name: str, model: BitModel) -> str:
    """Write macros for the unit, the error bound, and the names of bits, columns and classes."""
    values = {
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
        values.update({f"{kind}_{number}": string(str(text)) for number, text in enumerate(texts)})
    return "".join(f"`define {name.upper()}_{key} {value}\n" for key, value in values.items()) + "\n"


def _facts(name: str, model: BitModel, words: Words | None) -> list[str]:
    """Write the comment lines that describe what the module computes and how accurately."""
    width, upper, description = output_width(model), name.upper(), model.description
    facts = [
        f"{name}: {described(description.network)}, made by qsdp,",
        f"as the polynomial of degree two in {model.n_bits} bits that it is.",
        "",
        f"Output k is the signed integer scores[{width} * k +: {width}]; scores of the model are `{upper}_UNIT times",
        f"outputs, up to `{upper}_ERROR.",
    ]
    facts += {
        "none": [],
        "sign": ["choice is 1 where the output is > 0, else 0."],
        "argmax": ["choice is the number of the largest output, the first of equal ones."],
        "labels": ["choice has a one for each output > 0, else zeros."],
    }[description.decision]
    facts += [f"class {code}: {label}" for code, label in enumerate(description.classes)]
    facts += ["", *(f"x[{place}]: {bit}" for place, bit in enumerate(model.names))]
    return facts if words is None else [*facts, "", *_word_facts(name, words)]


def _word_facts(name: str, words: Words) -> list[str]:
    """Write the comment lines that describe the words of the columns."""
    assert words.description.encoding is not None
    columns = words.description.encoding.columns
    facts = [
        f"{name}_columns takes words, signed integers: of numbers the nearest integer to scale times the entry, of",
        "other symbols than those named -1; larger or smaller ones cut to the limits, and the integer below them for",
        "a missing entry.",
    ]
    for one in words.words:
        column, scale = columns[one.position], words.scales[one.position]
        if column.categories is None:
            what = f"scale {float(scale or 1):.9g}"
        else:
            named = (f"{code} {symbol}" for code, symbol in enumerate(column.categories) if symbol is not None)
            what = ", ".join(named)
        limits = f"{one.missing + 1} to {-one.missing - 1}"
        facts.append(f"columns[{one.start} +: {one.width}], {limits}: {column.name}, {what}")
    return facts
