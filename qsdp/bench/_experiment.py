"""What an experiment is: its cases, what one of them measures, and what the measurements say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qsdp._utils.validation import check_choice
from qsdp.exceptions import InvalidInputError

__all__ = ["VERDICTS", "Case", "Claim", "Experiment", "Record", "Table"]

#: Parameters of one measurement, its seed included: numbers, text, lists and dictionaries that JSON can hold.
Case = dict[str, Any]

#: What measurements can say of a claim.
VERDICTS = ("reproduced", "partly", "not", "not measured")


@dataclass(frozen=True)
class Record:
    """One case and what it measured.

    Attributes
    ----------
    case : dict
    measured : dict
        What the experiment's `run` returned.
    seconds : float
        Wall-clock seconds of `run`.
    machine : int
        Number of the machine, in `Results.machines`.
    """

    case: Case
    measured: dict[str, Any]
    seconds: float
    machine: int = 0


@dataclass(frozen=True)
class Table:
    """A table of text: headings and rows of equal length."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.headings):
                raise InvalidInputError(f"rows of {self.title!r} must have {len(self.headings)} entries; got {row!r}")


@dataclass(frozen=True)
class Claim:
    """A claim of a paper beside what was measured.

    Attributes
    ----------
    source : str
        Paper, and figure, table or section.
    statement : str
        The claim, in words of our own.
    verdict : {"reproduced", "partly", "not", "not measured"}
        Computed from records.
    figures : str
        The measurements behind the verdict.
    why : str
        Why not, or only partly.
    so_far : str
        How many of the experiment's cases are behind the verdict, where not all are: `claims_of` says so.
    """

    source: str
    statement: str
    verdict: str
    figures: str
    why: str = ""
    so_far: str = ""

    def __post_init__(self) -> None:
        check_choice("verdict", self.verdict, VERDICTS)
        if self.verdict in {"partly", "not", "not measured"} and not self.why:
            raise InvalidInputError(f"a claim with verdict {self.verdict!r} must say why; {self.statement!r} does not")

    @property
    def judged(self) -> str:
        """The verdict, with how many cases are behind it where not all are."""
        return f"{self.verdict} ({self.so_far})" if self.so_far else self.verdict


def _no_claims(records: Sequence[Record]) -> list[Claim]:
    return []


@dataclass(frozen=True)
class Experiment:
    """A set of cases that one function measures.

    Parameters
    ----------
    name : str
        That of its file of results.
    title : str
    source : str
        What it reproduces: paper, figure or table.
    cases : callable
        ``cases(quick)`` returns all cases; few and small ones if `quick`.
    run : callable
        ``run(case)`` measures one case; it is importable, so that other processes can call it.
    tables : callable
        ``tables(records)`` returns tables, also of incomplete records.
    version : int
        Raised when measurements of before are no longer comparable; those are dropped then.
    claims : callable, optional
        ``claims(records)`` returns claims with verdicts computed from the records; without records, every claim there
        will be as "not measured".
    plot : callable, optional
        ``plot(records, path)`` draws a picture, or none of records that are too few for one.
    extra : dict
        Anything that belongs to the report, as text by heading.
    """

    name: str
    title: str
    source: str
    cases: Callable[[bool], Sequence[Case]]
    run: Callable[[Case], Mapping[str, Any]]
    tables: Callable[[Sequence[Record]], Sequence[Table]]
    version: int = 1
    claims: Callable[[Sequence[Record]], Sequence[Claim]] = _no_claims
    plot: Callable[[Sequence[Record], Path], None] | None = None
    extra: Mapping[str, str] = field(default_factory=dict)
