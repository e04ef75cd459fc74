"""Elements of C99 source: literals, comments, identifiers, and tables of the narrowest types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from string import Template
from typing import Any

from qsdp.export._integers.layout import NetworkLayout, type_width
from qsdp.export._integers.model import IntegerModel

__all__ = [
    "Tables",
    "bare",
    "bit_readers",
    "column_type",
    "comment",
    "counter_type",
    "identifiers",
    "initializer",
    "literal",
    "number_reader",
    "scaled_sum",
    "signed",
    "string",
    "table_type",
    "template_types",
]

_WIDTH = 100

_BIT = Template("""\
static uint8_t bit(${position} at)
{
    return (uint8_t)(packed[at >> 3] >> (7 - (at & 7)) & 1);
}
""")

#: Read a number of several bits at a position, through one window of bytes.
_NUMBER = Template("""\
static ${number} ${reader}(${position} at)
{
    ${number} window = 0;
    uint8_t i;

    for (i = 0; i < ${n_bytes}; i++) {
        window = (${number})(window << 8 | packed[(at >> 3) + i]);
    }
    return (${number})((${number})(window >> (${spare} - (at & 7))) & ${mask});
}
""")


def literal(value: int) -> str:
    """Write an integer as a C expression that is valid in any context."""
    if value == -(2**31):
        return "(-2147483647 - 1)"
    text = str(value) if abs(value) < 2**31 else f"INT64_C({abs(value)})" if value > 0 else f"-INT64_C({abs(value)})"
    return f"({text})" if value < 0 else text


def _unsigned(value: int) -> str:
    """Write an integer >= 0 as an unsigned C expression."""
    return f"{value}u" if value < 2**16 else f"{value}ul" if value < 2**32 else f"UINT64_C({value})"


def signed(width: int) -> str:
    """Return the C type of signed integers of a width in bits."""
    return f"int{width}_t"


def counter_type(most: int) -> str:
    """Return the C type of a counter from 0 to `most`, one of the fast types."""
    return next(f"uint_fast{width}_t" for width in (8, 16, 32, 64) if most < 2**width)


def table_type(values: Sequence[int]) -> str:
    """Return the narrowest C type for some integers; unsigned if none is negative."""
    low, high = min(values), max(values)
    for width in (8, 16, 32, 64):
        if low >= 0 and high < 2**width:
            return f"uint{width}_t"
        if -(2 ** (width - 1)) <= low and high < 2 ** (width - 1):
            return signed(width)
    raise OverflowError(f"integers from {low} to {high} do not fit into any type")


def identifiers(names: Iterable[str]) -> list[str]:
    """Convert names to distinct parts of C identifiers."""
    found: list[str] = []
    for position, name in enumerate(names):
        plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "column"
        while plain in found:
            plain += f"_{position}"
        found.append(plain)
    return found


def comment(lines: Sequence[str]) -> str:
    """Write lines as a C comment that is valid whatever they contain."""
    # No ends of comments, no trigraphs, no continued lines.
    safe = [re.sub(r"[^ -~]|[\\?]", "_", line).replace("*/", "*_").replace("/*", "/_") for line in lines]
    if len(safe) == 1:
        return f"/* {safe[0]} */"
    return "/*" + "\n".join(f" * {line}".rstrip() for line in safe)[2:] + "\n */"


def string(text: str) -> str:
    """Write text as a string literal of C and Verilog, in UTF-8."""
    parts = []
    for byte in text.encode("utf-8", "backslashreplace"):
        one = chr(byte)
        # A question mark may start a trigraph. Octal escapes end after three digits, in Verilog as well.
        parts.append(f"\\{one}" if one in '"\\' else one if " " <= one <= "~" and one != "?" else f"\\{byte:03o}")
    return f'"{"".join(parts)}"'


def initializer(entries: Iterable[str]) -> str:
    """Write the initialiser of an array of expressions."""
    return f"{{{', '.join(entries)}}}"


def bare(value: int) -> str:
    """Write an integer as an entry of a table, without parentheses."""
    return str(value) if -(2**31) < value < 2**31 else literal(value)


@dataclass
class Tables:
    """Constant tables of a source file, declared as they are used."""

    declared: list[str] = field(default_factory=list)

    def entry(self, name: str, values: Sequence[Any], index: str, type_: str = "") -> str:
        """Write an expression for the entry at an index; declare a table unless a constant or the index suffices.

        The expression has the type `type_`. Without one, the entries are counts or indices: integers >= 0 that are
        compared with unsigned counters and index arrays.
        """
        numbers = [int(value) for value in values]
        if len(set(numbers)) == 1:
            return literal(numbers[0])
        conversion = f"({type_})" if type_ else ""
        if numbers == list(range(len(numbers))):
            return f"{conversion}{index}"
        self.add(name, numbers)
        return f"{conversion}{name}[{index}]"

    def add(self, name: str, numbers: Sequence[int]) -> None:
        """Declare a table of integers of the narrowest type."""
        lines, line = [], ""
        for number in map(bare, numbers):
            if len(line) + len(number) > _WIDTH:
                lines.append(line.rstrip())
                line = ""
            line += f"{number}, "
        lines.append(line.rstrip(", "))
        body = "\n".join(f"    {one}" for one in lines)
        self.declared.append(f"QSDP_TABLE {table_type(numbers)} {name}[{len(numbers)}] = {{\n{body}\n}};\n")


def column_type(model: IntegerModel) -> str:
    """Return the C type of the columns of an integer model; pixels are bytes."""
    low, high = model.input_range
    return "uint8_t" if low == 0 and model.description.blocks else signed(type_width(max(-low - 1, high, 1)))


def template_types(model: IntegerModel, name: str) -> dict[str, object]:
    """Return the fields that all templates share: types, number of outputs, and names."""
    C = model.network.n_outputs
    return {
        "name": name,
        "upper": name.upper(),
        "missing": f"{name.upper()}_MISSING",
        "column": column_type(model),
        "x": _input_type(model),
        "projection": signed(model.layout.projection_width),
        "total": signed(model.layout.sum_width),
        "output_counter": counter_type(C),
        "class_type": "uint16_t" if C < 2**16 else "uint32_t",
        "C": C,
    }


def _input_type(model: IntegerModel) -> str:
    """Return the C type of the entries of vectors."""
    if model.encoder is not None:
        return signed(max(type_width(int(model.samples.vector.max())), 16))
    return column_type(model) if model.inputs is None else signed(type_width(max(int(model.inputs.largest.max()), 1)))


def bit_readers(
    layout: NetworkLayout,
    types: Mapping[str, object],
    tables: Tables,
    *,
    single: bool,
    longest: int = 0,
    spare: int | None = None,
) -> list[str]:
    """Write the C functions that read packed bits, if single ones are read, and numbers, and declare their table.

    The table ends in `spare` more bytes; by default, as many as a number, or one of `longest` bits, may begin before
    and end behind.
    """
    spare = _window(max(layout.n_bits, longest)) - 1 if spare is None else spare
    tables.add("packed", [*layout.table.tolist(), *[0] * spare])
    readers = [_BIT.substitute(types)] if single else []
    return [*readers, number_reader("number", layout.n_bits, types)] if layout.n_bits > 1 else readers


def _window(n_bits: int) -> int:
    """Return the number of bytes that hold a number: it may begin with the last bit of a byte."""
    return (n_bits + 14) // 8


def number_reader(reader: str, n_bits: int, types: Mapping[str, object]) -> str:
    """Write the C function of a name that reads a number of several bits from the table of packed bits."""
    n_bytes = _window(n_bits)
    width = next(width for width in (16, 32, 64) if 8 * n_bytes <= width)
    fields = {"number": f"uint{width}_t", "n_bytes": n_bytes, "spare": 8 * n_bytes - n_bits}
    return _NUMBER.substitute(types, **fields, reader=reader, mask=_unsigned(2**n_bits - 1))


def scaled_sum(value: str, index: str, factors: Sequence[int], bias: Sequence[int], tables: Tables, total: str) -> str:
    """Write an output as an expression of its sum, with the name `value`: times a factor, plus a bias."""
    factor, added = (tables.entry(name, one, index, total) for name, one in (("factor", factors), ("bias", bias)))
    scaled = value if factor == "1" else f"{value} * {factor}"
    return scaled if added == "0" else f"{scaled} + {added}"
