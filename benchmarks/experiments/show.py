"""Tables of records: a row is a group of records, a column a heading and what it shows of a group."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from benchmarks.experiments import _common
from benchmarks.experiments._common import Records, What
from qsdp.bench import Record, Table

#: What a column shows of a group.
Cell = Callable[[Any], str]
Column = tuple[str, Cell]

_COLUMN = re.compile(r"(?:(?P<heading>.+?) = )?(?:(?P<unit>[\d.e-]+)\*)?(?P<name>[^:]+)(?::(?P<form>.*))?")


def table(title: str, groups: Any, columns: str | Iterable[str | Column], note: str = "") -> Table:
    """Return a table with a row for each group of records (or record), of columns as text or as heading and cell."""
    parts = [columns] if isinstance(columns, str) else columns
    listed = [one for part in parts for one in (written(part) if isinstance(part, str) else [part])]
    groups = groups.values() if isinstance(groups, dict) else groups
    groups = [[group] if isinstance(group, Record) else group for group in groups]
    return Table(
        title, [heading for heading, _ in listed], [[cell(group) for _, cell in listed] for group in groups], note
    )


def written(columns: str, none: str = "-") -> list[Column]:
    """Return columns that are written "heading = unit*name:format", with bars between them.

    A name is that of a parameter, or else of a measurement of the first record. The heading is the name unless given.
    """
    found: list[Column] = []
    for text in columns.split(" | "):
        match = _COLUMN.fullmatch(text)
        assert match is not None, text
        heading, unit, name, form = match.group("heading", "unit", "name", "form")

        def what(record: Record, name: str = name) -> Any:
            return record.case[name] if name in record.case else _common.measured(record, name)

        found.append((heading or name, first(what, form or "", none, float(unit) if unit else None)))
    return found


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def param(name: str, form: str = "", none: str = "-") -> Cell:
    """Return the cell of a parameter."""
    return lambda group: none if group[0].case.get(name) is None else format(group[0].case[name], form)


def first(what: What, form: str = "", none: str = "-", unit: float | None = None) -> Cell:
    """Return the cell of the first record's measurement, times a unit if there is one."""

    def cell(group: Records) -> str:
        found = _common.measured(group[0], what)
        return none if found is None else format(found if unit is None else unit * found, form)

    return cell


def of(show: Callable[[np.ndarray], str], what: What, unit: float = 1.0, none: str = "-") -> Cell:
    """Return the cell of a measurement over the records, shown by a function; what it is where no record has it."""

    def cell(group: Records) -> str:
        found = _common.values(group, what)
        return show(unit * found) if len(found) else none

    return cell


def reduced(reduce: Callable[[Any], Any], what: What, form: str, unit: float = 1.0, none: str = "-") -> Cell:
    """Return the cell of one number made of a measurement over the records."""
    return of(lambda found: format(float(reduce(found)), form), what, unit, none)


mean = functools.partial(reduced, np.mean)
median = functools.partial(reduced, np.median)
least = functools.partial(reduced, np.min)
most = functools.partial(reduced, np.max)
percent = functools.partial(of, _common.percent)
medians = functools.partial(of, _common.medians)


def count(group: Records) -> str:
    return str(len(group))
