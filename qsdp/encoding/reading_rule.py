"""The reading rule: which kind a column has, and its entries as numbers or symbols (docs/guide/reading.md)."""

from __future__ import annotations

import datetime
import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from decimal import Decimal
from numbers import Complex, Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray, check_unmasked, warn
from qsdp.encoding.used_columns import is_frame
from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = [
    "BOOLEAN",
    "CATEGORY",
    "DATE",
    "EXAMPLES",
    "KINDS",
    "MARKERS",
    "NUMBER",
    "PLURALS",
    "as_table",
    "chosen_columns",
    "is_missing",
    "is_wide",
    "kind_of",
    "read_column",
    "row_name",
]

#: Kinds of columns.
KINDS = NUMBER, DATE, BOOLEAN, CATEGORY = ("number", "date", "boolean", "category")

#: What columns of a kind hold, and examples of it as text, for messages.
PLURALS = {NUMBER: "numbers", DATE: "dates", BOOLEAN: "true/false", CATEGORY: "categories"}
EXAMPLES = {NUMBER: "1234.5", DATE: "2024-01-31", BOOLEAN: "true"}

#: Texts that stand for missing entries, in lower case.
MARKERS = frozenset({"", "na", "n/a", "nan", "none", "null", "nat", "?", "-", "."})

#: Maximum fraction of entries without a digit among numbers or dates, which count as missing.
_ODD = 0.05

#: Fraction of entries that begin like numbers from which a column of categories has a warning; a third would do.
_LIKELY = 0.5

#: A finite decimal number without a leading zero; its exponent may make it infinite.
_DECIMAL = re.compile(r"[+-]?(?!0\d)(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)

#: Dates of ISO 8601, of any precision and any offset; NumPy decides whether the calendar has them.
_ISO = re.compile(
    r"(?P<month>\d{4}(-\d\d)?)|(?P<year>\d{4})(-?)(?P<date>\d\d\4\d\d)"
    r"([T ](?P<hour>\d\d)(:?(?P<minute>\d\d)(:?(?P<second>\d\d)(\.(?P<fraction>\d+))?)?)?"
    r"( ?(Z|(?P<sign>[+-])(?P<hours>\d\d)(:?(?P<minutes>\d\d))?))?)?",
    re.ASCII,
)

_TRUTH = {"true": True, "false": False}

#: Types of polars' columns of integers for which NumPy has none.
_INTEGERS_OF_POLARS = {"Int128", "UInt128"}

_DAY = np.timedelta64(1, "D")

#: A text within a column.
_TEXT = "text"


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
    numbers = entries.dtype.kind not in "USO" or all(isinstance(entry, Complex) for entry in entries.flat)
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
    """Whether pandas counts an entry as missing, such as None, NaN or NaT; text never is."""
    import pandas as pd

    if isinstance(entry, Decimal):
        # pandas compares, and comparisons of signalling NaNs raise.
        return entry.is_nan()
    return entry is None or (not isinstance(entry, str) and pd.api.types.is_scalar(entry) and bool(pd.isna(entry)))


def is_wide(column: Any) -> bool:
    """Whether a column has a type of polars for integers for which NumPy has none."""
    return str(getattr(column, "dtype", "")) in _INTEGERS_OF_POLARS


def row_name(column: Any, row: int) -> str:
    """Name a row in messages: "line 7" if the index of the column or data frame numbers lines, else by row number."""
    index: Any = getattr(column, "index", None)
    return f"{index.name} {index[row]}" if getattr(index, "name", None) else f"row {row}"


# -- the kind of a column ----------------------------------------------------------------------------------


def kind_of(column: Any, name: str, *, declared: bool = False) -> str:
    """Decide the kind of a column: by its type, or by its entries if these are text or Python objects.

    If the categorical columns are `declared`, a categorical type is one of text.

    Warns
    -----
    QSDPWarning
        A column of text holds categories although many of its entries look like numbers or dates.
    """
    entries = _entries(column)
    by_type = _kind_of_type(column, entries, name)
    if by_type != _TEXT and not (declared and by_type == CATEGORY):
        return by_type or NUMBER
    counts = Counter(text for text in map(_text_or_none, entries.tolist()) if text is not None)
    total, texts = counts.total(), list(counts)
    if all(text.lower() in _TRUTH for text in texts):
        return BOOLEAN if texts else NUMBER
    read = {NUMBER: np.isfinite(_parsed(texts, NUMBER)), DATE: np.isfinite(_parsed(texts, DATE))}
    for kind, fits in read.items():
        odd = [text for text, fit in zip(texts, fits.tolist(), strict=True) if not fit]
        digits = any(character.isdigit() for text in odd for character in text)
        if not digits and sum(counts[text] for text in odd) <= _ODD * total:
            return kind
    likely = sum(counts[text] for text in texts if _LIKE_NUMBERS.match(text))
    if likely >= _LIKELY * total:
        others = [text for text, *fits in zip(texts, *read.values(), strict=True) if not any(fits)] or texts
        shown = next((text for text in others if _LIKE_NUMBERS.match(text)), others[0])
        warn(
            f"column {name!r} is read as categories, because of entries such as {shown!r:.60}, which are neither plain "
            f"numbers nor dates of ISO 8601; if they are numbers or dates, {_remedy(shown)}"
        )
    return CATEGORY


#: Texts that begin like a number, after signs, brackets and currencies, or hold nothing but such signs.
_LIKE_NUMBERS = re.compile(r"\W*([A-Z]{3}\W*)?\d|\W+$")

#: Patterns of texts, in the order of trial, and how to convert a column of them.
_REMEDIES = {
    r"[+-]?0\d+(\.\d*)?": "convert the column with pandas.to_numeric, which drops leading zeros",
    r"[+-]?\d{1,3},\d{3}": 'read the file with decimal="," or thousands="," (qsdp.tables.read_table, qsdp fit)',
    r"[+-]?\d{1,3}(,\d{2,3})*,\d{3}(\.\d*)?": 'read the file with thousands="," (qsdp.tables.read_table, qsdp fit)',
    r"[+-]?\d*,\d*([eE][+-]?\d+)?": 'read the file with decimal="," (qsdp.tables.read_table, qsdp fit)',
    r"[+-]?\d{1,3}(\.\d{3})+(,\d*)?": 'read the file with decimal="," and thousands="." (qsdp.tables.read_table, '
    "qsdp fit)",
    r"\d{4}-\d\d-\d\d.*": 'convert the column with pandas.to_datetime(column, errors="coerce"), which makes dates '
    "that no calendar has missing",
    r"\d{1,4}([./-])\d{1,2}\1\d{1,4}\b.*|\d{1,2}(st|nd|rd|th)?[ -]?[A-Za-z]{3,9}[ -]?\d{2,4}\b.*": "convert the "
    "column with pandas.to_datetime(column, dayfirst=...)",
    r"-?\d+:\d\d.*|-?(\d+(\.\d+)? ?(d|days?|h|hours?|m|min|s)\b ?){2,}": "convert the column with "
    "pandas.to_timedelta(column).dt.total_seconds()",
    r".*[$\u00a2-\u00a5\u20a0-\u20cf].*|[A-Z]{3} ?[+-]?\d.*": "convert the column with price-parser, "
    "Price.fromstring(text).amount_float",
    r"[+-]?[\d.,]+ ?(?![eE][+-]?\d)[^\W\d_]+.*": "convert the column with pint, Quantity(text).magnitude",
}


def _remedy(text: str) -> str:
    """Say how to convert a column of texts such as this one to numbers or dates."""
    converts = (remedy for pattern, remedy in _REMEDIES.items() if re.fullmatch(pattern, text))
    return next(converts, "convert the column with pandas.to_numeric, without what is not part of the number")


def _kind_of_type(column: Any, entries: npt.NDArray[Any], name: str) -> str | None:
    """Return the kind of a column by its type, "text" if its text decides, or None if all entries are missing."""
    if _is_categorical_type(column):
        return CATEGORY if len(entries) and any(entry is not None for entry in entries.tolist()) else None
    code = entries.dtype.kind
    if code in "iub":
        return BOOLEAN if code == "b" else NUMBER
    if code in "fM":
        known = ~(np.isnan(entries) if code == "f" else np.isnat(entries))
        return (NUMBER if code == "f" else DATE) if known.any() else None
    if code in "UT":
        return _TEXT
    if code != "O":
        # Raises for the first entry.
        _kind_of_entry(entries[0] if len(entries) else entries.dtype, name)
    kinds = {kind for entry in entries.tolist() if (kind := _kind_of_entry(entry, name)) is not None}
    if DATE in kinds and len(kinds) > 1 and _TEXT not in kinds:
        raise InvalidTypeError(
            f"column {name!r} of X holds dates beside {' and '.join(sorted(kinds - {DATE}))}s; convert it to one kind, "
            f"or to categories with .astype(str)"
        )
    for kind in (_TEXT, NUMBER, DATE, BOOLEAN):
        if kind in kinds:
            return kind
    return None


def _kind_of_entry(entry: Any, name: str) -> str | None:
    """Return the kind of a Python object: "text", None if it is missing, or number, date or boolean."""
    if isinstance(entry, str):
        return _TEXT
    if is_missing(entry):
        return None
    if isinstance(entry, (bool, np.bool_)):
        return BOOLEAN
    if isinstance(entry, (datetime.date, np.datetime64)):
        return DATE
    if not isinstance(entry, np.timedelta64) and (isinstance(entry, Real) or not isinstance(entry, Complex)):
        try:
            _float(entry)
        except (TypeError, ValueError):
            pass
        else:
            return NUMBER
    remedy = "convert the column to categories with .astype(str), or leave it out"
    if isinstance(entry, (datetime.timedelta, np.timedelta64)):
        remedy = "convert the column to seconds with .dt.total_seconds()"
    elif type(entry).__name__ == "Period":
        raise InvalidTypeError(
            f"column {name!r} of X holds periods, such as {entry!s:.60}, which are neither dates nor numbers: convert "
            "them to dates, entry.to_timestamp()"
        )
    # The checks of scikit-learn recognise the error by these words.
    raise InvalidTypeError(
        f"column {name!r} of X: every entry of this argument must be a string or a number, a date or true/false; got "
        f"{type(entry).__name__}, such as {entry!r:.60}; {remedy}"
    )


# -- the entries of a column -------------------------------------------------------------------------------


def read_column(
    column: Any, name: str, kind: str, known: Collection[Any] = (), *, declared: bool = False
) -> tuple[npt.NDArray[Any], list[tuple[int, str]]]:
    """Read a column in the kind of training; also return (row, text) of the entries that are not of this kind.

    Numbers and dates become floats with nan for missing entries, dates as days since 1970 in UTC. True/false and
    categories become objects, True and False or text, with None for missing entries. Entries of another kind count as
    missing; any entry is a category, and text that stands for missing entries is one only if it is among the `known`.

    Raises
    ------
    InvalidTypeError
        The column has a type of another kind, unless it was `declared` which columns are categorical.
    InvalidInputError
        A number is infinite.
    """
    entries = _entries(column)
    # Python objects may be categories whatever they are: a later batch may hold the numbers among them alone.
    any_type = declared or str(getattr(column, "dtype", "")).lower() == "object"
    by_type = CATEGORY if kind == CATEGORY and any_type else _kind_of_type(column, entries, name)
    by_type = _TEXT if declared and by_type == CATEGORY else by_type
    if by_type not in {None, _TEXT, kind}:
        raise _of_another_kind(entries, name, str(by_type), kind)
    if kind == CATEGORY:
        if _is_categorical_type(column):
            return entries, []
        categories = set(known)
        return np.fromiter((_category(entry, name, categories) for entry in entries.tolist()), dtype=object), []
    if by_type != _TEXT:
        return _typed(entries, by_type, kind, column, name), []
    texts = [_text_or_none(entry) for entry in entries.tolist()]
    distinct = list({text for text in texts if text is not None})
    values: dict[str | None, Any] = dict(zip(distinct, _parsed(distinct, kind).tolist(), strict=True))
    if kind == BOOLEAN:
        values = {text: _TRUTH.get(str(text).lower()) for text in distinct}
    nothing = None if kind == BOOLEAN else math.nan
    read = np.array([values.get(text, nothing) for text in texts], dtype=object if kind == BOOLEAN else np.float64)
    lost = {text for text, value in values.items() if value is None or value != value}
    return read, [(row, text) for row, text in enumerate(texts) if text is not None and text in lost]


def _typed(entries: npt.NDArray[Any], by_type: str | None, kind: str, column: Any, name: str) -> npt.NDArray[Any]:
    """Read a column whose type, or whose Python objects, are of the kind, or all of whose entries are missing."""
    if by_type is None:
        return np.full(len(entries), None if kind == BOOLEAN else np.nan, dtype=object if kind == BOOLEAN else float)
    if kind == BOOLEAN:
        listed = entries.tolist()
        return np.fromiter((None if is_missing(entry) else bool(entry) for entry in listed), dtype=object)
    if kind == DATE:
        if entries.dtype.kind == "M":
            return _days(entries)
        days = {entry: None if is_missing(entry) else _iso(entry) for entry in set(entries.tolist())}
        numbers = dict(zip(days, _parsed(list(days.values()), DATE).tolist(), strict=True))
        return np.array([numbers[entry] for entry in entries.tolist()], dtype=np.float64)
    floats: FloatArray
    if entries.dtype.kind == "O":
        floats = np.array([math.nan if is_missing(entry) else _float(entry) for entry in entries.tolist()])
    else:
        floats = entries.astype(np.float64)
    if np.any(infinite := np.isinf(floats)):
        position = row_name(column, int(infinite.argmax()))
        raise InvalidInputError(f"column {name!r} contains infinity in {position}; numbers must be finite, or missing")
    return floats


def _of_another_kind(entries: npt.NDArray[Any], name: str, by_type: str, kind: str) -> InvalidTypeError:
    shown = next(entry for entry in entries.tolist() if not is_missing(entry))
    return InvalidTypeError(
        f"column {name!r} holds {PLURALS[by_type]}, such as {shown!s:.60}, where {PLURALS[kind]} are expected, as in "
        "training: convert it to the type that it had there, or fit the model to such a table"
    )


def _parsed(texts: Sequence[str | None], kind: str) -> FloatArray:
    """Parse texts as numbers, or as days since 1970; nan for others, and for all if the kind has no numbers."""
    if kind == NUMBER:
        numbers = [float(text) if text is not None and _DECIMAL.fullmatch(text) else math.nan for text in texts]
        return np.where(np.isinf(parsed := np.array(numbers, dtype=np.float64)), np.nan, parsed)
    if kind != DATE:
        return np.full(len(texts), np.nan)
    return _days(np.array([_time_of(text) for text in texts], dtype="M8[us]"))


def _time_of(text: str | None) -> np.datetime64:
    """Parse a date of ISO 8601, in UTC and in whole microseconds; "not a time" for other texts."""
    match = _ISO.fullmatch(text) if text is not None else None
    if match is None:
        return np.datetime64("NaT")
    if match["month"]:
        date = match["month"]
    else:
        clock = ":".join(match[name] or "00" for name in ("hour", "minute", "second"))
        date = f"{match['year']}-{match['date'][:2]}-{match['date'][-2:]}T{clock}.{(match['fraction'] or '0')[:6]}"
    try:
        time = np.datetime64(date, "us")
    except ValueError:
        return np.datetime64("NaT")
    if not match["hours"]:
        return time
    hours, minutes = int(match["hours"]), int(match["minutes"] or 0)
    if hours > 23 or minutes > 59:
        return np.datetime64("NaT")
    ahead = np.timedelta64(60 * hours + minutes, "m")
    return time - ahead if match["sign"] == "+" else time + ahead


def _days(times: npt.NDArray[Any]) -> FloatArray:
    days: FloatArray = (times.astype("M8[us]") - np.datetime64(0, "us")) / _DAY
    return days


def _iso(day: Any) -> str:
    """Write a date of Python, pandas or NumPy as text, in UTC."""
    if isinstance(day, np.datetime64):
        day = day.astype("M8[us]").item()
    if isinstance(day, datetime.datetime) and day.tzinfo is not None:
        day = day.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return str(day)


def _text_or_none(entry: Any) -> str | None:
    """Return the text of an entry without blanks around it; None for missing entries and the texts that mean them."""
    if not isinstance(entry, str):
        return None if is_missing(entry) else _written(entry)
    # `str` of a member of an enumeration of text would be its name.
    text = str.__str__(entry).strip()
    return None if text.lower() in MARKERS else text


def _written(entry: Any) -> str:
    """Write an entry that is not text; whole numbers are written as integers."""
    if isinstance(entry, (bool, np.bool_)):
        return str(bool(entry))
    if isinstance(entry, (datetime.date, np.datetime64)):
        return _iso(entry)
    number = _float(entry)
    if isinstance(entry, Integral) or (number.is_integer() and abs(number) < 2.0**53):
        return str(int(entry))
    return repr(number)


def _category(entry: Any, name: str, known: set[Any]) -> str | None:
    if isinstance(entry, str):
        text = str.__str__(entry).strip()
        return text if text in known or text.lower() not in MARKERS else None
    # Raises for entries that are neither text, numbers, dates nor true/false.
    return None if _kind_of_entry(entry, name) is None else _written(entry)


def _float(number: Any) -> float:
    """Convert to the nearest float, infinite for numbers beyond the range of floats."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _is_categorical_type(column: Any) -> bool:
    name = str(getattr(column, "dtype", "")).lower()
    return name.startswith(("category", "categorical", "enum", "dictionary"))


def _entries(column: Any) -> npt.NDArray[Any]:
    """Convert a column to an array (n,) of a NumPy type for numbers, text or times, or of Python objects.

    Categories of a categorical type become their text, with None for missing entries.
    """
    if hasattr(getattr(column, "cat", None), "codes"):
        # The code of a missing entry of pandas is -1.
        names = [*map(_name_or_none, column.cat.categories), None]
        return np.take(np.array(names, dtype=object), np.asarray(column.cat.codes))
    if _is_categorical_type(column):
        return np.fromiter(map(_name_or_none, column.to_list()), dtype=object)
    if is_wide(column):
        return np.fromiter(column.to_list(), dtype=object)
    if getattr(getattr(column, "dtype", None), "tz", None) is not None:
        # In UTC, without objects: pandas 2 crashes where it makes local ones of days near the year 1 or 9999.
        column = column.dt.tz_convert(None)
    entries = np.asarray(column)
    if entries.ndim != 1 or (entries.dtype.kind == "O" and not isinstance(column, np.ndarray)):
        # As arrays, columns of lists or records have more dimensions.
        return np.fromiter(column.to_list(), dtype=object)
    # The text of a time must not depend on the unit in which the column counts.
    return entries.astype("M8[us]") if entries.dtype.kind == "M" else entries


def _name_or_none(category: Any) -> str | None:
    """Return the text of a category without blanks around it; None if it is empty or missing."""
    text = str.__str__(category) if isinstance(category, str) else str(category)
    return None if is_missing(category) else text.strip() or None


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
    for entry in selection.tolist():
        position = positions.get(entry) if isinstance(entry, str) else entry
        if not isinstance(position, int) or not 0 <= position < len(names):
            raise InvalidInputError(f"categorical_features names {entry!r:.60}, which is not a column of X")
        mask[position] = True
    return mask
