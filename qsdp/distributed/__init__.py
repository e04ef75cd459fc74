"""Data on a cluster: Dask arrays and data frames, whose rows are worked on where they lie."""

from qsdp.distributed.blocks import RowBlocks, Rows, is_collection, map_rows
from qsdp.distributed.dask_statistics import block_batches, statistics_of_blocks, statistics_of_dask

__all__ = [
    "RowBlocks",
    "Rows",
    "block_batches",
    "is_collection",
    "map_rows",
    "statistics_of_blocks",
    "statistics_of_dask",
]
