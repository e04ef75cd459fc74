"""Encoding of the columns of a table as numbers."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from qsdp._utils.stored import checked
from qsdp._utils.validation import FloatArray
from qsdp.exceptions import InvalidInputError, QSDPWarning, StorageError
from qsdp.tabular._checks import COLUMN_CHECKS, ENCODER_CHECKS, MAX_VALUES
from qsdp.tabular._reading import LARGEST, Table


@dataclass(frozen=True)
class NumericColumn:
    """Standardised column of numbers; missing entries are replaced by the median."""

    name: str
    median: float
    mean: float
    scale: float

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return 1

    def encode(self, table: Table) -> tuple[FloatArray, list[str]]:
        """Return the encoded column, shape (n, 1), and no unseen values."""
        numbers = table.all_numbers(self.name)
        with np.errstate(over="ignore"):
            encoded = (np.where(np.isnan(numbers), self.median, numbers) - self.mean) / self.scale
        for row in map(int, np.flatnonzero(~(np.abs(encoded) <= LARGEST))):
            raise table.wrong(row, self.name, f"a number of the order of {self.mean:g} +- {self.scale:g}")
        return encoded[:, None], []


@dataclass(frozen=True)
class CategoricalColumn:
    """Column of symbols, encoded as one -1/+1 column for two values and one-hot for more."""

    name: str
    values: tuple[str | None, ...]

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return 1 if len(self.values) == 2 else len(self.values)

    def encode(self, table: Table) -> tuple[FloatArray, list[str]]:
        """Return the encoded columns, shape (n, width), and the entries not seen in training."""
        n_values = len(self.values)
        codes = np.array([[-1.0], [1.0]]) if n_values == 2 else np.eye(n_values)
        position = {value: index for index, value in enumerate(self.values)}
        entries = table.column(self.name)
        rows = np.array([position.get(entry, n_values) for entry in entries], dtype=np.intp)
        unseen = ["(missing)" if entry is None else entry for entry in entries if entry not in position]
        return np.vstack([codes, np.zeros((1, self.width))])[rows], unseen


@dataclass(frozen=True)
class TabularEncoder:
    """Encoding of the columns of a table as numbers.

    Attributes
    ----------
    columns : tuple of NumericColumn and CategoricalColumn
        Encoded columns in order; those of a table are matched by name.
    dropped : mapping of str to str
        Columns without information in training, with the reason.
    """

    columns: tuple[NumericColumn | CategoricalColumn, ...]
    dropped: Mapping[str, str]

    @classmethod
    def fit(cls, table: Table, names: Sequence[str], rows: Iterable[int] | None = None) -> TabularEncoder:
        """Learn the encoding of the columns `names` from some of the rows (default: all).

        Whether a column is numeric is decided on the whole table, so that it cannot depend on which rows are held
        out; all else is learned from `rows`.
        """
        training = table if rows is None else table.take(rows)
        learned = {name: _learn(table, training, name) for name in names}
        columns = tuple(column for column in learned.values() if not isinstance(column, str))
        _check_widths(columns)
        return cls(columns, {name: reason for name, reason in learned.items() if isinstance(reason, str)})

    @property
    def width(self) -> int:
        """Number of encoded columns, without the constant one."""
        return sum(column.width for column in self.columns)

    def encode(self, table: Table) -> FloatArray:
        """Return the encoded rows, shape (n, width).

        Warns
        -----
        QSDPWarning
            Some entries were not seen in training; they are encoded as zeros.
        """
        table.require(column.name for column in self.columns)
        blocks, notes, n_unseen = [], [], 0
        for column in self.columns:
            block, unseen = column.encode(table)
            blocks.append(block)
            n_unseen += len(unseen)
            if unseen:
                notes.append(f"{column.name!r} {len(unseen)} (such as {unseen[0]!r:.60})")
        if notes:
            warnings.warn(
                f"{table.path!r}: {n_unseen} entries were not seen in training and are encoded as zero: "
                + ", ".join(notes),
                QSDPWarning,
                stacklevel=2,
            )
        return np.hstack([*blocks, np.empty((len(table), 0))])

    def state(self) -> dict[str, Any]:
        """Return the encoder as JSON values, for `from_state`."""
        kinds = {NumericColumn: "numeric", CategoricalColumn: "categorical"}
        columns = [{"kind": kinds[type(column)], **asdict(column)} for column in self.columns]
        return {"columns": columns, "dropped": dict(self.dropped)}

    @classmethod
    def from_state(cls, state: Any) -> TabularEncoder:
        """Return the encoder of a `state`, or raise StorageError if it is invalid."""
        state = checked("encoder", state, ENCODER_CHECKS)
        columns = tuple(_column(column) for column in state["columns"])
        if len({column.name for column in columns}) < len(columns):
            raise StorageError("encoder: the names of columns must be distinct")
        return cls(columns, state["dropped"])


def _learn(table: Table, training: Table, name: str) -> NumericColumn | CategoricalColumn | str:
    entries = set(training.column(name))
    if entries == {None}:
        return "no values"
    if table.numbers(name) is None:
        missing = [None] if None in entries else []
        values = (*sorted(entry for entry in entries if entry is not None), *missing)
        return CategoricalColumn(name, values) if len(values) > 1 else "constant"
    numbers = training.all_numbers(name)
    median = float(np.nanmedian(numbers))
    filled = np.where(np.isnan(numbers), median, numbers)
    mean, scale = float(filled.mean()), float(filled.std())
    # Rounding can leave equal numbers a deviation other than zero.
    if filled.min() == filled.max() or scale == 0.0:
        return "constant"
    return NumericColumn(name, median, mean, scale)


def _check_widths(columns: Iterable[NumericColumn | CategoricalColumn]) -> None:
    wide = [c for c in columns if isinstance(c, CategoricalColumn) and len(c.values) > MAX_VALUES]
    if wide:
        found = ", ".join(f"{c.name!r} ({len(c.values)}, such as {c.values[0]!r:.60})" for c in wide)
        options = " ".join(f"--drop {shlex.quote(c.name)}" for c in wide)
        raise InvalidInputError(
            f"columns of text may have at most {MAX_VALUES} distinct values; more in {found}: "
            f"leave them out with {options}"
        )


def _column(state: Any) -> NumericColumn | CategoricalColumn:
    kind = state.get("kind") if type(state) is dict else None
    if type(kind) is not str or kind not in COLUMN_CHECKS:
        raise StorageError(f"encoder: unknown kind of column: {kind!r:.60}")
    fields = checked("column", state, COLUMN_CHECKS[kind])
    if kind == "numeric":
        return NumericColumn(fields["name"], fields["median"], fields["mean"], fields["scale"])
    return CategoricalColumn(fields["name"], tuple(fields["values"]))
