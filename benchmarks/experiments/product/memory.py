"""Peak memory of a solve beside the data, and the formula that bounds it.

Every case has a process of its own: random data of n rows and d columns, a relaxation with a time limit of ten seconds,
a network of 100 neurons and its certificate. The peak of resident memory is counted from when the data are there.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import qsdp
from benchmarks.experiments import show
from benchmarks.experiments._common import TARGET, Records, experiment_in
from benchmarks.experiments._process import begin_peak, in_own_process, peak
from qsdp.bench import Claim, Table, exact
from qsdp.relaxation.memory import least_memory

LIMIT = 10.0
#: Rows, columns, loss and beta.
SIZES = (
    (20_000, 60, "squared", 100.0),
    (100_000, 60, "squared", 1000.0),
    (100_000, 60, "logistic", 100.0),
    (100_000, 60, "hinge", 100.0),
    (1_000_000, 60, "squared", 1000.0),
    (1_000_000, 60, "logistic", 1000.0),
    (200, 300, "squared", 1.0),
    (200, 1000, "squared", 1.0),
    (200, 3000, "squared", 1.0),
    (2000, 500, "hinge", 10.0),
)

SMALL = (TARGET, "A solve takes at most 100 MiB, ten copies of the n rows and 32 matrices of the side d of its inputs.")


def cases(quick: bool) -> list[dict[str, Any]]:
    return [dict(zip(("n", "d", "loss", "beta"), size, strict=True)) for size in SIZES[: 1 if quick else None]]


def bound_of(n: int, d: int) -> float:
    """Return the MiB that a solve takes at most."""
    return 100.0 + 8.0 * (10 * n * d + 32 * d * d) / 2**20


def run(case: dict[str, Any]) -> dict[str, Any]:
    return in_own_process(measure, case)


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Return the peak of a solve in MiB, with what it takes at least and at most."""
    warnings.simplefilter("ignore")
    n, d, loss = case["n"], case["d"], case["loss"]
    X = np.random.default_rng(0).standard_normal((n, d))
    y = X[:, 0] * X[:, 1] + 0.1
    before = begin_peak()
    problem = qsdp.TrainingProblem(X, np.sign(y) if loss in {"logistic", "hinge"} else y, beta=case["beta"], loss=loss)
    relaxation = qsdp.solve_relaxation(problem, tol=1e-2, time_limit=LIMIT)
    qsdp.certify(qsdp.sample_network(qsdp.shape_covariance(relaxation), 100, 0), problem, relaxation)
    return {
        "solver": relaxation.solver,
        "data_mib": X.nbytes / 2**20,
        "least_mib": least_memory(problem) / 2**20,
        "peak_mib": (peak() - before) / 2**20,
    }


def tables(records: Records) -> list[Table]:
    columns = [
        *((name, show.param(name)) for name in ("n", "d", "loss")),
        ("method", show.first("solver")),
        *((f"{name}, MiB", show.first(f"{name}_mib", ".0f")) for name in ("data", "least", "peak")),
        ("bound, MiB", lambda group: f"{bound_of(group[0].case['n'], group[0].case['d']):.0f}"),
    ]
    return [show.table("Peak memory beside the data", records, columns)]


def claims(records: Records) -> list[Claim]:
    holds = {
        f"{record.case['n']} x {record.case['d']}, {record.case['loss']}": record.measured["peak_mib"]
        <= bound_of(record.case["n"], record.case["d"])
        for record in records
    }
    return [exact(*SMALL, holds, needed=len(SIZES))]


EXPERIMENT = experiment_in(__name__, "Memory of a solve", "Time and memory of the package")
