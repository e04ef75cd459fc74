"""Files as tables, read whole or in batches of rows: CSV, also compressed, and with pyarrow Parquet and Arrow.

The first bytes of a file determine its format, not its name.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from itertools import islice
from typing import TextIO

import numpy as np

from qsdp._utils.validation import FloatArray, check_integer
from qsdp.exceptions import InvalidInputError, QSDPWarning
from qsdp.tabular import _arrow
from qsdp.tabular._reading import MISSING, DataTable, listing

__all__ = ["file_batches", "held_bytes", "read_table", "table_batches"]

_DELIMITERS = ",;\t|"
_GZIP = b"\x1f\x8b"
#: Byte-order marks, longer ones first, and the number of bytes at the start of a file that tell its encoding.
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_MARKED = 64
#: Number of characters in which delimiters are searched for.
_SAMPLE = 8192
#: Approximate bytes in memory per byte of text in the file, and approximate compression factor of gzip.
_TEXT_SHARE, _GZIP_SHARE = 12, 5


def read_table(path: str | os.PathLike[str], missing: AbstractSet[str] = MISSING) -> DataTable:
    """Read a CSV file (with a header line, and fields split at commas, semicolons, tabs or bars), or gzip of one.

    Text is UTF-8, or UTF-16 or UTF-32 with a byte-order mark. Columns of numbers may have thousands separators or
    decimal commas; percentages and ISO 8601 dates are numbers as well. Entries of `missing` are missing. With pyarrow,
    Parquet and Arrow files and folders of Parquet files can be read too, in which only nulls are missing.

    Raises
    ------
    InvalidInputError
        The file is damaged or in another encoding, or it has no rows, an unnamed or repeated column, a line with more
        or fewer fields than the header, or columns of lists. The message names file and line.
    """
    (table,) = table_batches(path, None, missing)
    return table


def table_batches(
    path: str | os.PathLike[str], rows: int | None = 2**16, missing: AbstractSet[str] = MISSING
) -> Iterator[DataTable]:
    """Yield the rows of a file as tables of `rows` rows, or all in one if None; errors are those of `read_table`."""
    rows = None if rows is None else check_integer("rows", rows, minimum=1)
    name, kind = os.fspath(path), _arrow.kind(path)
    empty = True
    for table in _text_tables(name, rows, missing) if kind is None else _arrow.tables(name, kind, rows):
        empty = False
        yield table
    if empty:
        raise InvalidInputError(f"{name!r} has {'a header line' if kind is None else 'columns'} but no rows")


def file_batches(
    path: str | os.PathLike[str],
    target: str,
    *,
    weights: str | None = None,
    drop: tuple[str, ...] = (),
    rows: int = 2**16,
) -> Iterator[tuple[FloatArray, ...]]:
    """Yield batches (X, y) or (X, y, sample_weight) of a numeric file, for `SufficientStatistics.from_batches`.

    Parameters
    ----------
    path : path
        File as in `read_table`, or a folder of Parquet files.
    target : str
        Column y; all other columns are X.
    weights : str, optional
        Column of sample weights.
    drop : tuple of str
        Columns to leave out.
    rows : int
        Number of rows in a batch.

    Raises
    ------
    InvalidInputError
        As in `read_table`, or an entry is not a number or is missing.
    """
    for table in table_batches(path, rows):
        names = [target, *drop] + ([] if weights is None else [weights])
        table.require(names)
        inputs = [table.all_numbers(name) for name in table.columns if name not in names]
        if not inputs:
            raise InvalidInputError(f"{table.path!r} has no column besides {listing(names)}")
        others = [table.all_numbers(name) for name in names[:1] + names[1 + len(drop) :]]
        yield np.column_stack(inputs), *others


def held_bytes(path: str | os.PathLike[str]) -> int:
    """Return the approximate size in bytes of a file in memory; 0 for a pipe, whose size is unknown."""
    if (kind := _arrow.kind(path)) is not None:
        return _arrow.held_bytes(os.fspath(path), kind)
    if not os.path.isfile(path):
        return 0
    with open(path, "rb") as stream:
        share = _GZIP_SHARE if stream.read(2) == _GZIP else 1
    return os.path.getsize(path) * _TEXT_SHARE * share


@contextmanager
def _opened(name: str) -> Iterator[TextIO]:
    with open(name, "rb") as file:
        stream = file if file.seekable() else io.BytesIO(file.read())
        packed = stream.read(2) == _GZIP
        stream.seek(0)
        with gzip.GzipFile(fileobj=stream) if packed else stream as plain:
            try:
                start = plain.read(_MARKED)
                plain.seek(0)
                yield io.TextIOWrapper(plain, encoding=_encoding(name, start), newline="")
            except UnicodeDecodeError as error:
                raise InvalidInputError(_not_text(name, error)) from None
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise InvalidInputError(f"{name!r} is damaged or incomplete: {error}") from None


def _encoding(name: str, start: bytes) -> str:
    """Return the encoding of a file, given its first bytes."""
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return encoding
    if b"\0" in start:
        raise InvalidInputError(
            f"{name!r} is not UTF-8 text but binary, or UTF-16 without a byte-order mark; save it as UTF-8, "
            f"for instance with `iconv -f UTF-16LE -t UTF-8 {os.path.basename(name)} > new.csv`"
        )
    return "utf-8"


def _not_text(name: str, error: UnicodeDecodeError) -> str:
    """Return the error message, with a remedy, for bytes that are not in the file's encoding."""
    if error.encoding not in ("utf-8", "utf-8-sig"):
        return f"{name!r} is marked as {error.encoding.upper()} but contains invalid bytes; the file may be corrupted"
    before = error.object[max(0, error.start - 20) : error.start].decode("ascii", "replace").splitlines()
    near = f" after {before[-1]!r}" if before and before[-1] else ""
    return (
        f"{name!r} is not UTF-8 text: byte {error.object[error.start]:#04x}{near}; if it is Windows or Latin-1 text, "
        f"`iconv -f WINDOWS-1252 -t UTF-8 {os.path.basename(name)} > new.csv` saves it as UTF-8"
    )


def _text_tables(name: str, rows: int | None, missing: AbstractSet[str]) -> Iterator[DataTable]:
    with _opened(name) as stream:
        start = stream.read(_SAMPLE)
        # Excel reads a first line "sep=;" as the delimiter.
        named = re.match(r"\s*sep=(.)\r?\n", start)
        delimiter = named[1] if named else _delimiter(start)
        stream.seek(0)
        records = _records(name, stream, delimiter)
        line, header = next(records, (0, []))
        if named:
            line, header = next(records, (0, []))
        # A data frame's index is written as a first column without a name, which counts the rows.
        unnamed = len(header) > 1 and not header[0]
        header = ["(row)", *header[1:]] if unnamed else header
        if not header:
            raise InvalidInputError(f"{name!r} is empty; its first line must name the columns")
        _check_header(f"{name!r}, line {line}", header)
        while some := list(islice(records, rows)):
            for line, fields in some:
                if len(fields) != len(header):
                    raise InvalidInputError(
                        f"{name!r}, line {line}: {len(fields)} fields; the header has {len(header)}"
                    )
            lines = [line for line, _ in some]
            if unnamed:
                yield _without_index(name, header, some, missing)
                continue
            yield DataTable.of_rows(name, header, [fields for _, fields in some], lines, missing)


def _without_index(
    name: str, header: list[str], some: list[tuple[int, list[str]]], missing: AbstractSet[str]
) -> DataTable:
    """Return rows without their first, unnamed column; raise unless it only numbers the rows."""
    numbers = [fields[0] for _, fields in some]
    if not all(map(str.isdecimal, numbers)) or len(set(numbers)) < len(numbers):
        raise InvalidInputError(
            f"{name!r}: every column needs a name; number 1 has none, and is no index: it holds {numbers[0]!r:.60}"
        )
    warnings.warn(
        f"{name!r}: left out the first column, a data frame's index without a name", QSDPWarning, stacklevel=2
    )
    lines = [line for line, _ in some]
    return DataTable.of_rows(name, header[1:], [fields[1:] for _, fields in some], lines, missing)


def _records(name: str, stream: TextIO, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    reader, line = csv.reader(stream, delimiter=delimiter, skipinitialspace=True, strict=True), 1
    try:
        for raw in reader:
            fields = list(map(str.strip, raw))
            if len(fields) > 1 or any(fields):
                yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise InvalidInputError(f"{name!r}, line {line}: not valid CSV: {error}") from None


def _delimiter(text: str) -> str:
    # The sniffer is unreliable unless restricted, so it may choose only among the delimiters in the header.
    sample = text.lstrip("\r\n ")
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
