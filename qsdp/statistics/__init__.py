"""Second-order statistics of data with any number of rows, on which alone a squared loss depends."""

from qsdp.statistics.batches import row_batches
from qsdp.statistics.sufficient import SufficientStatistics

__all__ = ["SufficientStatistics", "row_batches"]
