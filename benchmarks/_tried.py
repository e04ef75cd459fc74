"""What the documentation's page "What was tried against it" quotes from the records of the campaigns."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

RECORDS = Path(__file__).resolve().parents[1] / "tests" / "campaigns" / "records"

#: Kinds of counts, and what rows of the tables are called.
_NAMES = {
    **{
        kind: kind.capitalize()
        for kind in ("loss", "levels", "outputs", "activation", "data", "beta", "files", "attack", "fault", "processes")
    },
    "scales": "Sizes far apart",
    "weights": "Sample weights",
    "target": "Targets",
    "step": "What was run",
    "bounds": "Lower bounds compared",
    "objectives": "Objectives recomputed",
    "column generation": "Column generation ended",
    "solver": "Relaxations ended",
    "time ended": "Time ended at a look at the clock",
    "optimum": "The best bound reaches the optimum",
    "kind": "Files of",
    "verdict": "Verdict of the checker",
    "accepted": "What was accepted",
    "read": "Readers",
    "kill": "Killed while saving",
    "full disk": "Full disk while saving",
    "command": "Commands",
    "stopped": "How commands ended",
    "full disk of a command": "Commands on a full disk",
    "together": "In threads at once",
    "interrupt": "Interrupted",
    "interrupted": "How it ended",
    "worker killed": "Workers killed, and what came of it",
}


def quotes() -> dict[str, str]:
    """Return what is quoted of each campaign, by name."""
    records = {path.stem: json.loads(path.read_bytes()) for path in sorted(RECORDS.glob("*.json"))}
    known = {name: SimpleNamespace(**{"mended": [], **each}) for name, each in records.items() if name != "fuzz"}
    found = {name: "\n".join(_figures(record)) for name, record in known.items()}
    return {**found, "fuzz": _fuzzed(records["fuzz"])} if "fuzz" in records else found


def _fuzzed(record: Mapping[str, Any]) -> str:
    violations = f"**{record['n_violations']} violations**" if record["n_violations"] else "no violation"
    ways = record["counts"]["attack"]
    minutes = f"{record['seconds'] / 60:.0f} minutes"
    kinds = f"files {ways['file']:,}, digests made right {ways['digest']:,}, arrays {ways['array']:,}"
    return f"**{record['cases']:,} executions** of both readers ({minutes}; {kinds}): {violations}."


def _figures(record: SimpleNamespace) -> Iterator[str]:
    violations = "no violation" if not record.n_violations else f"**{record.n_violations} violations**"
    minutes = f"{record.seconds / 60:.0f} minutes of processor"
    yield f"**{record.cases:,} cases** (seed {record.seed}, {minutes}): {violations}."
    if record.mended:
        causes = Counter(f"{one.get('step', one.get('of'))}, {one.get('error', one['what'])}" for one in record.mended)
        yield "Mended on the way, in the library or the campaign, and gone when tried again: "
        yield "; ".join(f"{cause} ({count})" for cause, count in causes.items()) + "."
    rows = [(_NAMES[kind], _listed(counts)) for kind, counts in record.counts.items() if kind in _NAMES]
    sums = {"refused": "Refused with an error", "above by rounding": "Above the optimum, within rounding"}
    rows += [(sums[kind], f"{sum(record.counts[kind].values()):,}") for kind in sums if kind in record.counts]
    yield from ("", "| | |", "|---|---|", *(f"| {name} | {shown} |" for name, shown in rows))
    if record.distances and record.campaign == "soundness":
        yield from _tightness(record)


def _listed(counts: dict[str, int]) -> str:
    return "; ".join(f"{name.replace(': ', ', ')}: {count:,}" for name, count in counts.items())


def _tightness(record: SimpleNamespace) -> Iterator[str]:
    """Yield the table of how far below the optimum bounds were, as a share of it; counts add up from left to right."""
    edges = list(next(iter(record.distances.values())))
    yield ""
    yield "How far bounds were below the best objective known, as a share of it: how many of them at most so far."
    yield ""
    yield "| bound | " + " | ".join(edges) + " |"
    yield "|---|" + "---|" * len(edges)
    for kind, classes in sorted(record.distances.items()):
        sums = itertools.accumulate(classes.values())
        yield f"| {kind} | " + " | ".join(f"{value:,}" for value in sums) + " |"
