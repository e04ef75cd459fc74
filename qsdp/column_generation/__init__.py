"""Column generation: networks that are proven to be globally optimal."""

from qsdp.column_generation.result import ColumnGenerationResult
from qsdp.column_generation.train import column_generation

__all__ = ["ColumnGenerationResult", "column_generation"]
