"""The UCI suite: qsdp's networks, quantized baselines and float methods on classification sets."""

from __future__ import annotations

from benchmarks.uci.data import SETS
from benchmarks.uci.methods import METHODS
from benchmarks.uci.suite import EXPERIMENT, uci_experiment

__all__ = ["EXPERIMENT", "METHODS", "SETS", "uci_experiment"]
