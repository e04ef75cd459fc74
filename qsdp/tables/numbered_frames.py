"""Data frames read from files, with rows numbered as in the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

__all__ = ["Reading", "named_frame"]


@dataclass(frozen=True, eq=False)
class Reading:
    """Rows of a file, and what the reader left out or replaced.

    Attributes
    ----------
    table : data frame
    left_out : tuple of str
        Columns of the file that are not in the table.
    missing : dict of str to Counter
        How often each text of a column counted as missing.
    """

    table: pandas.DataFrame
    left_out: tuple[str, ...] = ()
    missing: dict[str, Counter[str]] = field(default_factory=dict)


def named_frame(name: str, columns: dict[str, Any], rows: Iterable[int], unit: str) -> pandas.DataFrame:
    """Create a data frame that stores the name of its file; its index numbers rows in units such as "line"."""
    import pandas as pd

    index = pd.Index(rows, name=unit, dtype="int64")
    # New versions of pandas would convert objects to a type for text.
    series = {label: pd.Series(column, index, dtype=column.dtype, copy=False) for label, column in columns.items()}
    frame = pd.DataFrame(series, index, copy=False)
    frame.attrs["file"] = name
    return frame
