"""The interior-point method of this package: few iterations, for moderate sizes."""

from __future__ import annotations

from qsdp.relaxation.backends.base import Settings, own_backend
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.scaled import RawSolution
from qsdp.relaxation.solvers.interior import operations, solve_interior, unfit

_MAX_ITER = 100


def _solve(instance: Instance, settings: Settings) -> RawSolution:
    return solve_interior(instance, settings.limits(_MAX_ITER), settings.start, settings.reductions)


BACKEND = own_backend("interior", _solve, operations, unfit=unfit)
