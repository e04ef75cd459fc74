"""Text files as data frames of text: CSV with any usual delimiter, also compressed, read whole or in chunks of rows.

The first bytes of a file determine its format, not its name. Lines are read by the standard library, since pandas fills
short lines with missing entries without a warning.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import warn
from qsdp.encoding.frames import listing
from qsdp.exceptions import InvalidInputError
from qsdp.tables.frames import named_frame

if TYPE_CHECKING:
    import pandas

__all__ = ["text_frames", "text_size"]

_DELIMITERS = ",;\t|"
#: Readers of compressed files by their first bytes.
_COMPRESSED: dict[bytes, Callable[[Any], Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}
_ZIP = b"PK\x03\x04"
#: Byte-order marks, longer ones first, and the number of bytes at the start of a file that determine its encoding.
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_MARKED = 64
#: Number of characters in which delimiters are searched for.
_SAMPLE = 2**16
#: Approximate bytes in memory per byte of text in the file, and approximate factor of compression.
_TEXT_SHARE, _PACKED_SHARE = 12, 5


def text_size(name: str) -> int:
    """Estimate the bytes of memory that a text file takes as a data frame; 0 for a pipe, whose size is unknown."""
    if not os.path.isfile(name):
        return 0
    with open(name, "rb") as stream:
        start = stream.read(_MARKED)
    share = _PACKED_SHARE if start.startswith((_ZIP, *_COMPRESSED)) else 1
    return os.path.getsize(name) * _TEXT_SHARE * share


@contextmanager
def _opened(name: str) -> Iterator[TextIO]:
    with open(name, "rb") as file, _plain(name, file if file.seekable() else io.BytesIO(file.read())) as plain:
        try:
            start = plain.read(_MARKED)
            plain.seek(0)
            yield io.TextIOWrapper(plain, encoding=_encoding(name, start), newline="")
        except UnicodeDecodeError as error:
            raise InvalidInputError(_not_text(name, error)) from None
        except (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
            # Decompression raises errors without a number.
            if getattr(error, "errno", None) is not None:
                raise
            raise InvalidInputError(f"{name!r} is damaged or incomplete: {error}") from None


def _plain(name: str, file: BinaryIO) -> BinaryIO:
    """Decompress a file if its first bytes are those of a compression format."""
    start = file.read(_MARKED)
    file.seek(0)
    if not start.startswith(_ZIP):
        opened = next((open_ for magic, open_ in _COMPRESSED.items() if start.startswith(magic)), None)
        return file if opened is None else cast(BinaryIO, opened(file))
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        raise InvalidInputError(f"{name!r} is damaged or incomplete: {error}") from None
    members = [one for one in archive.namelist() if not one.endswith("/") and not one.startswith("__MACOSX/")]
    if len(members) != 1:
        raise InvalidInputError(f"{name!r} must hold one file, as a table in a zip archive; it holds {len(members)}")
    return cast(BinaryIO, archive.open(members[0]))


def _encoding(name: str, start: bytes) -> str:
    """Detect the encoding of a file from its first bytes."""
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


def text_frames(name: str, rows: int | None, missing: frozenset[str]) -> Iterator[pandas.DataFrame]:
    """Yield the rows of a text file as data frames of `rows` rows, or all in one if None."""
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
        if not header:
            raise InvalidInputError(f"{name!r} is empty; its first line must name the columns")
        # A data frame's index is written as a first column without a name.
        unnamed = len(header) > 1 and not header[0]
        _check_header(f"{name!r}, line {line}", header[unnamed:])
        while some := list(islice(records, rows)):
            for line, fields in some:
                if len(fields) != len(header):
                    raise InvalidInputError(
                        f"{name!r}, line {line}: {len(fields)} fields; the header has {len(header)}"
                    )
            if unnamed:
                _check_index(name, [fields[0] for _, fields in some])
            columns = dict(zip(header, zip(*(fields for _, fields in some), strict=True), strict=True))
            columns = {label: column for label, column in columns.items() if label}
            objects = {
                label: _objects([None if entry in missing else entry for entry in column])
                for label, column in columns.items()
            }
            frame = named_frame(name, objects, [line for line, _ in some], "line")
            frame.attrs["missing"] = {
                label: dict(Counter(entry for entry in column if entry in missing))
                for label, column in columns.items()
                if not missing.isdisjoint(column)
            }
            yield frame


def _objects(entries: list[str | None]) -> npt.NDArray[np.object_]:
    column = np.empty(len(entries), dtype=object)
    column[:] = entries
    return column


def _check_index(name: str, entries: list[str]) -> None:
    """Warn that an unnamed first column is ignored as an index; raise an error unless it numbers the rows."""
    if not all(map(str.isdecimal, entries)) or len(set(entries)) < len(entries):
        raise InvalidInputError(
            f"{name!r}: every column needs a name; number 1 has none, and is not an index: it holds {entries[0]!r:.60}"
        )
    warn(f"{name!r}: left out the first column, a data frame's index without a name")


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
