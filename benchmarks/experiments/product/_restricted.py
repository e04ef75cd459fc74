"""The restricted convex problem of column generation's last round, by the library and by CVXPY with Clarabel."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np

import qsdp
from qsdp.column_generation import ColumnGenerationResult, column_generation, master
from qsdp.column_generation.restricted import solve_restricted
from qsdp.losses import DataFit

#: Relative, of both solvers.
TOLERANCE = 1e-8

#: Columns, data fit and penalties.
Restricted = tuple[np.ndarray, DataFit, np.ndarray]


def solved(problem: qsdp.TrainingProblem, time_limit: float) -> tuple[ColumnGenerationResult, Restricted]:
    """Return the result of column generation, and the restricted problem of its last round."""
    calls: list[Restricted] = []
    rounds: list[Restricted] = []
    with recorded(calls):
        result = column_generation(
            problem, time_limit=time_limit, callback=lambda _: rounds.__setitem__(slice(None), calls)
        )
    return result, rounds[0]


@contextlib.contextmanager
def recorded(calls: list[Restricted]) -> Iterator[None]:
    """Keep the arguments of the restricted problem that was solved last."""

    def solve(columns: np.ndarray, fit: DataFit, penalties: np.ndarray, **options: Any) -> Any:
        assert options["outputs"] is None
        calls[:] = [(columns, fit, penalties)]
        return solve_restricted(columns, fit, penalties, **options)

    with mock.patch.object(master, "solve_restricted", solve):
        yield


def compared(columns: np.ndarray, fit: DataFit, penalties: np.ndarray, repeats: int) -> dict[str, Any]:
    """Solve a restricted problem both ways, alternately."""
    import cvxpy as cp

    weights = cp.Variable(columns.shape[1], nonneg=True)
    # Predictions as variables of their own: a third faster for Clarabel than an expression in the weights.
    prediction = cp.Variable(len(fit.target))
    value = fit.expression(prediction) + penalties @ weights
    ours, theirs, alone = [], [], []
    for _ in range(repeats):
        clock = [time.process_time()]
        solution = solve_restricted(columns, fit, penalties, tol=TOLERANCE)
        clock.append(time.process_time())
        # A new problem each time: CVXPY keeps what it compiled.
        program = cp.Problem(cp.Minimize(value), [prediction == columns @ weights])
        program.get_problem_data(cp.CLARABEL)
        clock.append(time.process_time())
        program.solve(solver=cp.CLARABEL, tol_gap_rel=TOLERANCE, tol_gap_abs=TOLERANCE, tol_feas=TOLERANCE)
        clock.append(time.process_time())
        ours.append(clock[1] - clock[0])
        theirs.append(clock[3] - clock[1])
        alone.append(clock[3] - clock[2])
    found = np.maximum(weights.value, 0.0)
    objective = fit.value(columns @ found) + float(penalties @ found)
    return {
        "rows": columns.shape[0],
        "columns": columns.shape[1],
        "seconds": statistics.median(ours),
        "cvxpy_seconds": statistics.median(theirs),
        "clarabel_seconds": statistics.median(alone),
        "ratio": statistics.median(np.divide(theirs, ours)),
        "clarabel_ratio": statistics.median(np.divide(alone, ours)),
        # Both against the same bound, which is proven.
        "gap": (solution.objective - solution.lower_bound) / solution.objective,
        "clarabel_gap": (objective - solution.lower_bound) / objective,
        "repeats": repeats,
    }
