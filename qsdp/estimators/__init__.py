"""scikit-learn estimators over the pipeline."""

from qsdp.estimators.cross_validated import QuantizedNetworkClassifierCV, QuantizedNetworkRegressorCV
from qsdp.estimators.network import QuantizedNetworkClassifier, QuantizedNetworkRegressor, warn_of_gap, warn_of_scales
from qsdp.estimators.options import (
    ClassifierCrossValidationOptions,
    ClassifierOptions,
    CrossValidationOptions,
    EstimatorOptions,
)

__all__ = [
    "ClassifierCrossValidationOptions",
    "ClassifierOptions",
    "CrossValidationOptions",
    "EstimatorOptions",
    "QuantizedNetworkClassifier",
    "QuantizedNetworkClassifierCV",
    "QuantizedNetworkRegressor",
    "QuantizedNetworkRegressorCV",
    "warn_of_gap",
    "warn_of_scales",
]
