"""A primal-dual interior-point method for the relaxation that exploits its structure."""

from qsdp.relaxation.solvers.interior.fits import unfit
from qsdp.relaxation.solvers.interior.interior_point import operations, solve_interior, unsuited

__all__ = ["operations", "solve_interior", "unfit", "unsuited"]
