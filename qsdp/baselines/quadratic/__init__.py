"""Networks of quadratic neurons, trained by vectorised back-propagation in NumPy.

Contents are quadratic logistic regression and the full (QNN) and reduced (RPQNN) quadratic layers of M. M. Noel,
V. Muthiah-Nakarajan and Y. D. Oswal, "Efficient vectorized backpropagation algorithms for training feedforward networks
composed of quadratic neurons"; and the forward pass, gradients and conversion to quadratic forms of all families of
F.-L. Fan, M. Li, F. Wang, R. Lai and G. Wang, "On Expressivity and Trainability of Quadratic Networks".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsdp._utils.lazy import lazy_names
from qsdp.baselines.quadratic.descent import Descent
from qsdp.baselines.quadratic.families import FAMILIES, Family, get_family, starting_parameters
from qsdp.baselines.quadratic.maps import COUPLINGS
from qsdp.baselines.quadratic.network import LOSSES, Layer, QuadraticNetwork

if TYPE_CHECKING:
    from qsdp.baselines.quadratic.estimators import QuadraticLogisticRegression, QuadraticNetworkClassifier
    from qsdp.baselines.quadratic.multistart import MultiStart, StartStatistics

#: Modules of the names that need scikit-learn; networks and their descent do not.
_LATER = {
    "MultiStart": "multistart",
    "QuadraticLogisticRegression": "estimators",
    "QuadraticNetworkClassifier": "estimators",
    "StartStatistics": "multistart",
}

__all__ = [
    "COUPLINGS",
    "FAMILIES",
    "LOSSES",
    "Descent",
    "Family",
    "Layer",
    "MultiStart",
    "QuadraticLogisticRegression",
    "QuadraticNetwork",
    "QuadraticNetworkClassifier",
    "StartStatistics",
    "get_family",
    "starting_parameters",
]

__getattr__, __dir__ = lazy_names(globals(), _LATER)
