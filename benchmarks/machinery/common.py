"""Building blocks of experiments: cases, groups of records, numbers as text, and claims."""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.machinery import draw
from benchmarks.machinery.report import Study
from benchmarks.machinery.summary import summary
from benchmarks.machinery.verdicts import Claim, compare, judged, not_measured
from benchmarks.runner import Record
from benchmarks.versions import versions_of

PAPER = "Bartan, Pilanci"
TARGET = "Target of the package"

Records = Sequence[Record]
#: A measurement: its name, nested names separated by slashes, or a function of the record.
What = str | Callable[[Record], Any]


def experiment_in(module: str, title: str, source: str, **changes: Any) -> Study:
    """Return the experiment of a module, with its name, docstring and functions cases, run, tables, claims and plot.

    The module's `MEASURED` lists the methods of `benchmarks.versions` whose versions are stored with its records. Its
    function `methods_of(case)`, if there is one, returns those that the case depends on, so that a record of a rival
    stays current when a method of this package changes.

    The module's `ANSWER` is the answer on top of its page.

    Without a function `tables`, the tables show all measurements (`_summary`): the module's `KEYS` name parameters
    inside measurements, and its `shown(records)` returns the records to show, selected and renamed. `plot` takes
    records and returns a figure, or None if there are too few.
    """
    members = vars(sys.modules[module])
    functions = {name: members[name] for name in ("cases", "run", "tables", "claims", "methods_of") if name in members}
    shown = members.get("shown", list)
    functions.setdefault("tables", lambda records: summary(shown(records), *members.get("KEYS", ())))
    if "plot" in members:
        functions["plot"] = draw.saved(members["plot"])
    functions["methods"] = versions_of(*members["MEASURED"])
    functions["answer"] = members["ANSWER"]
    named = {"name": module.rpartition(".")[2], "title": title, "source": source}
    return Study(**{**named, "description": inspect.cleandoc(members["__doc__"] or ""), **functions, **changes})


def grid(**parameters: Any) -> list[dict[str, Any]]:
    """Return a case for each combination of parameters, the last varying first; a number or text is one value."""
    columns = [[each] if isinstance(each, str | float | int | None) else each for each in parameters.values()]
    return [dict(zip(parameters, values, strict=True)) for values in itertools.product(*columns)]


# -- metrics ---------------------------------------------------------------------------------------------


def accuracy(outputs: np.ndarray, y: np.ndarray) -> float:
    """Return the share of correct classes, by the largest of several outputs or the sign of a single one."""
    decided = outputs.argmax(axis=1) if outputs.ndim == 2 else np.where(outputs > 0.0, 1.0, -1.0)
    return float(np.mean(decided == y))


def timed(work: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> tuple[Any, float]:
    """Return a result and its seconds, which are never zero: CPU time unless another clock is given.

    Some systems count CPU time in hundredths of a second; a shorter time is reported as one step of the clock.
    """
    step, start = clock_step(clock), clock()
    return work(), max(clock() - start, step)


@functools.cache
def clock_step(clock: Callable[[], float]) -> float:
    """Return the step by which a clock advances."""
    start = now = clock()
    while now == start:
        now = clock()
    return now - start


# -- records -----------------------------------------------------------------------------------------------


def measured(record: Record, what: What) -> Any:
    """Return a measurement, or None if there is none."""
    if callable(what):
        return what(record)
    found: Any = record.measured
    for name in what.split("/"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def values(records: Iterable[Record], what: What) -> np.ndarray:
    """Return one measurement of all records that have it."""
    return np.array([found for record in records if (found := measured(record, what)) is not None], dtype=float)


def by(records: Iterable[Record], what: What, *names: str) -> dict[Any, Any]:
    """Return one measurement by the value of a parameter, or by the values of several parameters."""
    return {
        record.case[names[0]] if len(names) == 1 else tuple(record.case[name] for name in names): measured(record, what)
        for record in records
    }


def grouped(records: Iterable[Record], *names: str) -> dict[tuple[Any, ...], list[Record]]:
    """Return records by the values of parameters, in order of appearance."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record.case.get(name) for name in names), []).append(record)
    return groups


def where(records: Iterable[Record], **wanted: Any) -> list[Record]:
    """Return the records whose cases have these parameters; a tuple accepts any of its values."""
    values = {name: value if isinstance(value, tuple) else (value,) for name, value in wanted.items()}
    return [record for record in records if all(record.case.get(name) in values[name] for name in values)]


def unfolded(records: Iterable[Record], part: str, *names: str, shared: Sequence[str] = ()) -> list[Record]:
    """Return a record for each entry of a measurement, with additional parameters and shared measurements.

    The measurement `part` is a dictionary of entries by one parameter, or a list of entries that contain their
    parameters. `names` are the parameters, and `shared` the other measurements that every entry receives.
    """
    found = []
    for record in records:
        entries = record.measured.get(part, {})
        common = {name: record.measured.get(name) for name in shared}
        for key, entry in entries.items() if isinstance(entries, dict) else enumerate(entries):
            more = {names[0]: key} if isinstance(entries, dict) else {name: entry[name] for name in names}
            found.append(replace(record, case={**record.case, **more}, measured={**common, **entry}))
    return found


def over_sets(
    found: Mapping[tuple[Any, Any], float], sets: Iterable[Any], mean: Callable[[Any], float] = np.mean
) -> dict[Any, float]:
    """Return the mean over sets, by split, of a measurement by set and split, for the splits that have all sets."""
    sets = list(sets)
    return {
        split: float(mean([found[name, split] for name in sets]))
        for split in sorted({split for _, split in found})
        if all((name, split) in found for name in sets)
    }


def geometric(numbers: Any) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(np.asarray(numbers, dtype=float)))))


# -- numbers as text -------------------------------------------------------------------------------------


def medians(numbers: Sequence[float] | np.ndarray) -> str:
    """Return the median and the range as text."""
    numbers = np.asarray(numbers, dtype=float)
    return f"{np.median(numbers):.3g} ({numbers.min():.3g} to {numbers.max():.3g})" if numbers.size else "-"


def per_cent(shares: Sequence[float] | np.ndarray) -> str:
    """Return the median and the range of shares in percent."""
    return f"{medians(100.0 * np.asarray(shares))} %"


def seconds(numbers: np.ndarray) -> str:
    """Return the median and the range of seconds."""
    return f"{medians(numbers)} s"


def duration(spent: float) -> str:
    """Return a time in milliseconds, seconds or minutes, to two digits or a whole number."""
    for limit, unit, name in ((0.1, 1e-3, "ms"), (600.0, 1.0, "s"), (np.inf, 60.0, "minutes")):
        if spent < limit:
            number = spent / unit
            return f"{number:.2g} {name}" if number < 10.0 else f"{number:.0f} {name}"
    raise ValueError(f"{spent!r} is not a time")


def small(number: float) -> str:
    """Return a small number to one digit, in scientific notation."""
    return f"{number:.0e}".replace("e-0", "e-")


def table_row(*cells: str) -> str:
    """Return a row of a table in Markdown."""
    return f"| {' | '.join(cells)} |"


def kilobits(bits: float) -> str:
    """Return a number of bits in thousands."""
    return f"{bits / 1e3:.1f} kbit" if bits < 1e4 else f"{bits / 1e3:.0f} kbit"


# -- claims ----------------------------------------------------------------------------------------------


def approach_claim(
    source: str, statement: str, distances: Mapping[Any, tuple[float, float]], *, names: tuple[str, str]
) -> Claim:
    """Return the claim that a distance, given as a share, falls below a tenth of its first value."""
    before, after = ({key: pair[k] for key, pair in distances.items()} for k in (0, 1))
    tenth = {key: 0.1 * distance for key, distance in before.items()}
    texts = [per_cent(list(one.values())) for one in (before, after)]
    figures = ", ".join(f"{name} {text}" for name, text in zip(names, texts, strict=True))
    evidence = compare(after, tenth, less=True, unit=100.0)
    number = " to ".join(texts)
    return judged(source, statement, replace(evidence, number=number) if not evidence.missing else evidence, figures)


def decided_inside(claim: Claim, rival: str, at_edges: Sequence[bool]) -> Claim:
    """Return a claim as not measured if most of the rival's repetitions chose an edge of a grid."""
    if claim.verdict == "not measured" or 2 * sum(at_edges) <= len(at_edges):
        return claim
    why = f"not decided: '{rival}' is at an edge of its grid in {sum(at_edges)} of {len(at_edges)} repetitions"
    return not_measured(claim.source, claim.statement, why, claim.figures)
