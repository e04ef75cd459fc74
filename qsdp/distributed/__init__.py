"""Data on a cluster: Dask arrays and data frames, whose rows are processed where they are stored."""

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
