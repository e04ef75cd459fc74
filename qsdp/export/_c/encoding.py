"""C source of the encoding, which converts fixed-point columns to integer inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Template
from textwrap import indent

import numpy as np

from qsdp._utils.validation import IntArray
from qsdp.export._c.text import Tables, counter_type, literal
from qsdp.export._integers.inputs import Bits, Inputs

__all__ = ["encoding_functions"]

_FILLED = Template("""\
static ${column} filled(const ${column} *column, ${counter} i)
{
    return (${column})(column[i] == ${missing} ? ${fill} : column[i]);
}
""")

_ENCODE = Template("""\
static void encode(const ${column} *column, ${x} *x)
{
${declared}${body}}
""")

#: Encode numbers and thresholds.
_COLUMNS = Template("""\
    for (i = 0; i < ${n}; i++) {
        const ${column} value = ${read};

${body}    }
""")

_REPEATED = Template("""\
for (j = 0; j < ${count}; j++, ${at}++) {
${body}}
""")

_SCALED = Template("""\
const ${column} least = ${low};
${unsigned} part = (${unsigned})(value < least ? 0 : (u${column})((u${column})value - (u${column})least));

${before}\
part = (${unsigned})(((uint32_t)part * ${slope} + ((uint32_t)1 << ${shift} >> 1)) >> ${shift});
${after}\
*x++ = (${x})((${signed})part + ${start});
""")

_CUT = Template("""\
if (part > ${most}) {
    part = ${most};
}
""")

_ABOVE = Template("""\
*x++ = (${x})(value > ${value} ? ${on} : ${off});
""")

#: Encode codes of categories and missing entries.
_CODES = Template("""\
    for (i = 0; i < ${n}; i++) {
        *x++ = (${x})(column[${place}] == ${value} ? ${on} : ${off});
    }
""")


def encoding_functions(inputs: Inputs, types: Mapping[str, object], tables: Tables) -> list[str]:
    """Write the C functions of the encoding, and declare their tables; `types` are the shared template fields."""
    functions, declared = [], ""
    if inputs.fills is not None:
        fill = tables.entry("fill", inputs.fills.tolist(), "i", str(types["column"]))
        functions.append(_FILLED.substitute(types, fill=fill))
    steps = [("number", inputs.numbers.column)]
    steps += [("threshold", one.column) for one in inputs.bits if one.kind == "above"]
    counters, body = _by_column(inputs, steps, types, tables)
    body += "".join(_codes(one, types, tables) for one in inputs.bits if one.kind != "above")
    if "for (" in body:
        declared = "".join(f"    {one};\n" for one in [f"{types['counter']} i", *counters]) + "\n"
    if inputs.constant is not None:
        body += f"    *x = {literal(inputs.constant)};\n"
    functions.append(_ENCODE.substitute(types, declared=declared, body=body))
    return functions


def _by_column(
    inputs: Inputs, steps: Sequence[tuple[str, IntArray]], types: Mapping[str, object], tables: Tables
) -> tuple[list[str], str]:
    """Write counters and the loop over columns that are numbers or compared with thresholds."""
    columns = np.unique(np.concatenate([positions for _, positions in steps]))
    if not len(columns):
        return [], ""
    counters, body = [], ""
    for what, positions in steps:
        counts = np.searchsorted(positions, columns, side="right") - np.searchsorted(positions, columns, side="left")
        if not counts.any():
            continue
        once = bool(np.all(counts == 1))
        # A counter must not have the name of a function, as `number` is.
        at = "i" if once else f"{what}_index"
        step = (_number if what == "number" else _threshold)(inputs, types, tables, at)
        if not once:
            counters.append(f"{counter_type(len(positions))} {at} = 0")
            count = tables.entry(f"{what}s", counts.tolist(), "i")
            step = _REPEATED.substitute(count=count, at=at, body=indent(step, "    "))
        body += indent(step, "        ")
    if counters:
        counters.insert(0, f"{types['counter']} j")
    place = tables.entry("used", columns.tolist(), "i")
    read = _read(place, inputs.fills is not None)
    return counters, _COLUMNS.substitute(types, n=len(columns), read=read, body=body)


def _read(place: str, filled: bool) -> str:
    return f"filled(column, {place})" if filled else f"column[{place}]"


def _number(inputs: Inputs, types: Mapping[str, object], tables: Tables, at: str) -> str:
    """Write the C statements that convert a number to an input."""
    numbers = inputs.numbers
    # Clip after scaling if no product overflows: the largest scaled numbers take a smaller table, or none.
    last = bool(np.all((inputs.most - numbers.low) * numbers.slope + numbers.half < 2**32))
    half = last and inputs.most < 2**15 and int(numbers.shift.min()) >= 16
    kinds = {"unsigned": "uint16_t" if half else "uint32_t"}
    kinds["signed"] = "int16_t" if half and types["x"] == "int8_t" else "int32_t"
    entries = {
        name: tables.entry(name, getattr(numbers, name).tolist(), at, type_)
        for name, type_ in (
            ("low", str(types["column"])),
            ("slope", "uint32_t"),
            ("shift", ""),
            ("start", kinds["signed"]),
        )
    }
    most = ("top", numbers.top) if last else ("width", numbers.width)
    cut = _CUT.substitute(kinds, most=tables.entry(most[0], most[1].tolist(), at, kinds["unsigned"]))
    cuts = {"before": "" if last else cut, "after": cut if last else ""}
    return _SCALED.substitute(types, **kinds, **entries, **cuts)


def _threshold(inputs: Inputs, types: Mapping[str, object], tables: Tables, at: str) -> str:
    """Write the C statement that converts a comparison to an input."""
    bits = next(one for one in inputs.bits if one.kind == "above")
    value = tables.entry("above_value", bits.value.tolist(), at, str(types["column"]))
    return _ABOVE.substitute(types, **_ends(bits, types, tables, at), value=value)


def _codes(bits: Bits, types: Mapping[str, object], tables: Tables) -> str:
    """Write the C loop over categories, or over columns that may be missing."""
    place, value = tables.entry(f"{bits.kind}_column", bits.column.tolist(), "i"), types["missing"]
    if bits.kind != "missing":
        value = tables.entry("equals_value", bits.value.tolist(), "i", str(types["column"]))
    ends = _ends(bits, types, tables, "i")
    return _CODES.substitute(types, **ends, n=len(bits.column), place=place, value=value)


def _ends(bits: Bits, types: Mapping[str, object], tables: Tables, at: str) -> dict[str, str]:
    return {
        end: tables.entry(f"{bits.kind}_{end}", getattr(bits, end).tolist(), at, str(types["x"]))
        for end in ("on", "off")
    }
