"""Proven global optima on every UCI set of up to 35 inputs, at four betas, of other losses, and of the default.

Column generation runs for at most two minutes with default settings on all samples of a set, standardised, with a
constant column and the squared loss; with several classes, the most frequent one is separated from the rest. Other
losses use the training set of the paper's first split. Seconds are CPU time of one thread.

Betas are 0.1, 1, 10 and 100; for other losses, beta is 1.

The default classifier with `refine="exact"` and `time_limit=10` is fitted to the training rows of three splits of the
UCI suite, on all sets of up to 35 inputs and 5,000 rows. Thresholds, inputs and beta are chosen on held-out rows; the
optimum is that of the problem that is chosen.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import qsdp
from benchmarks.data.sets import standardised, with_constant
from benchmarks.data.uci_sets import load_uci
from benchmarks.machinery import draw
from benchmarks.machinery.common import (
    TARGET,
    Records,
    duration,
    experiment_in,
    grid,
    small,
    table_row,
    timed,
    where,
)  # fmt: skip
from benchmarks.machinery.summary import crossed
from benchmarks.machinery.verdicts import Claim, exact
from benchmarks.runner import Record, Table
from benchmarks.uci.data import prepare
from benchmarks.versions import ESTIMATORS

_NAMES = "banknote pima breast-cancer glass wine-quality heart adult credit-approval letter vehicle ionosphere"
SETS = tuple(_NAMES.split())
BETAS = (0.1, 1.0, 10.0, 100.0)
OTHERS = ("absolute", "huber", "logistic", "hinge", "squared_hinge")
#: Sets and splits of the default classifier.
_FITTED = "iris wine heart glass banknote pima ionosphere breast-cancer-wisconsin vehicle wine-quality-red"
FITTED = (*_FITTED.split(), "wine-quality-white")
SPLITS = range(3)
#: Relative gap that counts as proven, and time limits in seconds of a proof and of a default fit.
PROVEN, LIMIT, LIMIT_OF_FIT = 1e-6, 120.0, 10.0

ALL = (
    TARGET,
    f"Optima are proven (relative gap at most {PROVEN:g}, kind exact) on every UCI set of up to 35 inputs at every "
    f"beta, each within {LIMIT:g} seconds of one thread.",
)
LOSSES = (TARGET, "... and of other losses, with kinks and without.")
FITS = (
    TARGET,
    f'Networks of the default classifier with refine="exact" are proven optimal within {LIMIT_OF_FIT:g} seconds, on '
    "every set of the suite of up to 35 inputs and 5,000 rows.",
)


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        return grid(data="breast-cancer", beta=10.0) + grid(set="iris", seed=0)
    others = grid(data=("breast-cancer", "credit-approval"), beta=1.0, loss=OTHERS, split=0)
    return grid(data=SETS, beta=BETAS) + others + grid(set=FITTED, seed=SPLITS)


def problem_of(case: dict[str, Any]) -> qsdp.TrainingProblem:
    if "loss" in case:
        X, _, y, _ = standardised(case["data"], case["split"])
        return qsdp.TrainingProblem(with_constant(X)[0], y, beta=case["beta"], loss=case["loss"])
    data = load_uci(case["data"])
    deviation = data.X.std(axis=0)
    X = (data.X - data.X.mean(axis=0))[:, deviation > 0.0] / deviation[deviation > 0.0]
    classes, counts = np.unique(data.y, return_counts=True)
    y = data.y if len(classes) == 2 else np.where(data.y == classes[np.argmax(counts)], 1.0, -1.0)
    (X,) = with_constant(X)
    return qsdp.TrainingProblem(X, y, beta=case["beta"])


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Run column generation until the optimum is proven or two minutes are over, or fit the default classifier."""
    if "set" in case:
        return fitted(case["set"], case["seed"])
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


def fitted(name: str, seed: int) -> dict[str, Any]:
    """Fit the default classifier to a split of the suite until it is proven optimal or ten seconds are over."""
    split = prepare(name, seed)
    model = qsdp.QuantizedNetworkClassifier(refine="exact", time_limit=LIMIT_OF_FIT, random_state=seed)
    with threadpool_limits(limits=1), warnings.catch_warnings():
        # The gap is what is measured.
        warnings.simplefilter("ignore", qsdp.QSDPWarning)
        _, seconds = timed(lambda: model.fit(split.X, split.y))
    certificate = model.certificate_
    return {
        "n": len(split.X),
        "inputs": split.X.shape[1],
        "test": float(model.score(split.X_test, split.y_test)),
        "gap": certificate.relative_gap,
        "kind": certificate.bound_type,
        "neurons": model.network_.n_neurons,
        "seconds": seconds,
    }


def is_proven(record: Any) -> bool:
    """Return whether the optimum is proven within the time limit."""
    m, limit = record.measured, LIMIT_OF_FIT if "set" in record.case else LIMIT
    return bool(m["gap"] <= PROVEN and m["kind"] == "exact" and m["seconds"] <= limit)


def tables(records: Records) -> list[Table]:
    """Return seconds and neurons of the proofs by set and beta, and by set and loss."""

    def cell(record: Record) -> str:
        m = record.measured
        return f"{duration(m['seconds'])}, {m['neurons']}" if is_proven(record) else f"gap {small(m['gap'])}"

    sized = [replace(r, case={**r.case, "n": r.measured["n"], "D": r.measured["D"]}) for r in where(records, set=None)]
    squared = [replace(r, case={**r.case, "beta": f"beta = {r.case['beta']:g}"}) for r in where(sized, loss=None)]
    note = f"Seconds until the optimum is proven to a relative gap of {small(PROVEN)}, and neurons of the network."
    return [
        crossed("squared loss", squared, ("data", "n", "D"), "beta", cell, note),
        crossed("other losses, beta = 1", where(sized, loss=OTHERS), ("data", "n", "D"), "loss", cell),
        *table_of_fits(where(records, set=FITTED)),
    ]


def table_of_fits(records: Records) -> list[Table]:
    """Return the proofs, seconds, neurons and accuracy of default fits by set, each as a mean over splits."""
    rows = []
    for name in FITTED:
        some = where(records, set=name)
        if some:
            mean = {key: float(np.mean([r.measured[key] for r in some])) for key in ("seconds", "neurons", "test")}
            proofs = f"{sum(map(is_proven, some))} of {len(some)}"
            n, inputs = (str(some[0].measured[key]) for key in ("n", "inputs"))
            cells = duration(mean["seconds"]), f"{mean['neurons']:.0f}", f"{100.0 * mean['test']:.1f}"
            rows.append([name, n, inputs, proofs, *cells])
    headings = ["set", "n", "inputs", "proven", "seconds", "neurons", "test (%)"]
    note = "Means over splits; the inputs are those of the set, of which the fit drops some."
    return [Table('default classifier, refine="exact"', headings, rows, note)] if rows else []


def plot(records: Records) -> Any:
    """Draw the seconds of the proofs for the squared loss by the number of inputs."""
    lines: dict[str, dict[float, list[float]]] = {}
    for record in where(records, loss=None, set=None):
        line = lines.setdefault(f"beta = {record.case['beta']:g}", {})
        line.setdefault(record.measured["D"], []).append(record.measured["seconds"])
    return draw.curves({"proven optima, squared loss": lines}, "inputs", "CPU seconds", "y") if lines else None


def claims(records: Records) -> list[Claim]:
    made = []
    for claim, losses, needed in ((ALL, None, len(SETS) * len(BETAS)), (LOSSES, OTHERS, 2 * len(OTHERS))):
        group = where(records, loss=losses, set=None)
        slowest = max((r.measured["seconds"] for r in group), default=0.0)
        holds = {", ".join(map(str, r.case.values())): is_proven(r) for r in group}
        made.append(exact(*claim, holds, f"{slowest:.1f} s at most", needed=needed))
    fits = where(records, set=FITTED)
    slowest = max((r.measured["seconds"] for r in fits), default=0.0)
    holds = {", ".join(map(str, r.case.values())): is_proven(r) for r in fits}
    return [*made, exact(*FITS, holds, f"{slowest:.1f} s at most", needed=len(FITTED) * len(SPLITS))]


def quotes(records: Records) -> dict[str, str]:
    """Return the number of proven optima of the squared loss, and one of them."""
    squared, found = where(records, loss=None, set=None), {}
    if squared:
        what = f"proven global optima over all networks, {len(SETS)} UCI sets at {len(BETAS)} betas each"
        slowest, median = (function([r.measured["seconds"] for r in squared]) for function in (np.max, np.median))
        count = f"{sum(map(is_proven, squared))} of {len(squared)}"
        found["times"] = f"{duration(median)} in the median, {duration(slowest)} at most"
        shown = f"{count} to a relative gap of {small(PROVEN)}; {duration(median)} in the median"
        found["optima"] = table_row(what, f"{shown}, {duration(slowest)} at most")
        widest = max(r.measured["D"] for r in squared)
        problems = f"UCI problems ({len(SETS)} sets of up to {widest} inputs, {len(BETAS)} betas) solved to a proven"
        proof = "global optimum: no network of this kind, of any width, improves on the objective by more than"
        fits = where(records, set=FITTED)
        default = (
            f'; with `refine="exact"`, so are {sum(map(is_proven, fits))} of {len(fits)} default fits' if fits else ""
        )
        within = f", each in {duration(max(r.measured['seconds'] for r in fits))} at most" if fits else ""
        found["short"] = table_row(
            f"**{count}**",
            f"{problems} {proof} {small(PROVEN)} of it (median time {duration(median)}){default}{within}",
        )
    for m in (r.measured for r in where(squared, data="breast-cancer", beta=10.0)):
        what = f"... one of them, breast-cancer ({m['n']} x {m['D']}, squared loss, beta = 10)"
        shown = f"{m['neurons']} neurons, relative gap {small(m['gap'])}, {duration(m['seconds'])}"
        found["optimum"] = table_row(what, shown)
    return found


#: The answer on top of the page.
ANSWER = """\
[Every optimum]{proven: Optima are proven = 1 supported} of the squared loss is proven to a relative gap of 1e-6 within
two minutes of one thread: {proven.times}. So are those of
[five other losses]{proven: of other losses = 1 supported} on two of the sets, and
[all default fits]{proven: Networks of the default = 1 supported} with `refine="exact"` to three splits of each set of
the suite of up to 35 inputs and 5,000 rows, within ten seconds.
"""

#: Methods of column generation alone.
SOLVERS = ("relaxation", "column_generation", "smooth_losses")


def methods_of(case: dict[str, Any]) -> tuple[str, ...]:
    """Return the methods that a case depends on."""
    return tuple(dict.fromkeys((*SOLVERS, *ESTIMATORS))) if "set" in case else SOLVERS


#: Methods whose versions are stored with the records.
MEASURED = tuple(dict.fromkeys((*SOLVERS, *ESTIMATORS)))
EXPERIMENT = experiment_in(__name__, "Proven optima of small sets", "Targets of the package: proven optima")
