"""Encoding of the columns of a table of text as inputs of a network."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.stored import checked
from qsdp._utils.validation import LARGEST, FloatArray
from qsdp.encoding import Encoding, EncodingRule, InputColumn
from qsdp.encoding.columns import as_symbols
from qsdp.encoding.notation import BOOLEAN
from qsdp.encoding.scales import restricted_to, scaled_to_rows
from qsdp.exceptions import InvalidInputError, QSDPWarning, StorageError
from qsdp.tabular._checks import ENCODER_CHECKS, MAX_VALUES
from qsdp.tabular._reading import DataTable


@dataclass(frozen=True)
class TabularEncoder:
    """Encoding of the columns of a table, which are matched by name.

    Attributes
    ----------
    encoding : Encoding
        Encoding of the columns in use.
    dropped : mapping of str to str
        Columns without information in training, with the reason.
    """

    encoding: Encoding
    dropped: Mapping[str, str]

    @classmethod
    def fit(
        cls,
        table: DataTable,
        names: Sequence[str],
        rows: Iterable[int] | None = None,
        rule: EncodingRule | None = None,
    ) -> TabularEncoder:
        """Learn the encoding of the columns `names` from some of the rows (default: all).

        Numbers are encoded by the rule (default: standardised), and inputs are scaled by `row_scale`. Whether a column
        is numeric is decided on the whole table, so that it cannot depend on which rows are held out. All else is
        learned from `rows`.
        """
        training = table if rows is None else table.take(rows)
        notations = {name: table.notation(name) for name in names}
        return cls._learned(training, notations, rule or EncodingRule.recommended("standard", len(names)))

    @classmethod
    def _learned(cls, training: DataTable, notations: Mapping[str, str | None], rule: EncodingRule) -> TabularEncoder:
        names = list(notations)
        columns = [_entries(training, name, notation) for name, notation in notations.items()]
        _check_widths(zip(names, columns, strict=True))
        chosen = replace(rule, max_categories=MAX_VALUES)
        encoding, dropped = chosen.fit(columns, names, notations=list(notations.values()))
        return cls(scaled_to_rows(encoding, encoding.encode(columns)).trimmed(), dropped)

    def by_rule(self, training: DataTable, rule: EncodingRule) -> TabularEncoder:
        """Return an encoder of the columns in use by another rule, learned from the same rows."""
        learned = self._learned(training, {column.name: column.notation for column in self.columns}, rule)
        return replace(learned, dropped={**self.dropped, **learned.dropped})

    def restricted(self, inputs: FloatArray, kept: npt.NDArray[np.intp]) -> TabularEncoder:
        """Return the encoder with some of its inputs, rescaled; `inputs` (n, width) are those of the training rows."""
        encoding, unused = restricted_to(self.encoding, inputs, kept)
        return TabularEncoder(encoding.trimmed(), {**self.dropped, **unused})

    @property
    def columns(self) -> tuple[InputColumn, ...]:
        """Columns in use."""
        return self.encoding.columns

    @property
    def width(self) -> int:
        """Number of encoded columns, without the constant column."""
        return self.encoding.width

    def encode(self, table: DataTable) -> FloatArray:
        """Return the encoded rows, shape (n, width).

        Warns
        -----
        QSDPWarning
            Some entries were not seen in training; they are encoded as zeros.
        """
        table.require(column.name for column in self.columns)
        read = [_entries(table, column.name, column.notation) for column in self.columns]
        self._check_range(table, read)
        if unseen := self.encoding.unseen(read):
            notes = [f"{name!r} {len(some)} (such as {some[0] or '(missing)'!r:.60})" for name, some in unseen.items()]
            warnings.warn(
                f"{table.path!r}: {sum(map(len, unseen.values()))} entries were not seen in training and are encoded "
                f"as zero: {', '.join(notes)}",
                QSDPWarning,
                stacklevel=2,
            )
        return self.encoding.encode(read)

    def _check_range(self, table: DataTable, read: Sequence[npt.NDArray[Any]]) -> None:
        """Raise an error that names line and column of a number too far from those in the training rows."""
        for one in self.encoding.expressions:
            if one.kind == "value":
                with np.errstate(over="ignore"):
                    far = np.abs((read[one.position] - one.center) / one.scale) > LARGEST
                for row in map(int, np.flatnonzero(far)):
                    raise table.wrong(row, one.column, f"a number of the order of {one.center:g} +- {one.scale:g}")

    def state(self) -> dict[str, Any]:
        """Return the encoder as JSON values, for `from_state`."""
        return {**self.encoding.to_state(), "dropped": dict(self.dropped)}

    @classmethod
    def from_state(cls, state: Any) -> TabularEncoder:
        """Return the encoder of a `state`, or raise StorageError if it is invalid."""
        fields = checked("encoder", state, ENCODER_CHECKS)
        dropped = fields.pop("dropped")
        encoding = Encoding.from_state(fields)
        if len({column.name for column in encoding.columns}) < len(encoding.columns):
            raise StorageError("encoder: the names of columns must be distinct")
        return cls(encoding, dropped)


def _entries(table: DataTable, name: str, notation: str | None) -> npt.NDArray[Any]:
    """Return a column as `Encoding.encode` reads it, in the notation of training."""
    if notation is not None and notation != BOOLEAN:
        return table.numbers(name, notation)
    return as_symbols(np.array(table.column(name), dtype=object), name, notation)


def _check_widths(columns: Iterable[tuple[str, npt.NDArray[Any]]]) -> None:
    values = {name: sorted(set(entries) - {None}) for name, entries in columns if entries.dtype == object}
    wide = {name: found for name, found in values.items() if len(found) > MAX_VALUES}
    if wide:
        shown = ", ".join(f"{name!r} ({len(found)}, such as {found[0]!r:.60})" for name, found in wide.items())
        options = " ".join(f"--drop {shlex.quote(name)}" for name in wide)
        raise InvalidInputError(
            f"columns of text may have at most {MAX_VALUES} distinct values; more in {shown}: "
            f"leave them out with {options}"
        )
