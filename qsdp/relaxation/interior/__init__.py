"""A primal-dual interior-point method for the relaxation that exploits its structure."""

from qsdp.relaxation.interior.solve import solve_interior

__all__ = ["solve_interior"]
