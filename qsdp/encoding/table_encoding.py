"""Encodings: maps from columns of a table to inputs of a network, with evaluation and storage without pickle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.parallel import chunks
from qsdp._utils.stored import checked, is_list
from qsdp._utils.summary import Rows, Summarized, Summary, first_few
from qsdp._utils.validation import LARGEST, FloatArray, check_numbers
from qsdp.encoding.expressions import KINDS, Expression, InputColumn, stored_column, stored_expression
from qsdp.exceptions import InvalidInputError

__all__ = ["Encoding"]

#: Index of every category, by position of the column.
_Codes = dict[int, dict[Any, int]]


@dataclass(frozen=True, repr=False)
class Encoding(Summarized):
    """Map from the columns of a table to the inputs of a network.

    It does not need scikit-learn, compares by value, and is stored as JSON with `to_state` and `from_state`.

    Attributes
    ----------
    columns : tuple of InputColumn
        Columns of the table, in order.
    expressions : tuple of Expression
        Definitions of the inputs, in order.

    Examples
    --------
    >>> import numpy as np
    >>> from qsdp.encoding import Encoding, Expression, InputColumn
    >>> above = Expression("age", 0, "above", 42.5)
    >>> encoding = Encoding((InputColumn("age", fill=40.0),), (above, Expression("age", 0, "missing")))
    >>> encoding.encode([np.array([30.0, 60.0, np.nan])])
    array([[0., 0.],
           [1., 0.],
           [0., 1.]])
    >>> encoding.is_binary, encoding == Encoding.from_state(encoding.to_state())
    (True, True)
    """

    columns: tuple[InputColumn, ...]
    expressions: tuple[Expression, ...]

    @property
    def width(self) -> int:
        """Number of inputs of the network."""
        return len(self.expressions)

    @property
    def names(self) -> tuple[str, ...]:
        """Name of every input, such as ``age``, ``age > 42.5``, ``city == Paris`` or ``age is missing``."""
        return tuple(expression.name for expression in self.expressions)

    @cached_property
    def used(self) -> tuple[int, ...]:
        """Positions of the columns that an expression needs, ascending."""
        return tuple(sorted({expression.position for expression in self.expressions}))

    @property
    def is_binary(self) -> bool:
        """Whether every input is a bit, all as 0 and 1 or all as -1 and +1."""
        values = {expression.bit_values for expression in self.expressions}
        return values in ({(0.0, 1.0)}, {(-1.0, 1.0)})

    @property
    def all_bits(self) -> bool:
        """Whether every input is a bit, coded by any two numbers, as `qsdp.export.to_verilog` requires."""
        return all(expression.is_bit for expression in self.expressions)

    @property
    def is_integer(self) -> bool:
        """Whether every input is an integer: a bit whose two values are integers."""
        values = [expression.bit_values for expression in self.expressions]
        return all(pair is not None and all(float(value).is_integer() for value in pair) for pair in values)

    def scaled(self, scales: Any) -> Encoding:
        """Return the encoding whose inputs are multiplied by positive scales of shape (width,)."""
        factors = check_numbers("scales", scales, f"({self.width},)")
        if factors.shape != (self.width,) or not np.all(factors > 0.0):
            raise InvalidInputError(f"scales must be {self.width} positive numbers, one for each input")
        pairs = zip(self.expressions, factors.tolist(), strict=True)
        return replace(
            self,
            expressions=tuple(replace(expression, scale=expression.scale / factor) for expression, factor in pairs),
        )

    def restricted(self, inputs: Sequence[int] | npt.NDArray[np.intp]) -> Encoding:
        """Return the encoding restricted to the inputs with these indices."""
        return replace(self, expressions=tuple(self.expressions[k] for k in inputs))

    def renamed(self, names: Sequence[str]) -> Encoding:
        """Return the same encoding with other names of the columns."""
        columns = tuple(replace(column, name=name) for column, name in zip(self.columns, names, strict=True))
        named = tuple(replace(expression, column=names[expression.position]) for expression in self.expressions)
        return Encoding(columns, named)

    def trimmed(self) -> Encoding:
        """Return the encoding for a table that contains only the columns in use."""
        used = self.used
        new_position = {position: new for new, position in enumerate(used)}
        moved = tuple(
            replace(expression, position=new_position[expression.position]) for expression in self.expressions
        )
        return Encoding(tuple(self.columns[position] for position in used), moved)

    # -- evaluation ----------------------------------------------------------------------------------------

    def encode(self, table: Sequence[npt.NDArray[Any]], dtype: npt.DTypeLike = "float64") -> npt.NDArray[Any]:
        """Compute the inputs, of shape (n, width), with little temporary memory.

        Parameters
        ----------
        table : sequence of ndarray of shape (n,)
            The columns: float64 with nan for missing numbers, or objects with None for missing symbols.
            Columns that are not `used` are ignored.
        dtype : data type, default=numpy.float64
            Floats, or integers, such as int8, if the encoding `is_integer`.

        Raises
        ------
        InvalidInputError
            A number is so large that its square would not be representable, or `dtype` cannot represent the inputs.
        """
        encoded = np.empty((len(table[0]), self.width), self._checked_type(dtype))
        for rows in chunks(len(encoded), max(self.width, len(self.columns))):
            numbers, codes, missing = self._read(table, rows)
            for group in self._groups:
                at, where = group.at, group.positions
                if group.kind == "value":
                    encoded[rows, at] = group.standardised(numbers[:, where])
                elif group.kind == "above":
                    encoded[rows, at] = group.scaled(numbers[:, where] > group.values)
                elif group.kind == "equals":
                    encoded[rows, at] = group.scaled(codes[:, where] == group.values)
                else:
                    encoded[rows, at] = group.scaled(missing[:, where])
        return encoded

    def unseen(self, table: Sequence[npt.NDArray[Any]]) -> dict[str, list[Any]]:
        """Return the entries of symbolic columns in use that are not among their categories, by column."""
        unseen = {}
        for position in self.used:
            column = self.columns[position]
            if column.categories is not None:
                entries = [entry for entry in table[position].tolist() if entry not in column.categories]
                unseen[column.name] = entries
        return {name: entries for name, entries in unseen.items() if entries}

    def _read(
        self, table: Sequence[npt.NDArray[Any]], rows: slice
    ) -> tuple[FloatArray, npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        """Read some rows as filled numbers, category indices (-1 for unknown) and missing flags, each (k, columns)."""
        shape = (len(table[0][rows]), len(self.columns))
        numbers, codes, missing = np.zeros(shape), np.full(shape, -1, dtype=np.intp), np.zeros(shape, dtype=np.bool_)
        numeric = [position for position in self.used if self.columns[position].categories is None]
        if numeric:
            read = np.stack([table[position][rows] for position in numeric], axis=1)
            missing[:, numeric] = np.isnan(read)
            fills = np.array([self.columns[position].fill for position in numeric], dtype=np.float64)
            numbers[:, numeric] = np.where(np.isnan(read), fills, read)
        for position, known in self._codes.items():
            if position in self.used:
                symbols = table[position][rows].tolist()
                missing[:, position] = [symbol is None for symbol in symbols]
                codes[:, position] = [known.get(symbol, -1) for symbol in symbols]
        return numbers, codes, missing

    @cached_property
    def _codes(self) -> _Codes:
        return {
            position: {symbol: code for code, symbol in enumerate(column.categories)}
            for position, column in enumerate(self.columns)
            if column.categories is not None
        }

    @cached_property
    def _groups(self) -> list[_Group]:
        groups = []
        for kind in KINDS:
            at = [index for index, expression in enumerate(self.expressions) if expression.kind == kind]
            if at:
                groups.append(_Group(kind, at, [self.expressions[index] for index in at], self._codes))
        return groups

    def _checked_type(self, dtype: npt.DTypeLike) -> np.dtype[Any]:
        kind = np.dtype(dtype)
        if kind.kind == "f":
            return kind
        if kind.kind not in "iu" or not self.is_integer:
            allowed = "of floats or integers" if self.is_integer else "of floats, as not all inputs are integers"
            raise InvalidInputError(f"dtype must be one {allowed}; got {kind}")
        values = [value for expression in self.expressions for value in expression.bit_values or ()]
        if not np.iinfo(kind).min <= min(values) <= max(values) <= np.iinfo(kind).max:
            raise InvalidInputError(f"dtype {kind} cannot hold inputs from {min(values):g} to {max(values):g}")
        return kind

    # -- storage -------------------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """Serialise the encoding to JSON values, for `from_state`."""
        columns = [
            {**asdict(column), "categories": column.categories and list(column.categories)} for column in self.columns
        ]
        fields = ("position", "kind", "value", "center", "scale", "low", "high")
        return {
            "columns": columns,
            "expressions": [{name: getattr(expression, name) for name in fields} for expression in self.expressions],
        }

    @classmethod
    def from_state(cls, state: Any) -> Encoding:
        """Restore an encoding from `to_state`; raise StorageError if the state is invalid."""
        fields = checked("encoding", state, {"columns": is_list, "expressions": is_list})
        columns = tuple(stored_column(column) for column in fields["columns"])
        return cls(columns, tuple(stored_expression(expression, columns) for expression in fields["expressions"]))

    def __repr__(self) -> str:
        binary = ", binary" if self.is_binary else ""
        return f"Encoding({len(self.columns)} columns as {self.width} inputs{binary})"

    def _summary(self) -> Summary:
        rows: Rows = [("columns", f"{len(self.columns)}, of which {len(self.used)} are used")]
        for kind, what in zip(KINDS, ("numbers", "thresholds", "categories", "missing"), strict=True):
            if names := [expression.name for expression in self.expressions if expression.kind == kind]:
                rows.append((what, f"{len(names)}: {first_few(names)}"))
        return Summary("Encoding", [*rows, ("inputs", f"{self.width}{', all bits' if self.all_bits else ''}")])


class _Group:
    """Expressions of one kind as arrays: their indices, positions of their columns, and constants."""

    def __init__(self, kind: str, at: list[int], expressions: list[Expression], codes: _Codes) -> None:
        self.kind, self.expressions, self.at = kind, expressions, np.array(at, dtype=np.intp)
        self.positions = np.array([expression.position for expression in expressions], dtype=np.intp)
        self.values = np.array([codes[e.position][e.value] if kind == "equals" else e.value for e in expressions])
        self.center = np.array([expression.center for expression in expressions])
        self.scale = np.array([expression.scale for expression in expressions])
        self.low = np.array([-np.inf if expression.low is None else expression.low for expression in expressions])
        self.high = np.array([np.inf if expression.high is None else expression.high for expression in expressions])

    def scaled(self, term: npt.NDArray[Any]) -> FloatArray:
        """Compute the inputs from values of the terms, shape (n, k)."""
        inputs: FloatArray = (term - self.center) / self.scale
        return inputs

    def standardised(self, numbers: FloatArray) -> FloatArray:
        """Compute the inputs from numeric terms; raise InvalidInputError if their squares are not representable."""
        with np.errstate(over="ignore"):
            inputs = self.scaled(np.clip(numbers, self.low, self.high))
        if not np.all(np.abs(inputs) <= LARGEST):
            row, index = np.argwhere(~(np.abs(inputs) <= LARGEST))[0].tolist()
            expression = self.expressions[index]
            raise InvalidInputError(
                f"column {expression.column!r} must hold numbers of the order of {expression.center:g} +- "
                f"{expression.scale:g}; got {numbers[row, index]:g}"
            )
        return inputs
