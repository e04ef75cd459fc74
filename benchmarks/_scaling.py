"""Times of the solvers against n and d, and the share of the machine's matrix-product peak of their inner loops."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from unittest import mock

import numpy as np
from _cases import label, problem_of
from _memory import peak_mib
from _peers import OWN, reach, solve
from threadpoolctl import threadpool_info

import qsdp
from qsdp.relaxation.products import Products
from qsdp.relaxation.solvers.splitting import data_step

#: Side of the product by which the peak is measured, and how often.
_SIDE, _PRODUCTS = 3000, 5

#: Series of planted problems in which one size grows: its values, the other one, and beta as a share of the least for
#: which zero is optimal; None is beta = 1, which nearly interpolates the data by solutions of full rank.
SERIES = {
    "n": {"sizes": (100, 400, 1600, 6400, 25_600), "d": 30, "share": None},
    "d": {"sizes": (10, 20, 30, 60, 100, 150, 300), "n": 2000, "share": None},
    "d, strong": {"sizes": (60, 150, 300, 784), "n": 2000, "share": 0.01},
}
#: CVXPY and SCS are run at few sizes, and so is the low-rank method, meant for many columns.
_SIZES = {
    "scs": {"n": (100, 400), "d": (10, 20)},
    "low-rank": {"d": (60, 150), "d, strong": (60, 150, 300, 784)},
}

#: How operator splitting solves with the data.
_STEPS = ("KernelStep", "GramStep", "IterativeStep")

#: Seconds that repetitions of one point may take, the first not counted.
_PATIENCE = 6.0


def matrix_product_peak():
    """Return the operations a second of the best of a few products, in 1e9, and the threads."""
    A = np.random.default_rng(0).standard_normal((_SIDE, _SIDE))
    A @ A
    seconds = []
    for _ in range(_PRODUCTS):
        start = time.perf_counter()
        A @ A
        seconds.append(time.perf_counter() - start)
    threads = max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=1)
    return 2.0 * _SIDE**3 / min(seconds) / 1e9, threads


def points(solver, series, quick):
    """Return cases of a series in growing size, those that a solver is asked."""
    own = SERIES[series]
    sizes = _SIZES[solver].get(series, ()) if solver in _SIZES else own["sizes"]
    if quick:
        return [{"n": 100, "d": 8, "share": own["share"]} for _ in sizes[:1]]
    return [{"n": own.get("n", size), "d": own.get("d", size), "share": own["share"]} for size in sizes]


def scaling(series, n, d, share, solver, level, limit, repeats, peak):
    """Return the row of one point; `peak` is what a matrix product reaches, in 1e9 operations a second."""
    solve(problem_of({"data": "planted", "n": 20, "d": 3, "beta": 1.0}), solver, level)
    case = {"data": "planted", "n": n, "d": d, "beta": 1.0}
    problem = problem_of(case)
    if share is not None:
        case["beta"] = share * qsdp.beta_max(problem)
        problem = problem.with_beta(case["beta"])
    with _Counted() as count:
        loop = _Loop(count) if solver in OWN else None
        start = time.perf_counter()
        tolerance, answer, reached = reach(problem, solver, level, limit, callback=loop)
        spent = time.perf_counter() - start
    row = {
        "problem": case, "case": label(case), "series": series, "n": n, "d": d, "beta": case["beta"],
        "share": share, "solver": solver, "level": level,
        "tolerance": tolerance, "reached": reached, "status": answer.status, "seconds": answer.seconds,
        "runs": [answer.seconds], "spent": spent, "peak_mib": peak_mib(),
    }  # fmt: skip
    found = answer.relaxation
    if found is not None:
        row |= {"objective": found.objective, "lower_bound": found.lower_bound}
        row |= {"relative_gap": found.relative_gap, "iterations": found.iterations}
    if loop is not None and loop.seconds > 0.0:
        row |= {"loop_seconds": loop.seconds, "loop_iterations": loop.iterations}
        way = next((name for name in _STEPS if count[name]), None)
        row["operations"] = operations(solver, n, d, loop.iterations, loop.counted, way)
        row["gflops"] = row["operations"] / loop.seconds / 1e9
        row["share_of_peak"] = None if peak is None else row["gflops"] / peak
    while solver in OWN and reached and len(row["runs"]) < repeats and sum(row["runs"]) < _PATIENCE:
        row["runs"].append(solve(problem, solver, tolerance, limit).seconds)
        row["seconds"] = statistics.median(row["runs"])
    return [row]


def operations(solver, n, N, iterations, count, way=None):
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
    once = {"KernelStep": n**3 / 3 + 2.0 * n * n * N, "GramStep": p**3 / 3, "IterativeStep": 25.0 * N**3}
    each = {"KernelStep": 2.0 * n * n + 4.0 * n * N * N, "GramStep": 2.0 * p * p, "IterativeStep": 0.0}
    passes = 4.0 * n * N * N * count["products"]
    return once[way] * count[way] + iterations * (each[way] + 20.0 * N**3) + passes


class _Loop:
    """A callback that takes the time between a solver's first report and its last, and what was counted in between.

    What comes before the first, data reductions and the first factorisation, and after the last is left out.
    """

    def __init__(self, count):
        self._count, self._last = count, None
        self.seconds, self.iterations, self.counted = 0.0, 0, Counter()

    def __call__(self, progress):
        now, counted = time.perf_counter(), Counter(self._count)
        if self._last is not None and progress.iteration > self._last[1]:
            before, iteration, known = self._last
            self.seconds += now - before
            self.iterations += progress.iteration - iteration
            self.counted += counted - known
        self._last = (now, progress.iteration, counted)


class _Counted:
    """Count factorisations of operator splitting, products of its conjugate gradients, operations of low-rank ones."""

    def __enter__(self):
        self.count = Counter()
        self._patches = [self._patch(getattr(data_step, way), "prepare", way) for way in _STEPS]
        self._patches.append(self._patch(data_step.IterativeStep, "_precondition", "products"))
        for method, cost in _PRODUCT_COSTS.items():
            self._patches.append(self._patch(Products, method, "flops", cost))
        for patch in self._patches:
            patch.start()
        return self.count

    def __exit__(self, *_):
        for patch in self._patches:
            patch.stop()

    def _patch(self, owner, method, key, cost=lambda *_: 1):
        original = getattr(owner, method)

        def counted(*arguments):
            self.count[key] += cost(*arguments)
            return original(*arguments)

        return mock.patch.object(owner, method, counted)


def _entries(products):
    return products._data.n_rows * products._data.size


_PRODUCT_COSTS = {
    "image": lambda own, E: 2 * _entries(own) * E.shape[1],
    "pull": lambda own, terms, mixing: 2 * _entries(own) * mixing.shape[0],
    "gram": lambda own, image, columns, weights: 2 * own._data.n_rows * (columns.stop - columns.start) ** 2,
    "forward": lambda own, T: 2 * _entries(own) * own._data.size,
    "_weighted": lambda own, *_: 2 * _entries(own) * own._data.size,
}
