"""Peak memory of solves and of what follows them, beside the data, and the formulas that bound it.

Every case has a process of its own: random data of n rows and d columns, a relaxation with a time limit of ten seconds,
a network of 100 neurons and its certificate; or one of the other functions, of a random network of 100 neurons and with
the same limit. The peak of resident memory is counted from when the data are there.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import qsdp
from benchmarks.experiments._common import TARGET, Records, experiment_in
from benchmarks.experiments._process import begin_peak, in_own_process, peak
from qsdp.bench import Claim, exact
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


#: Functions other than the solve, and the largest data of theirs: rows, columns and beta.
CALLS = ("polish", "refit", "certify exact", "certify verified", "column_generation")
LARGE = ((1_000_000, 60, 1000.0), (200, 3000, 1.0))
OTHERS = (
    TARGET,
    "Polish, refit, certificates and column generation take at most as much, the last one also four copies of the n "
    "rows for every neuron that it has in hand.",
)


def cases(quick: bool) -> list[dict[str, Any]]:
    solves = [dict(zip(("n", "d", "loss", "beta"), size, strict=True)) for size in SIZES]
    others = [{"n": n, "d": d, "loss": "squared", "beta": beta, "call": call} for n, d, beta in LARGE for call in CALLS]
    small = [case | {"n": 2000, "d": 20} for case in others[: len(CALLS)]]
    return [*solves[:1], *small] if quick else [*solves, *others]


def run(case: dict[str, Any]) -> dict[str, Any]:
    return in_own_process(measure, case)


def measure(case: dict[str, Any]) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    n, d, rng = case["n"], case["d"], np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = X[:, 0] * X[:, 1] + 0.1
    y = np.sign(y) if case["loss"] in {"logistic", "hinge"} else y
    U, V = rng.choice([-1, 1], size=(2, 100, d))
    network = qsdp.BilinearNetwork(U, V, np.full(100, 1e-3))
    before = begin_peak()
    problem = qsdp.TrainingProblem(X, y, beta=case["beta"], loss=case["loss"])
    known = called(case["call"], network, problem) if "call" in case else solved(problem)
    return {"data_mib": X.nbytes / 2**20, **known, "peak_mib": (peak() - before) / 2**20}


def solved(problem: qsdp.TrainingProblem) -> dict[str, Any]:
    """Solve, sample and certify; return the method, and the MiB that it takes at least."""
    relaxation = qsdp.solve_relaxation(problem, tol=1e-2, time_limit=LIMIT)
    qsdp.certify(qsdp.sample_network(qsdp.shape_covariance(relaxation), 100, 0), problem, relaxation)
    return {"solver": relaxation.solver, "least_mib": least_memory(problem) / 2**20}


def called(call: str, network: qsdp.BilinearNetwork, problem: qsdp.TrainingProblem) -> dict[str, Any]:
    """Call another function; return the most neurons that column generation has had in hand."""
    if call == "column_generation":
        rounds = qsdp.column_generation(problem, time_limit=LIMIT).history
        return {"columns": max((one.n_columns for one in rounds), default=0)}
    if call == "polish":
        qsdp.polish(network, problem, time_limit=LIMIT, random_state=0)
    elif call == "refit":
        qsdp.refit(network, problem, time_limit=LIMIT)
    else:
        arithmetic = "verified" if call.endswith("verified") else "float"
        qsdp.certify(network, problem, bound_type="exact", arithmetic=arithmetic, time_limit=LIMIT)
    return {"columns": 0}


def _parted(records: Records) -> tuple[Records, Records]:
    return [one for one in records if "call" not in one.case], [one for one in records if "call" in one.case]


def _bound(record: Any) -> float:
    """Return the MiB that a call, of column generation with so many neurons in hand, takes at most."""
    n, d, columns = record.case["n"], record.case["d"], record.measured.get("columns", 0)
    return 100.0 + 8.0 * (10 * n * d + 32 * d * d + 4 * n * columns) / 2**20


def claims(records: Records) -> list[Claim]:
    solves, others = (
        {
            "{} {n} x {d}".format(r.case.get("call", r.case["loss"]), **r.case): r.measured["peak_mib"] <= _bound(r)
            for r in part
        }
        for part in _parted(records)
    )
    return [exact(*SMALL, solves, needed=len(SIZES)), exact(*OTHERS, others, needed=len(CALLS) * len(LARGE))]


EXPERIMENT = experiment_in(__name__, "Memory", "Time and memory of the package")
