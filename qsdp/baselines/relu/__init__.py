"""Two-layer ReLU networks trained by backpropagation, and the quantization of their first layer."""

from __future__ import annotations

from qsdp.baselines.relu.estimators import ReLUNetworkClassifier, ReLUNetworkRegressor
from qsdp.baselines.relu.networks import QuantizedReLUNetwork, ReLUNetwork

__all__ = ["QuantizedReLUNetwork", "ReLUNetwork", "ReLUNetworkClassifier", "ReLUNetworkRegressor"]
