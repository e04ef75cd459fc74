"""What a campaign has tried so far: a small file that says how many cases of each kind, and every violation."""

from __future__ import annotations

import json
import multiprocessing
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from qsdp._utils.atomic_files import write_whole

#: Upper ends of the classes in which relative distances are counted.
EDGES = (1e-12, 1e-9, 1e-6, 1e-4, 1e-2, 0.1, 0.5, 1.0)
#: Violations kept in the file, with what makes them again, and seconds between two writes of it.
_KEPT, _PAUSE = 200, 5.0


@dataclass
class Outcome:
    """One case: what was counted, how tight bounds were, and what was wrong."""

    counts: list[tuple[str, str]] = field(default_factory=list)
    distances: list[tuple[str, float]] = field(default_factory=list)
    violations: list[dict[str, Any]] = field(default_factory=list)

    def count(self, kind: str, name: object) -> None:
        self.counts.append((kind, str(name)))

    def refused(self, what: str, error: Exception) -> None:
        """Count an error that says that something cannot be done, by its first words."""
        self.count("refused", f"{what}: {type(error).__name__} {str(error).split(' must ')[0][:40]}")

    def wrong(self, what: str, **details: Any) -> None:
        self.violations.append({"what": what, **details})

    def crashed(self, what: str, error: BaseException, **details: Any) -> None:
        """Add an error that should not have been, and where it was raised."""
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        self.wrong(what, **details, error=f"{type(error).__name__}: {error}"[:200], place=place)


Tested = Callable[[int, int], Outcome]


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

    def add(self, outcome: Outcome, seconds: float = 0.0) -> None:
        """Add the next case."""
        for kind, name in outcome.counts:
            own = self.counts.setdefault(kind, {})
            own[name] = own.get(name, 0) + 1
        for kind, value in outcome.distances:
            own = self.distances.setdefault(kind, {f"{edge:g}": 0 for edge in EDGES})
            own[f"{next((edge for edge in EDGES if value <= edge), EDGES[-1]):g}"] += 1
        self.n_violations += len(outcome.violations)
        found = [{"seed": self.seed, "index": self.cases, **one} for one in outcome.violations]
        self.violations += found[: _KEPT - len(self.violations)]
        self.cases += 1
        self.seconds += seconds

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        ordered = {kind: dict(sorted(names.items())) for kind, names in sorted(self.counts.items())}
        contents = {**vars(self), "seconds": round(self.seconds, 1), "counts": ordered}
        write_whole(path, (json.dumps(contents, indent=1, default=str) + "\n").encode())

    @classmethod
    def load(cls, path: Path) -> Record:
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def pursue(record: Record, tested: Tested, cases: int, *, jobs: int = 1, path: Path | None = None) -> Record:
    """Try the cases that a record does not have yet, in several processes; Ctrl-C leaves what was tried in the file."""
    saved = time.monotonic()
    try:
        with multiprocessing.Pool(jobs) if jobs > 1 else nullcontext() as pool:
            mapped = map if pool is None else pool.imap
            for outcome, seconds in mapped(partial(_timed, tested, record.seed), range(record.cases, cases)):
                for one in outcome.violations:
                    print(f"case {record.cases}: {one}")
                record.add(outcome, seconds)
                if path is not None and time.monotonic() - saved > _PAUSE:
                    record.save(path)
                    saved = time.monotonic()
    finally:
        if path is not None:
            record.save(path)
    return record


def try_again(record: Record, tested: Tested) -> None:
    """Try the cases of all violations that are kept again: those that have none now count as mended."""
    wrong = {index for index in {one["index"] for one in record.violations} if tested(record.seed, index).violations}
    gone = [one for one in record.violations if one["index"] not in wrong]
    record.mended += gone
    record.violations = [one for one in record.violations if one["index"] in wrong]
    record.n_violations -= len(gone)


@cache
def one_thread() -> None:
    """Have this process compute in one thread from now on: to look for libraries in every case takes milliseconds."""
    threadpool_limits(limits=1)


def _timed(tested: Tested, seed: int, index: int) -> tuple[Outcome, float]:
    start = time.process_time()
    return tested(seed, index), time.process_time() - start
