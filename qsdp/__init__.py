"""Provably near-optimal quantized neural networks by semidefinite programming."""

from qsdp import datasets
from qsdp.activations import PolynomialActivation
from qsdp.certificates import Certificate, certify, load_certificate
from qsdp.column_generation import ColumnGenerationResult, column_generation
from qsdp.distillation import DenseLayer, QuantizedMatch, quantize
from qsdp.estimators import (
    QuantizedNetworkClassifier,
    QuantizedNetworkClassifierCV,
    QuantizedNetworkRegressor,
    QuantizedNetworkRegressorCV,
)
from qsdp.exceptions import QSDPError, QSDPWarning
from qsdp.inner_problem import grothendieck_bound, maxcut_bound
from qsdp.networks import (
    BilinearNetwork,
    PolynomialNetwork,
    QuadraticForm,
    from_polynomial,
    load_network,
    to_polynomial,
)
from qsdp.pipeline import QSDPResult, solve_and_sample
from qsdp.problem import TrainingProblem
from qsdp.refinement import (
    FixedSizeResult,
    best_of_size,
    polish,
    refit,
)
from qsdp.relaxation import (
    PolynomialRelaxation,
    Relaxation,
    RelaxationPath,
    available_solvers,
    build_literal,
    build_polynomial,
    build_relaxation,
    build_two_block,
    largest_beta,
    relaxation_path,
    solve_polynomial_relaxation,
    solve_relaxation,
)
from qsdp.sampling import sample_network
from qsdp.shaping import SignCovariance, shape_covariance

__version__ = "0.1.0"

__all__ = [
    "BilinearNetwork",
    "Certificate",
    "ColumnGenerationResult",
    "DenseLayer",
    "FixedSizeResult",
    "PolynomialActivation",
    "PolynomialNetwork",
    "PolynomialRelaxation",
    "QSDPError",
    "QSDPResult",
    "QSDPWarning",
    "QuadraticForm",
    "QuantizedMatch",
    "QuantizedNetworkClassifier",
    "QuantizedNetworkClassifierCV",
    "QuantizedNetworkRegressor",
    "QuantizedNetworkRegressorCV",
    "Relaxation",
    "RelaxationPath",
    "SignCovariance",
    "TrainingProblem",
    "available_solvers",
    "best_of_size",
    "build_literal",
    "build_polynomial",
    "build_relaxation",
    "build_two_block",
    "certify",
    "column_generation",
    "datasets",
    "from_polynomial",
    "grothendieck_bound",
    "largest_beta",
    "load_certificate",
    "load_network",
    "maxcut_bound",
    "polish",
    "quantize",
    "refit",
    "relaxation_path",
    "sample_network",
    "shape_covariance",
    "solve_and_sample",
    "solve_polynomial_relaxation",
    "solve_relaxation",
    "to_polynomial",
]
