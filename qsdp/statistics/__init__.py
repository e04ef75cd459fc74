"""Second-order statistics of data with any number of rows, which are all that a squared loss needs.

The rows may be in memory, in batches, or in Dask collections, which are processed where they are stored.
"""

from qsdp.statistics.batches import row_batches
from qsdp.statistics.sufficient import SufficientStatistics

__all__ = ["SufficientStatistics", "row_batches"]
