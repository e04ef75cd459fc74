"""Column generation: networks that are proven to be globally optimal."""

from qsdp.column_generation.train import ColumnGenerationResult, column_generation

__all__ = ["ColumnGenerationResult", "column_generation"]
