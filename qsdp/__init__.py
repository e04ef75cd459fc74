"""Provably near-optimal quantized neural networks by semidefinite programming."""

from typing import TYPE_CHECKING, Any

from qsdp import datasets
from qsdp.activations import PolynomialActivation
from qsdp.blocks import Blocks
from qsdp.certificates import Certificate, certify, certify_stream, load_certificate
from qsdp.column_generation import ColumnGenerationResult, column_generation
from qsdp.distillation import distill
from qsdp.exceptions import QSDPError, QSDPWarning
from qsdp.inner_problem import grothendieck_bound, maxcut_bound
from qsdp.networks import (
    BilinearNetwork,
    IntegerForm,
    PolynomialNetwork,
    QuadraticForm,
    from_polynomial,
    load_network,
)
from qsdp.pipeline import QSDPResult, solve_and_sample
from qsdp.problem import TrainingProblem
from qsdp.refinement import (
    polish,
    refit,
)
from qsdp.relaxation import (
    Relaxation,
    available_solvers,
    beta_max,
    solve_relaxation,
)
from qsdp.sampling import sample_network
from qsdp.shaping import SignCovariance, shape_covariance
from qsdp.statistics import SufficientStatistics

if TYPE_CHECKING:
    from qsdp.estimators import (
        Effects,
        QuantizedNetworkClassifier,
        QuantizedNetworkRegressor,
        load,
    )

__version__ = "0.1.0"

__all__ = [
    "BilinearNetwork",
    "Blocks",
    "Certificate",
    "ColumnGenerationResult",
    "Effects",
    "IntegerForm",
    "PolynomialActivation",
    "PolynomialNetwork",
    "QSDPError",
    "QSDPResult",
    "QSDPWarning",
    "QuadraticForm",
    "QuantizedNetworkClassifier",
    "QuantizedNetworkRegressor",
    "Relaxation",
    "SignCovariance",
    "SufficientStatistics",
    "TrainingProblem",
    "available_solvers",
    "beta_max",
    "certify",
    "certify_stream",
    "column_generation",
    "datasets",
    "distill",
    "from_polynomial",
    "grothendieck_bound",
    "load",
    "load_certificate",
    "load_network",
    "maxcut_bound",
    "polish",
    "refit",
    "sample_network",
    "shape_covariance",
    "solve_and_sample",
    "solve_relaxation",
]


#: Packages that are imported when they are first used, since they need others.
_LATER = ("baselines", "cli", "estimators", "export", "paper", "plotting", "report", "tables")


def __getattr__(name: str) -> Any:
    # Estimators need scikit-learn, which takes longer to import than everything else together.
    if name in __all__:
        from qsdp import estimators

        return getattr(estimators, name)
    if name in _LATER:
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_LATER})
