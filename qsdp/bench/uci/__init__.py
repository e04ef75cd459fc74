"""The UCI suite: qsdp's networks, quantized baselines and float methods on classification sets."""

from __future__ import annotations

from qsdp.bench.uci.data import SETS
from qsdp.bench.uci.methods import METHODS
from qsdp.bench.uci.suite import EXPERIMENT, uci_experiment

__all__ = ["EXPERIMENT", "METHODS", "SETS", "uci_experiment"]
