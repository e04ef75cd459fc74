"""SCS, the splitting conic solver: a first-order method for moderate accuracy."""

from __future__ import annotations

from typing import Any

from qsdp.relaxation.backends._cvxpy import solve_with_cvxpy
from qsdp.relaxation.backends.base import Backend, Settings
from qsdp.relaxation.instance import LinearInstance
from qsdp.relaxation.scaled import RawSolution

_MAX_ITER = 20_000


def _solve(instance: LinearInstance, settings: Settings) -> RawSolution:
    return solve_with_cvxpy(instance, settings, solver="SCS", options=_options)


def _options(settings: Settings) -> dict[str, Any]:
    options: dict[str, Any] = {
        "eps_abs": settings.tol,
        "eps_rel": settings.tol,
        "max_iters": settings.max_iter or _MAX_ITER,
    }
    if (seconds := settings.deadline.time_limit) is not None:
        options["time_limit_secs"] = seconds
    return options


BACKEND = Backend(
    name="scs",
    package="scs",
    install="pip install scs",
    cones=frozenset({"quadratic", "exponential"}),
    iteration_limit=True,
    time_limit=True,
    solve=_solve,
)
