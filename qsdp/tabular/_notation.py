"""Notations of numbers in text: decimal commas, thousands separators, percentages and dates, if unambiguous.

A column is read as a whole: every entry that is not missing must be in the notation, and at least one of them must have
no other reading. "1,234" alone is 1234 in some countries and 1.234 in others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timezone

__all__ = ["ambiguous", "plain_numbers"]

_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
_COMMA = re.compile(r"[+-]?\d*,\d+|[+-]?\d+,")
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WHOLE = re.compile(r"[+-]?\d+")
_PERCENT = re.compile(rf"({_PLAIN.pattern})\s?%")
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?")
_DATE = re.compile(r"(\d{1,2}([./-])\d{1,2}\2(\d{4}|\d\d)|\d{4}[./]\d{1,2}[./]\d{1,2})(\s+\d{1,2}:\d\d(:\d\d)?)?")
_DOTTED = re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?")

_DAY = 86400.0

Entries = Sequence[str | None]


def plain_numbers(entries: Entries, *, delimiter: str) -> list[str | None]:
    """Return the entries of a column as numbers that `float` reads, or unchanged if they are in no such notation.

    Thousands separators are commas; decimal commas are read in files whose fields are not split at commas. Percentages
    are hundredths: 12.5% is 0.125. ISO 8601 dates are days since 1970-01-01, in UTC if they name no zone.
    """
    present = [entry for entry in entries if entry is not None]
    if not present or not (set(",%") & set("".join(present)) or _ISO.fullmatch(present[0])):
        return list(entries)
    for reads, read in _readings(delimiter):
        if reads(present):
            try:
                return [None if entry is None else read(entry) for entry in entries]
            except ValueError:
                return list(entries)
    return list(entries)


def ambiguous(entries: Entries) -> str | None:
    """Return why a column that is not numeric may be meant to be, with a remedy, or None if it is not meant to be."""
    present = [entry for entry in entries if entry is not None]
    if not present:
        return None
    if all(map(_DATE.fullmatch, present)) and not all(map(_PLAIN.fullmatch, present)):
        return "dates whose day and month cannot be told apart; write them as 2024-01-31"
    numbers = [entry for entry in present if not _PLAIN.fullmatch(entry)]
    if all(map(_GROUPED.fullmatch, numbers)):
        return "numbers whose commas separate thousands or decimals; write 1234 or 1.234"
    if all(map(_DOTTED.fullmatch, numbers)):
        return "numbers with points between thousands; write 1234.5"
    return None


def _readings(delimiter: str) -> list[tuple[Callable[[list[str]], bool], Callable[[str], str]]]:
    commas = [] if delimiter == "," else [(_are_decimal_commas, lambda entry: entry.replace(",", "."))]
    return [
        (_are_grouped, lambda entry: entry.replace(",", "")),
        *commas,
        (lambda present: all(map(_PERCENT.fullmatch, present)), _of_percent),
        (lambda present: all(map(_ISO.fullmatch, present)), _of_date),
    ]


def _are_grouped(present: list[str]) -> bool:
    grouped = [entry for entry in present if "," in entry]
    certain = any(entry.count(",") > 1 or "." in entry for entry in grouped)
    fits = all(map(_GROUPED.fullmatch, grouped)) and not any(entry.lstrip("+-")[0] == "0" for entry in grouped)
    return certain and fits and all(_PLAIN.fullmatch(entry) for entry in present if "," not in entry)


def _are_decimal_commas(present: list[str]) -> bool:
    with_comma = [entry for entry in present if "," in entry]
    certain = any(not _GROUPED.fullmatch(entry) or entry.lstrip("+-").startswith("0,") for entry in with_comma)
    fits = all(map(_COMMA.fullmatch, with_comma))
    return certain and fits and all(_WHOLE.fullmatch(entry) for entry in present if "," not in entry)


def _of_percent(entry: str) -> str:
    return repr(float(entry.rstrip("% ")) / 100.0)


def _of_date(entry: str) -> str:
    when = datetime.fromisoformat(entry.replace("Z", "+00:00"))
    aware = when if when.tzinfo else when.replace(tzinfo=timezone.utc)
    return repr(aware.timestamp() / _DAY)
