"""The semidefinite relaxation: formulations, back ends, repair of solver output, and verified lower bounds."""

from qsdp.relaxation.backends import available_solvers
from qsdp.relaxation.bounds import DualBound, best_dual_bound
from qsdp.relaxation.duals import build_dual, build_dual_polynomial
from qsdp.relaxation.formulations import (
    Formulation,
    build_full,
    build_relaxation,
    build_two_block,
)
from qsdp.relaxation.largest_beta import beta_max
from qsdp.relaxation.path import RelaxationPath, relaxation_path
from qsdp.relaxation.polynomial import PolynomialRelaxation, build_polynomial, solve_polynomial_relaxation
from qsdp.relaxation.scaled import RawSolution
from qsdp.relaxation.solution import Relaxation
from qsdp.relaxation.solve import solve_relaxation
from qsdp.relaxation.spectra import spectral_bound

__all__ = [
    "DualBound",
    "Formulation",
    "PolynomialRelaxation",
    "RawSolution",
    "Relaxation",
    "RelaxationPath",
    "available_solvers",
    "best_dual_bound",
    "beta_max",
    "build_dual",
    "build_dual_polynomial",
    "build_full",
    "build_polynomial",
    "build_relaxation",
    "build_two_block",
    "relaxation_path",
    "solve_polynomial_relaxation",
    "solve_relaxation",
    "spectral_bound",
]
