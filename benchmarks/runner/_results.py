"""Results file of an experiment: the measured cases and the machines that measured them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.runner._experiment import Case, Experiment, Record
from qsdp._utils.atomic_files import write_whole
from qsdp.exceptions import StorageError

__all__ = ["Results", "key_of", "load_results"]

_FORMAT = 1


def key_of(case: Case) -> str:
    """Return the key of a case; equal cases have equal keys."""
    return _KEYS.encode(case)


@dataclass
class Results:
    """Records of one version of an experiment, and the machines on which they were measured."""

    experiment: str
    version: int
    quick: bool = False
    records: list[Record] = field(default_factory=list, repr=False)
    machines: list[dict[str, Any]] = field(default_factory=list, repr=False)
    #: Number of records in the file that were dropped because they are of another version.
    outdated: int = 0
    #: Whether Ctrl-C ended the run.
    interrupted: bool = False

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read a file; raise `StorageError` if it is not a results file, is damaged or has another format."""
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            if stored["format"] != _FORMAT:
                raise StorageError(f"{path} has format {stored['format']!r}; this version reads format {_FORMAT}")
            records = [Record(**record) for record in stored["records"]]
            return cls(stored["experiment"], stored["version"], stored["quick"], records, stored["machines"])
        except StorageError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(f"{path} is not a results file, or damaged: {error!r}") from None

    def save(self, path: Path) -> None:
        """Write the file atomically."""
        stored = {
            "format": _FORMAT,
            "experiment": self.experiment,
            "version": self.version,
            "quick": self.quick,
            "machines": self.machines,
        }
        head = json.dumps(stored, indent=1)[:-2]
        lines = ",\n  ".join(json.dumps(vars(record), default=_plain) for record in self.records)
        text = f'{head},\n "records": [\n  {lines}\n ]\n}}\n'
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())

    def add_machine(self, here: dict[str, Any]) -> int:
        """Return the index of a machine, adding a new one; those that differ only in the date are the same."""
        for number, machine in enumerate(self.machines):
            if {**machine, "date": here["date"]} == here:
                return number
        self.machines.append(here)
        return len(self.machines) - 1

    def add(self, records: Sequence[Record]) -> None:
        """Add records, which replace those of the same cases."""
        new = {key_of(record.case) for record in records}
        self.records = [*(one for one in self.records if key_of(one.case) not in new), *records]

    def state(self, experiment: Experiment) -> str:
        """Return a text about stale records of the cases: their number, "current", or "" without any records."""
        stale = len(self.stale(experiment))
        known = len(self.of(list(experiment.cases(self.quick))))
        return f"{stale} of {known} stale" if stale else "current" if self.records else ""

    def stale(self, experiment: Experiment) -> list[Record]:
        """Return the records of the experiment's cases that name other versions of its methods."""
        records = self.of(list(experiment.cases(self.quick)))
        methods = [machine.get("methods", {}).items() for machine in self.machines]
        return [one for one in records if not experiment.versions_of(one.case).items() <= methods[one.machine]]

    def missing(self, cases: Sequence[Case]) -> list[Case]:
        """Return the cases without a record."""
        known = {key_of(record.case) for record in self.records}
        return [case for case in cases if key_of(case) not in known]

    def of(self, cases: Sequence[Case]) -> list[Record]:
        """Return the records of the given cases, in the order of the cases."""
        known = {key_of(record.case): record for record in self.records}
        return [known[key] for key in map(key_of, cases) if key in known]


def load_results(experiment: Experiment, path: Path, quick: bool | None = None) -> Results:
    """Return the records in a file for the current version of an experiment, or none if there is no file.

    Parameters
    ----------
    experiment : Experiment
        Experiment to which the file belongs.
    path : Path
        File of the results.
    quick : bool, optional
        Whether to return the records of a quick or of a full run; by default, those in the file.

    Returns
    -------
    Results

    Raises
    ------
    StorageError
        The file is damaged, has another format or belongs to another experiment.
    """
    if not path.is_file():
        return Results(experiment.name, experiment.version, bool(quick))
    results = Results.load(path)
    if results.experiment != experiment.name:
        raise StorageError(f"{path} holds results of {results.experiment!r}, not of {experiment.name!r}")
    if results.version != experiment.version:
        kept = results.quick if quick is None else quick
        return Results(experiment.name, experiment.version, kept, outdated=len(results.records))
    return results if quick in (None, results.quick) else Results(experiment.name, experiment.version, bool(quick))


def _plain(value: Any) -> Any:
    """Convert NumPy scalars and arrays to Python objects for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"measurements must be numbers, text, lists or dictionaries; got {type(value).__name__}")


#: One encoder for all keys: `json.dumps` would make one for each of thousands of cases.
_KEYS = json.JSONEncoder(sort_keys=True, default=_plain)
