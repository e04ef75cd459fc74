"""How well `time_limit` is kept: time over limit for every function that takes one, over solvers, sizes and limits.

A limit is kept if the call takes at most 1.1 times the limit and half a second more, whatever it was in the midst of.
Seconds are of the wall, one thread; how large the certified gap is that the time was enough for is beside them. Quick
cases allow for a busy machine, and fail where that is not enough.
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import qsdp
from benchmarks.experiments._common import TARGET, Records, experiment_in, grid, timed
from qsdp.bench import Claim, Record, exact

LIMITS, SHARE, MORE = (1.0, 10.0, 60.0), 1.1, 0.5
#: Limit and seconds allowed of quick cases.
QUICK_LIMIT, QUICK_SECONDS = 0.3, 2.6
OWN, LOSSES = ("interior", "splitting", "low-rank"), ("absolute", "logistic", "hinge", "cross_entropy")

Call = Callable[[qsdp.TrainingProblem, float], Any]

KEPT = (TARGET, "Every call ends within 1.1 times its time limit and half a second.")
BOUNDED = (TARGET, "... with a lower bound that is not above its objective.")


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        return grid(call=tuple(QUICK), limit=QUICK_LIMIT, allowed=QUICK_SECONDS)
    return grid(call=tuple(FULL), limit=LIMITS)


def run(case: dict[str, Any]) -> dict[str, Any]:
    # CVXPY takes a second to load, once in a process.
    importlib.import_module("cvxpy")
    make, call = (QUICK | FULL)[case["call"]]
    problem = make()
    with threadpool_limits(1), warnings.catch_warnings():
        # That a gap is large is what is measured.
        warnings.simplefilter("ignore", qsdp.QSDPWarning)
        found, seconds = timed(lambda: call(problem, case["limit"]), time.monotonic)
    if seconds > case.get("allowed", np.inf):
        raise RuntimeError(f"it took {seconds:.2f} s, of {case['limit']:g} s")
    return {
        "seconds": seconds,
        "ratio": seconds / case["limit"],
        "objective": float(found.objective),
        "lower_bound": float(found.lower_bound),
        "relative_gap": float(found.relative_gap),
        "status": str(getattr(found, "solver_status", getattr(found, "status", ""))),
    }


def relaxed(solver: str) -> Call:
    return lambda problem, limit: qsdp.solve_relaxation(problem, solver=solver, tol=1e-9, time_limit=limit)


def generated(problem: qsdp.TrainingProblem, limit: float) -> Any:
    return qsdp.column_generation(problem, tol=1e-12, time_limit=limit)


def trained(**options: Any) -> Call:
    """Return the call of the whole pipeline, which shapes, samples and polishes."""
    options = {"n_neurons": 100, "refine": "polish", "random_state": 0, **options}
    return lambda problem, limit: (
        qsdp.solve_and_sample(problem.X, problem.y, beta=problem.beta, time_limit=limit, **options).certificate
    )


def random_network(problem: qsdp.TrainingProblem, n_neurons: int) -> qsdp.BilinearNetwork:
    U, V = np.random.default_rng(0).choice([-1, 1], size=(2, n_neurons, problem.n_features))
    return qsdp.BilinearNetwork(U, V, np.full(n_neurons, 1e-3))


def certified(problem: qsdp.TrainingProblem, limit: float) -> Any:
    return qsdp.certify(random_network(problem, 50), problem, bound_type="exact", time_limit=limit)


def polished(problem: qsdp.TrainingProblem, limit: float) -> Any:
    """Polish a random network; there is no bound but zero."""
    network = qsdp.polish(random_network(problem, 500), problem, restarts=10**6, time_limit=limit, random_state=0)
    return qsdp.Certificate(lower_bound=0.0, objective=problem.objective(network))


#: Functions other than `solve_relaxation` and the pipeline.
OTHERS: dict[str, Call] = {
    "relaxation_path": lambda problem, limit: qsdp.relaxation_path(problem, 50, tol=1e-9, time_limit=limit)[-1],
    "column_generation": generated,
    "certify": certified,
    "polish": polished,
    "train_fixed_width": lambda problem, limit: qsdp.train_fixed_width(
        problem, 10 * problem.n_outputs, restarts=10**6, time_limit=limit, random_state=0
    ),
}


def made(n: int, d: int, loss: str = "squared", outputs: int = 0) -> Callable[[], qsdp.TrainingProblem]:
    """Return what makes a problem of Gaussian data, so that memory is taken for one at a time."""

    def make() -> qsdp.TrainingProblem:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, d))
        y = rng.standard_normal((n, outputs)) if outputs else X[:, 0] * X[:, 1] + 0.1 * rng.standard_normal(n)
        if loss in ("logistic", "hinge"):
            y = np.where(y > 0.0, 1.0, -1.0)
        if loss == "cross_entropy":
            y = np.argsort(np.argsort(y)) * 4 // n
        return qsdp.TrainingProblem(X, y, beta=1.0, loss=loss)

    return make


SMALL = made(400, 20)
#: What makes the problem, and the call, by name.
QUICK: dict[str, tuple[Any, Call]] = {
    **{f"solve_relaxation {solver} 400 x 20": (SMALL, relaxed(solver)) for solver in (*OWN, "scs")},
    "solve_relaxation auto 3000 x 30 hinge": (made(3000, 30, "hinge"), relaxed("auto")),
    "solve_relaxation low-rank 60 x 100 x 5": (made(60, 100, outputs=5), relaxed("low-rank")),
    "solve_and_sample 30 x 600": (made(30, 600), trained()),
    "solve_and_sample adaptive 30 x 600": (made(30, 600), trained(shaping="adaptive")),
    **{f"{name} 400 x 20": (SMALL, call) for name, call in OTHERS.items()},
}
FULL: dict[str, tuple[Any, Call]] = {
    **{f"solve_relaxation {solver} 100 x 512 x 10": (made(100, 512, outputs=10), relaxed(solver)) for solver in OWN},
    **{f"solve_relaxation {solver} 5000 x 100": (made(5000, 100), relaxed(solver)) for solver in OWN},
    **{f"solve_relaxation auto 20000 x 60 {loss}": (made(20_000, 60, loss), relaxed("auto")) for loss in LOSSES},
    "solve_relaxation interior 20000 x 60 hinge": (made(20_000, 60, "hinge"), relaxed("interior")),
    "solve_relaxation scs 1000 x 40": (made(1000, 40), relaxed("scs")),
    **{f"{name} 2000 x 60": (made(2000, 60), call) for name, call in OTHERS.items()},
    "column_generation 100 x 512": (made(100, 512), generated),
    "solve_relaxation auto 200 x 3000 squared": (made(200, 3000), relaxed("auto")),
    "solve_relaxation auto 200 x 3000 hinge": (made(200, 3000, "hinge"), relaxed("auto")),
    "column_generation 200 x 3000": (made(200, 3000), generated),
    "certify 200 x 3000": (made(200, 3000), certified),
    "solve_and_sample 50 x 2000": (made(50, 2000), trained()),
    "solve_and_sample 200 x 3000": (made(200, 3000), trained()),
    "solve_and_sample adaptive 50 x 2000": (made(50, 2000), trained(shaping="adaptive")),
}


def is_kept(record: Record) -> bool:
    return bool(record.measured["seconds"] <= SHARE * record.case["limit"] + MORE)


def claims(records: Records) -> list[Claim]:
    named, needed = {f"{r.case['call']}, {r.case['limit']:g} s": r for r in records}, len(FULL) * len(LIMITS)
    bounded = {name: r.measured["lower_bound"] <= r.measured["objective"] for name, r in named.items()}
    return [
        exact(*KEPT, {name: is_kept(r) for name, r in named.items()}, needed=needed),
        exact(*BOUNDED, bounded, needed=needed),
    ]


EXPERIMENT = experiment_in(__name__, "Time limits", "Time and memory of the package")
