"""The convex problem of the second layer for fixed neurons, by a dense interior-point method."""

from qsdp.refinement.restricted._best import RestrictedSolution
from qsdp.refinement.restricted._growing import GrowingColumns
from qsdp.refinement.restricted._solve import solve_restricted
from qsdp.refinement.restricted._sparsify import sparsify

__all__ = ["GrowingColumns", "RestrictedSolution", "solve_restricted", "sparsify"]
