"""Stage times of the pipeline beside the paper's literal one, on the four UCI sets of the paper.

    python benchmarks/pipeline.py [--repeats 5] [--out benchmarks/results]

"literal" is what a reader of the paper would write: the 2D x 2D program (25) on the standardised data, solved
through CVXPY by SCS at CVXPY's default accuracy (1e-5), then the covariance program (27) the same way. "qsdp" is
`solve_and_sample`: the two-block form in units that suit the solver, to 1e-6 and with a certified bound, and the
closed-form covariance. Both solve the same program (tight regulariser, squared loss, beta = 10, a constant
column) and draw 2500 neurons. Times are medians over the repeats, run alternately in this one process.
Writes pipeline.json.
"""

from __future__ import annotations

import argparse
import statistics
import time

import cvxpy as cp
import numpy as np
from _cases import UCI, uci
from _memory import peak_mib
from _results import add_out, write
from rich.console import Console
from rich.table import Table

import qsdp
from qsdp.shaping import GAMMA

STAGES = ("compile", "solve", "shape", "sample")
BETA, NEURONS = 10.0, 2500


def run_literal(X, y):
    """Solve (25), then (27), then sample; return stage times and the objective of the SDP solution."""
    clock = [time.perf_counter()]
    problem = qsdp.TrainingProblem(X, y, beta=BETA)
    program = qsdp.build_literal(problem).problem
    program.get_problem_data(cp.SCS)
    clock.append(time.perf_counter())
    value = program.solve(solver=cp.SCS)
    clock.append(time.perf_counter())
    d = X.shape[1]
    K, rho = program.var_dict["Q"].value, float(program.var_dict["rho"].value)
    Q = cp.Variable((2 * d, 2 * d), PSD=True)
    distance = cp.sum_squares(Q[:d, d:] - np.sin(GAMMA * K[:d, d:] / rho))
    cp.Problem(cp.Minimize(distance), [cp.diag(Q) == 1]).solve(solver=cp.SCS)
    clock.append(time.perf_counter())
    rng = np.random.default_rng(0)
    neurons = np.sign(rng.multivariate_normal(np.zeros(2 * d), Q.value, size=NEURONS, method="eigh"))
    clock.append(time.perf_counter())
    assert neurons.shape == (NEURONS, 2 * d)
    return dict(zip(STAGES, np.diff(clock), strict=True)), value


def run_qsdp(X, y):
    """Return stage times and the result."""
    result = qsdp.solve_and_sample(X, y, n_neurons=NEURONS, beta=BETA, random_state=0)
    return {stage: result.timings[stage] for stage in STAGES}, result


def measure(name, repeats):
    """Run both pipelines alternately and return medians."""
    X, y = uci(name)
    ours, literal = [], []
    for _ in range(repeats):
        stages, value = run_literal(X, y)
        literal.append(stages)
        stages, result = run_qsdp(X, y)
        ours.append(stages)
    ratios = [sum(a.values()) / sum(b.values()) for a, b in zip(literal, ours, strict=True)]
    return {
        "dataset": name,
        "n": X.shape[0],
        "D": X.shape[1],
        "literal": {stage: statistics.median(run[stage] for run in literal) for stage in STAGES},
        "qsdp": {stage: statistics.median(run[stage] for run in ours) for stage in STAGES},
        "ratio": statistics.median(ratios),
        "literal_reported": value,
        "objective": result.relaxation.objective,
        "lower_bound": result.relaxation.lower_bound,
        "relative_gap": result.relaxation.relative_gap,
    }


def report(rows, peak):
    """Print the table."""
    table = Table(title=f"Pipeline, seconds (median); peak memory {peak:.0f} MiB")
    for column in ("data", "n", "D", "pipeline", *STAGES, "total", "ratio", "SDP value", "certified gap"):
        table.add_column(column, justify="left" if column in {"data", "pipeline"} else "right")
    for row in rows:
        for which in ("literal", "qsdp"):
            stages = row[which]
            ours = which == "qsdp"
            table.add_row(
                "" if ours else row["dataset"],
                "" if ours else str(row["n"]),
                "" if ours else str(row["D"]),
                which,
                *(f"{stages[stage]:.4f}" for stage in STAGES),
                f"{sum(stages.values()):.3f}",
                f"{row['ratio']:.1f}" if ours else "",
                f"{row['objective' if ours else 'literal_reported']:.4f}",
                f"{row['relative_gap']:.0e}" if ours else "none",
            )
    Console(width=130).print(table)


def main():
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    add_out(parser)
    options = parser.parse_args()
    rows = [measure(name, options.repeats) for name in UCI]
    peak = peak_mib()
    write(options.out, "pipeline", {"repeats": options.repeats, "peak_mib": peak, "rows": rows})
    report(rows, peak)


if __name__ == "__main__":
    main()
