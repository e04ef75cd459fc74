"""Hundreds of inputs, several outputs: certified gaps against time between small problems and tall ones.

Squared loss of targets of -1 and 1, one output a class; `solver="auto"`, relative gap 1e-2 of every output. MNIST is
pooled to 14 x 14 pixels of 0 to 1, with a column of ones; the first beta includes the Gram matrix, the others follow
on a path. Wines are eleven columns cut at ten thresholds each, with a column of ones, and their six classes; the few
rows are the first 100 images of MNIST, all pixels. Betas are shares of `beta_max`, which is computed before.

Seconds are the processor's on one thread, on a machine that others used: seconds of the wall are beside them, and of
no use for a comparison. Memory is the largest size of the process, libraries and data included.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import qsdp
from benchmarks.experiments._common import TARGET, Records, accuracy, experiment_in, table_row, where
from benchmarks.experiments._data import images, pooled, targets_of, with_constant
from benchmarks.experiments._process import in_own_process, peak
from benchmarks.experiments.solvers._peers import class_gaps
from qsdp.bench import Claim, Record, exact
from qsdp.encoding import ThresholdEncoder
from qsdp.relaxation.backends import Settings
from qsdp.relaxation.reductions import Reductions
from qsdp.relaxation.solution import Relaxation
from qsdp.relaxation.solve import solve_with

TOL = 1e-2
POOLED, WINES, FEW = "MNIST 14 x 14", "wines", "100 images"
#: Of the table: seconds to the first beta and from one beta to the next, MiB.
LIMITS = {POOLED: 600.0, WINES: 30.0, FEW: 20.0}
NEXT, MEMORY = 180.0, 8192.0
#: Gaps whose seconds are told.
LEVELS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)

SECONDS = {
    POOLED: (TARGET, "MNIST 14 x 14, 60000 images, ten classes, 0.001 beta_max: every class to 1e-2 in 10 minutes."),
    WINES: (TARGET, "4800 x 109 thresholds, six outputs, 0.01 beta_max: 1e-2 in 30 s."),
    FEW: (TARGET, "100 rows, 784 inputs, ten classes, 0.01 beta_max: 1e-2 in 20 s."),
}
FURTHER = (TARGET, "... MNIST 14 x 14: 3 minutes more for a further beta.")
SMALL = (TARGET, "... MNIST 14 x 14: below 8 GiB.")


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        return [{"data": POOLED, "samples": 300, "shares": [0.02, 0.01]}, {"data": FEW, "samples": 20, "shares": [0.1]}]
    return [
        {"data": POOLED, "samples": 60_000, "shares": [0.001, 0.0005]},
        {"data": WINES, "samples": 4800, "shares": [0.01]},
        {"data": FEW, "samples": 100, "shares": [0.01]},
        {"data": FEW, "samples": 100, "shares": [0.001]},
    ]


def run(case: dict[str, Any]) -> dict[str, Any]:
    return in_own_process(measure, case)


def measure(case: dict[str, Any]) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    (X, y), (X_test, y_test) = data(case["data"], case["samples"])
    problem = qsdp.TrainingProblem(X, 2.0 * targets_of(y) - 1.0, beta=1.0)
    with threadpool_limits(limits=1):
        largest = qsdp.beta_max(problem)
        began, ends = (time.process_time(), time.perf_counter()), []
        curve: list[tuple[float, float, int, float]] = []
        path: list[Relaxation] = []

        def now() -> tuple[float, float]:
            return time.process_time() - began[0], time.perf_counter() - began[1]

        def report(progress: Any) -> bool:
            curve.append((*now(), progress.iteration, progress.relative_gap))
            return False

        # As `relaxation_path` does, whose callback does not know the beta.
        settings = Settings(TOL, "two-block", None, callback=report, reductions=Reductions())
        for share in case["shares"]:
            start = path[-1] if path else None
            path.append(solve_with(problem.with_beta(share * largest), "auto", settings, "tight", start=start))
            ends.append(now())
            curve.append((*ends[-1], path[-1].iterations or 0, path[-1].relative_gap))
    return {
        "curve": curve,
        "seconds": [end[0] for end in ends],
        "wall_seconds": [end[1] for end in ends],
        "solvers": [relaxation.solver for relaxation in path],
        "iterations": [relaxation.iterations for relaxation in path],
        "class_gaps": [class_gaps(relaxation) for relaxation in path],
        "relative_gaps": [relaxation.relative_gap for relaxation in path],
        "train_accuracy": [accuracy(relaxation.predict(X), y) for relaxation in path],
        "test_accuracy": [accuracy(relaxation.predict(X_test), y_test) for relaxation in path] if len(y_test) else [],
        "peak_mib": peak() / 2**20,
    }


def data(name: str, samples: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return inputs and class numbers, for training and for the test."""
    if name == WINES:
        X, X_test, y, y_test = qsdp.datasets.load_uci("wine-quality").split(random_state=0)
        encoder = ThresholdEncoder(n_thresholds=10).fit(X[:samples])
        X, X_test = with_constant(encoder.transform(X[:samples]), encoder.transform(X_test))
        # Of the best wines there are three.
        return (X, np.minimum(y[:samples], 5)), (X_test, np.minimum(y_test, 5))
    X, X_test, y, y_test = images("mnist", samples)
    if name == POOLED:
        X, X_test = with_constant(pooled(X, 14), pooled(X_test, 14))
    return (X, y), (X_test, y_test)


def shown(records: Records) -> list[Record]:
    return [replace(one, case={k: v for k, v in one.case.items() if k != "shares"}) for one in betas_of(records)]


def betas_of(records: Records) -> list[Record]:
    """Return a record for each beta of the paths, whose seconds are those since the one before.

    Beside them are the processor seconds until the gap of all outputs together was certified to some levels.
    """
    found = []
    for record in records:
        m = record.measured
        for k, share in enumerate(record.case["shares"]):
            begin, end = [0.0, *m["seconds"]][k : k + 2]
            one = {name: np.diff([0.0, *m[name]])[k] for name in ("seconds", "wall_seconds")}
            one |= {name.removesuffix("s"): m[name][k] for name in ("solvers", "iterations", "relative_gaps")}
            one |= {name: m[name][k] for name in ("train_accuracy", "test_accuracy") if m[name]}
            for level in LEVELS:
                reached = (now - begin for now, _, _, gap in m["curve"] if begin < now <= end and gap <= level)
                one[f"seconds to {level:g}"] = next(reached, None)
            one |= {"class_gap": max(m["class_gaps"][k]), "peak_mib": m["peak_mib"]}
            found.append(Record({**record.case, "share": share}, one, record.seconds))
    return found


def claims(records: Records) -> list[Claim]:
    full = betas_of([record for record in records if record.case in cases(quick=False)])
    found = []
    for name, claim in SECONDS.items():
        own = where(full, data=name, share=0.001 if name == POOLED else 0.01)
        holds = [r.measured["seconds"] <= LIMITS[name] and r.measured["class_gap"] <= TOL for r in own]
        figures = [
            "{seconds:.0f} processor seconds of one thread, {wall_seconds:.0f} of the wall beside other work; "
            "largest gap {class_gap:.2g}".format(**r.measured)
            for r in own
        ]
        found.append(exact(*claim, holds, *figures[-1:]))
    pooled = where(full, data=POOLED)
    further = [r.measured for r in pooled if r.case["share"] != r.case["shares"][0]]
    later = "{seconds:.0f} processor seconds of one thread; largest gap {class_gap:.2g}"
    sizes = [r.measured["peak_mib"] for r in pooled[:1]]
    return [
        *found,
        exact(
            *FURTHER,
            [m["seconds"] <= NEXT and m["class_gap"] <= TOL for m in further],
            "; ".join(later.format(**m) for m in further),
        ),
        exact(*SMALL, [size <= MEMORY for size in sizes], ", ".join(f"{size:.0f} MiB" for size in sizes)),
    ]


def quotes(records: Records) -> dict[str, str]:
    found = {}
    for record in where(records, data=POOLED):
        m, shares = record.measured, record.case["shares"]
        betas = " and then ".join(map(str, shares))
        what = f"the same images pooled to 14 x 14 pixels, at beta = {betas} beta_max, each class to {100 * TOL:g} %"
        minutes = " and ".join(f"{spent / 60:.1f}" for spent in np.diff([0.0, *m["seconds"]]))
        right = " and ".join(f"{100 * one:.1f}" for one in m["test_accuracy"])
        shown = f"{minutes} minutes of processor time, {m['peak_mib'] / 1024:.1f} GiB"
        found["pooled"] = table_row(what, f"{shown}; the relaxations have {right} % of the test images right")
    return found


EXPERIMENT = experiment_in(__name__, "Hundreds of inputs and several outputs", "Targets of the package")
