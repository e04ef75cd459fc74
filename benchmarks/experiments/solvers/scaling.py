"""Times and memory of the solvers against n and d.

Planted data to a certified gap of 1e-4: against n at d = 30 and against d at n = 2000, beta = 1, which nearly
interpolates the data by solutions of full rank; against d up to 784 at a hundredth of the beta for which zero is
optimal. Medians of three runs, or fewer where they take more than 6 s; a solver has 45 s a point, SCS 15 s, and leaves
a series when it has taken them. Every point has a process of its own.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import qsdp
from benchmarks.experiments import draw
from benchmarks.experiments._common import Records, experiment_in, unfolded, where
from benchmarks.experiments._process import available_gib, in_own_process, peak
from benchmarks.experiments.solvers._peers import OWN, reach, solve
from benchmarks.experiments.solvers._problems import problem_of
from benchmarks.experiments.solvers.solvers import LEVEL, THREADS, intervals_claim
from qsdp.bench import Claim

KEYS = ("n", "d")
#: Series of planted problems in which one size grows: the other one, beta as a share of the least for which zero is
#: optimal (None is beta = 1), the sizes, and what the series is called.
SERIES: dict[str, tuple[dict[str, Any], tuple[int, ...], str]] = {
    "n": ({"d": 30, "share": None}, (100, 400, 1600, 6400, 25_600), "d = 30, beta = 1"),
    "d": ({"n": 2000, "share": None}, (10, 20, 30, 60, 100, 150, 300), "n = 2000, beta = 1"),
    "d, strong": ({"n": 2000, "share": 0.01}, (60, 150, 300, 784), "n = 2000, beta = 1 % of the largest"),
}
#: CVXPY and SCS are run at few sizes, and so is the low-rank method, meant for many columns.
SIZES = {"scs": {"n": (100, 400), "d": (10, 20)}, "low-rank": {"d": (60, 150), "d, strong": (60, 150, 300, 784)}}
SOLVERS = ("interior", "splitting", "low-rank", "scs")
#: Seconds of a point, and those that its repetitions may take, the first not counted.
LIMITS, PATIENCE = dict.fromkeys(OWN, 45.0) | {"scs": 15.0}, 6.0


def cases(quick: bool) -> list[dict[str, Any]]:
    found = []
    for solver in SOLVERS:
        for series, (_, sizes, _) in SERIES.items():
            own = SIZES[solver].get(series, ()) if solver in SIZES else sizes
            if own:
                chosen = [8] if quick else list(own)
                more = {"repeats": 1 if quick else 3, "threads": 1 if quick else THREADS}
                found.append({"solver": solver, "series": series, "sizes": chosen, **more})
    return found[:2] if quick else found


def run(case: dict[str, Any]) -> dict[str, Any]:
    options = {"threads": case["threads"], "memory": 0.9 * available_gib()}
    limit, points = LIMITS[case["solver"]], []
    for size in case["sizes"]:
        point = {**SERIES[case["series"]][0], case["series"][0]: size}
        own = {**point, "solver": case["solver"], "limit": limit, "repeats": case["repeats"]}
        try:
            points.append({**point, **in_own_process(measure, own, **options, stop=limit + 30.0)})
        except RuntimeError as error:
            points.append({**point, "status": f"failed: {error}"})
        if points[-1].get("spent", limit) >= limit:
            break
    return {"points": points}


def measure(case: dict[str, Any]) -> dict[str, Any]:
    solver, n, d, limit = (case[name] for name in ("solver", "n", "d", "limit"))
    solve(problem_of({"data": "planted", "n": 20, "d": 3, "beta": 1.0}), solver, LEVEL)
    problem = problem_of({"data": "planted", "n": n, "d": d, "beta": 1.0})
    if case["share"] is not None:
        problem = problem.with_beta(case["share"] * qsdp.beta_max(problem))
    start = time.perf_counter()
    tolerance, answer, reached = reach(problem, solver, LEVEL, limit)
    spent = time.perf_counter() - start
    row = {"beta": problem.beta, "tolerance": tolerance, "reached": reached, "status": answer.status, "spent": spent}
    row |= {"runs": [answer.seconds], "peak_mib": peak() / 2**20, **answer.figures}
    while solver in OWN and reached and len(row["runs"]) < case["repeats"] and sum(row["runs"]) < PATIENCE:
        row["runs"].append(solve(problem, solver, tolerance, limit).seconds)
    return {**row, "seconds": statistics.median(row["runs"])}


def points_of(records: Records) -> Records:
    return unfolded(records, "points", "n", "d")


def claims(records: Records) -> list[Claim]:
    return [intervals_claim(points_of(records), lambda r: f"{r.case['n']} x {r.case['d']}, {r.measured['beta']:.3g}")]


def plot(records: Records) -> Any:
    panels: dict[str, dict[str, dict[float, Any]]] = {}
    for what, words in (("seconds", "seconds"), ("peak_mib", "MiB")):
        for series, (_, _, title) in SERIES.items():
            for r in where(points_of(records), series=series):
                if r.measured.get("reached"):
                    name = "CVXPY + SCS" if r.case["solver"] == "scs" else r.case["solver"]
                    line = panels.setdefault(f"{title}: {words}", {}).setdefault(name, {})
                    line[r.case[series[0]]] = r.measured[what]
    return draw.curves(panels, "size", "seconds to a gap of 1e-4, or MiB", "xy") if panels else None


EXPERIMENT = experiment_in(__name__, "Solvers against n and d", "Time and memory of the package")
