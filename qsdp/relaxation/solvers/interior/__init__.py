"""A primal-dual interior-point method for the relaxation that exploits its structure."""

from qsdp.relaxation.solvers.interior.fits import unfit
from qsdp.relaxation.solvers.interior.setup import operations
from qsdp.relaxation.solvers.interior.solve import solve_interior

__all__ = ["operations", "solve_interior", "unfit"]
