"""Refinement of networks: better second layers, better bits, and proven global optima."""

from qsdp.refinement.column_generation import ColumnGenerationResult, column_generation
from qsdp.refinement.fixed_size import FixedSizeResult, best_of_size
from qsdp.refinement.polish import polish
from qsdp.refinement.refit import refit

__all__ = [
    "ColumnGenerationResult",
    "FixedSizeResult",
    "best_of_size",
    "column_generation",
    "polish",
    "refit",
]
