"""Statistics of Dask collections: chunks are summed where they are stored; packed triangles are merged in a tree."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from qsdp._utils.progress import progress
from qsdp._utils.validation import check_integer, check_verbose
from qsdp.blocks import Blocks
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.statistics.collections import RowChunks
from qsdp.statistics.sufficient import SufficientStatistics, load_or_create

__all__ = ["dask_batches", "statistics_of_chunks", "statistics_of_dask"]


def statistics_of_dask(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    max_memory: int = 2**31,
    keep: int = 0,
    random_state: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int = 256,
    verbose: bool | int = False,
    device: str | None = None,
    blocks: Callable[[Any], Blocks] | None = None,
) -> SufficientStatistics:
    """Return the statistics of all rows of a Dask array or data frame.

    The work is done by Dask's current scheduler, a `distributed.Client` or threads, which repeats the tasks of a lost
    worker. One packed triangle per chunk is sent over the network, and the result is returned here. Rows are not moved.

    Parameters
    ----------
    X : dask array of shape (n, d), or dask data frame
        Data; chunk lengths need not be known.
    y : dask array of shape (n,) or (n, C), or dask series or data frame
        Targets, with the same number and lengths of chunks of rows as X.
    sample_weight : dask array or series of shape (n,), optional
    max_memory, keep, random_state : int
        As in `SufficientStatistics`.
    checkpoint : path, optional
        File to which the statistics are saved atomically, during the pass and at the end. A new pass continues from it.
    every : int, default=256
        Number of chunks summed between saves. With fewer chunks at a time, workers wait more often.
    verbose : bool or int, default=False
        Show how many chunks are done.
    device : str, optional
        As in `SufficientStatistics`, but on the workers. The products of a chunk run on the device; merging is on the
        CPU, as is the result.
    blocks : callable, optional
        Function that makes `Blocks` of a chunk of X, on the worker: ``functools.partial(qsdp.Blocks, sizes=[10, 10])``
        for packed entries, or one that computes them, from images of shape (n, height, width) for example.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        The collections do not fit together, a worker has no such device, or a chunk is refused. In the last case, the
        message gives the chunk number, and the file holds the statistics of the groups of chunks before that group.
    SolverError
        The scheduler or all workers were lost. The file is then as above.
    UnavailableSolverError
        A device is requested, but torch is not installed on the workers.

    Examples
    --------
    >>> import dask.array as da  # doctest: +SKIP
    >>> X = da.random.random((10**9, 20), chunks=(10**6, 20))  # doctest: +SKIP
    >>> statistics_of_dask(X, X[:, 0] * X[:, 1], verbose=True)  # doctest: +SKIP
    SufficientStatistics(1,000,000,000 rows, 20 columns)
    """
    every = check_integer("every", every, minimum=1)
    chunks = RowChunks(X, y, sample_weight)
    options: dict[str, Any] = {"max_memory": max_memory, "keep": keep, "random_state": random_state}
    statistics = load_or_create(SufficientStatistics, checkpoint, **options)
    chunks.check_device(device)
    work = partial(_summed, options, device, _encoder(blocks))
    path = None if checkpoint is None else os.fspath(checkpoint)
    kept = "" if path is None else f"; {path!r} holds what was summed before"
    done = 0
    with progress(check_verbose(verbose)) as stages, stages.stage("statistics") as bar:
        if path is not None and statistics.n_samples_seen_:
            done = _chunks_done(chunks.lengths(kept), statistics.n_samples_seen_, path)
        for start in range(done, len(chunks), every):
            stop = min(start + every, len(chunks))
            part = chunks.reduced(work, _merged, start=start, stop=stop, kept=kept)
            statistics.merge(part)
            if path is not None and statistics.total_weight_:
                statistics.save(path)
            bar.count(stop, len(chunks), f"{statistics.n_samples_seen_:,} rows")
    if not statistics.n_samples_seen_:
        raise InvalidInputError("X must have at least one row; got only empty chunks")
    return statistics


def statistics_of_chunks(
    chunks: RowChunks, encode: Callable[..., tuple[Any, ...]], device: str | None = None
) -> SufficientStatistics:
    """Return the statistics of all chunks of rows, encoded by ``encode(number, X, y[, sample_weight])``.

    If `device` is given, the products of a chunk run on that device of the worker.
    """
    chunks.check_device(device)
    statistics: SufficientStatistics = chunks.reduced(partial(_summed, {}, device, encode), _merged)
    return statistics


def dask_batches(
    X: Any, y: Any, sample_weight: Any = None, *, blocks: Callable[[Any], Blocks] | None = None
) -> Callable[[], Iterator[tuple[Any, ...]]]:
    """Return a function that yields the rows of Dask collections chunk by chunk, for `qsdp.certify`.

    Only one chunk at a time is transferred, and none is kept, so one machine can certify any number of rows.

    Parameters
    ----------
    X, y, sample_weight
        Dask collections, as in `statistics_of_dask`.
    blocks : callable, optional
        Function that makes `Blocks` of a chunk of X, as in `statistics_of_dask`.

    Returns
    -------
    callable
        Without arguments; every call starts a new pass over the rows.
    """
    return partial(RowChunks(X, y, sample_weight).stream, _encoder(blocks))


def _encoder(blocks: Callable[[Any], Blocks] | None) -> Callable[..., tuple[Any, ...]]:
    if blocks is not None and not callable(blocks):
        raise InvalidTypeError(f"blocks must be a function that makes Blocks of a chunk of X; got {blocks!r:.60}")
    return partial(_in_blocks, blocks)


def _in_blocks(blocks: Callable[[Any], Blocks] | None, number: int, X: Any, *others: Any) -> tuple[Any, ...]:
    del number
    # An empty chunk is skipped as it is.
    return (X if blocks is None or not len(X) else blocks(X), *others)


def _summed(
    options: dict[str, Any], device: str | None, encode: Callable[..., tuple[Any, ...]], number: int, *chunk: Any
) -> SufficientStatistics:
    """Compute the statistics of one chunk on a Dask worker, and return them in main memory."""
    statistics = SufficientStatistics(**options, device=device)
    if len(chunk[0]) and len((parts := encode(number, *chunk))[0]):
        statistics.partial_fit(*parts)
    # Statistics that wait to be merged must not occupy the device, and the merging worker may have none.
    return statistics if device is None else SufficientStatistics(**options).merge(statistics)


def _merged(parts: Sequence[SufficientStatistics]) -> SufficientStatistics:
    first = parts[0]
    total = SufficientStatistics(max_memory=first.max_memory, keep=first.keep, random_state=first.random_state)
    for part in parts:
        total.merge(part)
    return total


def _chunks_done(lengths: Sequence[int], n_samples: int, checkpoint: str) -> int:
    """Return the number of leading chunks that a checkpoint of `n_samples` rows covers."""
    total = 0
    for number, length in enumerate([*lengths, 0]):
        if total == n_samples:
            return number
        total += length
    raise InvalidInputError(f"{checkpoint!r} must hold the first chunks of X; no chunk ends after its {n_samples} rows")
