"""What trainings by least squares and by gradients say of the paper's claims and of the specification's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.experiments._common import grouped
from benchmarks.experiments.least_squares._bpls_classifiers import per_epoch
from qsdp.bench import Claim, Record, compare, exact, judged

#: Accuracies that differ by less are taken for equal.
BAND = 0.025

#: Trainings by least squares, beside the competitors' with the same hidden activation.
Pairs = Mapping[str, tuple[Sequence[Record], Sequence[Record]]]


def mean_test(records: Sequence[Record], name: str = "final") -> float:
    """Return the mean accuracy in test."""
    return float(np.mean([record.measured[name][1] for record in records]))


def by_seed(records: Sequence[Record], name: str = "final") -> dict[int, float]:
    """Return the accuracy in test by seed."""
    return {record.case["seed"]: record.measured[name][1] for record in records}


def match_claim(source: str, where: str, pairs: Pairs) -> Claim:
    """Compare every variant with the best competitor, the best epoch of each taken by the test data."""
    parts, figures = {}, []
    for name, (own, others) in pairs.items():
        groups = grouped(others, "optimizer", "rate", "batch", "epochs")
        key, rival = max(groups.items(), key=lambda item: mean_test(item[1], "best"))
        parts[name] = compare(by_seed(own), by_seed(rival, "best"), margin=-BAND, unit=100.0)
        figures.append(
            f"{name} {100 * mean_test(own):.1f} % ({len(own)} runs) against {100 * mean_test(rival, 'best'):.1f} % "
            f"({key[0]} {key[1]:g}, batch {key[2]}, best of {key[3]} epochs, {len(rival)} runs)"
        )
    statement = f"{where}: BPLS practically matches the best competitor in test (within {100 * BAND:g} points)."
    claim = judged(f"{source}, Table I", statement, parts, "; ".join(figures))
    return replace(claim, group="BPLS practically matches the best competitor in test", case=where)


def speed_claims(source: str, where: str, pairs: Pairs, batches: Sequence[int]) -> list[Claim]:
    """Compare the processor's seconds of an epoch, for every minibatch of the competitors."""
    found, group = [], "An epoch of BPLS is more than 1000 times faster than of its competitors"
    for batch in batches:
        holds, figures = {}, []
        for name, (own, others) in pairs.items():
            theirs = [record for record in others if record.case["batch"] == batch]
            if theirs:
                ratio = per_epoch(theirs) / per_epoch(own)
                holds[f"{name}: {ratio:.1f} times"] = ratio >= 1000.0
                figures.append(f"{name}: {per_epoch(own):.3g} s against {per_epoch(theirs):.3g} s, {ratio:.1f} times")
        statement = f"{where}: an epoch of BPLS is more than 1000 times faster than of its competitors (batch {batch})."
        claim = exact(f"{source}, Table II", statement, holds, "; ".join(figures))
        found.append(replace(claim, group=group, case=f"{where}, batch {batch}"))
    return found


def interval(printed: str) -> tuple[float, float] | None:
    """Return what a printed accuracy allows: "0.9", "0.2 to 0.6", "at most 0.5"; None where there is none, "-"."""
    if printed.strip() == "-":
        return None
    if "at most" in printed:
        return 0.0, float(printed.replace("at most", ""))
    ends = [float(part) for part in printed.split(" to ")]
    return ends[0], ends[-1]


def printed_claim(source: str, what: str, cells: Mapping[str, tuple[str, float]], tolerance: float) -> Claim:
    """Compare means with the specification's, printed as in `interval`; cells are keyed by what they are."""
    off = {}
    for name, (printed, measured) in cells.items():
        allowed = interval(printed)
        if allowed is not None:
            off[name] = max(allowed[0] - measured, measured - allowed[1], 0.0)
    holds = {
        f"{name} {cells[name][1]:.3f}, printed {cells[name][0]}": value <= tolerance for name, value in off.items()
    }
    figures = f"largest difference {max(off.values()):.3f}" if off else ""
    return exact(source, f"{what}: means within {tolerance:g} of the specification's.", holds, figures)
