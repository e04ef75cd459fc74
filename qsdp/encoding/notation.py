"""Detection and parsing of numbers, dates, times and booleans in text columns, with one notation per column.

A column has a notation if nearly all entries can be parsed in it and at least one of them is unambiguous: "1,234" alone
is 1234 in some countries and 1.234 in others.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from decimal import Decimal
from functools import partial

import numpy as np

from qsdp._utils.validation import FloatArray

__all__ = ["BOOLEAN", "DATES", "NOTATIONS", "ambiguous", "notation_of", "parsed", "truth"]

_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
#: Words for NaN and infinity: a column of numbers that contains them is rejected rather than treated as categories.
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_WHOLE = re.compile(r"[+-]?\d+")
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
_COMMA = re.compile(r"[+-]?\d*,\d+|[+-]?\d+,|[+-]?\d{1,3}(\.\d{3})+,\d*")
_PERCENT = re.compile(rf"({_PLAIN.pattern})\s?%")
_PERCENT_SIGN = re.compile(r"\s?%$")
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?)?")
_TIME = r"(?:\s+(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d))?(?:\s?(?P<half>[AaPp])\.?[Mm]\.?)?)?"
_YEAR_FIRST = re.compile(rf"(?P<year>\d{{4}})([./])(?P<month>\d{{1,2}})\2(?P<day>\d{{1,2}}){_TIME}")
#: Short years after points need two digits before each of them: 1.2.10 is a version of software.
_YEAR = r"(?P<year>\d{4}|(?<=[/-])\d\d|(?<=\d\d\.\d\d\.)\d\d)"
_DAY_FIRST = re.compile(rf"(?P<day>\d{{1,2}})([./-])(?P<month>\d{{1,2}})\2{_YEAR}{_TIME}")
_MONTH_FIRST = re.compile(rf"(?P<month>\d{{1,2}})([./-])(?P<day>\d{{1,2}})\2{_YEAR}{_TIME}")
#: Hours and minutes, with seconds and days if any; as Python and pandas print times of day and durations.
_DURATION = re.compile(
    r"((?P<days>[+-]?\d+) days?,? )?(?P<sign>[+-]?)(?P<hours>\d+):(?P<minutes>[0-5]\d)(:(?P<seconds>[0-5]\d(\.\d+)?))?"
)
_DOTTED = re.compile(r"[+-]?\d{1,3}(\.\d{3}){2,}")

#: Maximum fraction of unparsable entries in a column of numbers, and minimum number of distinct numbers next to them.
_ODD, _DISTINCT = 0.05, 10

_DAY = 86400.0

#: Notation of a column of truth values.
BOOLEAN = "boolean"

_TRUTH = {"true": True, "false": False}


def notation_of(texts: Sequence[str]) -> str | None:
    """Detect the notation of a text column without missing entries; None if it is categorical."""
    if _all_floats(texts) is not None:
        return "number"
    counts = Counter(texts)
    if {text.lower() for text in counts} <= _TRUTH.keys():
        return BOOLEAN
    for notation, (fits, certain, _) in NOTATIONS.items():
        own = [text for text in counts if fits(text)]
        share = sum(counts[text] for text in own) / max(len(texts), 1)
        if own and certain(own) and (share == 1.0 or (share >= 1.0 - _ODD and len(own) >= _DISTINCT)):
            return notation
    return None


def parsed(texts: Sequence[str], notation: str) -> FloatArray:
    """Parse texts in a notation to correctly rounded numbers; NaN for texts that do not match.

    Percentages are hundredths: 12.5% is 0.125. Dates are days since 1970-01-01, in UTC if they name no zone. Durations
    and times of day are seconds.
    """
    if notation == "number" and (numbers := _all_floats(texts)) is not None:
        return numbers
    fits, _, read = NOTATIONS[notation]

    def number(text: str) -> float:
        if fits(text):
            try:
                return read(text)
            except ValueError:
                return np.nan
        # The same column may be written plainly in another file.
        return float(text) if notation not in DATES and _PLAIN.fullmatch(text) else np.nan

    known = {text: number(text) for text in set(texts)}
    return np.array([known[text] for text in texts], dtype=np.float64)


def truth(text: str) -> bool | str:
    """Parse a boolean such as "yes"; return other texts unchanged."""
    return _TRUTH.get(text.lower(), text)


def _all_floats(texts: Sequence[str]) -> FloatArray | None:
    """Parse plain floats, a whole column at once for speed; None if one text is not a number."""
    joined = "".join(texts)
    # `float` reads digits with underscores, and words for infinity and NaN.
    if "_" in joined or not set(joined) <= set("0123456789+-.eE \t"):
        return None
    try:
        return np.fromiter(map(float, texts), dtype=np.float64, count=len(texts))
    except ValueError:
        return None


def _is_plain(text: str) -> bool:
    return (_PLAIN.fullmatch(text) or _INFINITE.fullmatch(text)) is not None


def _is_grouped(text: str) -> bool:
    return _is_plain(text) or (_GROUPED.fullmatch(text) is not None and text.lstrip("+-")[0] != "0")


def _are_grouped(own: list[str]) -> bool:
    with_comma, plain = ([text for text in own if ("," in text) == has] for has in (True, False))
    if any(text.count(",") > 1 or "." in text for text in with_comma):
        return True
    # Next to 900 or 12.5, 1,234 is not a decimal number: all numbers with a comma would have three decimals.
    return bool(with_comma and plain) and all(abs(float(text)) < 1000.0 for text in plain)


def _is_comma(text: str) -> bool:
    return (_COMMA.fullmatch(text) or _WHOLE.fullmatch(text)) is not None


def _are_commas(own: list[str]) -> bool:
    with_comma = [text for text in own if "," in text]
    return any(not _GROUPED.fullmatch(text) or text.lstrip("+-").startswith("0,") for text in with_comma)


def _of_comma(text: str) -> float:
    return float(text.replace(".", "").replace(",", "."))


def _of_percent(text: str) -> float:
    # The nearest float of the decimal number, not of its quotient.
    plain = text.rstrip("% ")
    return float(plain + "e-2") if "e" not in plain.lower() else float(plain) / 100.0


def _bare(text: str) -> str:
    """Remove a percent sign."""
    return _PERCENT_SIGN.sub("", text)


def _of_duration(text: str) -> float:
    parts = _DURATION.fullmatch(text)
    assert parts is not None
    # Exact until the end, so that text and typed columns hold the same floats.
    clock = 3600 * Decimal(parts["hours"]) + 60 * Decimal(parts["minutes"]) + Decimal(parts["seconds"] or 0)
    return float(86400 * Decimal(parts["days"] or 0) + (-clock if parts["sign"] == "-" else clock))


def _of_date(text: str) -> float:
    day, _, rest = text.partition(".")
    zone = re.sub(r"^\d*", "", rest)
    fraction = rest.removesuffix(zone)
    when = datetime.fromisoformat((day + zone).replace("Z", "+00:00"))
    aware = when if when.tzinfo else when.replace(tzinfo=timezone.utc)
    return (aware.timestamp() + (float(f"0.{fraction}") if fraction else 0.0)) / _DAY


def _is_day(order: re.Pattern[str], text: str) -> bool:
    try:
        return order.fullmatch(text) is not None and math.isfinite(_of_day(order, text))
    except ValueError:
        return False


def _of_day(order: re.Pattern[str], text: str) -> float:
    parts = order.fullmatch(text)
    assert parts is not None
    year, month, day, hour, minute, second = (
        int(parts[name] or 0) for name in ("year", "month", "day", "hour", "minute", "second")
    )
    if parts["half"]:
        hour = hour % 12 + (12 if parts["half"] in "Pp" else 0)
    # Years of two digits as in POSIX: from 1969 to 2068.
    year += 0 if len(parts["year"]) == 4 else 1900 if year >= 69 else 2000
    return datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc).timestamp() / _DAY


#: For each notation, in the order of trial: whether a text matches, whether texts match no other, and the parser.
NOTATIONS: dict[str, tuple[Callable[[str], bool], Callable[[list[str]], bool], Callable[[str], float]]] = {
    "number": (_is_plain, lambda own: not all(map(_INFINITE.fullmatch, own)), float),
    "thousands": (_is_grouped, _are_grouped, lambda text: float(text.replace(",", ""))),
    "comma": (_is_comma, _are_commas, _of_comma),
    "percent": (lambda text: _PERCENT.fullmatch(text) is not None, lambda own: True, _of_percent),
    "comma percent": (
        lambda text: "%" in text and _is_comma(_bare(text)),
        lambda own: _are_commas([_bare(text) for text in own]),
        lambda text: _of_percent(text.replace(".", "").replace(",", ".")),
    ),
    "duration": (lambda text: _DURATION.fullmatch(text) is not None, lambda own: True, _of_duration),
    "date": (lambda text: _ISO.fullmatch(text) is not None, lambda own: True, _of_date),
    "year first": (partial(_is_day, _YEAR_FIRST), lambda own: True, partial(_of_day, _YEAR_FIRST)),
    # Points separate a day from the month after it; otherwise, a day above 12 decides.
    "day first": (
        partial(_is_day, _DAY_FIRST),
        lambda own: any("." in text.split()[0] or not _is_day(_MONTH_FIRST, text) for text in own),
        partial(_of_day, _DAY_FIRST),
    ),
    "month first": (
        partial(_is_day, _MONTH_FIRST),
        lambda own: any(not _is_day(_DAY_FIRST, text) for text in own),
        partial(_of_day, _MONTH_FIRST),
    ),
}

#: Notations of dates.
DATES = frozenset({"date", "year first", "day first", "month first"})


def ambiguous(texts: Sequence[str]) -> str | None:
    """Describe the possible meanings of an ambiguous column and a remedy; None if the column is categorical."""
    if not texts:
        return None
    if all(map(_DAY_FIRST.fullmatch, texts)):
        return f"dates whose day and month are not certain, such as {texts[0]!r}; write them as 2024-01-31"
    others = [text for text in texts if not _is_plain(text)]
    if all(_GROUPED.fullmatch(_bare(text)) for text in others):
        return f"numbers whose commas separate thousands or decimals, such as {others[0]!r}; write 1234 or 1.234"
    if all(map(_DOTTED.fullmatch, others)):
        return f"numbers with points between thousands, such as {others[0]!r}; write 1234.5"
    return None
