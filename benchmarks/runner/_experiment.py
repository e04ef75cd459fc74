"""Definition of an experiment: its cases, the function that measures a case, and tables of the measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qsdp.exceptions import InvalidInputError

__all__ = ["Case", "Experiment", "Record", "Table"]

#: Parameters of one measurement, including its seed, as JSON types.
Case = dict[str, Any]


@dataclass(frozen=True)
class Record:
    """A case with its measurement and the machine that measured it."""

    case: Case
    #: Return value of the experiment's `run`, and its wall-clock seconds.
    measured: dict[str, Any]
    seconds: float
    #: Index into `Results.machines`.
    machine: int = 0


@dataclass(frozen=True)
class Table:
    """Table of text with headings and rows of equal length."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.headings):
                raise InvalidInputError(f"rows of {self.title!r} must have {len(self.headings)} entries; got {row!r}")


@dataclass(frozen=True)
class Experiment:
    """Set of cases that one function measures."""

    #: Stem of the name of its results file.
    name: str
    title: str
    #: Paper, figure or table that the experiment reproduces.
    source: str
    #: ``cases(quick)`` returns all cases, or a few small ones if `quick`.
    cases: Callable[[bool], Sequence[Case]]
    #: ``run(case)`` measures one case; it must be importable by other processes.
    run: Callable[[Case], Mapping[str, Any]]
    #: ``tables(records)`` returns tables, also for a part of the records.
    tables: Callable[[Sequence[Record]], Sequence[Table]]
    #: Version, raised when the meaning of cases or measurements changes; records of other versions are ignored.
    version: int = 1
    #: Versions of the methods that are measured; records that name other versions are stale and measured again.
    methods: Mapping[str, int] = field(default_factory=dict)
    #: ``methods_of(case)`` returns the names of those methods that the case depends on; by default, all.
    methods_of: Callable[[Case], Iterable[str]] | None = None
    #: Setting of the measurements, as Markdown: data and split, constant column, betas, kind of time and names of
    #: series.
    description: str = ""
    #: Further sections of the report, text by heading.
    extra: Mapping[str, str] = field(default_factory=dict)

    def versions_of(self, case: Case) -> dict[str, int]:
        """Return the versions of the methods that a case depends on."""
        names = self.methods if self.methods_of is None else self.methods_of(case)
        return {name: self.methods[name] for name in names}
