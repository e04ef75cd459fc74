"""scikit-learn estimators of quantized networks."""

from typing import TYPE_CHECKING

from qsdp._utils.lazy import lazy_names
from qsdp.estimators.fit_warnings import warn_of_gap, warn_of_scales

if TYPE_CHECKING:
    from qsdp.estimators.classifier import QuantizedNetworkClassifier
    from qsdp.estimators.effects import Effects
    from qsdp.estimators.regressor import QuantizedNetworkRegressor
    from qsdp.estimators.saving import load

#: Modules of names that are imported when they are used: scikit-learn takes longer to import than all of this package.
_LATER = {
    "Effects": "effects",
    "Explanation": "explanation",
    "QuantizedNetworkClassifier": "classifier",
    "QuantizedNetworkRegressor": "regressor",
    "load": "saving",
}

__all__ = [
    "Effects",
    "Explanation",
    "QuantizedNetworkClassifier",
    "QuantizedNetworkRegressor",
    "load",
    "warn_of_gap",
    "warn_of_scales",
]

__getattr__, __dir__ = lazy_names(globals(), _LATER)
