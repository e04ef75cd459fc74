"""Columns of arrays and data frames as numbers or symbols."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = ["as_numbers", "as_symbols", "chosen_columns", "is_frame", "is_symbolic"]

#: Classes of missing entries in pandas, known by name because pandas may not be installed.
_PANDAS_MISSING = {"NAType", "NaTType"}

#: Kind codes of NumPy's types for times and time differences.
_DATES = "Mm"


def is_frame(X: Any) -> bool:
    """Return whether X is a data frame of pandas or polars, whose columns have types of their own."""
    return hasattr(X, "columns") and (hasattr(X, "iloc") or hasattr(X, "get_column"))


def is_symbolic(column: Any) -> bool:
    """Return whether a column holds symbols by its type, or by its entries if the type does not tell."""
    if _is_categorical_type(column):
        return True
    entries = np.asarray(column)
    if entries.dtype.kind in "iuf":
        return False
    if entries.dtype.kind in "bUT":
        return True
    return any(isinstance(entry, (str, bool, np.bool_)) for entry in entries.tolist())


def as_numbers(column: Any, name: str) -> npt.NDArray[np.float64]:
    """Return a column as floats, with nan for missing entries."""
    entries = np.asarray(column)
    if entries.dtype.kind in _DATES and len(entries):
        raise _unknown(entries[0], name)
    if entries.dtype.kind in "biuf":
        numbers: npt.NDArray[np.float64] = entries.astype(np.float64)
    else:
        numbers = np.array([_number(entry, name) for entry in entries.tolist()], dtype=np.float64)
    if np.any(np.isinf(numbers)):
        raise InvalidInputError(f"column {name!r} of X contains infinity; numbers must be finite, or missing (NaN)")
    return numbers


def as_symbols(column: Any, name: str) -> npt.NDArray[np.object_]:
    """Return a column as Python text, booleans and numbers, with None for missing entries."""
    entries = np.asarray(column, dtype=object)
    symbols = np.empty(len(entries), dtype=object)
    symbols[:] = [_symbol(entry, name) for entry in entries.tolist()]
    return symbols


def chosen_columns(chosen: Any, names: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return a mask of the columns that a mask, numbers or names choose."""
    given = np.asarray(chosen)
    if given.ndim != 1 or given.dtype.kind not in "biuUTO":
        raise InvalidTypeError(
            f"categorical_features must be 'from_dtype' or a mask, numbers or names of columns; got {chosen!r:.60}"
        )
    if given.dtype.kind == "b":
        if len(given) != len(names):
            raise InvalidInputError(f"categorical_features must have {len(names)} entries as a mask; got {len(given)}")
        return given
    mask = np.zeros(len(names), dtype=np.bool_)
    positions = {name: position for position, name in enumerate(names)}
    for one in given.tolist():
        position = positions.get(one) if isinstance(one, str) else one
        if not isinstance(position, int) or not 0 <= position < len(names):
            raise InvalidInputError(f"categorical_features names {one!r:.60}, which is not a column of X")
        mask[position] = True
    return mask


def _is_categorical_type(column: Any) -> bool:
    name = str(getattr(column, "dtype", "")).lower()
    return name.startswith(("category", "categorical", "enum"))


def _is_missing(entry: Any) -> bool:
    return entry is None or type(entry).__name__ in _PANDAS_MISSING or (isinstance(entry, float) and entry != entry)


def _number(entry: Any, name: str) -> float:
    if _is_missing(entry):
        return np.nan
    if isinstance(entry, str):
        raise InvalidTypeError(f"column {name!r} of X holds numbers; got text, such as {entry!r:.60}")
    if not isinstance(entry, Real):
        raise _unknown(entry, name)
    return float(entry)


def _symbol(entry: Any, name: str) -> Any:
    if _is_missing(entry):
        return None
    if isinstance(entry, str):
        return str(entry)
    if isinstance(entry, (bool, np.bool_)):
        return bool(entry)
    if isinstance(entry, Integral):
        return int(entry)
    if isinstance(entry, Real):
        return float(entry)
    raise _unknown(entry, name)


def _unknown(entry: Any, name: str) -> InvalidTypeError:
    if getattr(getattr(entry, "dtype", None), "kind", "") == "m" or hasattr(entry, "total_seconds"):
        return InvalidTypeError(
            f"column {name!r} of X holds times, such as {entry!s:.60}: a network takes numbers or categories, such as "
            f"X[{name!r}].dt.total_seconds()"
        )
    if getattr(getattr(entry, "dtype", None), "kind", "") == "M" or hasattr(entry, "year"):
        return InvalidTypeError(
            f"column {name!r} of X holds dates, such as {entry!s:.60}: a network takes numbers or categories, such as "
            f"X[{name!r}].dt.year, X[{name!r}].dt.month or days since a day"
        )
    # The checks of scikit-learn recognise the error by these words.
    return InvalidTypeError(
        f"column {name!r} of X: every entry (argument) must be a string or a number; "
        f"got {type(entry).__name__}, such as {entry!r:.60}"
    )
