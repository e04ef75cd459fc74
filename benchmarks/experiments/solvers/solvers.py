"""The relaxation by this package's solvers, by CVXPY with SCS and by others, at equal certified gaps.

Four UCI sets (beta = 10), planted data (1000 x 60 and 5000 x 100, beta = 1) and principal components of MNIST, 60000
images: 30 of them (beta = 10) and 50 (four betas), ten classes at once. `_peers` says how solvers are brought to one
relative gap of 1e-4, recomputed from the data by the same code. Seconds are those of the wall, medians of whole calls,
compilation included; of ours with the certification. Solvers of one case take turns in one process, the others have one
each; peak memory is that of a process for one solver alone. A solve that was stopped, or killed for memory, says so.
"""

from __future__ import annotations

import statistics
import time
import warnings
from typing import Any

import numpy as np

import qsdp
from benchmarks.experiments._common import (
    TARGET,
    Records,
    duration,
    experiment_in,
    small,
    table_row,
    unfolded,
    values,
    where,
)
from benchmarks.experiments._process import available_gib, in_own_process, peak
from benchmarks.experiments.solvers._peers import class_gaps, missing, reach, solve
from benchmarks.experiments.solvers._problems import label, problem_of
from qsdp.bench import Claim, Record, exact, not_measured

UCI = ("breast-cancer", "ionosphere", "credit-approval", "vehicle")
OURS, OTHERS = ("auto", "interior", "splitting"), ("clarabel", "cvxopt", "sdpa")
LEVEL, THREADS = 1e-4, 2
#: Seconds of a solver, of others than SCS, and of SDPA, which takes no limit and is stopped.
LIMIT, LIMITS = 1800.0, {"clarabel": 300.0, "cvxopt": 300.0, "sdpa": 60.0}
#: Seconds that repetitions may take, and those of a target.
PATIENCE, SOON = 120.0, 10.0
FACTORS = {"uci": 30.0, "planted": 20.0, "planted-large": 100.0}


def problems(quick: bool) -> dict[str, list[dict[str, Any]]]:
    n, d, large = (60, 6, (80, 8)) if quick else (1000, 60, (5000, 100))
    images, few, more = (2000, 8, 10) if quick else (60_000, 30, 50)
    ten = {"data": "mnist", "n": images, "components": few, "beta": 10.0}
    betas = (100.0,) if quick else (1.0, 10.0, 100.0, 1000.0)
    return {
        "uci": [{"data": "uci", "name": name, "beta": 10.0} for name in (UCI[:1] if quick else UCI)],
        "planted": [{"data": "planted", "n": n, "d": d, "beta": 1.0}],
        "planted-large": [{"data": "planted", "n": large[0], "d": large[1], "beta": 1.0}],
        "mnist": [ten] if quick else [ten, {**ten, "digit": 3}],
        "betas": [{**ten, "components": more, "beta": beta} for beta in betas],
    }


def cases(quick: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    repeats, threads = (1, 1) if quick else (5, THREADS)

    def add(section: str, problem: dict[str, Any], solvers: tuple[str, ...], **own: Any) -> None:
        limit = 30.0 if quick else min(LIMITS.get(solver, LIMIT) for solver in solvers)
        case = {"section": section, "problem": problem, "solvers": list(solvers), "level": LEVEL, "limit": limit}
        found.append({**case, "repeats": repeats, "threads": threads, **own})

    of = problems(quick)
    for problem in of["uci"]:
        add("uci", problem, (*OURS, "scs"), threads=1, limit=30.0 if quick else 300.0)
        for solver in OTHERS[:1] if quick else OTHERS:
            add("uci", problem, (solver,), threads=1)
    for solver in (*OURS, "scs") if quick else (*OURS, "scs", *OTHERS):
        add("planted", *of["planted"], (solver,))
    # SCS once, at CVXPY's default accuracy; ours at what it reached, then at the level.
    add("planted-large", *of["planted-large"], ("scs", "auto"), ladder=[None], follow=True)
    for solver in OURS[:1] if quick else OURS:
        add("planted-large", *of["planted-large"], (solver,))
        add("mnist", of["mnist"][0], (solver,))
    for problem in of["mnist"][1:]:
        add("mnist", problem, ("auto",))
        add("mnist", problem, ("scs",), ladder=[1e-3, 1e-4, 1e-5])
    for problem in of["betas"]:
        add("betas", problem, ("auto",))
    return found


def run(case: dict[str, Any]) -> dict[str, Any]:
    # Solvers keep to the limit by themselves where they take one; others, and compilation, get more.
    stop = 1.5 * case["limit"] + (600.0 if case["limit"] == LIMIT else 60.0)
    try:
        return in_own_process(measure, case, threads=case["threads"], memory=0.9 * available_gib(), stop=stop)
    except RuntimeError as error:
        return {"solvers": {solver: {"status": f"failed: {error}"} for solver in case["solvers"]}}


def measure(case: dict[str, Any]) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    problem = problem_of(case["problem"])
    reading, level = time.perf_counter() - start, case["level"]
    rows: dict[str, dict[str, Any]] = {}
    for solver in case["solvers"]:
        row = rows[solver] = {"level": level, "reading": reading, "n": problem.n_samples, "D": problem.dimension}
        if (reason := missing(solver)) is not None:
            row["status"] = reason
            continue
        # Modules are loaded, threads started.
        solve(qsdp.TrainingProblem(np.eye(5, 3), np.ones(5), beta=0.01), solver, 1e-2)
        tolerance, answer, reached = reach(problem, solver, level, case["limit"], case.get("ladder"))
        row |= {"tolerance": tolerance, "reached": reached, "status": answer.status, "runs": [answer.seconds]}
        row |= {"compiling": answer.compiling, **answer.figures}
        if answer.relaxation is not None and problem.vector:
            row["class_gaps"] = class_gaps(answer.relaxation)
            row["reached"] = max(row["class_gaps"]) <= level
        if case.get("follow"):
            level = row.get("relative_gap", 1.0)
            if not LEVEL < level < 1.0:
                break
    largest = peak() / 2**20
    for _ in range(case["repeats"] - 1):
        for solver, row in rows.items():
            if 0.0 < sum(row.get("runs", ())) < PATIENCE:
                row["runs"].append(solve(problem, solver, row["tolerance"], case["limit"]).seconds)
    for solver, row in rows.items():
        if "runs" in row:
            row["seconds"] = statistics.median(row["runs"])
            alone = {**case, "solvers": [solver], "repeats": 1}
            together = len(rows) > 1 and case["repeats"] > 1
            own = in_own_process(measure, alone)["solvers"][solver] if together else {"peak_mib": largest}
            row["peak_mib"] = own["peak_mib"]
    return {"solvers": rows}


def rows_of(records: Records) -> list[Record]:
    return unfolded(records, "solvers", "solver")


def claims(records: Records) -> list[Claim]:
    rows, listed = rows_of(records), problems(quick=False)
    made = [
        _faster(rows, problem, factor, follow)
        for section, factor in FACTORS.items()
        for problem in listed[section]
        for follow in ((True, False) if section == "planted-large" else (False,))
    ]
    ten, betas = listed["mnist"][0], listed["betas"]
    for what, name in (("", None), (", reading and principal components included", "reading")):
        statement = f"{label(ten)}: every class to {LEVEL:g} in less than {SOON:g} s{what}."
        row = next((r.measured for r in where(rows, solver="auto", problem=ten) if "seconds" in r.measured), None)
        taken = row["seconds"] + (row[name] if name else 0.0) if row else 0.0
        holds = [row["reached"] and taken < SOON] if row else []
        made.append(exact(TARGET, statement, holds, f"{taken:.2f} s{_once(row, '')}" if row else ""))
    holds = {f"beta = {r.case['problem']['beta']:g}": r.measured["reached"] for r in where(rows, section="betas")}
    statement = f"{label(betas[0])}, beta from 1 to 1000: every class to {LEVEL:g}."
    seconds = [f"{r.measured['seconds']:.1f}" for r in where(rows, section="betas") if "seconds" in r.measured]
    figures = f"{', '.join(seconds)} s" if seconds else ""
    return [
        _together(rows),
        *made,
        exact(TARGET, statement, holds, figures, needed=len(betas)),
        intervals_claim(rows, lambda record: f"{label(record.case['problem'])}, {record.case['problem']['beta']:g}"),
    ]


def intervals_claim(rows: Records, name: Any) -> Claim:
    """Return the claim that the intervals [lower bound, objective] of all solvers of a problem meet."""
    ends: dict[str, tuple[float, float]] = {}
    for row in rows:
        if (high := row.measured.get("objective")) is not None:
            low, least = ends.get(name(row), (-np.inf, np.inf))
            ends[name(row)] = max(low, row.measured["lower_bound"]), min(least, high)
    holds = {problem: low <= high + 1e-9 * abs(high) for problem, (low, high) in ends.items()}
    return exact(TARGET, "Intervals of lower bound and objective meet, whichever solvers they are of.", holds)


def _once(row: dict[str, Any] | None, who: str) -> str:
    """Return what to add to a time that no other confirms."""
    return f", {who}single run" if row and len(row["runs"]) == 1 else ""


def _faster(rows: Records, problem: dict[str, Any], factor: float, follow: bool) -> Claim:
    level = "SCS's own gap" if follow else f"a gap of {LEVEL:g}"
    both = [where(rows, solver=solver, problem=problem) for solver in ("auto", "scs")]
    ours = next((r.measured for r in both[0] if bool(r.case.get("follow")) == follow), None)
    theirs = next((r.measured for r in both[1]), None)
    return faster_claim(f"{label(problem)}, to {level}: {factor:g} times faster than SCS.", ours, theirs, factor)


def faster_claim(
    statement: str, ours: dict[str, Any] | None, theirs: dict[str, Any] | None, factor: float, level: float = LEVEL
) -> Claim:
    """Return whether ours is so many times faster to its level; a peer that did not get there would need longer."""
    if ours is None or theirs is None:
        return not_measured(TARGET, statement)
    if "seconds" not in ours or "seconds" not in theirs:
        return not_measured(TARGET, statement, (theirs if "seconds" in ours else ours)["status"])
    if not ours["reached"]:
        return exact(TARGET, statement, [False], f"qsdp reached {ours['relative_gap']:.1e}")
    ratio, gap = theirs["seconds"] / ours["seconds"], theirs.get("relative_gap")
    once = _once(ours, "qsdp ") + _once(theirs, "SCS ")
    if gap is not None and gap <= 1.000001 * ours.get("level", level):
        return exact(TARGET, statement, [ratio >= factor], f"{ratio:.1f}{once}")
    left = f"more than {ratio:.1f}: SCS left {'no point' if gap is None else f'a gap of {gap:.1e}'}{once}"
    return exact(TARGET, statement, [True], left) if ratio >= factor else not_measured(TARGET, statement, left)


def _together(rows: Records) -> Claim:
    """Compare the sums over the UCI sets, where both solvers did all of them."""
    both = [where(rows, section="uci", solver=solver) for solver in ("auto", "scs")]
    statement = f"The UCI sets together, to a gap of {LEVEL:g}: {FACTORS['uci']:g} times faster than SCS."
    if any(len(one) < len(UCI) or not all(r.measured.get("reached") for r in one) for one in both):
        return not_measured(TARGET, statement)
    ours, theirs = (sum(r.measured["seconds"] for r in one) for one in both)
    return exact(TARGET, statement, [theirs / ours >= FACTORS["uci"]], f"{theirs / ours:.1f}")


def quotes(records: Records) -> dict[str, str]:
    """Return the UCI sets beside the fastest of other solvers."""
    rows, listed = [row for row in rows_of(records) if not row.case.get("follow")], problems(quick=False)
    reached = [row for row in rows if row.measured.get("reached")]

    def span(*solvers: str) -> str:
        each = [values(where(reached, problem=problem, solver=solvers), "seconds") for problem in listed["uci"]]
        fastest = [one.min() if len(one) else np.nan for one in each]
        if not np.all(np.isfinite(fastest)):
            return "not measured"
        return f"{duration(min(fastest))} to {duration(max(fastest))}"

    what = f"relaxation to a certified gap of {small(LEVEL)}, four UCI sets"
    shown = f"{span('auto')}; the fastest of SCS, Clarabel, CVXOPT and SDPA {span('scs', *OTHERS)}"
    return {"uci": table_row(what, shown)}


EXPERIMENT = experiment_in(__name__, "Solvers of the relaxation at equal certified gaps", "Targets of the package")
