"""The package's own methods: they take every limit, need no other package and certify what they return."""

from __future__ import annotations

from qsdp.relaxation.backends.base import Backend, Settings
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.scaled import RawSolution
from qsdp.relaxation.solvers import interior, lowrank, splitting

__all__ = ["INTERIOR", "LOW_RANK", "SPLITTING"]


def _interior(instance: Instance, settings: Settings) -> RawSolution:
    return interior.solve_interior(instance, settings.limits(100), settings.start, settings.gram)


def _splitting(instance: Instance, settings: Settings) -> RawSolution:
    return splitting.solve_splitting(instance, settings.limits(20_000), settings.start, settings.gram, settings.device)


def _low_rank(instance: Instance, settings: Settings) -> RawSolution:
    return lowrank.solve_low_rank(instance, settings.limits(500), settings.start, settings.device, settings.effort)


#: A method with few iterations, for moderate sizes.
INTERIOR = Backend("interior", _interior, operations=interior.operations, unfit=interior.unfit)

#: A first-order method for many samples and columns.
SPLITTING = Backend("splitting", _splitting, devices=True, operations=splitting.operations)

#: A second-order method in factors, for hundreds of columns.
LOW_RANK = Backend("low-rank", _low_rank, devices=True, rows=True, operations=lowrank.operations, unfit=lowrank.unfit)
