"""Elements of C99 source: literals, comments, identifiers, and tables of the narrowest types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from qsdp.export._integers.layout import type_width
from qsdp.export._integers.model import IntegerModel

__all__ = [
    "Tables",
    "bare",
    "column_type",
    "counter_type",
    "identifiers",
    "initializer",
    "input_width",
    "literal",
    "printable",
    "signed",
    "string",
    "table_type",
    "template_types",
    "unsigned",
]

_WIDTH = 100  # columns of the lines of tables


def literal(value: int) -> str:
    """Write an integer as a C expression that is valid in any context."""
    if value == -(2**31):
        return "(-2147483647 - 1)"
    text = str(value) if abs(value) < 2**31 else f"INT64_C({abs(value)})" if value > 0 else f"-INT64_C({abs(value)})"
    return f"({text})" if value < 0 else text


def unsigned(value: int) -> str:
    """Write an integer >= 0 as an unsigned C expression."""
    return f"{value}u" if value < 2**16 else f"{value}ul" if value < 2**32 else f"UINT64_C({value})"


def signed(width: int) -> str:
    """Return the C type of signed integers of a width in bits."""
    return f"int{width}_t"


def counter_type(largest: int) -> str:
    """Return the C type of a counter from 0 to `largest`, one of the fast types."""
    return next(f"uint_fast{width}_t" for width in (8, 16, 32, 64) if largest < 2**width)


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
    parts: list[str] = []
    for position, name in enumerate(names):
        plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "column"
        while plain in parts:
            plain += f"_{position}"
        parts.append(plain)
    return parts


def printable(text: object) -> str:
    """Convert a name to text that is valid in any comment of C and Verilog."""
    # No ends of comments, no trigraphs, no continued lines.
    return re.sub(r"[^ -~]|[\\?]", "_", str(text)).replace("*/", "*_").replace("/*", "/_")


def string(text: str) -> str:
    """Write text as a string literal of C and Verilog, in UTF-8."""
    parts = []
    for byte in text.encode("utf-8", "backslashreplace"):
        char = chr(byte)
        # A question mark may start a trigraph. Octal escapes end after three digits, in Verilog as well.
        parts.append(f"\\{char}" if char in '"\\' else char if " " <= char <= "~" and char != "?" else f"\\{byte:03o}")
    # Some preprocessors of Verilog take /* as the start of a comment even inside string literals.
    return f'"{"".join(parts)}"'.replace("/*", r"/\052")


def initializer(entries: Iterable[str]) -> str:
    """Write the initialiser of an array of expressions."""
    return f"{{{', '.join(entries)}}}"


def bare(value: int) -> str:
    """Write an integer as an entry of a table, without parentheses."""
    return str(value) if -(2**31) < value < 2**31 else literal(value)


@dataclass
class Tables:
    """Constant tables of a source file, declared as they are used."""

    declared: dict[str, str] = field(default_factory=dict)

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
        body = "\n".join(f"    {row}" for row in lines)
        text = f"QSDP_TABLE {table_type(numbers)} {name}[{len(numbers)}] = {{\n{body}\n}};\n"
        assert self.declared.setdefault(name, text) == text, f"two tables are called {name}"


def column_type(model: IntegerModel) -> str:
    """Return the C type of the columns of an integer model; pixels are bytes."""
    return "uint8_t" if model.input_range[0] == 0 and model.description.blocks else signed(_column_width(model))


def template_types(model: IntegerModel, name: str) -> dict[str, object]:
    """Return the fields that all templates share: types, number of outputs, and names."""
    C = model.network.n_outputs
    return {
        "name": name,
        "upper": name.upper(),
        "missing": f"{name.upper()}_MISSING",
        "column": column_type(model),
        "x": signed(input_width(model)),
        "projection": signed(model.layout.projection_width),
        "total": signed(model.layout.sum_width),
        "output_counter": counter_type(C),
        "class_type": "uint16_t" if C < 2**16 else "uint32_t",
        "C": C,
    }


def input_width(model: IntegerModel) -> int:
    """Return the number of bits of the C type of the entries of vectors."""
    if model.encoder is not None:
        return max(type_width(int(model.samples.vector.max())), 16)
    return _column_width(model) if model.inputs is None else type_width(max(int(model.inputs.largest.max()), 1))


def _column_width(model: IntegerModel) -> int:
    low, high = model.input_range
    return type_width(max(-low - 1, high, 1))
