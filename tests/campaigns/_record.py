"""What a campaign has tried so far: a small file that says how many cases of each kind, and every violation."""

from __future__ import annotations

import json
import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from qsdp._utils.files import write_whole

__all__ = ["EDGES", "Outcome", "Record", "one_thread", "pursue", "try_again"]

#: Upper ends of the classes in which relative distances are counted.
EDGES = (1e-12, 1e-9, 1e-6, 1e-4, 1e-2, 0.1, 0.5, 1.0)

#: Violations kept in the file, with what makes them again; more are counted only.
_KEPT = 200

#: Seconds between two writes of the file.
_PAUSE = 5.0


@dataclass
class Outcome:
    """One case: what was counted, how tight bounds were, and what was wrong."""

    counts: list[tuple[str, str]] = field(default_factory=list)
    distances: list[tuple[str, float]] = field(default_factory=list)
    violations: list[dict[str, Any]] = field(default_factory=list)

    def count(self, kind: str, name: object) -> None:
        """Count the case, or a check, under a name of a kind."""
        self.counts.append((kind, str(name)))

    def wrong(self, what: str, **details: Any) -> None:
        """Add a violation."""
        self.violations.append({"what": what, **details})

    def crashed(self, what: str, error: BaseException, **details: Any) -> None:
        """Add an error that should not have been, and where it was raised."""
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        self.wrong(what, **details, error=f"{type(error).__name__}: {error}"[:200], place=place)


@dataclass
class Record:
    """Counts of all cases of a campaign; of `mended` violations the cause was mended, and their cases have none now."""

    campaign: str
    seed: int
    cases: int = 0
    seconds: float = 0.0
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    distances: dict[str, dict[str, int]] = field(default_factory=dict)
    n_violations: int = 0
    violations: list[dict[str, Any]] = field(default_factory=list)
    mended: list[dict[str, Any]] = field(default_factory=list)

    def add(self, index: int, outcome: Outcome) -> None:
        """Add the case of an index."""
        self.cases += 1
        for kind, name in outcome.counts:
            own = self.counts.setdefault(kind, {})
            own[name] = own.get(name, 0) + 1
        for kind, value in outcome.distances:
            end = next((edge for edge in EDGES if value <= edge), EDGES[-1])
            own = self.distances.setdefault(kind, {f"{edge:g}": 0 for edge in EDGES})
            own[f"{end:g}"] += 1
        self.n_violations += len(outcome.violations)
        room = _KEPT - len(self.violations)
        self.violations += [{"seed": self.seed, "index": index, **one} for one in outcome.violations[:room]]

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        ordered = {kind: dict(sorted(names.items())) for kind, names in sorted(self.counts.items())}
        contents = {**vars(self), "seconds": round(self.seconds, 1), "counts": ordered}
        write_whole(path, (json.dumps(contents, indent=1, default=str) + "\n").encode())

    @classmethod
    def load(cls, path: Path) -> Record:
        """Return the record of a file."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def pursue(
    record: Record,
    tested: Callable[[int, int], Outcome],
    cases: int,
    *,
    jobs: int = 1,
    path: Path | None = None,
    report: Callable[[str], None] = print,
) -> Record:
    """Try the cases that a record does not have yet, in several processes; Ctrl-C leaves what was tried in the file."""
    saved = time.monotonic()
    pending = ((tested, record.seed, index) for index in range(record.cases, cases))
    try:
        with _mapped(jobs) as mapped:
            for outcome, seconds in mapped(_timed, pending):
                for one in outcome.violations:
                    report(f"case {record.cases}: {one}")
                record.add(record.cases, outcome)
                record.seconds += seconds
                if path is not None and time.monotonic() - saved > _PAUSE:
                    record.save(path)
                    saved = time.monotonic()
    finally:
        if path is not None:
            record.save(path)
    return record


def try_again(record: Record, tested: Callable[[int, int], Outcome]) -> None:
    """Try the cases of all violations that are kept again: those that have none now count as mended."""
    wrong = {index for index in {one["index"] for one in record.violations} if tested(record.seed, index).violations}
    record.mended += [one for one in record.violations if one["index"] not in wrong]
    kept = [one for one in record.violations if one["index"] in wrong]
    record.n_violations -= len(record.violations) - len(kept)
    record.violations = kept


@cache
def one_thread() -> None:
    """Have this process compute in one thread from now on: to look for libraries in every case takes milliseconds."""
    threadpool_limits(limits=1)


def _timed(case: tuple[Callable[[int, int], Outcome], int, int]) -> tuple[Outcome, float]:
    tested, seed, index = case
    start = time.process_time()
    return tested(seed, index), time.process_time() - start


@contextmanager
def _mapped(jobs: int) -> Iterator[Callable[..., Iterator[tuple[Outcome, float]]]]:
    """Yield a map over processes, in order."""
    if jobs == 1:
        yield map
        return
    with multiprocessing.Pool(jobs) as pool:
        yield pool.imap


def lines(record: Record) -> Iterator[str]:
    seconds = f"{record.seconds:.0f} s of processor"
    yield f"{record.campaign}: {record.cases} cases in {seconds}, {record.n_violations} violations"
    for kind, names in record.counts.items():
        yield f"  {kind:12} " + "; ".join(f"{name}: {count}" for name, count in sorted(names.items()))
    for kind, classes in record.distances.items():
        yield f"  {kind:28} " + ", ".join(f"<= {edge}: {count}" for edge, count in classes.items() if count)
