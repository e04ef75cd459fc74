"""Tables read from files: columns of text or numbers, with the line numbers of their rows."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qsdp._utils.numeric import LARGEST_INTEGER
from qsdp._utils.validation import LARGEST, FloatArray
from qsdp.exceptions import InvalidInputError
from qsdp.tabular._notation import ambiguous, plain_numbers

MISSING = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"})
MAX_LISTED = 10


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
    """

    path: str
    columns: tuple[str, ...]
    data: Sequence[list[str | None] | FloatArray]
    lines: Sequence[int]
    unit: str = "line"

    @classmethod
    def of_rows(
        cls,
        path: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[str | None]],
        lines: Sequence[int],
        delimiter: str = ",",
    ) -> DataTable:
        """Return the table of rows of text, in which entries such as "NA" count as missing.

        Numbers in other notations become plain ones, see `qsdp.tabular._notation`.
        """
        texts = [[None if entry in MISSING else entry for entry in column] for column in zip(*rows, strict=True)]
        data = [plain_numbers(column, delimiter=delimiter) for column in texts]
        return cls(path, tuple(columns), data, lines)

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

    def numbers(self, name: str) -> FloatArray | None:
        """Return a column as floats, with NaN for missing entries, or None if an entry is not a number."""
        entries = self.data[self.columns.index(name)]
        numbers = entries if isinstance(entries, np.ndarray) else _parsed(entries)
        if numbers is None:
            if isinstance(entries, list) and (reason := ambiguous(entries)) is not None:
                first = next(i for i, entry in enumerate(entries) if entry is not None and parse_number(entry) is None)
                raise self.wrong(first, name, f"a number or text, not {reason}")
            return None
        for i in map(int, np.flatnonzero(~(np.abs(numbers) <= LARGEST))):
            missing = np.isnan(numbers[i]) if isinstance(entries, np.ndarray) else entries[i] is None
            if not missing:
                raise self.wrong(i, name, f"a finite number within {LARGEST:g}")
        return numbers

    def all_numbers(self, name: str) -> FloatArray:
        """Return a column as floats, with NaN for missing entries, or raise if an entry is not a number."""
        if (numbers := self.numbers(name)) is None:
            entries = self.column(name)
            row = next(i for i, entry in enumerate(entries) if entry is not None and parse_number(entry) is None)
            raise self.wrong(row, name, "a number")
        return numbers

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


def _parsed(entries: list[str | None]) -> FloatArray | None:
    """Return entries as floats, with NaN for missing ones, or None if one is not a number."""
    texts = ["nan" if entry is None else entry for entry in entries]
    # This is `parse_number` for a whole column at once.
    if "_" in "".join(texts):
        return None
    try:
        return np.fromiter(map(float, texts), dtype=np.float64, count=len(texts))
    except ValueError:
        return None


def parse_number(entry: str) -> float | None:
    """Return an entry as a number, not necessarily finite, or None."""
    # float() also accepts "1_000", which is not a number in a CSV file.
    try:
        return None if "_" in entry else float(entry)
    except ValueError:
        return None


def label_key(label: str) -> float | str:
    """Return a key that equal labels share, such as "1" and "1.0"."""
    number = parse_number(label)
    return label if number is None or math.isnan(number) else number


def listing(names: Iterable[str]) -> str:
    """Return the quoted names, or the first of them and the total number."""
    shown = [repr(name) for name in names]
    more = [f"... ({len(shown)} in all)"] if len(shown) > 2 * MAX_LISTED else []
    return ", ".join(shown[: 2 * MAX_LISTED] + more)
