"""Data on a cluster: statistics of Dask arrays and data frames, which never come to one place."""

from qsdp.distributed.dask_statistics import block_batches, statistics_of_dask

__all__ = ["block_batches", "statistics_of_dask"]
