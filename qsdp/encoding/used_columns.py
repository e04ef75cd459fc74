"""Columns of data frames by name: which are needed, absent or not in use."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from qsdp._utils.validation import warn
from qsdp.exceptions import InvalidInputError

__all__ = ["columns_of_training", "is_frame", "listing", "require", "title"]

#: Number of names in a message.
_LISTED = 20

#: Names of columns that are the first row of a file without names.
_DECIMAL = re.compile(r"-?\d+\.\d+")


def is_frame(X: Any) -> bool:
    """Whether X is a data frame of pandas or polars, whose columns have individual types."""
    return hasattr(X, "columns") and (hasattr(X, "iloc") or hasattr(X, "get_column"))


def title(frame: Any) -> str:
    """Return the name of a data frame in messages: its file, if it was read from one."""
    name = getattr(frame, "attrs", {}).get("file")
    return "the data frame" if name is None else repr(name)


def require(frame: Any, names: Iterable[str]) -> None:
    """Raise one error that names all missing columns."""
    columns = list(map(str, frame.columns))
    if not (absent := [name for name in names if name not in columns]):
        return
    close = difflib.get_close_matches(absent[0], columns, n=1)
    hint = f"; did you mean {close[0]!r}?" if close and len(absent) == 1 else ""
    if len(columns) == 1 and "file" in getattr(frame, "attrs", {}):
        hint = "; fields must be separated by commas, semicolons, tabs or bars"
    elif any(map(_DECIMAL.fullmatch, columns)):
        hint = "; the first line must name the columns"
    noun = "column" if len(absent) == 1 else "columns"
    raise InvalidInputError(f"{title(frame)} has no {noun} {listing(absent)}; it has {listing(columns)}{hint}")


def listing(names: Iterable[str]) -> str:
    """Quote and join names; many names are abbreviated to the first few and the total number."""
    shown = [repr(name) for name in names]
    more = [f"... ({len(shown)} in all)"] if len(shown) > _LISTED else []
    return ", ".join(shown[:_LISTED] + more)


def columns_of_training(X: Any, fitted: Any, used: Sequence[int] | None = None) -> Any:
    """Return the columns of a data frame that an estimator or encoder was fitted to, in their order.

    Other columns are ignored with a warning. X is returned unchanged if it or the training data had no names.

    Parameters
    ----------
    X : object
    fitted : object
        Estimator or encoder with `feature_names_in_`, unless it was fitted to an array.
    used : sequence of int, optional
        Positions of the columns that are needed; in pandas, others may be absent. None means all.

    Raises
    ------
    InvalidInputError
        A column is absent or occurs twice.
    """
    names: list[str] = list(getattr(fitted, "feature_names_in_", ()))
    columns = list(X.columns) if names and is_frame(X) else []
    if not columns or columns == names or not all(isinstance(name, str) for name in columns):
        return X
    require(X, names if used is None or not hasattr(X, "reindex") else [names[position] for position in used])
    known = set(names)
    if repeated := [name for name, count in Counter(columns).items() if count > 1 and name in known]:
        raise InvalidInputError(f"{title(X)}: names of columns must be distinct; repeated: {listing(repeated)}")
    if others := [name for name in columns if name not in known]:
        warn(f"{title(X)}: ignored the columns that were not used in training: {listing(others)}")
    return X.reindex(columns=names) if hasattr(X, "reindex") else X[names]
