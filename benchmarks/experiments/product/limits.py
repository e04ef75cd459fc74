"""By how much every function exceeds its time limit, and how much memory it takes, over solvers and problem sizes.

The data are random, with n rows and d columns. Every case runs in its own process with one thread.

    time     wall time beyond `time_limit`, the excess. A limit is checked between iterations, what runs is finished,
             and a certificate follows; the certified gap reached in that time is recorded too. Of 15 calls with a
             limit of a minute, measured once, none exceeded it by more than two seconds
    memory   peak of resident memory, counted from when the data are in memory: of a relaxation with a time limit of
             ten seconds, a network of 100 neurons and its certificate, or of another function on a random network of
             100 neurons with the same limit

The series are the calls, named after function and option. No column is appended; betas are 1 to 1000, as the tables
show.
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import qsdp
from benchmarks.machinery.common import TARGET, Records, experiment_in, grid, timed, where
from benchmarks.machinery.process import begin_peak, in_own_process, peak
from benchmarks.machinery.verdicts import Claim, exact
from qsdp.relaxation.solve import min_memory

#: Time limits in seconds, and by how much a call may take longer: once the limit and some seconds.
LIMITS, MORE = (0.5, 5.0), 2.0
OWN = ("interior", "splitting", "low-rank")
#: For memory: time limit in seconds of every function, and rows, columns, loss and beta of the relaxations.
SECONDS = 10.0
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
#: Other functions whose memory is measured, and rows, columns and beta of their data.
OTHERS = ("polish", "refit", "certify exact", "column_generation")
LARGE = ((1_000_000, 60, 1000.0), (200, 3000, 1.0))

KEPT = (TARGET, "No call takes longer than twice its time limit and two seconds.")
BOUNDED = (TARGET, "... with a lower bound that is not above its objective.")
SMALL = (TARGET, "A solve takes at most 100 MiB, ten copies of the n rows and 32 matrices of the side d of its inputs.")
OTHER = (
    TARGET,
    "Polish, refit, certificates and column generation take at most as much, the last one also four copies of the n "
    "rows for every neuron that it has in hand.",
)


# -- time ------------------------------------------------------------------------------------------------

Call = Callable[[qsdp.TrainingProblem, float], Any]


def relaxed(solver: str) -> Call:
    return lambda problem, limit: qsdp.solve_relaxation(problem, solver=solver, tol=1e-9, time_limit=limit)


def trained(**options: Any) -> Call:
    """Return a call of the whole pipeline, which solves, shapes, samples and polishes."""
    options = {"n_neurons": 100, "refine": "polish", "random_state": 0, **options}
    return lambda problem, limit: (
        qsdp.solve_and_sample(problem.X, problem.y, beta=problem.beta, time_limit=limit, **options).certificate
    )


def random_network(problem: qsdp.TrainingProblem, n_neurons: int) -> qsdp.BilinearNetwork:
    U, V = np.random.default_rng(0).choice([-1, 1], size=(2, n_neurons, problem.n_features))
    return qsdp.BilinearNetwork(U, V, np.full(n_neurons, 1e-3))


def polished(problem: qsdp.TrainingProblem, limit: float) -> Any:
    """Polish a random network; the only lower bound is zero."""
    network = qsdp.polish(random_network(problem, 500), problem, restarts=10**6, time_limit=limit, random_state=0)
    return qsdp.Certificate(lower_bound=0.0, objective=problem.objective(network))


CALLS: dict[str, Call] = {
    **{f"solve_relaxation {solver}": relaxed(solver) for solver in ("auto", *OWN, "scs")},
    "column_generation": lambda problem, limit: qsdp.column_generation(problem, tol=1e-12, time_limit=limit),
    "certify": lambda problem, limit: qsdp.certify(
        random_network(problem, 50), problem, bound_type="exact", time_limit=limit
    ),
    "polish": polished,
    "solve_and_sample": trained(),
}
#: Calls that are timed, with rows, columns, losses and numbers of outputs.
TIMED: tuple[dict[str, Any], ...] = (
    *grid(call=[f"solve_relaxation {solver}" for solver in OWN], n=100, d=512, outputs=10),
    *grid(call=[f"solve_relaxation {solver}" for solver in OWN], n=5000, d=100),
    *grid(call="solve_relaxation auto", n=20_000, d=60, loss=("absolute", "logistic", "hinge", "cross_entropy")),
    *grid(call="solve_relaxation interior", n=20_000, d=60, loss="hinge"),
    *grid(call="solve_relaxation scs", n=1000, d=40),
    *grid(call=("column_generation", "certify", "polish"), n=2000, d=60),
    *grid(call="column_generation", n=100, d=512),
    *grid(call="solve_relaxation auto", n=200, d=3000, loss=("squared", "hinge")),
    *grid(call=("column_generation", "certify", "solve_and_sample"), n=200, d=3000),
    *grid(call="solve_and_sample", n=50, d=2000),
)


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        made = grid(kind="time", call=tuple(CALLS), n=400, d=20, limit=0.3)
        return made + grid(kind="memory", n=2000, d=20, loss="squared", beta=100.0, call=("", *OTHERS))
    made = [{"kind": "time", **case, "limit": limit} for case in TIMED for limit in LIMITS]
    for n, d, loss, beta in SIZES:
        made += grid(kind="memory", n=n, d=d, loss=loss, beta=beta, call="")
    for n, d, beta in LARGE:
        made += grid(kind="memory", n=n, d=d, loss="squared", beta=beta, call=OTHERS)
    return made


def run(case: dict[str, Any]) -> dict[str, Any]:
    return in_own_process(measure, case, threads=1)


def measure(case: dict[str, Any]) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    n, d, loss, rng = case["n"], case["d"], case.get("loss", "squared"), np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    noise = rng.standard_normal((n, case.get("outputs", 1))) if case["kind"] == "time" else np.ones((n, 1))
    y = noise if "outputs" in case else X[:, 0] * X[:, 1] + 0.1 * noise[:, 0]
    if loss in {"logistic", "hinge"}:
        y = np.where(y > 0.0, 1.0, -1.0)
    if loss == "cross_entropy":
        y = np.argsort(np.argsort(y)) * 4 // n
    before = begin_peak()
    problem = qsdp.TrainingProblem(X, y, beta=case.get("beta", 1.0), loss=loss)
    if case["kind"] == "time":
        return seconds_of(case, problem)
    known = called(case["call"], problem) if case["call"] else solved(problem)
    return {"data_mib": X.nbytes / 2**20, **known, "peak_mib": (peak() - before) / 2**20}


def seconds_of(case: dict[str, Any], problem: qsdp.TrainingProblem) -> dict[str, Any]:
    # Loading CVXPY takes a second, once per process; it is not timed.
    importlib.import_module("cvxpy")
    found, seconds = timed(lambda: CALLS[case["call"]](problem, case["limit"]), time.monotonic)
    return {
        "seconds": seconds,
        "excess": max(0.0, seconds - case["limit"]),
        "objective": float(found.objective),
        "lower_bound": float(found.lower_bound),
        "relative_gap": float(found.relative_gap),
        "status": str(getattr(found, "solver_status", getattr(found, "status", ""))),
    }


def solved(problem: qsdp.TrainingProblem) -> dict[str, Any]:
    """Solve, sample and certify; return the method and a lower bound on its memory in MiB."""
    relaxation = qsdp.solve_relaxation(problem, tol=1e-2, time_limit=SECONDS)
    qsdp.certify(qsdp.sample_network(qsdp.shape_covariance(relaxation), 100, 0), problem, relaxation)
    return {"solver": relaxation.solver, "least_mib": min_memory(problem) / 2**20}


def called(call: str, problem: qsdp.TrainingProblem) -> dict[str, Any]:
    """Call another function; return the largest number of neurons that column generation held at once."""
    network = random_network(problem, 100)
    if call == "column_generation":
        rounds = qsdp.column_generation(problem, time_limit=SECONDS).history
        return {"columns": max((one.n_columns for one in rounds), default=0)}
    if call == "polish":
        qsdp.polish(network, problem, time_limit=SECONDS, random_state=0)
    elif call == "refit":
        qsdp.refit(network, problem, time_limit=SECONDS)
    else:
        qsdp.certify(network, problem, bound_type="exact", time_limit=SECONDS)
    return {"columns": 0}


def _fits(record: Any) -> bool:
    """Return whether a call stays within the claimed memory, which for column generation depends on its neurons."""
    n, d, columns = record.case["n"], record.case["d"], record.measured.get("columns", 0)
    return bool(record.measured["peak_mib"] <= 100.0 + 8.0 * (10 * n * d + 32 * d * d + 4 * n * columns) / 2**20)


def claims(records: Records) -> list[Claim]:
    def by_case(group: Records, holds: Callable[[Any], bool]) -> dict[str, bool]:
        return {", ".join(map(str, tuple(r.case.values())[1:])): holds(r) for r in group}

    timed, memory = where(records, kind="time"), where(records, kind="memory")
    kept = by_case(timed, lambda r: r.measured["excess"] <= r.case["limit"] + MORE)
    bounded = by_case(timed, lambda r: r.measured["lower_bound"] <= r.measured["objective"])
    needed = len(TIMED) * len(LIMITS)
    return [
        exact(*KEPT, kept, needed=needed),
        exact(*BOUNDED, bounded, needed=needed),
        exact(*SMALL, by_case(where(memory, call=""), _fits), needed=len(SIZES)),
        exact(*OTHER, by_case(where(memory, call=OTHERS), _fits), needed=len(OTHERS) * len(LARGE)),
    ]


#: The answer on top of the page.
ANSWER = """\
Time limits are kept within a factor of two and two seconds in {limits: No call takes} calls; with thousands of inputs,
steps that cannot be interrupted may take longer. However short the time, the lower bound is not above the objective in
{limits: lower bound} calls. Memory stays below the stated formula in {limits: A solve takes} solves and
{limits: Polish, refit} other calls.
"""


def methods_of(case: dict[str, Any]) -> tuple[str, ...]:
    """Return the methods that a case depends on."""
    leaves = ("root_leaves",) if case["d"] >= WIDE and case["call"] in PROVING else ()
    return (*ALL, *leaves, *(("adaptive",) if case["call"] in SAMPLING else ()))


#: Calls that end with a rigorous proof, and columns from which on a root leaf takes most of its time and memory.
PROVING, WIDE = ("column_generation", "certify exact"), 500
#: Calls that sample a network; the first one is that of the memory of a relaxation.
SAMPLING = ("", "solve_and_sample")
#: Methods that all cases depend on.
ALL = (
    "relaxation",
    "sampling",
    "refinement",
    "moments",
    "column_generation",
    "certificates",
    "time_limits",
    "smooth_losses",
    "low_rank_first",
)
#: Methods whose versions are stored with the records.
MEASURED = (*ALL, "root_leaves", "adaptive")
EXPERIMENT = experiment_in(__name__, "Limits of time and memory", "Time and memory of the package", version=2)
