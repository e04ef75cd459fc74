"""Networks that are proven to be globally optimal, and the solver inside: times, gaps, checks.

Column generation on standardised UCI data (the paper's first split; a constant column except for ionosphere), with the
bound of the semidefinite relaxation beside what it proves. Every result is certified again: by `certify`, which knows
network and data only; by its own proof with guarded rounding; and by `qsdp_check`, which uses NumPy alone. The
restricted convex problem of the last round: the dense interior-point method of the library beside CVXPY and Clarabel at
the same tolerance, alternately in one process. Times are CPU seconds of one thread, medians over repetitions.
"""

from __future__ import annotations

import contextlib
import functools
import io
import statistics
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import cvxpy as cp
import numpy as np
from threadpoolctl import threadpool_limits

import qsdp
import qsdp_check
from benchmarks.experiments._common import (
    TARGET,
    Records,
    duration,
    experiment_in,
    medians,
    small,
    table_row,
    timed,
    values,
    where,
)
from benchmarks.experiments._data import standardised, with_constant
from qsdp.bench import Claim, Record, compare, exact, judged
from qsdp.certificates.verification import verified_bound
from qsdp.column_generation import ColumnGenerationResult, master
from qsdp.column_generation.restricted import solve_restricted
from qsdp.losses import DataFit

SMOOTH = ("squared", "huber", "logistic", "squared_hinge")
#: Data, loss, beta, class against the rest.
PROBLEMS: tuple[tuple[str, str, float, int | None], ...] = (
    ("breast-cancer", "squared", 0.1, None),
    ("breast-cancer", "squared", 10.0, None),
    ("credit-approval", "squared", 1.0, None),
    ("credit-approval", "squared", 10.0, None),
    *(("vehicle", "squared", 1.0, k) for k in range(4)),
    ("ionosphere", "squared", 10.0, None),
    *(("breast-cancer", loss, 1.0, None) for loss in ("absolute", "huber", "logistic", "hinge", "squared_hinge")),
    *(("credit-approval", loss, 1.0, None) for loss in ("absolute", "huber", "logistic", "hinge", "squared_hinge")),
)
#: A gap that counts as proven, seconds that count as little, and those after which it is given up.
PROVEN, MINUTE, TIME_LIMIT = 1e-6, 60.0, 300.0
#: Repetitions, and CPU seconds of column generation after which there are no more.
REPEATS, BUDGET = 5, 35.0
#: Relative tolerance of both solvers of the restricted problem.
TOLERANCE = 1e-8
#: Share of the distance from the relaxation's bound that has to be the relaxation's own.
SHARE = 0.99

#: Source and statement of every claim.
STATEMENTS = {
    "proven": (
        TARGET,
        f"Column generation proves a global optimum (relative gap at most {PROVEN:g}, kind exact) of each of "
        f"{len(PROBLEMS)} problems, in less than a minute of one thread.",
    ),
    "relaxation": (
        TARGET,
        f"What is between these networks and the bound of the relaxation is the relaxation's own gap ({SHARE:.0%} of "
        "it at least), and no fault of the networks.",
    ),
    "accepted": (
        TARGET,
        f"Every proof is accepted: with guarded rounding, to a relative gap of {PROVEN:g}, and by the stand-alone "
        "qsdp_check.",
    ),
    "certify": (
        TARGET,
        f"From network and data alone, certify proves the optimum again (to {PROVEN:g}) where the loss is smooth.",
    ),
    "restricted": (
        TARGET,
        "The library's solver of the restricted problem is faster than CVXPY with Clarabel at the same tolerance "
        f"({TOLERANCE:g}).",
    ),
}

#: Columns, data fit and penalties.
Restricted = tuple[np.ndarray, DataFit, np.ndarray]


def cases(quick: bool) -> list[dict[str, Any]]:
    chosen = [("breast-cancer", "squared", 10.0, None), ("breast-cancer", "logistic", 1.0, None)] if quick else PROBLEMS
    return [
        {"data": data, "loss": loss, "beta": beta, "class": one, "split": 0, "repeats": 1 if quick else REPEATS}
        for data, loss, beta, one in chosen
    ]


def problem_of(case: dict[str, Any]) -> qsdp.TrainingProblem:
    X, _, y, _ = standardised(case["data"], case["split"])
    if case["class"] is not None:
        y = np.where(y == case["class"], 1.0, -1.0)
    if case["data"] != "ionosphere":
        (X,) = with_constant(X)
    return qsdp.TrainingProblem(X, y, beta=case["beta"], loss=case["loss"])


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Solve to a proven optimum, several times, check the proof, and solve the last restricted problem both ways."""
    with threadpool_limits(limits=1):
        problem = problem_of(case)
        relaxation, relaxing = timed(lambda: qsdp.solve_relaxation(problem))
        seconds: list[float] = []
        while len(seconds) < case["repeats"] and sum(seconds) < BUDGET:
            (result, restricted), spent = timed(lambda: solved(problem))
            seconds.append(spent)
        # With the other losses Clarabel takes minutes.
        both = case["loss"] == "squared" or case["data"] == "breast-cancer"
        return {
            "n": problem.n_samples,
            "D": problem.dimension,
            **{name: getattr(result, name) for name in ("status", "rounds", "objective", "lower_bound")},
            "relative_gap": result.relative_gap,
            "neurons": result.network.n_neurons,
            "kind": result.certificate.bound_type,
            "seconds": statistics.median(seconds),
            "repeats": len(seconds),
            "relaxation": {
                "objective": relaxation.objective,
                "lower_bound": relaxation.lower_bound,
                "gap": 1.0 - relaxation.lower_bound / result.objective,
                "seconds": relaxing,
            },
            **checked(result, relaxation),
            "restricted": compared(*restricted, case["repeats"]) if both else None,
        }


def solved(problem: qsdp.TrainingProblem) -> tuple[ColumnGenerationResult, Restricted]:
    """Return the result of column generation, and the restricted problem of its last round."""
    calls: list[Restricted] = []
    rounds: list[Restricted] = []

    def solve(*restricted: Any, **options: Any) -> Any:
        calls[:] = [restricted]
        return solve_restricted(*restricted, **options)

    with mock.patch.object(master, "solve_restricted", solve):
        keep = functools.partial(rounds.__setitem__, slice(None), calls)
        result = qsdp.column_generation(problem, time_limit=TIME_LIMIT, callback=lambda _: keep())
    return result, rounds[0]


def checked(result: ColumnGenerationResult, relaxation: qsdp.Relaxation) -> dict[str, Any]:
    """Return gaps, verdicts and times of the three checks."""
    options = {"bound_type": "exact", "arithmetic": "verified", "time_limit": 60.0}
    certificate, certifying = timed(lambda: qsdp.certify(result.network, result.problem, relaxation, **options))
    proof = result.certificate.proof
    assert proof is not None
    bound, bounding = timed(lambda: verified_bound(proof.problem, proof.nu, proof.trees))
    output = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.qsdp"
        result.certificate.save(path)
        size = path.stat().st_size
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code, checking = timed(lambda: qsdp_check.main([str(path)]))
    leaves = sum(len(tree.leaves) for tree in proof.trees)
    says = output.getvalue().strip().splitlines()[-1]
    return {
        "certify": {"gap": certificate.relative_gap, "kind": certificate.bound_type, "seconds": certifying},
        "proof": {"lower_bound": bound, "gap": 1.0 - bound / result.objective, "leaves": leaves, "seconds": bounding},
        "check": {"code": code, "says": says, "bytes": size, "seconds": checking},
    }


def compared(columns: np.ndarray, fit: DataFit, penalties: np.ndarray, repeats: int) -> dict[str, Any]:
    """Solve a restricted problem both ways, alternately."""
    weights = cp.Variable(columns.shape[1], nonneg=True)
    # Predictions as variables of their own: a third faster for Clarabel than an expression in the weights.
    prediction = cp.Variable(len(fit.target))
    value = fit.expression(prediction) + penalties @ weights
    tolerances = dict.fromkeys(("tol_gap_rel", "tol_gap_abs", "tol_feas"), TOLERANCE)

    def by_clarabel() -> float:
        # A new problem each time: CVXPY keeps what it compiled.
        program = cp.Problem(cp.Minimize(value), [prediction == columns @ weights])
        program.get_problem_data(cp.CLARABEL)
        return timed(lambda: program.solve(solver=cp.CLARABEL, **tolerances))[1]

    runs = []
    for _ in range(repeats):
        solution, own = timed(lambda: solve_restricted(columns, fit, penalties, tol=TOLERANCE))
        alone, whole = timed(by_clarabel)
        runs.append((own, whole, alone, whole / own, alone / own))
    names = ("seconds", "cvxpy_seconds", "clarabel_seconds", "ratio", "clarabel_ratio")
    found = np.maximum(weights.value, 0.0)
    objective = fit.value(columns @ found) + float(penalties @ found)
    return {
        "rows": columns.shape[0],
        "columns": columns.shape[1],
        **dict(zip(names, np.median(runs, axis=0).tolist(), strict=True)),
        # Both against the same bound, which is proven.
        "gap": (solution.objective - solution.lower_bound) / solution.objective,
        "clarabel_gap": (objective - solution.lower_bound) / objective,
        "repeats": repeats,
    }


def label(record: Record) -> str:
    return str(record.case["data"]) + ("" if record.case["class"] is None else f", class {record.case['class']}")


def own_share(record: Record) -> float:
    """Return how much of the distance between network and bound is between proven bound and relaxed optimum."""
    m, relaxation = record.measured, record.measured["relaxation"]
    # The relaxed optimum is nowhere above the relaxed objective.
    return float((m["lower_bound"] - relaxation["objective"]) / (m["objective"] - relaxation["lower_bound"]))


def claims(records: Records) -> list[Claim]:

    def all_of(name: str, group: Records, holds: Any, figures: str) -> Claim:
        cases = {f"{label(r)}, {r.case['loss']}, beta {r.case['beta']:g}": bool(holds(r.measured, r)) for r in group}
        needed = sum(name != "certify" or loss in SMOOTH for _, loss, _, _ in PROBLEMS)
        return exact(*STATEMENTS[name], cases, figures if group else "", needed=needed)

    def most(what: str, group: Records = records) -> float:
        return max(values(group, what), default=np.nan)

    gaps, smooth = values(records, "relaxation/gap"), [r for r in records if r.case["loss"] in SMOOTH]
    shares = [own_share(r) for r in records]
    return [
        all_of(
            "proven",
            records,
            lambda m, r: m["relative_gap"] <= PROVEN and m["kind"] == "exact" and m["seconds"] < MINUTE,
            f"{medians(values(records, 'seconds'))} s, gaps up to {most('relative_gap'):.1e}",
        ),
        all_of(
            "relaxation",
            records,
            lambda m, r: own_share(r) >= SHARE,
            f"gaps of {min(gaps, default=0):.3%} to {max(gaps, default=0):.1%}, of which the relaxation's own at least "
            f"{min(shares, default=0):.2%}",
        ),
        all_of(
            "accepted",
            records,
            lambda m, r: m["proof"]["gap"] <= PROVEN and m["check"]["code"] == 0,
            f"guarded gaps up to {most('proof/gap'):.1e}; {max(most('proof/seconds'), most('check/seconds')):.2g} s at "
            "most",
        ),
        all_of(
            "certify",
            smooth,
            lambda m, r: m["certify"]["gap"] <= PROVEN,
            f"gaps up to {most('certify/gap', smooth):.1e}",
        ),
        _restricted_claim(dict(enumerate(r.measured["restricted"] for r in records if r.measured["restricted"]))),
    ]


def _restricted_claim(found: dict[int, dict[str, Any]]) -> Claim:
    """Compare the medians of every problem, in pairs, and the gap with the tolerance."""
    if not found:
        return judged(*STATEMENTS["restricted"], compare({}, {}))
    gap, clarabel = (max(m[name] for m in found.values()) for name in ("gap", "clarabel_gap"))
    if gap > TOLERANCE:
        return exact(*STATEMENTS["restricted"], {f"to the tolerance: a gap of {gap:.0e}": False})
    ours, theirs = ({i: m[name] for i, m in found.items()} for name in ("seconds", "cvxpy_seconds"))
    ratio, alone = (medians([m[name] for m in found.values()]) for name in ("ratio", "clarabel_ratio"))
    figures = f"ratio {ratio}, to Clarabel alone {alone}; gaps up to {gap:.0e} and {clarabel:.0e}"
    return judged(*STATEMENTS["restricted"], compare(ours, theirs, less=True, log=True), figures)


def quotes(records: Records) -> dict[str, str]:
    found = {}
    for record in where(records, data="breast-cancer", loss="squared", beta=10.0):
        m = record.measured
        what = f"proven global optimum over all networks, breast-cancer ({m['n']} x {m['D']}, squared loss, beta = 10)"
        shown = f"{m['neurons']} neurons, relative gap {small(m['relative_gap'])}, {duration(m['seconds'])}"
        found["optimum"] = table_row(what, shown)
    return found


EXPERIMENT = experiment_in(
    __name__,
    "Proven global optima",
    "Targets of the package: column generation, its certificates, its restricted problem",
)
