"""Second-order statistics of data of any number of rows: all that a squared loss depends on."""

from qsdp.statistics.sufficient import SufficientStatistics, row_batches

__all__ = ["SufficientStatistics", "row_batches"]
