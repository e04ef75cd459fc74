"""Times of the solvers against n and d, and the share of the machine's matrix-product peak that they reach."""

from __future__ import annotations

import time
from collections import Counter
from unittest import mock

import numpy as np
from _cases import label, problem_of
from _peers import reach, solve
from threadpoolctl import threadpool_info

from qsdp.relaxation.splitting import data_step

#: Side of the product by which the peak is measured, and how often.
_SIDE, _PRODUCTS = 3000, 5

#: One size fixed, the other growing.
_SAMPLES = (50, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600)
_FEATURES = (10, 15, 20, 30, 45, 60, 80, 100)
_FIXED = {"n": 30, "d": 1000}
_SMALL = {"n": 800, "d": 30}


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


def scaling(solvers, quick, level, patience):
    """Return rows for growing n and for growing d, until one size takes longer than `patience` seconds."""
    peak, _ = matrix_product_peak()
    return [row for solver in solvers for row in _scaling(solver, quick, level, patience, peak)]


def _scaling(solver, quick, level, patience, peak):
    solve(problem_of({"data": "planted", "n": 20, "d": 3, "beta": 1.0}), solver, level)
    rows = []
    for axis, sizes in (("n", _SAMPLES), ("d", _FEATURES)):
        for size in sizes[:2] if quick else sizes:
            if solver == "scs" and size > _SMALL[axis]:
                break
            n, d = (size, _FIXED["n"]) if axis == "n" else (_FIXED["d"], size)
            if quick:
                n, d = (size, 5) if axis == "n" else (100, size)
            case = {"data": "planted", "n": n, "d": d, "beta": 1.0}
            problem = problem_of(case)
            with _Counted() as count:
                tolerance, answer, reached = reach(problem, solver, level, patience)
            row = {
                "problem": case, "case": label(case), "axis": axis, "n": n, "d": d, "solver": solver, "level": level,
                "tolerance": tolerance, "reached": reached, "status": answer.status, "seconds": answer.seconds,
                "peak_mib": None,
            }  # fmt: skip
            rows.append(row)
            found = answer.relaxation
            if found is not None:
                row |= {"objective": found.objective, "lower_bound": found.lower_bound}
                row |= {"relative_gap": found.relative_gap, "iterations": found.iterations}
            if found is not None and solver != "scs":
                row["operations"] = operations(solver, n, d, found.iterations, count)
                row["gflops"] = row["operations"] / answer.seconds / 1e9
                row["share_of_peak"] = row["gflops"] / peak
            if answer.seconds > patience or not reached:
                break
    return rows


def operations(solver, n, N, iterations, count):
    """Return the multiplications and additions of a squared loss that grow with a third power, or n N^4 once.

    Interior point, an iteration: a Cholesky factorisation of side min(n, p), p = N(N + 1)/2, two kernels of rank N, and
    about 60 N^3 for scalings and steps. Splitting: a factorisation of the same side whenever the metric changes, which
    is counted, two triangular solves, and two eigendecompositions with a product each. Where p < n the Gram matrix
    is formed once.
    """
    p = N * (N + 1) // 2
    side = min(n, p)
    gram = 0.0 if n <= p else float(n) * p * p
    if solver == "interior":
        kernels = 2.0 * n * n * N if n <= p else 8.0 * p * p
        return gram + (iterations + 1) * (side**3 / 3 + kernels + 60.0 * N**3)
    once = {"KernelStep": n**3 / 3 + 2.0 * n * n * N, "GramStep": p**3 / 3, "IterativeStep": 25.0 * N**3}
    each = {"KernelStep": 2.0 * n * n + 4.0 * n * N * N, "GramStep": 2.0 * p * p, "IterativeStep": 0.0}
    way = next((name for name in each if count[name]), "KernelStep")
    passes = 4.0 * n * N * N * count["products"] if way == "IterativeStep" else 0.0
    gram = gram if way == "GramStep" else 0.0
    return gram + count[way] * once[way] + iterations * (each[way] + 20.0 * N**3) + passes


class _Counted:
    """Count the factorisations of operator splitting, and the products of its conjugate gradients."""

    def __enter__(self):
        self.count = Counter()
        self._patches = [self._patch(getattr(data_step, name)) for name in ("KernelStep", "GramStep", "IterativeStep")]
        self._patches.append(self._patch(data_step.IterativeStep, "_precondition", "products"))
        for patch in self._patches:
            patch.start()
        return self.count

    def __exit__(self, *_):
        for patch in self._patches:
            patch.stop()

    def _patch(self, step, method="prepare", key=None):
        original, key = getattr(step, method), key or step.__name__

        def counted(*arguments):
            self.count[key] += 1
            return original(*arguments)

        return mock.patch.object(step, method, counted)
