"""Times of the solvers against n and d, and the share of a matrix product's speed that their inner loops have.

Planted data to a certified gap of 1e-4: against n at d = 30 and against d at n = 2000, beta = 1, which nearly
interpolates the data by solutions of full rank; against d up to 784 at a hundredth of the beta for which zero is
optimal. Medians of three runs, or fewer where they take more than 6 s; a solver has 45 s a point, SCS 15 s, and leaves
a series when it has taken them. Every point has a process of its own. The share of a matrix product's speed is that of
the inner loop: operations between a solver's first and last report, by the time between them. They are counted from the
algorithms; what is left out (second powers, bounds, Python) makes the share too small rather than too large. The
low-rank method does most of its own in single precision.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

import qsdp
from benchmarks.experiments import draw, show
from benchmarks.experiments._common import Records, experiment_in, unfolded, where
from benchmarks.experiments._process import available_gib, in_own_process, peak
from benchmarks.experiments.solvers._peers import OWN, reach, solve
from benchmarks.experiments.solvers._problems import problem_of
from benchmarks.experiments.solvers.solvers import LEVEL, THREADS, intervals_claim, method_cell
from qsdp.bench import Claim, Table
from qsdp.relaxation.products import Products
from qsdp.relaxation.solvers.splitting import data_step

#: Side of the product by which the speed is measured, and how often.
SIDE, PRODUCTS = 3000, 5
#: Series of planted problems in which one size grows: the other one, beta as a share of the least for which zero is
#: optimal (None is beta = 1), the sizes, and what the series is called.
SERIES: dict[str, tuple[dict[str, Any], tuple[int, ...], str]] = {
    "n": ({"d": 30, "share": None}, (100, 400, 1600, 6400, 25_600), "d = 30, beta = 1"),
    "d": ({"n": 2000, "share": None}, (10, 20, 30, 60, 100, 150, 300), "n = 2000, beta = 1"),
    "d, strong": ({"n": 2000, "share": 0.01}, (60, 150, 300, 784), "n = 2000, beta = 1 % of the largest"),
}
#: CVXPY and SCS are run at few sizes, and so is the low-rank method, meant for many columns.
SIZES = {
    "scs": {"n": (100, 400), "d": (10, 20)},
    "low-rank": {"d": (60, 150), "d, strong": (60, 150, 300, 784)},
}
COLOURS = {"interior": "tab:blue", "splitting": "tab:green", "low-rank": "tab:orange", "scs": "tab:red"}
#: Seconds of a point, and those that its repetitions may take, the first not counted.
LIMITS, PATIENCE = dict.fromkeys(OWN, 45.0) | {"scs": 15.0}, 6.0
#: How operator splitting solves with the data.
STEPS = ("KernelStep", "GramStep", "IterativeStep")


def cases(quick: bool) -> list[dict[str, Any]]:
    found = []
    for solver in COLOURS:
        for series, (_, sizes, _) in SERIES.items():
            own = SIZES[solver].get(series, ()) if solver in SIZES else sizes
            if own:
                chosen = [8] if quick else list(own)
                more = {"repeats": 1 if quick else 3, "threads": 1 if quick else THREADS}
                found.append({"solver": solver, "series": series, "sizes": chosen, **more})
    return found[:2] if quick else found


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Measure sizes until one takes all the time that it is given."""
    options = {"threads": case["threads"], "memory": 0.9 * available_gib()}
    fastest = in_own_process(matrix_product, {}, **options)["gflops"]
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
    return {"matrix_product_gflops": fastest, "points": points}


def matrix_product(case: dict[str, Any]) -> dict[str, Any]:
    """Return the operations a second of the best of a few products, in 1e9."""
    A = np.random.default_rng(0).standard_normal((SIDE, SIDE))
    A @ A
    seconds = []
    for _ in range(PRODUCTS):
        start = time.perf_counter()
        A @ A
        seconds.append(time.perf_counter() - start)
    return {"gflops": 2.0 * SIDE**3 / min(seconds) / 1e9}


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Return what was measured of one point."""
    solver, n, d, limit = (case[name] for name in ("solver", "n", "d", "limit"))
    solve(problem_of({"data": "planted", "n": 20, "d": 3, "beta": 1.0}), solver, LEVEL)
    problem = problem_of({"data": "planted", "n": n, "d": d, "beta": 1.0})
    if case["share"] is not None:
        problem = problem.with_beta(case["share"] * qsdp.beta_max(problem))
    with _Counted() as counted:
        loop = _Loop(counted) if solver in OWN else None
        start = time.perf_counter()
        tolerance, answer, reached = reach(problem, solver, LEVEL, limit, callback=loop)
        spent = time.perf_counter() - start
    row = {"beta": problem.beta, "tolerance": tolerance, "reached": reached, "status": answer.status, "spent": spent}
    row |= {"runs": [answer.seconds], "peak_mib": peak() / 2**20, **answer.figures}
    if loop is not None and loop.seconds > 0.0:
        way = next((name for name in STEPS if counted[name]), "")
        count = operations(solver, n, d, loop.iterations, loop.counted, way)
        row |= {"loop_seconds": loop.seconds, "operations": count, "gflops": count / loop.seconds / 1e9}
    while solver in OWN and reached and len(row["runs"]) < case["repeats"] and sum(row["runs"]) < PATIENCE:
        row["runs"].append(solve(problem, solver, tolerance, limit).seconds)
    return {**row, "seconds": statistics.median(row["runs"])}


def operations(solver: str, n: int, N: int, iterations: int, count: Counter[str], way: str = "") -> float:
    """Return the multiplications and additions of so many iterations with a squared loss, those of third powers.

    Interior point, an iteration: a Cholesky factorisation of side min(n, p), p = N(N + 1)/2, two kernels of rank N, and
    about 60 N^3 for scalings and steps. Splitting: two triangular solves of that side, two eigendecompositions with a
    product each, and a factorisation whenever the metric changes, which is counted; `way` is its step. Low rank: the
    products with the data, counted too; those of large data are partly in single precision, of twice the peak.
    """
    if solver == "low-rank":
        return float(count["flops"])
    p = N * (N + 1) // 2
    side = min(n, p)
    if solver == "interior":
        kernels = 2.0 * n * n * N if n <= p else 8.0 * p * p
        return iterations * (side**3 / 3 + kernels + 60.0 * N**3)
    once = {
        "KernelStep": n**3 / 3 + 2.0 * n * n * N,
        "GramStep": p**3 / 3,
        "IterativeStep": 25.0 * N**3,
    }
    each = {
        "KernelStep": 2.0 * n * n + 4.0 * n * N * N,
        "GramStep": 2.0 * p * p,
        "IterativeStep": 0.0,
    }
    passes = 4.0 * n * N * N * count["products"]
    return once[way] * count[way] + iterations * (each[way] + 20.0 * N**3) + passes


class _Loop:
    """A callback that takes the time between a solver's first report and its last, and what was counted in between.

    What comes before the first, data reductions and the first factorisation, and after the last is left out.
    """

    def __init__(self, count: Counter[str]) -> None:
        self._count, self._last = count, None
        self.seconds, self.iterations, self.counted = 0.0, 0, Counter[str]()

    def __call__(self, progress: Any) -> None:
        now, counted = time.perf_counter(), Counter(self._count)
        if self._last is not None and progress.iteration > self._last[1]:
            before, iteration, known = self._last
            self.seconds += now - before
            self.iterations += progress.iteration - iteration
            self.counted += counted - known
        self._last = (now, progress.iteration, counted)


class _Counted:
    """Count factorisations of operator splitting, products of its conjugate gradients, operations of low-rank ones."""

    def __enter__(self) -> Counter[str]:
        self.count = Counter[str]()
        self._patches = [self._patch(getattr(data_step, way), "prepare", way) for way in STEPS]
        self._patches.append(self._patch(data_step.IterativeStep, "_precondition", "products"))
        for method, cost in _PRODUCT_COSTS.items():
            self._patches.append(self._patch(Products, method, "flops", cost))
        for patch in self._patches:
            patch.start()
        return self.count

    def __exit__(self, *_: object) -> None:
        for patch in self._patches:
            patch.stop()

    def _patch(self, owner: Any, method: str, key: str, cost: Callable[..., int] = lambda *_: 1) -> Any:
        original = getattr(owner, method)

        def counted(*arguments: Any) -> Any:
            self.count[key] += cost(*arguments)
            return original(*arguments)

        return mock.patch.object(owner, method, counted)


def _entries(products: Any) -> int:
    return products._data.n_rows * products._data.size


_PRODUCT_COSTS = {
    "image": lambda own, E: 2 * _entries(own) * E.shape[1],
    "pull": lambda own, terms, mixing: 2 * _entries(own) * mixing.shape[0],
    "gram": lambda own, image, columns, weights: 2 * own._data.n_rows * (columns.stop - columns.start) ** 2,
    "forward": lambda own, T: 2 * _entries(own) * own._data.size,
    "_weighted": lambda own, *_: 2 * _entries(own) * own._data.size,
}


def points_of(records: Records) -> Records:
    """Return a record for each point."""
    return unfolded(records, "points", "n", "d", shared=("matrix_product_gflops",))


def share(record: Any) -> float | None:
    """Return the share of a matrix product's speed."""
    found = record.measured.get("gflops")
    return None if found is None else found / record.measured["matrix_product_gflops"]


def tables(records: Records) -> list[Table]:
    columns = [
        ("solver", show.param("solver")),
        ("problem", lambda group: f"planted {group[0].case['n']} x {group[0].case['d']}"),
        ("beta", show.first("beta", ".3g", "")),
        ("tolerance", show.first("tolerance", ".0e", "")),
        ("seconds", show.first("seconds", ".4g", "")),
        ("runs", lambda group: str(len(group[0].measured.get("runs", ())) or "")),
        ("gap", show.first("relative_gap", ".1e", "")),
        ("iterations", show.first("iterations", "", "")),
        ("in them, s", show.first("loop_seconds", ".4g", "")),
        ("GFlop/s", show.first("gflops", ".3g", "")),
        ("of a matrix product's", show.first(share, ".0%", "")),
        ("MiB", show.first("peak_mib", ".0f", "")),
        ("status", show.first("status")),
    ]
    return [show.table("Planted data against n and d", points_of(records), columns)]


def claims(records: Records) -> list[Claim]:
    return [intervals_claim(points_of(records), lambda r: f"{r.case['n']} x {r.case['d']}, {r.measured['beta']:.3g}")]


def plot(records: Records) -> Any:
    """Draw seconds, peak memory and the inner loop's share of a matrix product's speed, against n and against d."""
    from matplotlib.ticker import FuncFormatter

    figure, axes = draw.subplots(3, 3, figsize=(11, 8.6), sharex="col", sharey="row", dpi=110)
    for place, (series, (_, _, title)) in enumerate(SERIES.items()):
        axes[0, place].set(title=title)
        axes[2, place].set_xlabel(series[0])
        for solver, colour in COLOURS.items():
            own = [r for r in where(points_of(records), solver=solver, series=series) if r.measured.get("reached")]
            sizes, name = [r.case[series[0]] for r in own], "CVXPY + SCS" if solver == "scs" else solver
            style = {"marker": "o", "ms": 4, "color": colour, "label": name}
            shares = [np.nan if share(r) is None else share(r) for r in own]
            if own:
                axes[0, place].loglog(sizes, [r.measured["seconds"] for r in own], **style)
                axes[1, place].semilogx(sizes, [r.measured["peak_mib"] for r in own], **style)
            if not np.all(np.isnan(shares)):
                axes[2, place].semilogx(sizes, shares, **style)
        for axis in axes[:, place]:
            axis.grid(alpha=0.3, which="both")
    # Panels of a row share their scale: only now is it known.
    for axis in axes[1:, 0]:
        axis.set_ylim(bottom=0.0)
    for axis in axes[2, 1:]:
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.xaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else ""))
    axes[0, 0].set_ylabel("seconds to a gap of 1e-4")
    axes[1, 0].set_ylabel("peak memory, MiB")
    axes[2, 0].set_ylabel("inner loop: share of a\nmatrix product's speed")
    draw.legend(figure, axes[0])
    return figure


def quotes(records: Records) -> dict[str, str]:
    """Return seconds of the methods where sizes are largest."""
    found = unfolded(records, "points", "n", "d", "share")
    rows = []
    for series, (_, sizes, _) in SERIES.items():
        size = {"share": SERIES[series][0]["share"], "n": 2000, "d": 30, series[0]: sizes[-1]}
        own = [
            method_cell(r.measured for r in where(found, solver=solver, **size))
            for solver in ("interior", "splitting", "low-rank")
        ]
        strong = "" if size["share"] is None else f", beta {100 * size['share']:g} % of the largest"
        rows.append(show.row(f"planted {size['n']} x {size['d']}{strong}", *own))
    speeds = [
        point["gflops"] / record.measured["matrix_product_gflops"]
        for record in records
        for point in record.measured["points"]
        if "gflops" in point
    ]
    speed = f"Inner loops reach up to {100 * max(speeds):.0f} % of a matrix product's speed." if speeds else ""
    return {"methods": "\n".join(rows), "speed": speed}


EXPERIMENT = experiment_in(__name__, "Solvers against n and d", "Time and memory of the package")
