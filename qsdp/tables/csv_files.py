"""Text files as data frames of text: CSV with any usual delimiter, also compressed, read whole or in chunks of rows.

Numbers with other separators than a decimal point are rewritten with one, entry by entry, so that the kind of a column
does not depend on the rows that are read together.

The first bytes of a file determine its format, not its name. Lines are read by the standard library, since pandas fills
short lines with missing entries without a warning.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import warn
from qsdp.encoding.used_columns import listing
from qsdp.exceptions import InvalidInputError
from qsdp.tables.numbered_frames import Reading, named_frame

if TYPE_CHECKING:
    import pandas

__all__ = ["TextFormat", "text_readings"]

_DELIMITERS = ",;\t|"
#: Readers of compressed files by their first bytes.
_COMPRESSED: dict[bytes, Callable[[Any], Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open}
#: Patterns at the start of files that are not tables of text.
_OTHERS = {
    rb"PK\x03\x04": "a workbook or another zip archive",
    rb"\xfd7zXZ\x00": "compressed by xz",
    rb"\xff\xfe\x00\x00|\x00\x00\xfe\xff": "text in UTF-32",
    rb"\xd0\xcf\x11\xe0": "a workbook or document of Microsoft Office",
    rb"SQLite format": "a database of SQLite",
    rb"\x93NUMPY": "an array of NumPy",
    rb"\x89HDF": "an HDF5 file",
    rb"\x80[\x02-\x05]": "a pickle of Python",
    rb'(?s).{8}\{"__metadata__"': "a model of qsdp",
    rb"\x28\xb5\x2f\xfd": "compressed by Zstandard",
    rb'\s*(\{\s*"|\[\s*[\[{])': "JSON",
    rb"(?i)\s*<(!doctype|html|\?xml|table)": "HTML or XML",
    rb"(?i)(\s*%[^\n]*\n)*\s*@relation": "an ARFF file",
}
_INSTEAD = ", not a table as CSV, Parquet, Arrow or Feather; save it as CSV"
#: Byte-order marks.
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
#: Bytes or characters at the start of a file that show its encoding and delimiter.
_SAMPLE = 2**16


#: Numbers with a decimal point, but without separators of thousands.
_WITH_POINT = re.compile(r"[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True)
class TextFormat:
    """How a text file writes numbers, and which texts of it, in lower case, are missing entries."""

    decimal: str
    thousands: str | None
    missing: frozenset[str]

    @cached_property
    def _number(self) -> re.Pattern[str]:
        decimal, separator = re.escape(self.decimal), re.escape(self.thousands or "")
        # Groups have three digits, or two, as in India; the last has three.
        groups = rf"\d{{1,3}}(?:{separator}\d{{2,3}})*{separator}\d{{3}}|" if separator else ""
        return re.compile(rf"([+-]?)({groups}\d+|)(?:{decimal}(\d*))?((?:[eE][+-]?\d+)?)", re.ASCII)

    def plain(self, entry: str) -> str:
        """Rewrite a number with a decimal point and without separators of thousands; return other texts unchanged."""
        match = self._number.fullmatch(entry)
        if match is None or not (match[2] or match[3]):
            return entry
        whole = match[2].replace(self.thousands, "") if self.thousands else match[2]
        return f"{match[1]}{whole}{'' if match[3] is None else '.'}{match[3] or ''}{match[4]}"

    def column(self, name: str, label: str, entries: Sequence[str]) -> npt.NDArray[np.object_] | pandas.Categorical:
        """Return the entries of a column, with None for missing ones."""
        present = [None if entry.lower() in self.missing else entry for entry in entries]
        if self.decimal == "." and self.thousands is None:
            return np.fromiter(present, dtype=object)
        plain = [None if entry is None else self.plain(entry) for entry in present]
        # A point that is neither separator must not become a decimal point.
        unclear = (
            entry
            for entry, number in zip(present, plain, strict=True)
            if self.decimal != "." and entry is not None and entry == number and _WITH_POINT.fullmatch(entry)
        )
        if (entry := next(unclear, None)) is None:
            return np.fromiter(plain, dtype=object)
        import pandas as pd

        warn(
            f"{name!r}: column {label!r} is read as categories, because the point in {entry!r:.60} is neither "
            f"decimal={self.decimal!r} nor thousands={self.thousands!r}; if these are numbers, write all in one way"
        )
        return pd.Categorical(present)


@contextmanager
def _opened(name: str) -> Iterator[TextIO]:
    with open(name, "rb") as file, _plain(file if file.seekable() else io.BytesIO(file.read())) as plain:
        try:
            start = plain.read(_SAMPLE)
            plain.seek(0)
            yield io.TextIOWrapper(plain, encoding=_encoding(name, start), newline="")
        except UnicodeDecodeError as error:
            raise InvalidInputError(_not_text(name, error)) from None
        except (EOFError, OSError, zlib.error) as error:
            # Decompression raises errors without a number.
            if getattr(error, "errno", None) is not None:
                raise
            raise InvalidInputError(f"{name!r} is damaged or incomplete: {error}") from None


def _plain(file: BinaryIO) -> BinaryIO:
    """Decompress a file if its first bytes are those of a compression format."""
    start = file.read(_SAMPLE)
    file.seek(0)
    open_ = next((open_ for magic, open_ in _COMPRESSED.items() if start.startswith(magic)), None)
    opened: BinaryIO = file if open_ is None else open_(file)
    return opened


def _encoding(name: str, start: bytes) -> str:
    """Detect the encoding of a file from its first bytes."""
    plain = start.removeprefix(codecs.BOM_UTF8)
    if what := next((what for pattern, what in _OTHERS.items() if re.match(pattern, plain)), None):
        raise InvalidInputError(f"{name!r} is {what}{_INSTEAD}")
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
    """Write the error message, with a remedy, for bytes that are invalid in the file's encoding."""
    if error.encoding not in ("utf-8", "utf-8-sig"):
        return f"{name!r} is marked as {error.encoding.upper()} but contains invalid bytes; the file may be corrupted"
    before = error.object[max(0, error.start - 20) : error.start].decode("ascii", "replace").splitlines()
    near = f" after {before[-1]!r}" if before and before[-1] else ""
    return (
        f"{name!r} is not UTF-8 text: byte {error.object[error.start]:#04x}{near}; if it is Windows or Latin-1 text, "
        f"`iconv -f WINDOWS-1252 -t UTF-8 {os.path.basename(name)} > new.csv` saves it as UTF-8"
    )


def text_readings(name: str, rows: int | None, text_format: TextFormat) -> Iterator[Reading]:
    """Yield the rows of a text file, `rows` at a time, or all at once if None."""
    with _opened(name) as stream:
        above, delimiter = _leading(stream.read(_SAMPLE))
        stream.seek(0)
        for _ in range(above):
            stream.readline()
        records = _records(name, stream, delimiter, above + 1)
        first, header = next((record for record in records if any(record[1])), (0, []))
        if not header:
            raise InvalidInputError(f"{name!r} is empty; its first line must name the columns")
        repeated = [label for label, count in Counter(filter(None, header)).items() if count > 1]
        if repeated:
            raise InvalidInputError(
                f"{name!r}, line {first}: names of columns must be distinct; repeated: {listing(repeated)}"
            )
        body = _rows(name, first, header, records)
        while some := list(islice(body, rows)):
            entries = list(zip(*(fields for _, fields in some), strict=True))
            for position in (position for position, label in enumerate(header) if not label):
                _check_unnamed(name, position, entries[position])
            columns = {label: column for label, column in zip(header, entries, strict=True) if label}
            objects = {label: text_format.column(name, label, column) for label, column in columns.items()}
            gaps = {
                label: Counter(entry for entry in column if entry.lower() in text_format.missing)
                for label, column in columns.items()
            }
            yield Reading(named_frame(name, objects, [line for line, _ in some], "line"), missing=gaps)


def _check_unnamed(name: str, position: int, entries: Sequence[str]) -> None:
    """Check that a column without a name may be left out: it is empty, or the first one and numbers the rows."""
    if not any(entries):
        return
    if position or not all(map(str.isdecimal, entries)) or len(set(entries)) < len(entries):
        entry = next(filter(None, entries))
        raise InvalidInputError(
            f"{name!r}: every column needs a name; number {position + 1} has none, and is not an index: it holds "
            f"{entry!r:.60}"
        )
    warn(f"{name!r}: left out the first column, a data frame's index without a name")


def _leading(text: str) -> tuple[int, str]:
    """Return the number of lines above the header, which are blank or comments, and the delimiter of the fields."""
    lines = re.split(r"\r\n|\r|\n", text)
    above = next((number for number, line in enumerate(lines) if line.strip() and not line.startswith("#")), 0)
    # Excel reads a first line "sep=;" as the delimiter.
    if named := re.fullmatch(r"\s*sep=(.)", lines[above]):
        return above + 1, named[1]
    delimiter = _delimiter(lines[above:])
    last = lines[above - 1] if above else ""
    # The name of the first column may begin with "#".
    return above - (not last.startswith("# ") and last.count(delimiter) == lines[above].count(delimiter) > 0), delimiter


def _records(name: str, stream: TextIO, delimiter: str, line: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line and the fields of each record; blank ones have a single field or none."""
    # The outline of a country as text is longer than the usual limit.
    csv.field_size_limit(2**31 - 1)
    reader, above = csv.reader(stream, delimiter=delimiter, skipinitialspace=True, strict=True), line
    try:
        for raw in reader:
            yield line, list(map(str.strip, raw))
            line = reader.line_num + above
    except csv.Error as error:
        raise InvalidInputError(f"{name!r}, line {line}: not valid CSV: {error}") from None


def _rows(
    name: str, first: int, header: list[str], records: Iterator[tuple[int, list[str]]]
) -> Iterator[tuple[int, list[str]]]:
    """Yield the records below the header, checked to have as many fields; first is the line of the header.

    A blank line is a row, whose entry is missing, only in a table of one column.
    """
    titles = True
    for line, blank_or_fields in records:
        fields = blank_or_fields or [""]
        if fields == [""] and len(header) > 1:
            continue
        # Some programs write a delimiter after the last field.
        record = fields if any(fields[len(header) :]) else fields[: len(header)]
        if len(record) == len(header):
            titles = len(header) == 1
            yield line, record
        else:
            names = ", ".join(header)
            remedy = "; remove notes below the rows" if len(record) == 1 else ""
            remedy = "; remove what is above the names of the columns" if titles else remedy
            count = f"{len(record)} field{'' if len(record) == 1 else 's'}"
            raise InvalidInputError(
                f"{name!r}, line {line}: {count}; the header in line {first}, {names!r:.60}, has {len(header)}{remedy}"
            )


def _delimiter(lines: list[str]) -> str:
    # The sniffer is unreliable unless restricted, so it may choose only among the delimiters in the header.
    header = re.sub('"[^"]*"', "", lines[0])
    candidates = [delimiter for delimiter in _DELIMITERS if delimiter in header]
    likely = max(candidates, key=header.count, default=",")
    if len(candidates) < 2:
        return likely
    try:
        sniffed = csv.Sniffer().sniff("\n".join(lines), "".join(candidates)).delimiter
    except csv.Error:
        return likely
    return sniffed if sniffed in candidates else likely
