"""Tables of all that was measured, without a word of what it is: parameters and measurements by their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from qsdp.bench import Record, Table

#: Parameters that tell repetitions apart.
REPEATED = ("seed", "split", "draw", "repetition", "repeat", "round")

Row = dict[str, Any]


def summary(records: Sequence[Record], *keys: str) -> list[Table]:
    """Return a table of the measurements, and one of every measurement with an entry for each of several things.

    A row is for the cases that are repetitions of each other, a table for those of which the same was measured. Of
    entries, which are a dictionary of dictionaries or a list of them, words and `keys` are parameters. Of a list of
    numbers the mean counts.
    """
    parts: dict[tuple[str, frozenset[str]], dict[tuple[Any, ...], list[Row]]] = {}
    for record in records:
        case = {name: value for name, value in record.case.items() if name not in REPEATED}
        found = record.measured
        if found and not any(isinstance(e, Mapping) for v in found.values() for e in getattr(v, "values", dict)()):
            found = {"what": found} if all(isinstance(value, Mapping) for value in found.values()) else found
        for part, place, row in _rows(case.pop("kind", "measured"), case, found, keys):
            if row:
                own = parts.setdefault((part, frozenset(row)), {})
                own.setdefault(tuple((k, _word(v)) for k, v in place.items()), []).append(row)
    return [_table(part.replace("_", " "), found) for (part, _), found in parts.items()]


def _rows(part: str, case: Row, found: Mapping[str, Any], keys: Sequence[str]) -> Iterator[tuple[str, Row, Row]]:
    """Yield the part, the parameters and the numbers of a measurement, and of its entries."""
    row: Row = {}
    for name, value in ((name, _plain(value)) for name, value in found.items()):
        entries = value.items() if isinstance(value, Mapping) else [("", one) for one in _listed(value)]
        if not isinstance(value, Mapping | list):
            row[name] = value
        elif entries and all(isinstance(entry, Mapping) for _, entry in entries):
            for key, entry in entries:
                named = {k: v for k, v in entry.items() if not key and (k in keys or isinstance(v, str))}
                rest = {k: v for k, v in entry.items() if k not in named}
                yield from _rows(
                    part if name == "what" else name, {**case, **({name: key} if key else named)}, rest, keys
                )
        elif isinstance(value, Mapping):
            row |= {f"{name} {k}": _number(_plain(v)) for k, v in entries if not isinstance(v, Mapping)}
        else:
            row[name] = _number(value)
    yield part, case, {name: value for name, value in row.items() if value != []}


def _word(value: Any) -> str:
    """Return a parameter as text, of several their values."""
    parts = value.values() if isinstance(value, Mapping) else value
    return ", ".join(map(str, parts)) if isinstance(value, Mapping | list | tuple) else str(value)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _plain(value: Any) -> Any:
    """Return NumPy's numbers and arrays, and tuples, as they will be in a file."""
    found = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    return list(found) if isinstance(found, tuple) else found


def _number(value: Any) -> Any:
    """Return the mean of a list of numbers, and anything else but lists as it is."""
    if not isinstance(value, list):
        return value
    return float(np.mean(value)) if value and all(isinstance(one, Real) for one in value) else []


def _table(part: str, found: dict[tuple[Any, ...], list[Row]]) -> Table:
    """Return a row for every case, with the parameters in which they differ."""
    values: dict[str, set[str]] = {}
    for place in found:
        for name, value in place:
            values.setdefault(name, set()).add(value)
    differing = [name for name, own in values.items() if len(own) > 1 or not all(name in dict(p) for p in found)]
    same = ", ".join(f"{name.replace('_', ' ')} {min(own)}" for name, own in values.items() if name not in differing)
    measured = list(next(iter(found.values()))[0])
    cells = {place: [_cell([row[name] for row in rows]) for name in measured] for place, rows in found.items()}
    kept = [k for k in range(len(measured)) if any(row[k] for row in cells.values())]
    shown = [
        [*(dict(place).get(name, "") for name in differing), *(cells[place][k] for k in kept), str(len(rows))]
        for place, rows in found.items()
    ]
    headings = [name.replace("_", " ") for name in (*differing, *(measured[k] for k in kept), "n")]
    return Table(part, headings, shown, f"Means of n measurements, with deviations{'; ' * bool(same)}{same}.")


def _cell(values: Sequence[Any]) -> str:
    """Return mean and deviation of numbers, or the words."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    if len(known) > 1 and all(isinstance(value, bool) for value in known):
        return f"{sum(known)} of {len(known)}"
    if not all(isinstance(value, Real) and not isinstance(value, bool) for value in known):
        words = list(dict.fromkeys(map(str, known)))
        return ", ".join(words) if len(words) < 4 else f"{len(words)} different"
    numbers = np.array(known, dtype=float)
    mean = float(np.mean(numbers))
    deviation = f" ± {numbers.std(ddof=1):.2g}" if 0.0 < np.ptp(numbers) < 1e100 else ""
    return (f"{mean:,.0f}" if 1e3 <= abs(mean) < 1e12 else f"{mean:.4g}") + deviation
