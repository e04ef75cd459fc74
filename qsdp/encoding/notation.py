"""Detection and parsing of numbers, dates, times and booleans in text columns, with one notation per column.

A column has a notation if nearly all entries can be parsed in it and at least one of them is unambiguous: "1,234" alone
is 1234 in some countries and 1.234 in others. Other columns of the table may decide: all have the same decimal
separator and the same order of day and month. The notation of a number is its style and, if every entry names one, its
unit: "comma in €" for 1.234,50 €.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from operator import itemgetter
from typing import TypeVar

import numpy as np

from qsdp._utils.validation import FloatArray

__all__ = [
    "BOOLEAN",
    "DATES",
    "DURATIONS",
    "MARKERS",
    "ZERO_ONE",
    "ambiguous",
    "example_of",
    "habit_of",
    "is_notation",
    "is_unsure",
    "notation_of",
    "parsed",
    "truth",
    "truth_value",
    "truths",
    "unit_of",
]

T = TypeVar("T")

#: Texts that stand for missing entries, in lower case: always in text files, elsewhere where other entries are numbers.
MARKERS = frozenset({"", "na", "n/a", "nan", "none", "null", "nat", "?", "-", "."})

#: Characters replaced before parsing: the minus sign, and separators of thousands other than commas and points.
_SAME = str.maketrans({"\N{MINUS SIGN}": "-", **dict.fromkeys("'\u2019\u00a0\u2007\u2009\u202f", " ")})

# -- numbers -----------------------------------------------------------------------------------------------

_CURRENCY = "$¢£¤¥฿\u20a0-\u20cf"
_UNIT = rf"(?:[^\W\d_]|[%‰°/·\u2032\u2033\"{_CURRENCY}])"
#: A number of any style with an optional unit: a currency before it, or anything without digits after it. Parentheses
#: or a minus sign at the end make it negative, as accountants and some business software write it.
_QUANTITY = re.compile(
    rf"(?P<open>\()?(?P<sign>[+-]?)(?P<before>[A-Z]{{0,3}}[{_CURRENCY}]|USD|EUR|GBP|CHF|JPY|)\ ?(?P<inner>[+-]?)"
    r"(?P<digits>(?:\d{1,3}(?:\ \d{3})+(?!\d)|\d)?[\d.,]*(?:(?<=[\d.,])[eE][+-]?\d+)?)"
    rf"\ ?(?P<after>(?:{_UNIT}(?:(?:{_UNIT}|\ ){{0,10}}{_UNIT})?\.?)?)(?P<last>-?)(?(open)\))",
)
_EXPONENT = r"([eE][+-]?\d+)?"
_PLAIN = re.compile(rf"(\d+\.?\d*|\.\d+){_EXPONENT}")
_WITH_COMMAS = re.compile(r"\d{1,3}(,\d{3})+(\.\d*)?")
_COMMA = re.compile(rf"(\d*,\d+|\d+,?|\d{{1,3}}(\.\d{{3}})+(,\d*)?){_EXPONENT}")

#: Units beside which a comma separates thousands.
_BESIDE_GROUPS = frozenset({"$", "£", "¥", "USD", "GBP", "JPY"})
_WITH_POINTS = re.compile(r"[1-9]\d{0,2}(\.\d{3})+")

#: Powers of ten of units that are fractions.
_FRACTIONS = {"%": -2, "‰": -3}


def _is_grouped(digits: str) -> bool:
    return _PLAIN.fullmatch(digits) is not None or (_WITH_COMMAS.fullmatch(digits) is not None and digits[0] != "0")


def _are_grouped(matching: list[str]) -> bool:
    with_comma, plain = ([digits for digits in matching if ("," in digits) == has] for has in (True, False))
    if any(digits.count(",") > 1 or "." in digits for digits in with_comma):
        return True
    # Next to 900 or 12.5, 1,234 is not a decimal number: all numbers with a comma would have three decimals.
    return bool(with_comma and plain) and all(float(digits) < 1000.0 for digits in plain)


def _are_commas(matching: list[str]) -> bool:
    certain = (
        not _WITH_COMMAS.fullmatch(digits) or digits.startswith("0,") if "," in digits else digits.count(".") > 1
        for digits in matching
    )
    return any(certain)


#: For each style, in the order of trial: whether digits match, whether digits match no other, and the decimal number.
_STYLES: dict[str, tuple[Callable[[str], bool], Callable[[list[str]], bool], Callable[[str], str]]] = {
    "number": (lambda digits: _PLAIN.fullmatch(digits) is not None, bool, str),
    "thousands": (_is_grouped, _are_grouped, lambda digits: digits.replace(",", "")),
    "comma": (
        lambda digits: _COMMA.fullmatch(digits) is not None,
        _are_commas,
        lambda digits: digits.replace(".", "").replace(",", "."),
    ),
}


def _digits(text: str) -> str:
    """Return the digits and separators of a number, without spaces between thousands; empty for other texts."""
    match = _QUANTITY.fullmatch(text)
    return "" if match is None else match["digits"].replace(" ", "")


def unit_of(text: str) -> str | None:
    """Return the unit of a number, empty if it has none; None for other texts."""
    match = _QUANTITY.fullmatch(text.translate(_SAME))
    if match is None or not match["digits"].strip(".,") or (match["before"] and match["after"]):
        return None
    # Two signs, as in --5, may be a typing error or a double negation.
    if len(match["sign"] + match["inner"] + match["last"]) > 1:
        return None
    return str(match["before"] or match["after"])


def _number(style: str, unit: str, text: str) -> float | None:
    """Parse a number, which may be written plainly and without its unit in another file than that of the training."""
    match, here = _QUANTITY.fullmatch(text), unit_of(text)
    if match is None or here not in {unit, ""}:
        return None
    fits, _, decimal = _STYLES[style]
    digits = _digits(text)
    if not fits(digits):
        decimal = str
        if not _PLAIN.fullmatch(digits):
            return None
    mantissa, _, exponent = decimal(digits).lower().partition("e")
    # The nearest float of the decimal number, not of its quotient.
    size = float(f"{mantissa}e{int(exponent or 0) + _FRACTIONS.get(here, 0)}")
    minus = "-" in match["sign"] + match["inner"] + match["last"] or bool(match["open"])
    return -size if minus else size


# -- dates, times and durations ----------------------------------------------------------------------------

_TIME = r"(?:,?\s+(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d))?(?:\s?(?P<half>[AaPp])\.?[Mm]\.?)?)?"
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(\.\d{1,9})?\s?(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?)?")
#: Short years after points need two digits before each of them: 1.2.10 is a version of software.
_YEAR = r"(?P<year>\d{4}|(?<=[/-])\d\d|(?<=\d\d\.\d\d\.)\d\d)"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAME = rf"(?P<month>(?:{'|'.join(_MONTHS)})[a-z]*)\.?"
_DAY = r"(?P<day>\d{1,2})"
_WEEKDAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? )?"
#: Orders of day, month and year.
_ORDERS = {
    "year first": [rf"(?P<year>\d{{4}})([./])(?P<month>\d{{1,2}})\2{_DAY}{_TIME}"],
    "day first": [rf"{_DAY}([./-])(?P<month>\d{{1,2}})\2{_YEAR}{_TIME}"],
    "month first": [rf"(?P<month>\d{{1,2}})([./-]){_DAY}\2{_YEAR}{_TIME}"],
    "month": [r"(?P<year>\d{4})[-/](?P<month>\d\d)"],
    "month name": [
        rf"{_WEEKDAY}{_DAY}(?:st|nd|rd|th)?[-/. ]?\s?{_NAME}[-/, ]?\s?(?P<year>\d{{4}}|(?<=-)\d\d){_TIME}",
        rf"{_WEEKDAY}{_NAME} {_DAY}(?:st|nd|rd|th)?,? (?P<year>\d{{4}}){_TIME}",
        rf"{_NAME}[-/ ](?P<year>\d{{4}})",
    ],
}
_CLOCK = r"(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d(?:\.\d+)?))?"
#: Durations as Python and pandas print them, those of ISO 8601 without months and years, and 1 d 2 h 30 min; times of
#: day.
_SPANS = {
    "duration": [
        rf"(?:(?P<days>[+-]?\d+) days?,? )?(?P<sign>[+-]?)(?P<hours>\d+):{_CLOCK}",
        r"(?P<sign>[+-]?)P(?=.*\d)(?:(?P<days>\d+)D)?(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?"
        r"(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
        r"(?P<sign>[+-]?)(?=\d)(?:(?P<days>\d+)\s?d(?:ays?)?\s?)?(?:(?P<hours>\d+)\s?h(?:rs?|ours?)?\s?)?"
        r"(?:(?P<minutes>\d+)\s?m(?:in(?:ute)?s?)?\s?)?(?:(?P<seconds>\d+(?:\.\d+)?)\s?s(?:ec(?:ond)?s?)?)?",
    ],
    "time of day": [rf"(?P<hours>0?[1-9]|1[0-2])(?::{_CLOCK})?\s?(?P<half>[AaPp])\.?[Mm]\.?"],
}
_PATTERNS = {
    notation: [re.compile(pattern, re.IGNORECASE if notation == "month name" else 0) for pattern in patterns]
    for notation, patterns in (_ORDERS | _SPANS).items()
}

#: Notations of dates, and of durations and times of day.
DATES, DURATIONS = frozenset({"date", *_ORDERS}), frozenset(_SPANS)

#: Seconds of a day, an hour and a minute, as integers.
_OF_DAY, _OF_HOUR, _OF_MINUTE = (
    timedelta(**{unit: 1}) // timedelta(seconds=1) for unit in ("days", "hours", "minutes")
)
_NOON = _OF_DAY // _OF_HOUR // 2


def _parts(notation: str, text: str) -> dict[str, str] | None:
    """Return the named parts of a date or a duration that are present; None if the text does not match."""
    match = next(filter(None, (pattern.fullmatch(text) for pattern in _PATTERNS[notation])), None)
    return None if match is None else {name: part for name, part in match.groupdict().items() if part}


def _of_iso(text: str) -> float | None:
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    day, time, fraction, zone = match.groups(default="")
    zone = "" if zone in {"Z", "UTC", "GMT"} else zone
    when = datetime.fromisoformat(f"{day}T{time or '00:00'}{zone}")
    aware = when if when.tzinfo else when.replace(tzinfo=timezone.utc)
    return (aware.timestamp() + float(f"0{fraction}")) / _OF_DAY


def _of_day(notation: str, text: str) -> float | None:
    if (parts := _parts(notation, text)) is None:
        return None
    name = parts["month"][:3].lower()
    parts["month"] = str(_MONTHS.index(name) + 1) if name in _MONTHS else parts["month"]
    month, year, hour, minute, second = (
        int(parts.get(name, 0)) for name in ("month", "year", "hour", "minute", "second")
    )
    day = int(parts.get("day", 1))
    if len(parts["year"]) == 2:
        # As in POSIX: from 1969 to 2068.
        year = datetime.strptime(parts["year"], "%y").year
    when = datetime(year, month, day, _of_half(hour, parts), minute, second, tzinfo=timezone.utc)
    return when.timestamp() / _OF_DAY


def _of_half(hour: int, parts: dict[str, str]) -> int:
    """Return the hour of the day of an hour that may be of the morning or of the afternoon."""
    return hour % _NOON + (_NOON if parts["half"] in "Pp" else 0) if "half" in parts else hour


def _of_span(notation: str, text: str) -> float | None:
    if (parts := _parts(notation, text)) is None:
        return None
    # Exact until the end, so that text and typed columns hold the same floats.
    hours = _of_half(int(parts.get("hours", 0)), parts)
    clock = _OF_HOUR * hours + _OF_MINUTE * Decimal(parts.get("minutes", 0)) + Decimal(parts.get("seconds", 0))
    days = _OF_DAY * Decimal(parts.get("days", 0))
    if "sign" in parts and ":" not in text:
        return float(-(days + clock) if parts["sign"] == "-" else days + clock)
    return float(days + (-clock if parts.get("sign") == "-" else clock))


def _are_spans(matching: list[str]) -> bool:
    # Numbers in a single unit, such as 30 min, are quantities.
    return len({unit_of(text) for text in matching}) > 1 or any(unit_of(text) is None for text in matching)


def _are_following_years(text: str) -> bool:
    first, second = re.split("[-/]", text)
    return int(second) == int(first[-2:]) + 1


def _are_days_first(matching: list[str]) -> bool:
    # Points separate a day from the month after it; otherwise, a day above 12 decides.
    return any("." in text.split()[0] or _read("month first", text) is None for text in matching)


#: Parsers of dates and durations, in the order of trial, and whether texts match no other.
_TIMES: dict[str, tuple[Callable[[str], float | None], Callable[[list[str]], bool]]] = {
    "duration": (partial(_of_span, "duration"), _are_spans),
    "time of day": (partial(_of_span, "time of day"), bool),
    "date": (_of_iso, bool),
    **{notation: (partial(_of_day, notation), bool) for notation in ("year first", "month name")},
    # 2010-11 may be a pair of years.
    "month": (
        partial(_of_day, "month"),
        lambda matching: not all(map(_are_following_years, matching)),
    ),
    "day first": (partial(_of_day, "day first"), _are_days_first),
    "month first": (
        partial(_of_day, "month first"),
        lambda matching: any(_read("day first", text) is None for text in matching),
    ),
}

# -- columns -----------------------------------------------------------------------------------------------

#: Maximum fraction of unparsable entries in a column of numbers, and minimum number of distinct numbers next to them.
_ODD, _DISTINCT = 0.05, 10

#: Notation of a column of truth values, and of one of the numbers 0 and 1, which may also be written as truth values.
BOOLEAN, ZERO_ONE = "boolean", "0 or 1"

_TRUTH = {"true": True, "false": False}

#: Words for false and true, in any case of letters. Databases write t and f, pandas 1.0 beside missing entries.
_WORDS = (("false", "true"), ("no", "yes"), ("n", "y"), ("f", "t"), ("0", "1"), ("0.0", "1.0"))
_TRUTH_OF_WORD = {word: value for pair in _WORDS for value, word in zip((False, True), pair, strict=True)}


def is_notation(text: str) -> bool:
    """Whether a text is a notation of numbers, dates, times or durations."""
    style, separator, unit = text.partition(" in ")
    has_unit = unit != "" and unit_of(f"1 {unit}") == unit
    return text in {ZERO_ONE, *_TIMES} or (style in _STYLES and (not separator or has_unit))


def example_of(notation: str) -> str:
    """Return an example of a notation for messages."""
    style, _, unit = notation.partition(" in ")
    number = {"number": "1234.5", "thousands": "1,234.5", "comma": "1.234,5"}.get(style)
    if number is not None:
        return f"{number} {unit}".strip()
    return {
        ZERO_ONE: "1",
        "duration": "1:30:00",
        "time of day": "2:30 PM",
        "year first": "2024/1/31",
        "day first": "31.1.2024",
        "month first": "1/31/2024",
        "month": "2024-01",
        "month name": "31 Jan 2024",
    }.get(notation, "2024-01-31")


def notation_of(texts: Sequence[str], habits: Collection[str] = ()) -> str | None:
    """Detect the notation of a text column without missing entries; None if it is categorical.

    `habits` are those of other columns (see `habit_of`), which decide about texts with two readings.
    """
    if "," not in habits and _all_floats(texts) is not None:
        return "number"
    counts: Counter[str] = Counter()
    for text, count in Counter(texts).items():
        counts[text.translate(_SAME)] += count
    if {text.lower() for text in counts} <= _TRUTH.keys():
        return BOOLEAN

    def fits(matching: list[str]) -> bool:
        share = sum(counts[text] for text in matching) / len(texts)
        return share == 1.0 or (share >= 1.0 - _ODD and len(matching) >= _DISTINCT)

    for notation, (_, are_certain) in _TIMES.items():
        matching = [text for text in counts if _read(notation, text) is not None]
        if matching and fits(matching) and (notation in habits or are_certain(matching)):
            return notation
    quantities: dict[str, list[str]] = {}
    for text in counts:
        if (unit := unit_of(text)) is not None:
            quantities.setdefault(unit, []).append(text)
    for unit, quantity in quantities.items():
        for style, (matches, _, _) in _STYLES.items():
            matching = [text for text in quantity if matches(_digits(text))]
            if matching and fits(matching) and _is_certain(style, unit, map(_digits, matching), habits):
                return f"{style} in {unit}" if unit else style
    return None


def _is_certain(style: str, unit: str, matching: Iterable[str], habits: Collection[str]) -> bool:
    """Whether the digits of a column are written in a style, by themselves, by their unit, or as in other columns."""
    digits = list(matching)
    if style == "number":
        return not ("," in habits and _are_with_points(digits))
    with_commas = style == "thousands" and any("," in one for one in digits)
    usual = "," in habits if style == "comma" else with_commas and ("." in habits or unit in _BESIDE_GROUPS)
    return usual or _STYLES[style][1](digits)


def _are_with_points(texts: Iterable[str]) -> bool:
    """Whether there are points, and all may separate thousands, as in 1.234."""
    pointed = [text for text in texts if "." in text]
    return bool(pointed) and all(_WITH_POINTS.fullmatch(_digits(text)) for text in pointed)


def habit_of(texts: Sequence[str], notation: str | None) -> str | None:
    """Return what a column shows about others of its table: the decimal separator, or an order of day and month."""
    style = (notation or "").partition(" in ")[0]
    if style == "number":
        return "." if any("." in text for text in texts) and not _are_with_points(texts) else None
    return {"thousands": ".", "comma": ",", "day first": style, "month first": style}.get(style)


def is_unsure(texts: Sequence[str], notation: str | None) -> bool:
    """Whether the habits of other columns may change the notation of a column."""
    if notation is None:
        return ambiguous(texts) is not None
    return notation.partition(" in ")[0] == "number" and _are_with_points(texts)


def parsed(texts: Sequence[str], notation: str) -> FloatArray:
    """Parse texts in a notation to correctly rounded numbers; NaN for texts that do not match.

    Percentages are hundredths: 12.5% is 0.125. Dates are days since 1970-01-01, in UTC if they name no zone. Durations
    and times of day are seconds.
    """
    if notation in {"number", ZERO_ONE} and (numbers := _all_floats(texts)) is not None:
        return numbers
    known = {text: _read(notation, text.translate(_SAME)) for text in set(texts)}
    return np.array([np.nan if (one := known[text]) is None else one for text in texts], dtype=np.float64)


def truth(text: str) -> bool | str:
    """Parse a boolean, "true" or "false" in any case; return other texts unchanged."""
    return _TRUTH.get(text.lower(), text)


def truth_value(entry: object) -> bool | None:
    """Return the truth value that an entry stands for in any notation, such as "Yes" or 1; None for other entries."""
    word = entry.strip() if isinstance(entry, str) else str(entry)
    return _TRUTH_OF_WORD.get(word.lower())


def truths(symbols: Iterable[T]) -> dict[bool | None, T]:
    """Return symbols by the truth value for which they stand if they are both words of one notation; else nothing."""
    # Within each pair, the word for false comes first.
    by_word = sorted(((str(symbol).lower(), symbol) for symbol in symbols), key=itemgetter(0))
    words = tuple(word for word, _ in by_word)
    return {_TRUTH_OF_WORD[word]: symbol for word, symbol in by_word} if words in _WORDS else {}


def _read(notation: str, text: str) -> float | None:
    """Parse a text in a notation; None if it does not match."""
    if notation == ZERO_ONE:
        value = truth_value(text)
        return _read("number", text) if value is None else float(value)
    style, _, unit = notation.partition(" in ")
    try:
        return _number(style, unit, text) if style in _STYLES else _TIMES[notation][0](text)
    except ValueError:
        # No calendar has this day.
        return None


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


def ambiguous(texts: Sequence[str]) -> str | None:
    """Describe the possible meanings of an ambiguous column and a remedy; None if the column is categorical."""
    if all(map(_PATTERNS["day first"][0].fullmatch, texts)):
        return f"dates whose day and month are not certain, such as {texts[0]!r}; write them as 2024-01-31"
    digits = {text: _digits(text.translate(_SAME)) for text in texts if unit_of(text) is not None}
    if len({unit_of(text) for text in digits} - {""}) > 1:
        # Numbers in several units are categories.
        return None
    others = [text for text, one in digits.items() if not _PLAIN.fullmatch(one)]
    if others and len(digits) == len(set(texts)) and all(_WITH_COMMAS.fullmatch(digits[text]) for text in others):
        return f"numbers whose commas separate thousands or decimals, such as {others[0]!r}; write 1234 or 1.234"
    return None
