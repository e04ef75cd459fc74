"""The paper's networks trained by backpropagation, and their quantization after training."""

from __future__ import annotations

from qsdp.baselines.backprop.estimators import BackpropClassifier, BackpropRegressor
from qsdp.baselines.backprop.networks import FloatNetwork
from qsdp.baselines.backprop.rounding import Rounding, round_to_levels

__all__ = ["BackpropClassifier", "BackpropRegressor", "FloatNetwork", "Rounding", "round_to_levels"]
