"""How well `time_limit` is kept: time over limit for every function that takes one, over solvers, sizes and limits.

    python benchmarks/time_limits.py [--quick] [--processor] [--only NAME ...] [--limits 1 10 60] [--json FILE]

A limit is kept if the call takes at most 1.1 times the limit and half a second more, whatever it was in the midst of.
Every case runs in this process, one after the other; the file is written after every row, and keeps its rows of other
cases and limits. A row says how large the certified gap is that the time was enough for. Exit status 1: a limit was
passed by more, or a bound is above its objective. --quick runs small cases with a limit of 0.3 s and allows for a busy
machine: twice the limit and two seconds. --processor measures, and limits, the processor time of the process instead,
which other work on the machine changes little.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from _results import FOLDER, save

import qsdp

LIMITS = (1.0, 10.0, 60.0)
OWN = ("interior", "splitting", "low-rank")


def main():
    """Run the cases, save and print them."""
    options = parse()
    if options.processor:
        time.monotonic = time.perf_counter = time.process_time
    share, more = (2.0, 2.0) if options.quick else (1.1, 0.5)
    cases = dict(quick_cases() if options.quick else all_cases())
    # CVXPY takes a second to load, once in a process.
    importlib.import_module("cvxpy")
    known = json.loads(options.json.read_text(encoding="utf-8"))["rows"] if options.json.is_file() else []
    rows, failed = {(row["case"], row["limit"]): row for row in known}, False
    for name in options.only or cases:
        problem, call = cases[name]
        for limit in [0.3] if options.quick else options.limits:
            row = measured(name, problem(), call, limit)
            row["kept"] = row["seconds"] <= share * limit + more
            row["clock"] = "processor" if options.processor else "wall"
            wrong = row["lower_bound"] > row["objective"]
            failed |= wrong or not row["kept"]
            rows[name, limit] = row
            save({"quick": options.quick, "rows": list(rows.values())}, options.json)
            print(summary(row) + ("  WRONG BOUND" if wrong else ""), flush=True)
    sys.exit("a time limit was not kept, or a bound is wrong" if failed else 0)


def parse():
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--limits", nargs="+", type=float, default=LIMITS)
    parser.add_argument("--json", type=Path, default=FOLDER / "time_limits.json")
    return parser.parse_args()


def measured(name, problem, call, limit):
    """Return the row of one call."""
    with warnings.catch_warnings():
        # That a gap is large is what is measured.
        warnings.simplefilter("ignore", qsdp.QSDPWarning)
        start = time.monotonic()
        found = call(problem, limit)
        seconds = time.monotonic() - start
    return {
        "case": name,
        "limit": limit,
        "seconds": seconds,
        "ratio": seconds / limit,
        "objective": float(found.objective),
        "lower_bound": float(found.lower_bound),
        "relative_gap": float(found.relative_gap),
        "status": str(getattr(found, "solver_status", getattr(found, "status", ""))),
    }


def summary(row):
    """Return a line about a row."""
    kept = "kept" if row["kept"] else "NOT KEPT"
    return (
        f"{row['case']:<38} limit {row['limit']:>5g} s: {row['seconds']:>7.2f} s, {row['ratio']:.2f} of it, {kept:<8} "
        f"gap {row['relative_gap']:.1e}  {row['status']}"
    )


# -- cases -----------------------------------------------------------------------------------------------


def relaxed(solver):
    """Return the call of `solve_relaxation`."""
    return lambda problem, limit: qsdp.solve_relaxation(problem, solver=solver, tol=1e-9, time_limit=limit)


def path(problem, limit):
    """Solve a path and return its last relaxation."""
    return qsdp.relaxation_path(problem, 50, tol=1e-9, time_limit=limit)[-1]


def exact(problem, limit):
    """Generate columns."""
    return qsdp.column_generation(problem, tol=1e-12, time_limit=limit)


def random_network(problem, n_neurons):
    """Return a network of random neurons."""
    rng = np.random.default_rng(0)
    U, V = rng.choice([-1, 1], size=(2, n_neurons, problem.n_features))
    alpha = np.full(n_neurons, 1e-3) if not problem.vector else np.full((n_neurons, problem.n_outputs), 1e-3)
    return qsdp.BilinearNetwork(U, V, alpha)


def certified(problem, limit):
    """Certify a random network."""
    return qsdp.certify(random_network(problem, 50), problem, bound_type="exact", time_limit=limit)


def polished(problem, limit):
    """Polish a random network; there is no bound but zero."""
    network = qsdp.polish(random_network(problem, 500), problem, restarts=10**6, time_limit=limit, random_state=0)
    objective = problem.objective(network)
    return qsdp.Certificate(lower_bound=0.0, objective=objective)


def of_width(problem, limit):
    """Search for the best network of ten neurons."""
    return qsdp.train_fixed_width(problem, 10 * problem.n_outputs, restarts=10**6, time_limit=limit, random_state=0)


def made(n, d, loss="squared", outputs=0, beta=1.0):
    """Return what makes a problem of Gaussian data, so that memory is taken for one at a time."""

    def make():
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, d))
        y = rng.standard_normal((n, outputs)) if outputs else X[:, 0] * X[:, 1] + 0.1 * rng.standard_normal(n)
        if loss in ("logistic", "hinge"):
            y = np.where(y > 0.0, 1.0, -1.0)
        if loss == "cross_entropy":
            y = np.argsort(np.argsort(y)) * 4 // n
        return qsdp.TrainingProblem(X, y, beta=beta, loss=loss)

    return make


def quick_cases():
    """Return the cases of the gate."""
    small = made(400, 20)
    for solver in (*OWN, "scs"):
        yield f"solve_relaxation {solver} 400 x 20", (small, relaxed(solver))
    yield "solve_relaxation auto 3000 x 30 hinge", (made(3000, 30, "hinge"), relaxed("auto"))
    yield "solve_relaxation low-rank 60 x 100 x 5", (made(60, 100, outputs=5), relaxed("low-rank"))
    yield from others("400 x 20", small)


def all_cases():
    """Return all cases."""
    for solver in OWN:
        yield f"solve_relaxation {solver} 100 x 512 x 10", (made(100, 512, outputs=10), relaxed(solver))
        yield f"solve_relaxation {solver} 5000 x 100", (made(5000, 100), relaxed(solver))
    for loss in ("absolute", "logistic", "hinge", "cross_entropy"):
        yield f"solve_relaxation auto 20000 x 60 {loss}", (made(20_000, 60, loss), relaxed("auto"))
    yield "solve_relaxation interior 20000 x 60 hinge", (made(20_000, 60, "hinge"), relaxed("interior"))
    yield "solve_relaxation scs 1000 x 40", (made(1000, 40), relaxed("scs"))
    yield from others("2000 x 60", made(2000, 60))
    yield "column_generation 100 x 512", (made(100, 512), exact)
    for loss in ("squared", "hinge"):
        yield f"solve_relaxation auto 200 x 3000 {loss}", (made(200, 3000, loss), relaxed("auto"))
    yield "column_generation 200 x 3000", (made(200, 3000), exact)
    yield "certify 200 x 3000", (made(200, 3000), certified)


def others(size, make):
    """Return the cases of functions other than `solve_relaxation`."""
    calls = {
        "relaxation_path": path,
        "column_generation": exact,
        "certify": certified,
        "polish": polished,
        "train_fixed_width": of_width,
    }
    for name, call in calls.items():
        yield f"{name} {size}", (make, call)


if __name__ == "__main__":
    main()
