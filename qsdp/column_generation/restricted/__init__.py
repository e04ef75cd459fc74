"""Convex problem of the second layer for fixed neurons, by dense interior-point and Newton methods."""

from qsdp.column_generation.restricted._nonnegative import nonnegative_minimum
from qsdp.column_generation.restricted._quadratic import RestrictedSolution
from qsdp.column_generation.restricted._restricted_solution import check_solvable, is_solvable, solve_restricted
from qsdp.column_generation.restricted._smooth import (
    Columns,
    Evaluated,
    SmoothProblem,
    ValueLoss,
    curvature_matrix,
    sampling_chances,
)
from qsdp.column_generation.restricted._sparsify import sparsify

__all__ = [
    "Columns",
    "Evaluated",
    "RestrictedSolution",
    "SmoothProblem",
    "ValueLoss",
    "check_solvable",
    "curvature_matrix",
    "is_solvable",
    "nonnegative_minimum",
    "sampling_chances",
    "solve_restricted",
    "sparsify",
]
