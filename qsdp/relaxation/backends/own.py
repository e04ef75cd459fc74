"""Built-in methods: they support every limit, need no other package and certify their results."""

from __future__ import annotations

from qsdp.data_map import SAMPLES
from qsdp.relaxation.backends.backend import Backend
from qsdp.relaxation.solvers import interior, lowrank, splitting

__all__ = ["INTERIOR", "LOW_RANK", "SPLITTING"]

#: A method with few iterations, for moderate sizes.
INTERIOR = Backend(
    "interior",
    interior.solve_interior,
    operations=interior.operations,
    unsuited=interior.unsuited,
    unfit=interior.unfit,
)

#: A first-order method for many samples and columns.
SPLITTING = Backend("splitting", splitting.solve_splitting, operations=splitting.operations)

#: A second-order method in factors, for hundreds of columns.
LOW_RANK = Backend(
    "low-rank",
    lowrank.solve_low_rank,
    needs=frozenset({SAMPLES}),
    operations=lowrank.operations,
    unsuited=lowrank.unsuited,
    unfit=lowrank.unfit,
)
