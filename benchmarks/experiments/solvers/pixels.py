"""All 784 pixels of MNIST, 60000 images, one class against the rest: ten relaxations, a network, its test accuracy.

The low-rank method to a certified gap of 1e-2, beta = 3000; 1000 sampled neurons, refitted and polished for five
minutes. The variable QSDP_DEVICE names a device of torch, such as cuda, on which the products with the data run.
"""

from __future__ import annotations

import os
import time
import warnings
from typing import Any

import numpy as np

import qsdp
from benchmarks.experiments._common import TARGET, Records, accuracy, duration, experiment_in, table_row
from benchmarks.experiments._data import images, pooled, targets_of
from benchmarks.experiments._process import available_gib, in_own_process, peak
from benchmarks.experiments.solvers._peers import OWN
from benchmarks.experiments.solvers.solvers import THREADS
from qsdp.bench import Claim, Record, exact
from qsdp.relaxation.solution import join_outputs

STAGES = ("reading", "relaxing", "sampling", "refitting", "polishing")
LEVEL, SECONDS, MEMORY = 1e-2, 1800.0, 8192.0


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        return [{"n": 2000, "side": 7, "beta": 100.0, "neurons": 1000, "polish": 5.0, "threads": 1}]
    return [{"n": 60_000, "side": 28, "beta": 3000.0, "neurons": 1000, "polish": 300.0, "threads": THREADS}]


def run(case: dict[str, Any]) -> dict[str, Any]:
    # Drivers of devices reserve more addresses than there is memory.
    memory = None if "QSDP_DEVICE" in os.environ else 0.9 * available_gib()
    return in_own_process(measure, case, threads=case["threads"], memory=memory)


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Solve one relaxation a digit, sample a network, polish it, and count its errors on the test set."""
    warnings.simplefilter("ignore")
    device = os.environ.get("QSDP_DEVICE")
    clock = [time.perf_counter()]
    X, X_test, y, y_test = images("mnist", case["n"])
    X, X_test = (pooled(one, case["side"]) for one in (X, X_test)) if case["side"] < 28 else (X, X_test)
    problem = qsdp.TrainingProblem(X, 2.0 * targets_of(y) - 1.0, beta=case["beta"])
    clock.append(time.perf_counter())
    parts = [
        qsdp.solve_relaxation(problem.output(k), solver="low-rank", tol=LEVEL, device=device)
        for k in range(problem.n_outputs)
    ]
    clock.append(time.perf_counter())
    joined = join_outputs(problem, parts, certified=parts[0].solver in OWN)
    sampled = qsdp.sample_network(qsdp.shape_covariance(joined), case["neurons"], random_state=0)
    clock.append(time.perf_counter())
    refitted = qsdp.refit(sampled, problem, second_layer="shared")
    clock.append(time.perf_counter())
    polished = qsdp.polish(refitted, problem, time_limit=case["polish"], random_state=0)
    clock.append(time.perf_counter())
    stages = dict(zip(STAGES, np.diff(clock).tolist(), strict=True))
    models = {"relaxation": joined, "sampled": sampled, "polished": polished}
    return {
        "D": problem.dimension,
        "device": device,
        "stages": stages,
        "seconds": float(sum(stages.values())) - stages["reading"],
        "class_gaps": [part.relative_gap for part in parts],
        "class_seconds": [part.compile_time + part.solve_time for part in parts],
        "objective": joined.objective,
        "lower_bound": joined.lower_bound,
        "relative_gap": joined.relative_gap,
        "peak_mib": peak() / 2**20,
        "neurons": polished.n_neurons,
        "bits": polished.n_bits,
        "accuracy": {name: accuracy(model.predict(X_test), y_test) for name, model in models.items()},
    }


def worst(record: Record) -> float:
    return float(max(record.measured["class_gaps"]))


def claims(records: Records) -> list[Claim]:
    limits = (
        (f"every class to a gap of {LEVEL:g}", worst, LEVEL, "{:.1e} at most", 1.0),
        ("under 30 minutes to a polished network", lambda r: r.measured["seconds"], SECONDS, "{:.1f} minutes", 60.0),
        ("below 8 GiB", lambda r: r.measured["peak_mib"], MEMORY, "{:.2f} GiB", 1024.0),
    )
    made = []
    for what, value, limit, form, unit in limits:
        found = [value(record) for record in records if record.case["n"] == 60_000]
        figures = form.format(max(found) / unit) if found else ""
        made.append(exact(TARGET, f"784 pixels, 60000 images: {what}.", [one <= limit for one in found], figures))
    return made


def quotes(records: Records) -> dict[str, str]:
    found: dict[str, str] = {}
    for record in records:
        m, spent = record.measured, record.measured["stages"]
        what = f"MNIST, {record.case['n']} images of {m['D']} pixels, ten classes, each certified to {100 * LEVEL:g} %"
        found["relaxation"] = table_row(what, f"{duration(spent['relaxing'])}, {m['peak_mib'] / 1024:.1f} GiB")
    return found


EXPERIMENT = experiment_in(__name__, "All pixels of MNIST", "Targets of the package")
