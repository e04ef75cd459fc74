"""The paper's networks, and networks of ReLUs, trained by backpropagation; their quantization after training."""

from __future__ import annotations

from qsdp.baselines.backprop.backprop_estimators import BackpropClassifier, BackpropRegressor
from qsdp.baselines.backprop.float_networks import FloatNetwork
from qsdp.baselines.backprop.relu import QuantizedReLUNetwork, ReLUNetwork, ReLUNetworkClassifier, ReLUNetworkRegressor
from qsdp.baselines.backprop.rounding import Rounding, round_to_levels

__all__ = [
    "BackpropClassifier",
    "BackpropRegressor",
    "FloatNetwork",
    "QuantizedReLUNetwork",
    "ReLUNetwork",
    "ReLUNetworkClassifier",
    "ReLUNetworkRegressor",
    "Rounding",
    "round_to_levels",
]
