"""The semidefinite relaxation: back ends, repair of solver output, and verified lower bounds."""

from qsdp.relaxation.backends import available_solvers
from qsdp.relaxation.bounds import DualBound, best_dual_bound
from qsdp.relaxation.largest_beta import beta_max
from qsdp.relaxation.scaled import RawSolution
from qsdp.relaxation.solution import Relaxation
from qsdp.relaxation.solve import solve_relaxation
from qsdp.relaxation.spectra import spectral_bound

__all__ = [
    "DualBound",
    "RawSolution",
    "Relaxation",
    "available_solvers",
    "best_dual_bound",
    "beta_max",
    "solve_relaxation",
    "spectral_bound",
]
