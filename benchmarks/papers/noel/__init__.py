"""Networks of quadratic neurons, trained by vectorised back-propagation in NumPy.

Contents are quadratic logistic regression and the full (QNN) and reduced (RPQNN) quadratic layers of M. M. Noel,
V. Muthiah-Nakarajan and Y. D. Oswal, "Efficient vectorized backpropagation algorithms for training feedforward networks
composed of quadratic neurons"; and the forward pass, gradients and conversion to quadratic forms of all families of
F.-L. Fan, M. Li, F. Wang, R. Lai and G. Wang, "On Expressivity and Trainability of Quadratic Networks".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.papers.noel.descent import Descent
from benchmarks.papers.noel.families import FAMILIES, Family, get_family, starting_parameters
from benchmarks.papers.noel.maps import COUPLINGS
from benchmarks.papers.noel.network import LOSSES, Layer, QuadraticNetwork
from qsdp._utils.lazy import lazy_names

if TYPE_CHECKING:
    from benchmarks.papers.noel.estimators import QuadraticLogisticRegression, QuadraticNetworkClassifier
    from benchmarks.papers.noel.multistart import MultiStart, StartStatistics

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
