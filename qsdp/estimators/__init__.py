"""scikit-learn estimators of quantized networks."""

from typing import TYPE_CHECKING

from qsdp._utils.lazy import lazy_names
from qsdp.estimators.options import (
    ClassifierCrossValidationOptions,
    ClassifierOptions,
    CrossValidationOptions,
    EstimatorOptions,
)
from qsdp.estimators.warnings import warn_of_gap, warn_of_scales

if TYPE_CHECKING:
    from qsdp.estimators.classifier import QuantizedNetworkClassifier
    from qsdp.estimators.cross_validated import QuantizedNetworkClassifierCV, QuantizedNetworkRegressorCV
    from qsdp.estimators.loading import load
    from qsdp.estimators.regressor import QuantizedNetworkRegressor

#: Modules of the names that need scikit-learn, whose import takes longer than all of this package; options do not.
_LATER = {
    "QuantizedNetworkClassifier": "classifier",
    "QuantizedNetworkClassifierCV": "cross_validated",
    "QuantizedNetworkRegressor": "regressor",
    "QuantizedNetworkRegressorCV": "cross_validated",
    "load": "loading",
}

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

__getattr__, __dir__ = lazy_names(globals(), _LATER)
