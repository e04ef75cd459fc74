"""Proven global optima on every UCI set of up to 35 inputs, at four betas, within two minutes.

Column generation with its default settings on all samples of a set, standardised, with a constant column and the
squared loss; of several classes the most frequent one against the rest. Seconds are the processor's, of one thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import qsdp
from benchmarks.experiments._common import (
    TARGET,
    Records,
    duration,
    experiment_in,
    grid,
    grouped,
    small,
    table_row,
    timed,
)
from benchmarks.experiments._data import with_constant
from qsdp.bench import Claim, exact

_NAMES = "banknote pima breast-cancer glass wine-quality heart adult credit-approval letter vehicle ionosphere"
SETS = tuple(_NAMES.split())
BETAS = (0.1, 1.0, 10.0, 100.0)
#: Relative gap that counts as proven, and seconds in which it must be.
PROVEN, LIMIT = 1e-6, 120.0

ALL = (
    TARGET,
    f"Optima are proven (relative gap at most {PROVEN:g}, kind exact) on every UCI set of up to 35 inputs at every "
    f"beta, each within {LIMIT:g} seconds of one thread.",
)


def cases(quick: bool) -> list[dict[str, Any]]:
    return grid(data="breast-cancer", beta=10.0) if quick else grid(data=SETS, beta=BETAS)


def problem_of(case: dict[str, Any]) -> qsdp.TrainingProblem:
    data = qsdp.datasets.load_uci(case["data"])
    deviation = data.X.std(axis=0)
    X = (data.X - data.X.mean(axis=0))[:, deviation > 0.0] / deviation[deviation > 0.0]
    classes, counts = np.unique(data.y, return_counts=True)
    y = data.y if len(classes) == 2 else np.where(data.y == classes[np.argmax(counts)], 1.0, -1.0)
    (X,) = with_constant(X)
    return qsdp.TrainingProblem(X, y, beta=case["beta"])


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Generate columns to a proof, or for two minutes."""
    with threadpool_limits(limits=1):
        problem = problem_of(case)
        result, seconds = timed(lambda: qsdp.column_generation(problem, tol=PROVEN, time_limit=LIMIT))
    return {
        "n": problem.n_samples,
        "D": problem.dimension,
        **{name: getattr(result, name) for name in ("objective", "lower_bound", "status", "rounds")},
        "gap": result.relative_gap,
        "kind": result.certificate.bound_type,
        "neurons": result.network.n_neurons,
        "seconds": seconds,
    }


def is_proven(record: Any) -> bool:
    """Return whether the optimum is proven, in time."""
    m = record.measured
    return bool(m["gap"] <= PROVEN and m["kind"] == "exact" and m["seconds"] <= LIMIT)


def claims(records: Records) -> list[Claim]:
    holds = {f"{r.case['data']}, beta {r.case['beta']:g}": is_proven(r) for r in records}
    figures = ""
    if records:
        slowest = max(records, key=lambda r: r.measured["seconds"])
        figures = f"{sum(holds.values())} proven; {slowest.measured['seconds']:.1f} s at most ({slowest.case['data']})"
    return [exact(*ALL, holds, figures, needed=len(SETS) * len(BETAS))]


def quotes(records: Records) -> dict[str, str]:
    if not records:
        return {}
    what = (
        f"proven global optima over all networks, {len(grouped(records, 'data'))} UCI sets at {len(BETAS)} betas each"
    )
    slowest, median = (function([r.measured["seconds"] for r in records]) for function in (np.max, np.median))
    shown = f"{sum(map(is_proven, records))} of {len(records)} to a relative gap of {small(PROVEN)}"
    return {"optima": table_row(what, f"{shown}; {duration(median)} in the median, {duration(slowest)} at most")}


EXPERIMENT = experiment_in(__name__, "Proven optima of small sets", "Targets of the package: proven optima")
