"""An experiment: its cases, the function that measures a case, and tables and claims from the measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qsdp.bench._verdicts import Claim
from qsdp.exceptions import InvalidInputError

__all__ = ["Case", "Experiment", "Record", "Table"]

#: Parameters of one measurement, including its seed, as JSON types.
Case = dict[str, Any]


@dataclass(frozen=True)
class Record:
    """A case and its measurement."""

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
    #: Version, increased when earlier measurements are no longer comparable; their records are dropped.
    version: int = 1
    #: ``claims(records)`` returns claims with verdicts computed from the records, "not measured" without records.
    claims: Callable[[Sequence[Record]], Sequence[Claim]] = lambda records: ()
    #: ``plot(records, path)`` draws a figure, or nothing if there are too few records.
    plot: Callable[[Sequence[Record], Path], None] | None = None
    #: Setting of the measurements, as Markdown: data and split, constant column, betas, clock and names of the series.
    description: str = ""
    #: Further sections of the report, text by heading.
    extra: Mapping[str, str] = field(default_factory=dict)
