"""Columns of arrays and data frames as numbers or symbols."""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection, Sequence
from decimal import Decimal
from numbers import Integral, Number, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import check_unmasked
from qsdp.encoding.frames import is_frame
from qsdp.encoding.notation import (
    BOOLEAN,
    DATES,
    MARKERS,
    ambiguous,
    habit_of,
    is_unsure,
    notation_of,
    parsed,
    truth,
    truth_value,
    truths,
)
from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = [
    "as_numbers",
    "as_symbols",
    "as_table",
    "chosen_columns",
    "column_notations",
    "habits_of",
    "is_missing",
    "is_symbolic",
    "is_wide",
    "odd_entries",
    "place_of",
]

#: Names of pandas' classes of missing entries; names, because pandas may not be installed.
_PANDAS_MISSING = {"NAType", "NaTType"}

#: Kind codes of NumPy's types for times and time differences.
_DATES = "Mm"

_SECOND, _DAY = np.timedelta64(1, "s"), np.timedelta64(1, "D")

#: Types of polars' columns of integers for which NumPy has none.
_INTEGERS_OF_POLARS = {"Int128", "UInt128"}

#: Kinds of entries that make a column of objects categorical.
_SYMBOLS = frozenset({"text", "truth", "symbol"})


def as_table(X: Any) -> Any:
    """Convert nested lists with text or times to an array of objects, and tables of Arrow to data frames.

    NumPy would turn the numbers beside text into text.
    """
    check_unmasked("X", X)
    if type(X).__name__ == "LazyFrame":
        raise InvalidTypeError("X must be a table in memory; got a LazyFrame of polars: use X.collect()")
    if hasattr(X, "column_names") and hasattr(X, "to_pandas"):
        X = X.to_pandas()
    if is_frame(X):
        _refuse_periods(X)
    if hasattr(X, "dtype") or hasattr(X, "toarray") or is_frame(X):
        return X
    try:
        entries = np.asarray(X)
    except ValueError:
        # Later checks reject rows of different lengths.
        return X
    # They also reject integers beyond double precision, which NumPy keeps as objects.
    numbers = entries.dtype.kind not in "USO" or all(isinstance(entry, Number) for entry in entries.flat)
    return X if numbers else np.asarray(X, dtype=object)


def _refuse_periods(frame: Any) -> None:
    """Raise an error for columns of periods, which are neither days nor numbers."""
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        if str(dtype).startswith("period["):
            raise InvalidTypeError(
                f"column {name!r} of X holds periods ({dtype}), which are neither dates nor numbers: convert them to "
                f"dates, X[{name!r}].dt.to_timestamp()"
            )


def is_missing(entry: Any) -> bool:
    """Whether an entry is missing: None, NaN of any numeric type, or a marker of pandas or of NumPy's times."""
    if isinstance(entry, str):
        return False
    if isinstance(entry, Decimal):
        # Comparisons of signalling NaNs raise.
        return entry.is_nan()
    if isinstance(entry, (float, Real, np.datetime64, np.timedelta64)):
        return bool(entry != entry)
    return entry is None or type(entry).__name__ in _PANDAS_MISSING


def is_symbolic(column: Any) -> bool:
    """Whether a column is categorical, judged by its type or, for object columns, by its entries.

    In a column of objects, every hashable entry that is not a number, a time or missing is a symbol.
    """
    if _is_categorical_type(column):
        return True
    entries = _entries(column)
    return entries.dtype.kind in "bUTS" if entries.dtype.kind != "O" else not _SYMBOLS.isdisjoint(_kinds(entries))


def is_wide(column: Any) -> bool:
    """Whether a column has a type of polars for integers for which NumPy has none."""
    return str(getattr(column, "dtype", "")) in _INTEGERS_OF_POLARS


def column_notations(columns: Sequence[Any], names: Sequence[str], habits: Collection[str] = ()) -> list[str | None]:
    """Detect the notations of numbers or booleans in columns (`qsdp.encoding.notation`); None for categories.

    The type of a column decides, or its entries if they are text or Python objects. For text with two readings, the
    other columns decide, and `habits` of columns that are not among them.

    Raises
    ------
    InvalidInputError
        Text can be parsed as numbers or dates in two ways.
    """
    texts = [_texts(column) for column in columns]
    notations = [
        _notation_of_type(column) if some is None else notation_of(some) if some else None
        for column, some in zip(columns, texts, strict=True)
    ]
    unsure = [place for place, some in enumerate(texts) if some and is_unsure(some, notations[place])]
    if unsure:
        known = _consistent({*habits, *_habits(texts, notations)})
        for place in unsure:
            notations[place] = notation_of(texts[place] or [], known)
            if notations[place] is None and (why := ambiguous(texts[place] or [])) is not None:
                raise InvalidInputError(f"column {names[place]!r} holds {why}")
    return notations


def habits_of(columns: Sequence[Any]) -> set[str]:
    """Return what the text of columns shows about others of their table, see `qsdp.encoding.notation.habit_of`."""
    texts = [_texts(column) for column in columns]
    return _habits(texts, [notation_of(some) if some else None for some in texts])


def _habits(texts: Sequence[list[str] | None], notations: Sequence[str | None]) -> set[str]:
    habits = {habit_of(some, notation) for some, notation in zip(texts, notations, strict=True) if some}
    return {habit for habit in habits if habit is not None}


def _consistent(habits: set[str]) -> set[str]:
    """Return the habits without those that contradict each other."""
    rivals = ({".", ","}, {"day first", "month first"})
    return habits - set[str]().union(*(pair for pair in rivals if pair <= habits))


def _texts(column: Any) -> list[str] | None:
    """Return the entries of a column of text without missing ones; None for a column of another type.

    Numbers beside text, as in columns that pandas read in parts, are read as if they were text.
    """
    entries = _entries(column)
    if _is_categorical_type(column) or entries.dtype.kind not in "OUT":
        return None
    kinds = _kinds(entries)
    if "text" not in kinds or not kinds <= {"text", "number", "missing"}:
        return None
    present = [_bare(entry) for entry in entries.tolist() if not is_missing(entry)]
    return [one if isinstance(one, str) else repr(_float(one)) for one in present if one is not None]


def _notation_of_type(column: Any) -> str | None:
    """Return the notation of a column that is not text."""
    entries = _entries(column)
    if _is_categorical_type(column):
        return None
    if entries.dtype.kind != "O":
        return {"b": BOOLEAN, "m": "duration", "M": "date"}.get(entries.dtype.kind, "number")
    kinds = _kinds(entries) - {"missing"}
    if len(kinds) == 1 and (notation := {"truth": BOOLEAN, "span": "duration", "day": "date"}.get(*kinds)):
        return notation
    return "number" if _SYMBOLS.isdisjoint(kinds) else None


def as_numbers(column: Any, name: str, notation: str = "number") -> npt.NDArray[np.float64]:
    """Convert a column to floats, with nan for missing entries and for unparsable text, see `odd_entries`."""
    entries = _entries(column)
    if entries.dtype.kind == "m":
        return np.asarray(entries.astype("m8[us]") / _SECOND)
    if entries.dtype.kind == "M" and notation in DATES:
        return np.asarray((entries.astype("M8[us]") - np.datetime64(0, "us")) / _DAY)
    if entries.dtype.kind == "M" and len(entries):
        raise _unknown(entries[0], name)
    if entries.dtype.kind in "biuf":
        numbers: npt.NDArray[np.float64] = entries.astype(np.float64)
    else:
        listed = [_bare(entry) for entry in entries.tolist()]
        texts = [place for place, entry in enumerate(listed) if isinstance(entry, str)]
        values = parsed([listed[place] for place in texts], notation)
        # A number in text is finite; other text cannot be read as one.
        read = dict(zip(texts, np.where(np.isfinite(values), values, np.nan).tolist(), strict=True))
        numbers = np.array(
            [read[place] if place in read else _number(entry, name, notation) for place, entry in enumerate(listed)],
            dtype=np.float64,
        )
    if np.any(infinite := np.isinf(numbers)):
        place = place_of(column, int(infinite.argmax()))
        raise InvalidInputError(f"column {name!r} contains infinity in {place}; numbers must be finite, or missing")
    return numbers


def place_of(column: Any, row: int) -> str:
    """Name a row in messages: "line 7" if the index of the column or data frame numbers lines, else by row number."""
    index: Any = getattr(column, "index", None)
    return f"{index.name} {index[row]}" if getattr(index, "name", None) else f"row {row}"


def odd_entries(column: Any, numbers: npt.NDArray[np.float64]) -> list[tuple[int, str]]:
    """Return (row, text) of the entries of a column that could not be parsed as numbers, without missing ones."""
    entries = _entries(column)
    if entries.dtype.kind not in "OUT":
        return []
    rows = np.flatnonzero(np.isnan(numbers)).tolist()
    return [(row, entries[row]) for row in rows if isinstance(_bare(entries[row]), str)]


def as_symbols(
    column: Any, name: str, notation: str | None = None, known: Collection[Any] = ()
) -> npt.NDArray[np.object_]:
    """Convert a column to Python strings, booleans and numbers, with None for missing entries.

    Entries of other types are represented by their text, so that encodings can be stored. Text is a truth value where
    the column has that notation. If the `known` categories of training are two truth values in one notation, such as
    "no" and "yes", other entries that stand for a truth value in any notation, such as False and 1, become these.
    """
    if pair := truths(symbol for symbol in known if symbol is not None):
        symbols = as_symbols(column, name, notation)
        symbols[:] = [entry if entry in known else pair.get(truth_value(entry), entry) for entry in symbols.tolist()]
        return symbols
    if notation == BOOLEAN:
        plain = as_symbols(column, name)
        plain[:] = [truth(entry.strip()) if isinstance(entry, str) else entry for entry in plain.tolist()]
        return plain
    if hasattr(getattr(column, "cat", None), "codes"):
        # The code of a missing entry of pandas is -1.
        categories = np.array([*as_symbols(np.asarray(column.cat.categories), name), None], dtype=object)
        return np.take(categories, np.asarray(column.cat.codes))
    entries = _entries(column)
    if entries.dtype.kind in _DATES:
        # The text of a time must not depend on the unit in which the column counts.
        entries = entries.astype(f"{entries.dtype.kind}8[us]")
    return np.fromiter((_symbol(entry, name) for entry in entries.tolist()), dtype=object)


def chosen_columns(chosen: Any, names: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Resolve a column selection (boolean mask, indices or names) to a boolean mask."""
    selection = np.asarray(chosen)
    if selection.shape != (selection.size,) or selection.dtype.kind not in "biuUTO":
        raise InvalidTypeError(
            f"categorical_features must be 'from_dtype' or a boolean mask, indices or names of columns; got "
            f"{chosen!r:.60}"
        )
    if selection.dtype.kind == "b":
        if len(selection) != len(names):
            raise InvalidInputError(
                f"categorical_features must have {len(names)} entries as a mask; got {len(selection)}"
            )
        return selection
    mask = np.zeros(len(names), dtype=np.bool_)
    positions = {name: position for position, name in enumerate(names)}
    for one in selection.tolist():
        position = positions.get(one) if isinstance(one, str) else one
        if not isinstance(position, int) or not 0 <= position < len(names):
            raise InvalidInputError(f"categorical_features names {one!r:.60}, which is not a column of X")
        mask[position] = True
    return mask


def _is_categorical_type(column: Any) -> bool:
    name = str(getattr(column, "dtype", "")).lower()
    return name.startswith(("category", "categorical", "enum"))


def _entries(column: Any) -> npt.NDArray[Any]:
    """Convert a column to an array (n,) of a NumPy type for numbers, text or times, or of Python objects."""
    if is_wide(column):
        return np.fromiter(column.to_list(), dtype=object)
    entries = np.asarray(column)
    if isinstance(column, np.ndarray) or (entries.ndim == 1 and entries.dtype.kind != "O"):
        return entries
    # As arrays, columns of lists or records have more dimensions.
    return np.fromiter(column.to_list(), dtype=object)


def _kinds(entries: npt.NDArray[Any]) -> set[str]:
    return {_kind(entry) for entry in entries.tolist()}


def _kind(entry: Any) -> str:
    """Return what an entry is: text, truth, missing, day, span, number, symbol (by its text), or other."""
    if isinstance(entry, str):
        return "text"
    if isinstance(entry, (bool, np.bool_)):
        return "truth"
    if is_missing(entry):
        return "missing"
    if isinstance(entry, (datetime.date, np.datetime64)):
        return "day"
    if isinstance(entry, (datetime.time, datetime.timedelta, np.timedelta64)):
        return "span"
    if isinstance(entry, (Real, Decimal)):
        return "number"
    if type(entry).__name__ == "Period":
        return "other"
    # The default text of an object is its address.
    return (
        "symbol"
        if _is_hashable(entry) and str(entry) != object.__repr__(entry) and not isinstance(entry, Number)
        else "other"
    )


def _bare(entry: Any) -> Any:
    """Strip blanks from a text; None for texts that stand for missing numbers."""
    if not isinstance(entry, str):
        return entry
    text = entry.strip()
    return None if text.lower() in MARKERS else text


def _is_hashable(entry: Any) -> bool:
    try:
        hash(entry)
    except TypeError:
        return False
    return True


def _number(entry: Any, name: str, notation: str) -> float:
    if is_missing(entry):
        return np.nan
    if notation in DATES and isinstance(entry, datetime.date):
        return float(parsed([entry.isoformat()], "date")[0])
    if isinstance(entry, datetime.time):
        entry = datetime.datetime.combine(datetime.datetime.min, entry.replace(tzinfo=None)) - datetime.datetime.min
    if isinstance(entry, (datetime.timedelta, np.timedelta64)):
        return float(np.timedelta64(entry, "us") / _SECOND)
    if _kind(entry) not in {"number", "truth"}:
        raise _unknown(entry, name)
    return _float(entry)


def _float(number: Any) -> float:
    """Convert to the nearest float, infinite for numbers beyond the range of floats."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _symbol(entry: Any, name: str) -> Any:
    kind = _kind(entry)
    if kind == "text":
        # `str` of a member of an enumeration of text would be its name, but it equals its value.
        return str.__str__(entry)
    if kind == "missing":
        return None
    if kind == "truth":
        return bool(entry)
    if isinstance(entry, Integral) and kind == "number":
        return int(entry)
    if kind == "number":
        return _number_as_symbol(entry)
    if kind == "other" and not isinstance(entry, complex):
        raise _unknown(entry, name)
    return str(entry)


def _number_as_symbol(entry: Any) -> float | int | str:
    """Convert a number to a float; to an integer if the float would differ, or to text if it is infinite."""
    number = _float(entry)
    if not math.isfinite(number):
        return str(entry)
    return int(entry) if number != entry and int(entry) == entry else number


def _unknown(entry: Any, name: str) -> InvalidTypeError:
    if isinstance(entry, (datetime.date, np.datetime64)):
        return InvalidTypeError(
            f"column {name!r} holds dates, such as {entry!s:.60}, where numbers are expected: convert them to numbers, "
            "or declare the column categorical"
        )
    if type(entry).__name__ == "Period":
        return InvalidTypeError(
            f"column {name!r} of X holds periods, such as {entry!s:.60}, which are neither dates nor numbers: convert "
            "them to dates, entry.to_timestamp()"
        )
    # The checks of scikit-learn recognise the error by these words.
    return InvalidTypeError(
        f"column {name!r} of X: every entry of this argument must be a string or a number, or another hashable object "
        f"as a category; got {type(entry).__name__}, such as {entry!r:.60}"
    )
