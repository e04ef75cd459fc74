"""Data frames read from files, with rows numbered as in the file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

__all__ = ["named_frame"]


def named_frame(name: str, columns: dict[str, Any], rows: Iterable[int], unit: str) -> pandas.DataFrame:
    """Create a data frame that stores the name of its file; its index numbers rows in units such as "line"."""
    import pandas as pd

    index = pd.Index(rows, name=unit, dtype="int64")
    # New versions of pandas would convert objects to a type for text.
    series = {label: pd.Series(column, index, dtype=column.dtype, copy=False) for label, column in columns.items()}
    frame = pd.DataFrame(series, index, copy=False)
    frame.attrs["file"] = name
    return frame
