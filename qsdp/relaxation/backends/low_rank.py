"""Factors of low rank, a second-order method of this package for hundreds of columns."""

from __future__ import annotations

from qsdp.relaxation.backends.base import Settings, own_backend
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.scaled import RawSolution
from qsdp.relaxation.solvers.lowrank import operations, solve_low_rank, unfit

_MAX_ITER = 500


def _solve(instance: Instance, settings: Settings) -> RawSolution:
    return solve_low_rank(instance, settings.limits(_MAX_ITER), settings.start, settings.device)


BACKEND = own_backend("low-rank", _solve, operations, unfit=unfit, devices=True)
