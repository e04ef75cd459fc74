"""An experiment: its cases, the measurement of a case, and the tables and claims computed from measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qsdp.bench._verdicts import Claim
from qsdp.exceptions import InvalidInputError

__all__ = ["Case", "Experiment", "Record", "Table"]

#: Parameters of one measurement including its seed, of types that JSON has.
Case = dict[str, Any]


@dataclass(frozen=True)
class Record:
    """A case and its measurement.

    Attributes
    ----------
    case : dict
    measured : dict
        Return value of the experiment's `run`.
    seconds : float
        Wall-clock seconds of `run`.
    machine : int
        Index into `Results.machines`.
    """

    case: Case
    measured: dict[str, Any]
    seconds: float
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
    """Set of cases that one function measures.

    Parameters
    ----------
    name : str
        Stem of its file of results.
    title : str
    source : str
        Paper, figure or table that it reproduces.
    cases : callable
        ``cases(quick)`` returns all cases, or a few small ones if `quick`.
    run : callable
        ``run(case)`` measures one case; it must be importable by other processes.
    tables : callable
        ``tables(records)`` returns tables, also for a part of the records.
    version : int
        Increased when earlier measurements are no longer comparable; those are dropped.
    claims : callable, optional
        ``claims(records)`` returns claims with verdicts computed from the records; all are "not measured" without
        records.
    plot : callable, optional
        ``plot(records, path)`` draws a figure, or nothing if there are too few records.
    extra : dict
        Further sections of the report, text by heading.
    """

    name: str
    title: str
    source: str
    cases: Callable[[bool], Sequence[Case]]
    run: Callable[[Case], Mapping[str, Any]]
    tables: Callable[[Sequence[Record]], Sequence[Table]]
    version: int = 1
    claims: Callable[[Sequence[Record]], Sequence[Claim]] = lambda records: ()
    plot: Callable[[Sequence[Record], Path], None] | None = None
    extra: Mapping[str, str] = field(default_factory=dict)
