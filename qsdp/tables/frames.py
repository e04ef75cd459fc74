"""Data frames read from files, with rows numbered as in the file, and checks of their column names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from qsdp.exceptions import InvalidInputError

if TYPE_CHECKING:
    import pandas

__all__ = ["listing", "named_frame", "require", "title"]

#: Number of names in a message.
_LISTED = 20


def named_frame(name: str, columns: dict[str, Any], rows: Iterable[int], unit: str) -> pandas.DataFrame:
    """Create a data frame that stores the name of its file; its index numbers rows in units such as "line"."""
    import pandas as pd

    index = pd.Index(rows, name=unit, dtype="int64")
    # New versions of pandas would convert objects to a type for text.
    series = {label: pd.Series(column, index, dtype=column.dtype, copy=False) for label, column in columns.items()}
    frame = pd.DataFrame(series, index, copy=False)
    frame.attrs["file"] = name
    return frame


def title(frame: pandas.DataFrame) -> str:
    """Return the name of a data frame in messages: its file, if it was read from one."""
    return repr(frame.attrs["file"]) if "file" in frame.attrs else "the data frame"


def require(frame: pandas.DataFrame, names: Iterable[str]) -> None:
    """Raise one error that names all missing columns."""
    columns = list(map(str, frame.columns))
    if not (absent := [name for name in names if name not in columns]):
        return
    close = difflib.get_close_matches(absent[0], columns, n=1)
    hint = f"; did you mean {close[0]!r}?" if close and len(absent) == 1 else ""
    noun = "column" if len(absent) == 1 else "columns"
    raise InvalidInputError(f"{title(frame)} has no {noun} {listing(absent)}; it has {listing(columns)}{hint}")


def listing(names: Iterable[str]) -> str:
    """Quote and join names; many names are abbreviated to the first few and the total number."""
    shown = [repr(name) for name in names]
    more = [f"... ({len(shown)} in all)"] if len(shown) > _LISTED else []
    return ", ".join(shown[:_LISTED] + more)
