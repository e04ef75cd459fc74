"""CSV files as tables of text with line numbers."""

from __future__ import annotations

import csv
import difflib
import io
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.exceptions import InvalidInputError

MISSING = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"})
MAX_LISTED = 10
#: Numbers whose squares are representable.
LARGEST = 1e100

_DELIMITERS = ",;\t|"


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Entries of a CSV file as text, None where missing, with the line number of each row."""

    path: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[str | None]]
    lines: Sequence[int]

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> list[str | None]:
        """Return the entries of a column."""
        index = self.columns.index(name)
        return [row[index] for row in self.rows]

    def take(self, indices: Iterable[int]) -> Table:
        """Return the table with some of the rows."""
        chosen = list(indices)
        return replace(self, rows=[self.rows[i] for i in chosen], lines=[self.lines[i] for i in chosen])

    def known(self, name: str) -> Table:
        """Return the table with the rows in which a column is not missing."""
        return self.take(i for i, entry in enumerate(self.column(name)) if entry is not None)

    def require(self, names: Iterable[str]) -> None:
        """Raise one error that names all missing columns."""
        if not (absent := [name for name in names if name not in self.columns]):
            return
        close = difflib.get_close_matches(absent[0], self.columns, n=1)
        hint = f"; did you mean {close[0]!r}?" if close and len(absent) == 1 else ""
        noun = "column" if len(absent) == 1 else "columns"
        raise InvalidInputError(f"{self.path!r} has no {noun} {listing(absent)}; it has {listing(self.columns)}{hint}")

    def numbers(self, name: str) -> FloatArray | None:
        """Return a column as floats, NaN where missing, or None if an entry is not a number."""
        entries = self.column(name)
        parsed = [math.nan if entry is None else parse_number(entry) for entry in entries]
        if any(number is None for number in parsed):
            return None
        numbers = np.array(parsed, dtype=np.float64)
        for i in map(int, np.flatnonzero(~(np.abs(numbers) <= LARGEST))):
            if entries[i] is not None:
                raise self.wrong(i, name, f"a finite number within {LARGEST:g}")
        return numbers

    def all_numbers(self, name: str) -> FloatArray:
        """Return a column as floats, NaN where missing, or raise if an entry is not a number."""
        if (numbers := self.numbers(name)) is None:
            entries = self.column(name)
            row = next(i for i, entry in enumerate(entries) if entry is not None and parse_number(entry) is None)
            raise self.wrong(row, name, "a number")
        return numbers

    def wrong(self, row: int, name: str, expected: str) -> InvalidInputError:
        """Return an error that names file, line, column, entry and what was expected."""
        entry = self.column(name)[row]
        return InvalidInputError(
            f"{self.path!r}, line {self.lines[row]}, column {name!r}: expected {expected}; got {entry!r:.60}"
        )


def read_table(path: str | os.PathLike[str]) -> Table:
    """Read a CSV file: UTF-8, a header line, fields split at commas, semicolons, tabs or bars.

    Raises
    ------
    InvalidInputError
        The file is not UTF-8, has no rows, a column without a name or with a repeated one, or a line with more or
        fewer fields than the header; the message names file and line.
    """
    name = os.fspath(path)
    try:
        with open(path, encoding="utf-8-sig", newline="") as stream:
            text = stream.read()
    except UnicodeDecodeError:
        raise InvalidInputError(f"{name!r} is not UTF-8 text; save it with that encoding") from None
    records = _records(name, text)
    if not records:
        raise InvalidInputError(f"{name!r} is empty; its first line must name the columns")
    (line, header), *body = records
    _check_header(f"{name!r}, line {line}", header)
    for line, fields in body:
        if len(fields) != len(header):
            raise InvalidInputError(f"{name!r}, line {line}: {len(fields)} fields; the header has {len(header)}")
    if not body:
        raise InvalidInputError(f"{name!r} has a header line but no rows")
    rows = [[None if field in MISSING else field for field in fields] for _, fields in body]
    return Table(name, tuple(header), rows, [line for line, _ in body])


def _records(name: str, text: str) -> list[tuple[int, list[str]]]:
    stream = io.StringIO(text, newline="")
    reader = csv.reader(stream, delimiter=_delimiter(text), skipinitialspace=True, strict=True)
    records, line = [], 1
    try:
        for fields in reader:
            if len(fields) > 1 or any(field.strip() for field in fields):
                records.append((line, [field.strip() for field in fields]))
            line = reader.line_num + 1
    except csv.Error as error:
        raise InvalidInputError(f"{name!r}, line {line}: not valid CSV: {error}") from None
    return records


def _delimiter(text: str) -> str:
    # The sniffer is unreliable without restriction: it may choose only among delimiters in the header.
    sample = text[:8192].lstrip("\r\n ")
    header = re.sub('"[^"]*"', "", (sample.splitlines() or [""])[0])
    candidates = [delimiter for delimiter in _DELIMITERS if delimiter in header]
    likely = max(candidates, key=header.count, default=",")
    if len(candidates) < 2:
        return likely
    try:
        sniffed = csv.Sniffer().sniff(sample, "".join(candidates)).delimiter
    except csv.Error:
        return likely
    return sniffed if sniffed in candidates else likely


def _check_header(where: str, header: list[str]) -> None:
    unnamed = [str(number) for number, name in enumerate(header, start=1) if not name]
    if unnamed:
        raise InvalidInputError(f"{where}: every column needs a name; number {', '.join(unnamed)} has none")
    repeated = [name for name, count in Counter(header).items() if count > 1]
    if repeated:
        raise InvalidInputError(f"{where}: names of columns must be distinct; repeated: {listing(repeated)}")


def parse_number(entry: str) -> float | None:
    """Return an entry as a number, not necessarily finite, or None."""
    # float() also takes "1_000", which is no number in a CSV file.
    try:
        return None if "_" in entry else float(entry)
    except ValueError:
        return None


def label_key(label: str) -> float | str:
    """Return a key that equal labels share, such as "1" and "1.0"."""
    number = parse_number(label)
    return label if number is None or math.isnan(number) else number


def listing(names: Iterable[str]) -> str:
    """Return the quoted names, or the first of them with their number."""
    shown = [repr(name) for name in names]
    more = [f"... ({len(shown)} in all)"] if len(shown) > 2 * MAX_LISTED else []
    return ", ".join(shown[: 2 * MAX_LISTED] + more)
