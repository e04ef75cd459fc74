"""Column generation: networks that are proven to be globally optimal."""

from qsdp.refinement.column_generation._result import ColumnGenerationResult
from qsdp.refinement.column_generation._solve import column_generation

__all__ = ["ColumnGenerationResult", "column_generation"]
