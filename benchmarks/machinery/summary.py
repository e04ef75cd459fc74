"""Tables of all measurements, with headings taken from the names of parameters and measurements."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from benchmarks.runner import Record, Table

#: Names of accuracies, which are shown in percent, by the last word of a measurement; and other words as written.
ACCURACIES = {"test": "test accuracy", "training": "training accuracy", "validation": "validation accuracy"}
ACCURACIES |= {name: name for name in ACCURACIES.values()} | dict.fromkeys(
    ("train", "train accuracy"), "training accuracy"
)
WRITTEN = {"mib": "MiB", "gib": "GiB", "kib": "KiB"}

#: Longest text in characters, and the share of a mean below which a deviation is a rounding error.
LONGEST, ROUNDING = 40, 1e-9

#: Parameters that distinguish repetitions.
REPEATED = ("seed", "split", "draw", "repetition", "repeat", "round")

Row = dict[str, Any]


def summary(records: Sequence[Record], *keys: str) -> list[Table]:
    """Return a table of the measurements, and one for each measurement that has entries for several items.

    Cases that differ only in repetition share a row; cases with the same measurements share a table. Entries are a
    dictionary of dictionaries or a list of them; in a list, texts and `keys` are parameters. A list of numbers is shown
    by its mean.
    """
    parts: dict[tuple[str, frozenset[str]], dict[tuple[Any, ...], list[Row]]] = {}
    for record in records:
        case = {name: value for name, value in record.case.items() if name not in REPEATED}
        # Fresh measurements are converted to the types that they will have in a file.
        found = json.loads(json.dumps(record.measured, default=lambda value: value.tolist()))
        if found and not any(isinstance(e, dict) for v in found.values() for e in getattr(v, "values", dict)()):
            found = {"what": found} if all(isinstance(value, dict) for value in found.values()) else found
        for part, place, row in _rows(case.pop("kind", "measured"), case, found, keys):
            if row:
                own = parts.setdefault((part, frozenset(row)), {})
                own.setdefault(tuple((k, _word(v)) for k, v in place.items()), []).append(row)
    return [_table(part.replace("_", " "), found) for (part, _), found in parts.items()]


def crossed(
    title: str,
    records: Sequence[Record],
    rows: Sequence[str],
    column: str,
    what: Callable[[Record], Any],
    note: str = "",
) -> Table:
    """Return a table of one measurement: a row for each combination of parameters, a column for each value of another.

    Cases that differ only in repetition share an entry.
    """
    cells: dict[tuple[str, ...], dict[str, list[Any]]] = {}
    for record in records:
        row = cells.setdefault(tuple(_word(record.case.get(name)) for name in rows), {})
        row.setdefault(_word(record.case.get(column)), []).append(what(record))
    columns = list(dict.fromkeys(name for row in cells.values() for name in row))
    body = [[*named, *(_cell(row.get(name, [])) for name in columns)] for named, row in cells.items()]
    return Table(title, [*(name.replace("_", " ") for name in rows), *columns], body, note)


def _rows(part: str, case: Row, found: Mapping[str, Any], keys: Sequence[str]) -> Iterator[tuple[str, Row, Row]]:
    """Yield the table, the parameters and the numbers of a measurement and of each of its entries."""
    row: Row = {}
    for name, value in found.items():
        entries = value if isinstance(value, dict) else dict(enumerate(value)) if isinstance(value, list) else {}
        if entries and all(isinstance(entry, dict) for entry in entries.values()):
            for key, entry in entries.items():
                own = {name: key} if isinstance(value, dict) else {}
                own |= {k: v for k, v in entry.items() if not own and (k in keys or isinstance(v, str))}
                rest = {k: v for k, v in entry.items() if k == name or k not in own}
                yield from _rows(part if name == "what" else name, {**case, **own}, rest, keys)
        elif isinstance(value, dict):
            row |= {f"{name} {k}": _number(v) for k, v in value.items() if not isinstance(v, dict)}
        else:
            row[name] = _number(value)
    yield part, case, {name: value for name, value in row.items() if value != []}


def _word(value: Any) -> str:
    """Return a parameter as text; several values are joined."""
    if isinstance(value, dict | list | tuple):
        return ", ".join(map(str, value.values() if isinstance(value, dict) else value))
    return "" if value is None else str(value)


def _number(value: Any) -> Any:
    """Return the mean of a list of numbers, an empty list for other lists, and any other value unchanged."""
    if not isinstance(value, list):
        return value
    return float(np.mean(value)) if value and all(isinstance(one, Real) for one in value) else []


def _table(part: str, found: dict[tuple[Any, ...], list[Row]]) -> Table:
    """Return a table with a row for every case and the parameters in which cases differ."""
    places = [dict(place) for place in found]
    names = dict.fromkeys(name for place in places for name in place)
    columns = [(name.replace("_", " "), [place.get(name, "") for place in places]) for name in names]
    for name in next(iter(found.values()))[0]:
        measured = [[row[name] for row in rows] for rows in found.values()]
        heading, factor = _headed(name, [value for values in measured for value in values])
        columns.append((heading, [_cell(values, factor) for values in measured]))
    counts = [len(rows) for rows in found.values()]
    columns.append(("repetitions", [str(count) if max(counts) > 1 else "" for count in counts]))
    # A measurement stays a column even if there is only one row.
    same = [
        (len(own) > 1 or number < len(names) or not any(own)) and len({*own}) == 1
        for number, (_, own) in enumerate(columns)
    ]
    everywhere = ", ".join(f"{k} {own[0]}" for (k, own), one in zip(columns, same, strict=True) if one and own[0])
    notes = ["Means and deviations over repetitions."] * (max(counts) > 1)
    notes += [f"In all rows: {everywhere}."] * bool(everywhere)
    shown = [column for column, one in zip(columns, same, strict=True) if not one]
    rows = zip(*(own for _, own in shown), strict=True)
    return Table(part, [name for name, _ in shown], list(map(list, rows)), " ".join(notes))


def _headed(name: str, values: Sequence[Any]) -> tuple[str, float]:
    """Return the heading of a measurement, and the factor of its values."""
    words = " ".join(WRITTEN.get(word, word) for word in name.replace("_", " ").split())
    last = next((last for last in sorted(ACCURACIES, key=len) if f" {words}".endswith(f" {last}")), None)
    shares = [isinstance(value, Real) and 0.0 <= value <= 1.0 for value in values if value is not None]
    if last is None or not shares or not all(shares):
        return words, 1.0
    return f"{words.removesuffix(last)}{ACCURACIES[last]}, %", 100.0


def _cell(values: Sequence[Any], factor: float = 1.0) -> str:
    """Return the mean and deviation of numbers, or the distinct texts."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    if all(isinstance(value, bool) for value in known):
        return f"{sum(known)} of {len(known)}" if len(known) > 1 else "yes" if known[0] else "no"
    if not all(isinstance(value, Real) and not isinstance(value, bool) for value in known):
        words = [one if len(one) <= LONGEST else f"{one[:LONGEST]}…" for one in dict.fromkeys(map(str, known))]
        return ", ".join(words) if len(words) < 4 else f"{len(words)} different"
    numbers = factor * np.array(known, dtype=float)
    mean = float(np.mean(numbers))
    spread = float(numbers.std(ddof=1)) if len(numbers) > 1 and np.ptp(numbers) < 1e100 else 0.0
    return _digits(mean) + (f" ± {_digits(spread, 2)}" if spread > ROUNDING * abs(mean) else "")


def _digits(number: float, count: int = 4) -> str:
    """Return a number with `count` digits, or a large one as a whole number."""
    return f"{number:,.0f}" if 10.0 ** (count - 1) <= abs(number) < 1e12 else f"{number:.{count}g}"
