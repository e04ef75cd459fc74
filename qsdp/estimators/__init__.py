"""scikit-learn estimators of quantized networks."""

from qsdp.estimators.classifier import QuantizedNetworkClassifier
from qsdp.estimators.cross_validated import QuantizedNetworkClassifierCV, QuantizedNetworkRegressorCV
from qsdp.estimators.loading import load
from qsdp.estimators.network import QuantizedNetworkRegressor
from qsdp.estimators.options import (
    ClassifierCrossValidationOptions,
    ClassifierOptions,
    CrossValidationOptions,
    EstimatorOptions,
)
from qsdp.estimators.warnings import warn_of_gap, warn_of_scales

__all__ = [
    "ClassifierCrossValidationOptions",
    "ClassifierOptions",
    "CrossValidationOptions",
    "EstimatorOptions",
    "QuantizedNetworkClassifier",
    "QuantizedNetworkClassifierCV",
    "QuantizedNetworkRegressor",
    "QuantizedNetworkRegressorCV",
    "load",
    "warn_of_gap",
    "warn_of_scales",
]
