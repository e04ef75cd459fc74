"""Tables read from files: columns of text or numbers, with the line numbers of their rows."""

from __future__ import annotations

import difflib
import math
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

import numpy as np

from qsdp._utils.numeric import LARGEST_INTEGER
from qsdp._utils.validation import LARGEST, FloatArray
from qsdp.encoding.notation import BOOLEAN, ambiguous, notation_of, parsed
from qsdp.exceptions import InvalidInputError, QSDPWarning

#: Entries of text files that count as missing, unless others are named.
MISSING = frozenset(
    {"", "?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL", "None", "-", "missing", "unknown"}
)
MAX_LISTED = 10

#: A number as label, equal however many zeros follow the point; with leading zeros, it is a name.
_NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d*)?")


@dataclass(frozen=True, eq=False, repr=False)
class DataTable:
    """Columns of a file, with the number of the line (or row) in the file for each row.

    Attributes
    ----------
    path : str
    columns : tuple of str
    data : sequence of lists or arrays
        A column is a list of text, with None for missing entries, or an array of numbers, with NaN for them.
    lines : sequence of int
    unit : str
        What the numbers in `lines` count.
    missing : mapping of str to Counter
        Texts that count as missing, with their numbers, of the columns that have any.
    markers : collection of str
        Texts that count as missing in text files.
    """

    path: str
    columns: tuple[str, ...]
    data: Sequence[list[str | None] | FloatArray]
    lines: Sequence[int]
    unit: str = "line"
    missing: Mapping[str, Counter[str]] = field(default_factory=dict)
    markers: AbstractSet[str] = MISSING

    @classmethod
    def of_rows(
        cls,
        path: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[str | None]],
        lines: Sequence[int],
        missing: AbstractSet[str] = MISSING,
    ) -> DataTable:
        """Return the table of rows of text, in which entries such as "NA" count as missing."""
        whole = list(zip(*rows, strict=True))
        data = [[None if entry in missing else entry for entry in column] for column in whole]
        absent = {
            name: Counter(str(entry) for entry in column if entry in missing)
            for name, column in zip(columns, whole, strict=True)
            if not missing.isdisjoint(column)
        }
        return cls(path, tuple(columns), data, lines, missing=absent, markers=missing)

    def __len__(self) -> int:
        return len(self.lines)

    def column(self, name: str) -> list[str | None]:
        """Return the entries of a column as text."""
        entries = self.data[self.columns.index(name)]
        if isinstance(entries, list):
            return entries
        # There are few distinct labels, and each is formatted once.
        numbers, places = np.unique(entries, return_inverse=True)
        texts = [_text(number) for number in numbers.tolist()]
        return [texts[place] for place in places.tolist()]

    def take(self, indices: Iterable[int]) -> DataTable:
        """Return the table with some of the rows."""
        chosen = list(indices)
        data = [[one[i] for i in chosen] if isinstance(one, list) else one[chosen] for one in self.data]
        return replace(self, data=data, lines=[self.lines[i] for i in chosen])

    def stacked(self, other: DataTable) -> DataTable:
        """Return the table followed by the rows of another table with the same columns."""
        data: list[list[str | None] | FloatArray] = []
        for name, one, two in zip(self.columns, self.data, other.data, strict=True):
            arrays = isinstance(one, np.ndarray) and isinstance(two, np.ndarray)
            data.append(np.concatenate([one, two]) if arrays else self.column(name) + other.column(name))
        return replace(self, data=data, lines=[*self.lines, *other.lines])

    def known(self, name: str) -> DataTable:
        """Return the table with the rows in which a column is not missing."""
        return self.take(self.present(name))

    def present(self, name: str) -> list[int]:
        """Return the rows in which a column is not missing."""
        entries = self.data[self.columns.index(name)]
        if isinstance(entries, list):
            return [i for i, entry in enumerate(entries) if entry is not None]
        return [int(i) for i in np.flatnonzero(~np.isnan(entries))]

    def require(self, names: Iterable[str]) -> None:
        """Raise one error that names all missing columns."""
        if not (absent := [name for name in names if name not in self.columns]):
            return
        close = difflib.get_close_matches(absent[0], self.columns, n=1)
        hint = f"; did you mean {close[0]!r}?" if close and len(absent) == 1 else ""
        noun = "column" if len(absent) == 1 else "columns"
        raise InvalidInputError(f"{self.path!r} has no {noun} {listing(absent)}; it has {listing(self.columns)}{hint}")

    def notation(self, name: str) -> str | None:
        """Return how a column writes numbers or truth values, see `qsdp.encoding.notation`; None if it holds text."""
        entries = self.data[self.columns.index(name)]
        if isinstance(entries, np.ndarray):
            return "number"
        texts = [entry for entry in entries if entry is not None]
        notation = notation_of(texts) if texts else "number"
        if notation is None and (reason := ambiguous(texts)) is not None:
            first = next(i for i, entry in enumerate(entries) if entry is not None and parse_number(entry) is None)
            raise self.wrong(first, name, f"a number or text, not {reason}")
        return notation

    def numbers(self, name: str, notation: str) -> FloatArray:
        """Return a column as floats, with NaN for missing entries and, with a warning, for text that is no number."""
        numbers, odd = self._read(name, notation)
        if odd:
            warnings.warn(
                f"{self.path!r}, column {name!r}: {len(odd)} of {len(self)} entries are no numbers and count as "
                f"missing, such as {self.column(name)[odd[0]]!r:.60} in {self.unit} {self.lines[odd[0]]}",
                QSDPWarning,
                stacklevel=3,
            )
        return numbers

    def all_numbers(self, name: str, notation: str | None = None) -> FloatArray:
        """Return a column as floats, with NaN for missing entries, or raise if an entry is not a number."""
        notation = notation or self.notation(name)
        numbers, odd = self._read(name, "number" if notation in {None, BOOLEAN} else str(notation))
        if odd:
            raise self.wrong(odd[0], name, "a number")
        return numbers

    def _read(self, name: str, notation: str) -> tuple[FloatArray, list[int]]:
        """Return a column as floats, with NaN for other entries, and the rows of those that are not missing."""
        entries = self.data[self.columns.index(name)]
        if isinstance(entries, np.ndarray):
            numbers, odd = entries, []
        else:
            numbers = np.full(len(entries), np.nan)
            present = [i for i, entry in enumerate(entries) if entry is not None]
            numbers[present] = parsed([str(entries[i]) for i in present], notation)
            odd = [i for i in present if np.isnan(numbers[i])]
        for i in map(int, np.flatnonzero(~(np.abs(numbers) <= LARGEST))):
            if not np.isnan(numbers[i]):
                raise self.wrong(i, name, f"a finite number within {LARGEST:g}")
        return numbers, odd

    def wrong(self, row: int, name: str, expected: str) -> InvalidInputError:
        """Return an error that names file, line, column, entry and what was expected."""
        entry = self.column(name)[row]
        return InvalidInputError(
            f"{self.path!r}, {self.unit} {self.lines[row]}, column {name!r}: expected {expected}; got {entry!r:.60}"
        )


def _text(number: float) -> str | None:
    """Return a number of a numeric column as text; whole numbers are written as integers."""
    if math.isnan(number):
        return None
    return str(int(number)) if number.is_integer() and abs(number) < LARGEST_INTEGER else repr(number)


def parse_number(entry: str) -> float | None:
    """Return an entry as a number, not necessarily finite, or None."""
    # float() also accepts "1_000", which is not a number in a CSV file.
    try:
        return None if "_" in entry else float(entry)
    except ValueError:
        return None


def label_key(label: str) -> float | str:
    """Return a key that equal labels share, such as "1" and "1.0", but not "01"."""
    return float(label) if _NUMBER.fullmatch(label) else label


def listing(names: Iterable[str]) -> str:
    """Return the quoted names, or the first of them and the total number."""
    shown = [repr(name) for name in names]
    more = [f"... ({len(shown)} in all)"] if len(shown) > 2 * MAX_LISTED else []
    return ", ".join(shown[: 2 * MAX_LISTED] + more)
