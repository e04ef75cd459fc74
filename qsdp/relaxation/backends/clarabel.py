"""Clarabel, an interior-point method: high accuracy on small problems, gigabytes from blocks of 100 on."""

from __future__ import annotations

from typing import Any

from qsdp.relaxation.backends._cvxpy import solve_with_cvxpy
from qsdp.relaxation.backends.base import Backend, Settings
from qsdp.relaxation.instance import LinearInstance
from qsdp.relaxation.scaled import RawSolution


def _solve(instance: LinearInstance, settings: Settings) -> RawSolution:
    return solve_with_cvxpy(instance, settings, solver="CLARABEL", options=_options)


def _options(settings: Settings) -> dict[str, Any]:
    options: dict[str, Any] = {
        "tol_gap_abs": settings.tol,
        "tol_gap_rel": settings.tol,
        "tol_feas": settings.tol,
    }
    if settings.max_iter is not None:
        options["max_iter"] = settings.max_iter
    if (seconds := settings.deadline.time_limit) is not None:
        options["time_limit"] = seconds
    return options


BACKEND = Backend(
    name="clarabel",
    package="clarabel",
    install="pip install 'qsdp[clarabel]'",
    cones=frozenset({"quadratic", "exponential"}),
    iteration_limit=True,
    time_limit=True,
    solve=_solve,
)
