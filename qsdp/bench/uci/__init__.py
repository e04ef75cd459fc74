"""The UCI suite: qsdp's networks, quantized baselines and float methods on classification sets."""

from __future__ import annotations

from qsdp.bench.uci.critical_difference import RankComparison, compare
from qsdp.bench.uci.data import SETS
from qsdp.bench.uci.methods import METHODS
from qsdp.bench.uci.picture import draw_comparison
from qsdp.bench.uci.report import comparison_of
from qsdp.bench.uci.suite import EXPERIMENT, uci_experiment

__all__ = [
    "EXPERIMENT",
    "METHODS",
    "SETS",
    "RankComparison",
    "compare",
    "comparison_of",
    "draw_comparison",
    "uci_experiment",
]
