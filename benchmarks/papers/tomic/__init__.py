"""Back-propagating least squares (BPLS): a network trained without gradients, layer by layer, from the outputs down.

Tomic, Matos-Carvalho, Beko, "A Closed-form Solution for Weight Optimization in Fully-connected Feed-forward Neural
Networks", arXiv:2401.06699, 2024; with repairs where the printed algorithms are ambiguous or numerically unsafe;
``literal=True`` follows the print. NumPy and LAPACK suffice, as closed forms need no gradients from PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.methods.activations import (
    ELU,
    INVERTIBLE,
    Identity,
    InvertibleActivation,
    LeakyReLU,
    Sigmoid,
    Softmax,
    Softplus,
    Tanh,
    get_invertible,
)
from benchmarks.papers.tomic.network import Network
from benchmarks.papers.tomic.passes import HIDDEN_TARGETS, Design, LayerReport, hidden_target
from benchmarks.papers.tomic.training import BPLSReport, PassReport, Reference
from qsdp._utils.lazy import lazy_names

if TYPE_CHECKING:
    from benchmarks.papers.tomic.estimators import BPLSClassifier, BPLSRegressor

#: Modules of the estimators, which need scikit-learn; training does not.
_LATER = {"BPLSClassifier": "estimators", "BPLSRegressor": "estimators"}

__all__ = [
    "ELU",
    "HIDDEN_TARGETS",
    "INVERTIBLE",
    "BPLSClassifier",
    "BPLSRegressor",
    "BPLSReport",
    "Design",
    "Identity",
    "InvertibleActivation",
    "LayerReport",
    "LeakyReLU",
    "Network",
    "PassReport",
    "Reference",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
    "get_invertible",
    "hidden_target",
]

__getattr__, __dir__ = lazy_names(globals(), _LATER)
