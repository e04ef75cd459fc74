"""Read tables from files as data frames, and use them for training and scoring."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from qsdp._utils.files import check_path
from qsdp._utils.validation import check_integer
from qsdp.encoding.notation import MARKERS
from qsdp.exceptions import InvalidInputError
from qsdp.tables.arrow import arrow_frames, kind
from qsdp.tables.text import text_frames

if TYPE_CHECKING:
    import pandas

__all__ = ["MISSING", "read_table", "table_chunks"]

#: Entries of text files that count as missing, in any case of letters, unless others are named.
MISSING = MARKERS


def read_table(path: str | os.PathLike[str], missing: Collection[str] = MISSING) -> pandas.DataFrame:
    """Read a CSV, Parquet, Arrow or Feather file as `qsdp fit` does.

    Text files stay text: the estimators decide the notation of every column. Their fields are separated by commas,
    semicolons, tabs or bars, as a header line shows; they may be compressed (gzip, bzip2) and are UTF-8, or
    UTF-16 with a byte-order mark. Other files, and folders of Parquet files, are read by pyarrow with their
    types; only nulls are missing in them. Every line below the header is a row, but a blank line is one only in a table
    of one column. Left out with a warning are the index of a data frame, and columns of lists, records or bytes.

    Parameters
    ----------
    path : path-like
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
    """
    (table,) = table_chunks(path, None, missing)
    return table


def table_chunks(
    path: str | os.PathLike[str], rows: int | None = 2**16, missing: Collection[str] = MISSING
) -> Iterator[pandas.DataFrame]:
    """Read a file like `read_table`, but yield data frames of `rows` rows (None: a single one)."""
    rows = None if rows is None else check_integer("rows", rows, minimum=1)
    name = check_path(path)
    form, empty, gaps = kind(name), True, frozenset(map(str.lower, missing))
    for table in text_frames(name, rows, gaps) if form is None else arrow_frames(name, form, rows):
        empty = False
        yield table
    if empty:
        raise InvalidInputError(f"{name!r} has {'a header line' if form is None else 'columns'} but no rows")
