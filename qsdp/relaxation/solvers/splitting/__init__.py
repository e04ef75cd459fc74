"""Operator splitting for the relaxation: a first-order method for many samples and columns."""

from qsdp.relaxation.solvers.splitting.admm import solve_splitting
from qsdp.relaxation.solvers.splitting.data_step import operations

__all__ = ["operations", "solve_splitting"]
