"""Read tables from files as data frames, and use them for training and scoring."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from qsdp._utils.atomic_files import check_path
from qsdp._utils.validation import check_choice, check_integer
from qsdp.encoding.reading_rule import MARKERS
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.tables.arrow import arrow_readings, kind
from qsdp.tables.csv_files import TextFormat, text_readings
from qsdp.tables.numbered_frames import Reading

if TYPE_CHECKING:
    import pandas

__all__ = ["MISSING", "check_format", "read_table", "reading_of", "table_chunks"]

#: Entries of text files that count as missing, in any case of letters, unless others are named.
MISSING = MARKERS


def read_table(
    path: str | os.PathLike[str],
    *,
    decimal: str = ".",
    thousands: str | None = None,
    missing: Collection[str] = MISSING,
) -> pandas.DataFrame:
    """Read a CSV, Parquet, Arrow or Feather file as `qsdp fit` does.

    Text files stay text: the estimators decide the kind of every column. Their fields are separated by commas,
    semicolons, tabs or bars, as a header line shows; they may be compressed (gzip, bzip2) and are UTF-8, or
    UTF-16 with a byte-order mark. Other files, and folders of Parquet files, are read by pyarrow with their
    types; only nulls are missing in them. Every line below the header is a row, but a blank line is one only in a table
    of one column. Left out with a warning are the index of a data frame, and columns of lists, records or bytes.

    Parameters
    ----------
    path : path-like
    decimal : {".", ","}, default="."
        Decimal separator of numbers in a text file. Numbers are rewritten with a point: ``1,5`` as ``1.5``.
    thousands : str, optional
        Separator of groups of digits in a text file, such as ``","``, ``"."``, ``"'"`` or ``" "``. Groups have two or
        three digits, the last one three: ``12,34,567`` is 1234567.
    missing : collection of str
        Entries of a text file that are missing, in any case of letters.

    Returns
    -------
    pandas.DataFrame
        Its index numbers the lines (or rows) of the file, so that errors can name them.

    Raises
    ------
    InvalidInputError
        The file is damaged or in another encoding, or it has no rows, an unnamed or repeated column, a line with more
        or fewer fields than the header. The message names file and line.

    Warns
    -----
    QSDPWarning
        A column has points that are neither `decimal` nor `thousands`: it is one of categories.
    """
    return reading_of(path, decimal=decimal, thousands=thousands, missing=missing).table


def reading_of(
    path: str | os.PathLike[str],
    *,
    decimal: str = ".",
    thousands: str | None = None,
    missing: Collection[str] = MISSING,
) -> Reading:
    """Read a file like `read_table`, with what was left out or counted as missing."""
    (reading,) = _readings(path, None, check_format(decimal, thousands, missing))
    return reading


def table_chunks(
    path: str | os.PathLike[str],
    rows: int = 2**16,
    *,
    decimal: str = ".",
    thousands: str | None = None,
    missing: Collection[str] = MISSING,
) -> Iterator[pandas.DataFrame]:
    """Read a file like `read_table`, in pieces that fit into memory.

    Parameters
    ----------
    path, decimal, thousands, missing
        See `read_table`.
    rows : int, default=65536
        Number of rows of every piece but the last.

    Yields
    ------
    pandas.DataFrame
    """
    text_format = check_format(decimal, thousands, missing)
    for reading in _readings(path, check_integer("rows", rows, minimum=1), text_format):
        yield reading.table


def check_format(decimal: str, thousands: str | None, missing: Collection[str]) -> TextFormat:
    """Check how a text file is written, and return it."""
    check_choice("decimal", decimal, [".", ","])
    if thousands is not None and (
        not isinstance(thousands, str)
        or len(thousands) != 1
        or thousands.isalnum()
        or thousands in {decimal, "+", "-", '"'}
    ):
        raise InvalidInputError(
            f"thousands must be one character that separates groups of digits, such as ',' or '.', and not "
            f"decimal={decimal!r}; got {thousands!r:.60}"
        )
    if isinstance(missing, str) or not all(isinstance(text, str) for text in missing):
        raise InvalidTypeError(f"missing must be a collection of texts, such as ['?', 'unknown']; got {missing!r:.60}")
    return TextFormat(decimal, thousands, frozenset(text.strip().lower() for text in missing))


def _readings(path: str | os.PathLike[str], rows: int | None, text_format: TextFormat) -> Iterator[Reading]:
    name = check_path(path)
    form, empty = kind(name), True
    for reading in text_readings(name, rows, text_format) if form is None else arrow_readings(name, form, rows):
        empty = False
        yield reading
    if empty:
        raise InvalidInputError(f"{name!r} has {'a header line' if form is None else 'columns'} but no rows")
