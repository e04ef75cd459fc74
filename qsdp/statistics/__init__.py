"""Second-order statistics of data of any number of rows: all that a squared loss depends on."""

from qsdp.statistics.batches import row_batches
from qsdp.statistics.sufficient import SufficientStatistics

__all__ = ["SufficientStatistics", "row_batches"]
