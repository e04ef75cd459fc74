"""Networks that are proven to be globally optimal, and the solver inside: times, gaps, checks.

    python benchmarks/exact.py [--repeats 3] [--quick] [--out benchmarks/results]

Three tables. Column generation on standardised UCI data (the paper's split, random_state = 0; a constant column except
for ionosphere): what it proves, beside the bound of the semidefinite relaxation. Some of these networks certified
again: with guarded rounding, and by `qsdp_check`, which uses NumPy alone. The restricted convex problem of the last
round: the dense interior-point method of the library beside CVXPY and Clarabel at the same tolerance, run alternately
in this process. Times are CPU seconds of one thread, medians over the repeats. Writes exact.json.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import statistics
import tempfile
import time
from pathlib import Path
from unittest import mock

import cvxpy as cp
import numpy as np
from _results import add_out, write
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import qsdp
import qsdp_check
from qsdp.lifting import append_constant
from qsdp.refinement import master
from qsdp.refinement.column_generation import column_generation
from qsdp.refinement.restricted import solve_restricted
from qsdp.verification import verified_bound

#: Data, loss, beta, class against the rest.
CASES = (
    ("breast-cancer", "squared", 0.1, None),
    ("breast-cancer", "squared", 10.0, None),
    ("credit-approval", "squared", 1.0, None),
    ("credit-approval", "squared", 10.0, None),
    *(("vehicle", "squared", 1.0, k) for k in range(4)),
    ("ionosphere", "squared", 10.0, None),
    *(("breast-cancer", loss, 1.0, None) for loss in ("absolute", "huber", "logistic", "hinge", "squared_hinge")),
    *(("credit-approval", loss, 1.0, None) for loss in ("absolute", "huber", "logistic", "hinge", "squared_hinge")),
)
CHECKED = (1, 2, 4, 8, 11, 12)
QUICK = (1, 12)
TIME_LIMIT = 300.0
TOLERANCE = 1e-8


def problem_of(name, loss, beta, positive):
    """Return the training problem."""
    dataset = qsdp.datasets.load_uci(name)
    X, _, y, _ = dataset.split(random_state=0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    if positive is not None:
        y = np.where(y == positive, 1.0, -1.0)
    if name != "ionosphere":
        X = append_constant(X)
    return qsdp.TrainingProblem(X, y, beta=beta, loss=loss)


@contextlib.contextmanager
def recording(calls):
    """Append the arguments of every restricted problem."""

    def recorded(*args, **options):
        calls[-1] = (args, options)
        return solve_restricted(*args, **options)

    calls.append(None)
    with mock.patch.object(master, "solve_restricted", recorded):
        yield


def measure(case, repeats):
    """Return a row, the result, the relaxation, and the restricted problem of the last round."""
    problem = problem_of(*case)
    start = time.process_time()
    relaxation = qsdp.solve_relaxation(problem)
    relaxing = time.process_time() - start
    seconds, elapsed, last = [], [], {}
    for _ in range(repeats):
        calls, start = [], time.process_time()
        with recording(calls):
            result = column_generation(
                problem, time_limit=TIME_LIMIT, callback=lambda _, calls=calls: last.update(call=calls[-1])
            )
        seconds.append(time.process_time() - start)
        elapsed.append(result.seconds)
    row = {
        "dataset": case[0] + ("" if case[3] is None else f", class {case[3]}"),
        "loss": case[1],
        "beta": case[2],
        "n": problem.n_samples,
        "D": problem.dimension,
        "status": result.status,
        "rounds": result.rounds,
        "neurons": result.network.n_neurons,
        "objective": result.objective,
        "lower_bound": result.lower_bound,
        "relative_gap": result.relative_gap,
        "kind": result.certificate.kind,
        "seconds": statistics.median(seconds),
        "elapsed": statistics.median(elapsed),
        "relaxation_bound": relaxation.lower_bound,
        "relaxation_gap": 1.0 - relaxation.lower_bound / result.objective,
        "relaxation_seconds": relaxing,
    }
    return row, result, relaxation, last["call"]


def check(case, result, relaxation):
    """Return gaps and times of guarded rounding and of the stand-alone check."""
    clock = [time.process_time()]
    certificate = qsdp.certify(
        result.network, result.problem, relaxation, kind="exact", arithmetic="verified", time_limit=60.0
    )
    clock.append(time.process_time())
    proof = result.certificate.proof
    bound = verified_bound(proof.problem, proof.nu, proof.trees)
    clock.append(time.process_time())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.qsdp"
        result.certificate.save(path)
        size = path.stat().st_size
        output = io.StringIO()
        clock.append(time.process_time())
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = qsdp_check.main([str(path)])
        clock.append(time.process_time())
    steps = np.diff(clock)
    return {
        "dataset": case[0] + ("" if case[3] is None else f", class {case[3]}"),
        "loss": case[1],
        "beta": case[2],
        "certify_gap": certificate.relative_gap,
        "certify_kind": certificate.kind,
        "certify_seconds": steps[0],
        "verified_gap": 1.0 - bound / result.objective,
        "verified_seconds": steps[1],
        "leaves": sum(len(tree.leaves) for tree in proof.trees),
        "file_bytes": size,
        "check_code": code,
        "check_says": output.getvalue().strip().splitlines()[-1],
        "check_seconds": steps[3],
    }


def compare(case, call, repeats):
    """Solve a restricted problem both ways, alternately."""
    (columns, loss, target, prices), options = call
    assert options["outputs"] is None
    weights = cp.Variable(columns.shape[1], nonneg=True)
    # Predictions as variables of their own: a third faster for Clarabel than an expression in the weights.
    prediction = cp.Variable(len(target))
    value = loss.expression(prediction, target) + prices @ weights
    ours, theirs, alone = [], [], []
    for _ in range(repeats):
        clock = [time.process_time()]
        solution = solve_restricted(columns, loss, target, prices, tol=TOLERANCE)
        clock.append(time.process_time())
        # A new problem each time: CVXPY keeps what it compiled.
        program = cp.Problem(cp.Minimize(value), [prediction == columns @ weights])
        program.get_problem_data(cp.CLARABEL)
        clock.append(time.process_time())
        program.solve(solver=cp.CLARABEL, tol_gap_rel=TOLERANCE, tol_gap_abs=TOLERANCE, tol_feas=TOLERANCE)
        clock.append(time.process_time())
        ours.append(clock[1] - clock[0])
        theirs.append(clock[3] - clock[1])
        alone.append(clock[3] - clock[2])
    found = np.maximum(weights.value, 0.0)
    objective = loss.value(columns @ found, target) + float(prices @ found)
    return {
        "dataset": case[0] + ("" if case[3] is None else f", class {case[3]}"),
        "loss": case[1],
        "beta": case[2],
        "rows": columns.shape[0],
        "columns": columns.shape[1],
        "seconds": statistics.median(ours),
        "cvxpy_seconds": statistics.median(theirs),
        "clarabel_seconds": statistics.median(alone),
        "ratio": statistics.median(np.divide(theirs, ours)),
        "clarabel_ratio": statistics.median(np.divide(alone, ours)),
        # Both against the same bound, which is proven.
        "gap": (solution.objective - solution.lower_bound) / solution.objective,
        "clarabel_gap": (objective - solution.lower_bound) / objective,
        "clarabel_status": program.status,
    }


def table_of(title, rows, columns):
    """Return a table of rows; columns are pairs of heading and format."""
    table = Table(title=title)
    for heading, _ in columns:
        table.add_column(heading, justify="left" if heading in {"data", "loss", "kind"} else "right")
    for row in rows:
        table.add_row(*(form.format(**row) for _, form in columns))
    return table


def report(console, results):
    """Print three tables."""
    name = [("data", "{dataset}"), ("loss", "{loss}"), ("beta", "{beta:g}")]
    console.print(
        table_of(
            "Column generation; gaps are relative, that of the relaxation to the same network",
            results["exact"],
            [
                *name,
                ("n", "{n}"),
                ("D", "{D}"),
                ("rounds", "{rounds}"),
                ("neurons", "{neurons}"),
                ("objective", "{objective:.6f}"),
                ("lower bound", "{lower_bound:.6f}"),
                ("gap", "{relative_gap:.1e}"),
                ("kind", "{kind}"),
                ("seconds", "{seconds:.2f}"),
                ("SDP bound", "{relaxation_bound:.4f}"),
                ("its gap", "{relaxation_gap:.2%}"),
            ],
        )
    )
    console.print(
        table_of(
            "Certified again: by certify, by the own proof with guarded rounding, by qsdp_check",
            results["checks"],
            [
                *name,
                ("certify", "{certify_gap:.1e}"),
                ("kind", "{certify_kind}"),
                ("s", "{certify_seconds:.2f}"),
                ("own proof", "{verified_gap:.1e}"),
                ("s", "{verified_seconds:.3f}"),
                ("leaves", "{leaves}"),
                ("bytes", "{file_bytes:,}"),
                ("qsdp_check", "{check_code}"),
                ("s", "{check_seconds:.3f}"),
            ],
        )
    )
    console.print(
        table_of(
            f"Restricted problem of the last round, relative tolerance {TOLERANCE:g}; seconds",
            results["restricted"],
            [
                *name,
                ("rows", "{rows}"),
                ("columns", "{columns}"),
                ("dense", "{seconds:.4f}"),
                ("CVXPY", "{cvxpy_seconds:.3f}"),
                ("of it Clarabel", "{clarabel_seconds:.3f}"),
                ("ratio", "{ratio:.1f}"),
                ("to Clarabel", "{clarabel_ratio:.1f}"),
                ("gap", "{gap:.0e}"),
                ("Clarabel's", "{clarabel_gap:.0e}"),
            ],
        )
    )


def main():
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="breast-cancer only, once")
    add_out(parser)
    options = parser.parse_args()
    repeats = 1 if options.quick else options.repeats
    results = {"repeats": repeats, "exact": [], "checks": [], "restricted": []}
    with threadpool_limits(limits=1):
        for number in QUICK if options.quick else range(len(CASES)):
            case = CASES[number]
            row, result, relaxation, call = measure(case, repeats)
            results["exact"].append(row)
            if number in CHECKED:
                results["checks"].append(check(case, result, relaxation))
            if case[1] == "squared" or case[0] == "breast-cancer":
                # The others take Clarabel minutes.
                results["restricted"].append(compare(case, call, repeats))
    write(options.out, "exact", results)
    report(Console(width=150), results)


if __name__ == "__main__":
    main()
