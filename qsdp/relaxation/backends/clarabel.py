"""Clarabel, an interior-point method: high accuracy on small problems, gigabytes from blocks of 100 on."""

from __future__ import annotations

from typing import Any

from qsdp.relaxation.backends._cvxpy import solve_with_cvxpy
from qsdp.relaxation.backends.base import Backend, Settings
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.solution import RawSolution


def _solve(instance: Instance, settings: Settings) -> RawSolution:
    options: dict[str, Any] = {
        "tol_gap_abs": settings.tol,
        "tol_gap_rel": settings.tol,
        "tol_feas": settings.tol,
    }
    if settings.max_iter is not None:
        options["max_iter"] = settings.max_iter
    if settings.time_limit is not None:
        options["time_limit"] = settings.time_limit
    return solve_with_cvxpy(instance, settings, solver="CLARABEL", options=options)


BACKEND = Backend(
    name="clarabel",
    package="clarabel",
    install="pip install 'qsdp[clarabel]'",
    cones=frozenset({"quadratic", "exponential"}),
    iteration_limit=True,
    time_limit=True,
    solve=_solve,
)
