"""What a process of `solvers.py` does: one job, read from the command line, its answer written to a file."""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from _cases import graph, label, one_against_rest, problem_of
from _memory import peak_mib
from _networks import networks
from _peers import (
    INNER_LADDERS,
    OWN,
    class_gaps,
    inner,
    inner_cutnorm,
    inner_missing,
    median_of,
    missing,
    reach,
    solve,
)
from _scaling import matrix_product_peak, scaling

import qsdp
from qsdp.bench import describe_machine

#: Seconds that repetitions of one measurement may take.
PATIENCE = 120.0


def work(job, answer, memory_limit):
    """Do a job."""
    job = json.loads(job)
    if (job.get("device") or "cpu") == "cpu":
        # Drivers of other devices reserve more addresses than there is memory.
        bytes_ = int(float(memory_limit) * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (bytes_, bytes_))
    warnings.simplefilter("ignore")
    rows = JOBS[job.pop("kind")](**job)
    # NumPy's numbers as Python's.
    Path(answer).write_text(json.dumps(rows, default=lambda number: number.item()), encoding="utf-8")


def machine():
    """Return what times depend on."""
    peak, threads = matrix_product_peak()
    return {**describe_machine(), "threads": threads, "matrix_product_gflops": peak}


# -- relaxations -----------------------------------------------------------------------------------------


def relaxation(case, solvers, level, ladder, limit, repeats):
    """Bring solvers to the level, then run them alternately at what took them there."""
    start = time.perf_counter()
    problem = problem_of(case)
    reading = time.perf_counter() - start
    rows, going = [], []
    for solver in solvers:
        row = {
            "problem": case, "case": label(case), "n": problem.n_samples, "D": problem.dimension, "beta": problem.beta,
            "solver": solver, "level": level, "seconds": None, "reading": reading, "reached": False,
        }  # fmt: skip
        rows.append(row)
        if (reason := missing(solver)) is not None:
            row["status"] = reason
            continue
        # Modules are loaded, threads started.
        solve(qsdp.TrainingProblem(np.eye(5, 3), np.ones(5), beta=0.01), solver, 1e-2)
        tolerance, answer, reached = reach(problem, solver, level, limit, ladder)
        row |= {"tolerance": tolerance, "reached": reached, "status": answer.status, "runs": [answer.seconds]}
        row |= {"seconds": answer.seconds, "compiling": answer.compiling}
        if answer.relaxation is not None:
            found = answer.relaxation
            row |= {"objective": found.objective, "lower_bound": found.lower_bound, "relative_gap": found.relative_gap}
            row["iterations"] = found.iterations
            if problem.vector:
                row["class_gaps"] = class_gaps(found)
                row["reached"] = max(row["class_gaps"]) <= level
        going.append((row, tolerance))
    peak = peak_mib() if len(rows) == 1 else None
    for _ in range(repeats - 1):
        for row, tolerance in going:
            if sum(row["runs"]) < PATIENCE:
                row["runs"].append(solve(problem, row["solver"], tolerance, limit).seconds)
                row["seconds"] = statistics.median(row["runs"])
    return [{**row, "peak_mib": peak} for row in rows]


def inner_problem(name, solver, level, repeats, limit, cutnorm_python):
    """Bound the form over sign vectors by one solver."""
    row = {"case": name, "solver": solver, "level": level, "seconds": None, "peak_mib": None, "reached": False}
    if (reason := inner_missing(solver, cutnorm_python)) is not None:
        return [{**row, "status": reason}]
    M = graph(name)
    row["n"] = M.shape[0]
    inner("mcp100", np.eye(4) + 0.1, "scs" if solver == "cutnorm" else solver, 1e-3)
    if solver == "cutnorm":
        tolerance, bound = inner_cutnorm(M, level, cutnorm_python)
        runs = [bound.seconds]
    elif solver == "qsdp":
        tolerance, bound = level, inner(name, M, solver, level)
        runs, _ = median_of(lambda: inner(name, M, solver, level), repeats, PATIENCE)
    else:
        ladder = INNER_LADDERS[name] if solver == "scs" else (1e-3, 1e-4, 1e-5, 1e-6, 1e-8)
        left, best = limit, None
        for step in ladder:
            tried = inner(name, M, solver, step, left)
            if best is None or tried.relative_gap < best[1].relative_gap:
                best = step, tried
            left -= tried.seconds
            if tried.relative_gap <= level or left <= 0.0:
                break
        tolerance, bound = best
        runs = [bound.seconds]
        if repeats > 1:
            runs += median_of(lambda: inner(name, M, solver, tolerance, limit), repeats - 1, PATIENCE)[0]
    row |= {
        "tolerance": tolerance, "seconds": statistics.median(runs), "runs": runs, "status": "ok",
        "objective": -bound.value, "lower_bound": -bound.upper_bound, "relative_gap": bound.relative_gap,
        "reached": bound.relative_gap <= level, "peak_mib": bound.peak_mib,
    }  # fmt: skip
    return [row]


# -- all pixels of MNIST ---------------------------------------------------------------------------------


def pixels(quick, level, beta, neurons, polish, device):
    """Solve one relaxation a digit, sample a network, polish it, and count its errors on the test set.

    The relaxations' products with the data run on the device, of torch; None is NumPy.
    """
    from qsdp.relaxation.solution import join_outputs

    solver = "low-rank"
    clock = [time.perf_counter()]
    (X, labels), (X_test, labels_test) = (qsdp.datasets.load_mnist(part) for part in ("train", "test"))
    if quick:
        # Few images, means of 4 x 4 pixels.
        X, labels = X[:2000], labels[:2000]
        X, X_test = (images.reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)).reshape(-1, 49) for images in (X, X_test))
    X, X_test = X / 255.0, X_test / 255.0
    problem = qsdp.TrainingProblem(X, one_against_rest(labels), beta=beta)
    clock.append(time.perf_counter())
    parts = []
    for k in range(10):
        parts.append(qsdp.solve_relaxation(problem.output(k), solver=solver, tol=level, device=device))
    clock.append(time.perf_counter())
    joined = join_outputs(problem, parts, certified=parts[0].solver in OWN)
    solved_mib = peak_mib()
    covariance = qsdp.shape_covariance(joined)
    sampled = qsdp.sample_network(covariance, neurons, random_state=0)
    clock.append(time.perf_counter())
    refitted = qsdp.refit(sampled, problem, second_layer="shared")
    clock.append(time.perf_counter())
    polished = qsdp.polish(refitted, problem, time_limit=polish, random_state=0)
    clock.append(time.perf_counter())

    def accuracy(model):
        return float(np.mean(model.predict(X_test).argmax(axis=1) == labels_test))

    stages = dict(zip(("reading", "relaxing", "sampling", "refitting", "polishing"), np.diff(clock), strict=True))
    gaps = [part.relative_gap for part in parts]
    return [
        {
            "case": f"MNIST, {X.shape[0]} x {X.shape[1]}, 10 digits", "solver": solver, "level": level,
            "device": device, "device_mib": device_mib(device),
            "n": X.shape[0], "D": problem.dimension, "beta": problem.beta, "stages": stages, "class_gaps": gaps,
            "class_seconds": [part.compile_time + part.solve_time for part in parts],
            "objective": joined.objective, "lower_bound": joined.lower_bound, "relative_gap": joined.relative_gap,
            "reached": max(gaps) <= level, "status": ", ".join(sorted({part.solver_status for part in parts})),
            "seconds": float(sum(stages.values())) - stages["reading"], "relaxation_mib": solved_mib,
            "neurons": polished.n_neurons, "bits": polished.n_bits,
            "network_objective": problem.objective(polished), "peak_mib": peak_mib(),
            "accuracy": {"relaxation": accuracy(joined), "sampled": accuracy(sampled), "polished": accuracy(polished)},
        }
    ]  # fmt: skip


def device_mib(device):
    """Return the peak of the memory that torch took on a GPU, None on any other device."""
    if device is None or not device.startswith("cuda"):
        return None
    return sys.modules["torch"].cuda.max_memory_allocated(device) / 2**20


JOBS = {
    "machine": machine, "relaxation": relaxation, "inner": inner_problem, "scaling": scaling, "networks": networks,
    "pixels": pixels,
}  # fmt: skip
