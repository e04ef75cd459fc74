"""Definitions of the inputs of a network: expressions in the columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qsdp._utils.stored import Checks, checked, is_list, is_number, is_positive, is_text
from qsdp.encoding.reading_rule import BOOLEAN, CATEGORY, NUMBER
from qsdp.encoding.reading_rule import KINDS as COLUMN_KINDS
from qsdp.exceptions import StorageError

__all__ = ["KINDS", "Expression", "InputColumn", "Symbol", "stored_column", "stored_expression"]

Symbol = str | bool

KINDS = ("value", "above", "equals", "missing")


@dataclass(frozen=True)
class InputColumn:
    """Column of the table: numbers, dates, true/false or categories.

    Attributes
    ----------
    name : str
    fill : float or None
        Replacement for missing numbers, the median of the training set; None unless the column holds numbers or dates.
    categories : tuple or None
        Symbols in the training set, text or True and False, with None if some were missing; None for numbers and dates.
    kind : {"number", "date", "boolean", "category"}
        Kind in which tables are read, as training decided. By default "category" if there are categories.
    """

    name: str
    fill: float | None = None
    categories: tuple[Symbol | None, ...] | None = None
    kind: str = ""

    def __post_init__(self) -> None:
        if not self.kind:
            object.__setattr__(self, "kind", NUMBER if self.categories is None else CATEGORY)


@dataclass(frozen=True)
class Expression:
    """Input of the network: ``(term - center) / scale`` for a term in one column x of the table.

    Attributes
    ----------
    column : str
        Name of x.
    position : int
        Index of x among the columns of the table, from 0.
    kind : {"value", "above", "equals", "missing"}
        The term: x, or the bit of x > value, x == value or "x is missing".
    value : float, str, bool or None
        Threshold of "above", category of "equals"; None for the others.
    center, scale : float
        The scale is positive. Bits as 0 and 1 have center 0 and scale 1, bits as -1 and +1 have one half for both.
    low, high : float or None
        Limits to which numbers are clipped; None, as for bits, if there is no limit.

    Notes
    -----
    A missing number is replaced by the `fill` of its column before all terms except "missing"; a missing symbol
    equals no value.

    Examples
    --------
    >>> from qsdp.encoding import Expression
    >>> print(Expression("age", 0, "above", 42.5), "|", Expression("age", 0, "value", center=40.0, scale=12.5))
    age > 42.5 | (age - 40) / 12.5
    """

    column: str
    position: int
    kind: str
    value: Symbol | float | None = None
    center: float = 0.0
    scale: float = 1.0
    low: float | None = None
    high: float | None = None

    @property
    def name(self) -> str:
        """Name of the input: the term as text."""
        if self.kind == "value":
            return self.column
        if self.kind == "missing":
            return f"{self.column} is missing"
        return f"{self.column} {'>' if self.kind == 'above' else '=='} {_written(self.value)}"

    @property
    def is_bit(self) -> bool:
        """Whether the term is 0 or 1."""
        return self.kind != "value"

    @property
    def bit_values(self) -> tuple[float, float] | None:
        """Both values of the input if the term is a bit, else None."""
        return ((0.0 - self.center) / self.scale, (1.0 - self.center) / self.scale) if self.is_bit else None

    def __str__(self) -> str:
        if (self.center, self.scale) == (0.0, 1.0):
            return self.name
        term = f"[{self.name}]" if self.is_bit else self.name
        if self.low is not None and self.high is not None:
            term = f"clip({term}, {self.low:g}, {self.high:g})"
        if self.center:
            term = f"({term} {'-' if self.center > 0.0 else '+'} {abs(self.center):g})"
        return term if self.scale == 1.0 else f"{term} / {self.scale:g}"


def _written(value: Any) -> str:
    """Format a float as its shortest decimal, and other symbols as text."""
    if type(value) is not float:
        return str(value)
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def _is_symbol(value: Any) -> bool:
    return is_text(value) or type(value) is bool


def _are_categories(value: Any) -> bool:
    if value is None:
        return True
    if not is_list(value) or not value:
        return False
    symbols = value if value[-1] is not None else value[:-1]
    return all(map(_is_symbol, symbols)) and len(set(value)) == len(value)


_COLUMN_CHECKS: Checks = {
    "name": is_text,
    "fill": lambda value: value is None or is_number(value),
    "categories": _are_categories,
    "kind": lambda value: value in COLUMN_KINDS,
}
_EXPRESSION_CHECKS: Checks = {
    "position": lambda value: type(value) is int and value >= 0,
    "kind": lambda value: type(value) is str and value in KINDS,
    "value": lambda value: value is None or _is_symbol(value) or is_number(value),
    "center": is_number,
    "scale": is_positive,
    "low": lambda value: value is None or is_number(value),
    "high": lambda value: value is None or is_number(value),
}


def stored_column(state: Any) -> InputColumn:
    """Restore a column from its state; raise StorageError if it is invalid."""
    fields = checked("input column", state, _COLUMN_CHECKS)
    categories = fields["categories"]
    symbolic = fields["kind"] in {BOOLEAN, CATEGORY}
    if symbolic != (categories is not None) or (symbolic and fields["fill"] is not None):
        raise StorageError(f"input column {fields['name']!r} has kind {fields['kind']!r}, but other categories or fill")
    symbols = None if categories is None else tuple(categories)
    return InputColumn(fields["name"], fields["fill"], symbols, fields["kind"])


def stored_expression(state: Any, columns: Sequence[InputColumn]) -> Expression:
    """Restore an expression in one of the columns from its state; raise StorageError if it is invalid."""
    fields = checked("expression", state, _EXPRESSION_CHECKS)
    kind, position, value = fields["kind"], fields["position"], fields["value"]
    if position >= len(columns):
        raise StorageError(f"expression: there is no column {position}")
    column = columns[position]
    fits = {
        "value": column.fill is not None and value is None,
        "above": column.fill is not None and is_number(value),
        "equals": column.categories is not None and value is not None and value in column.categories,
        "missing": (column.fill is not None or column.categories is not None) and value is None,
    }
    if not fits[kind]:
        raise StorageError(f"expression: kind {kind!r} and value {value!r:.60} do not fit column {column.name!r}")
    low, high = fields["low"], fields["high"]
    if (low is None) != (high is None) or (low is not None and (kind != "value" or low > high)):
        raise StorageError(f"expression: limits {low!r} and {high!r} do not fit kind {kind!r}")
    return Expression(column.name, position, kind, value, fields["center"], fields["scale"], low, high)
