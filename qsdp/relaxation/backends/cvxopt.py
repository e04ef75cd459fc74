"""CVXOPT, an interior-point method in plain Python and LAPACK; it has no exponential cone."""

from __future__ import annotations

from typing import Any

from qsdp.relaxation.backends._cvxpy import solve_with_cvxpy
from qsdp.relaxation.backends.base import Backend, Settings
from qsdp.relaxation.instance import LinearInstance
from qsdp.relaxation.scaled import RawSolution


def _solve(instance: LinearInstance, settings: Settings) -> RawSolution:
    return solve_with_cvxpy(instance, settings, solver="CVXOPT", options=_options)


def _options(settings: Settings) -> dict[str, Any]:
    options: dict[str, Any] = {
        "abstol": settings.tol,
        "reltol": settings.tol,
        "feastol": settings.tol,
        # Its default factorisation fails on the many equations that share a variable here.
        "kktsolver": "robust",
    }
    if settings.max_iter is not None:
        options["max_iters"] = settings.max_iter
    return options


BACKEND = Backend(
    name="cvxopt",
    package="cvxopt",
    install="pip install 'qsdp[cvxopt]'",
    cones=frozenset({"quadratic"}),
    iteration_limit=True,
    time_limit=False,
    solve=_solve,
)
