"""Operator splitting for the relaxation: a first-order method for many samples and columns."""

from qsdp.relaxation.solvers.splitting.data_step import operations
from qsdp.relaxation.solvers.splitting.solve import solve_splitting

__all__ = ["operations", "solve_splitting"]
