"""Operator splitting, a first-order method of this package for many samples and columns."""

from __future__ import annotations

from qsdp.relaxation.backends.base import Settings, own_backend
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.scaled import RawSolution
from qsdp.relaxation.solvers.splitting import operations, solve_splitting

_MAX_ITER = 20_000


def _solve(instance: Instance, settings: Settings) -> RawSolution:
    return solve_splitting(instance, settings.limits(_MAX_ITER), settings.start, settings.reductions)


BACKEND = own_backend("splitting", _solve, operations)
