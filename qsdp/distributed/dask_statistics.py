"""Statistics of Dask collections: each block is summed where it lies, and packed triangles are merged in a tree."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from qsdp._utils.progress import progress
from qsdp._utils.validation import check_flag, check_integer
from qsdp.exceptions import InvalidInputError, InvalidTypeError, MissingPackageError, QSDPError, SolverError
from qsdp.statistics import SufficientStatistics
from qsdp.statistics.sufficient import begun

__all__ = ["block_batches", "statistics_of_dask"]

#: Triangles that one task merges: it holds two of them at a time, and waits for all.
_FAN = 8


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
    verbose: bool = False,
) -> SufficientStatistics:
    """Return the statistics of all rows of a Dask array or data frame.

    The engine is Dask: the scheduler in use, a `distributed.Client` or threads, repeats what a lost worker had. One
    packed triangle for each block goes over the network, and the result comes here; rows stay where they are.

    Parameters
    ----------
    X : dask array of shape (n, d), or dask data frame
        Lengths of chunks need not be known.
    y : dask array of shape (n,) or (n, C), or dask series or data frame
        Of as many blocks of rows as X, of the same lengths.
    sample_weight : dask array or series of shape (n,), optional
    max_memory, keep, random_state : int
        As of `SufficientStatistics`.
    checkpoint : path, optional
        File to which the statistics are saved, whole or not at all, in between and at the end; a pass goes on from it.
    every : int, default=256
        Blocks that are summed from one save to the next; with fewer blocks at a time workers wait more often.
    verbose : bool, default=False
        Show how many blocks are done.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        The collections do not fit together, or a block is refused, which the message numbers; the file holds what came
        before its group of blocks.
    SolverError
        The scheduler or all workers went away; the same.

    Examples
    --------
    >>> import dask.array as da  # doctest: +SKIP
    >>> X = da.random.random((10**9, 20), chunks=(10**6, 20))  # doctest: +SKIP
    >>> statistics_of_dask(X, X[:, 0] * X[:, 1], verbose=True)  # doctest: +SKIP
    SufficientStatistics(1,000,000,000 rows, 20 columns)
    """
    every = check_integer("every", every, minimum=1)
    blocks = _blocks(X, y, sample_weight)
    options = {"max_memory": max_memory, "keep": keep, "random_state": random_state}
    statistics = begun(SufficientStatistics, checkpoint, **options)
    done = 0
    with progress(check_flag("verbose", verbose)) as stages, stages.stage("statistics") as bar:
        if checkpoint is not None and statistics.n_samples_seen_:
            done = _blocks_done(blocks, statistics.n_samples_seen_, checkpoint)
        for start in range(done, len(blocks), every):
            group = blocks[start : start + every]
            statistics.merge(_computed(_tree(group, start, options), checkpoint))
            if checkpoint is not None and statistics.n_samples_seen_:
                statistics.save(checkpoint)
            bar.count(start + len(group), len(blocks), f"{statistics.n_samples_seen_:,} rows")
    if not statistics.n_samples_seen_:
        raise InvalidInputError("X must have a row at least; got only empty blocks")
    return statistics


def block_batches(X: Any, y: Any, sample_weight: Any = None) -> Callable[[], Iterator[tuple[Any, ...]]]:
    """Return a function that yields the rows of Dask collections, a block after the other, for `qsdp.certify`.

    One block at a time comes here, and is forgotten: any number of rows is certified on one machine.
    """
    blocks = _blocks(X, y, sample_weight)

    def stream() -> Iterator[tuple[Any, ...]]:
        for block in blocks:
            parts = _computed(_delayed()(tuple)(block), None)
            if len(parts[0]):
                yield parts

    return stream


def _delayed() -> Any:
    try:
        from dask import delayed
    except ImportError:
        raise MissingPackageError(
            'qsdp.distributed needs Dask: pip install "dask[array,dataframe]" distributed'
        ) from None
    return delayed


def _blocks(X: Any, y: Any, sample_weight: Any) -> list[tuple[Any, ...]]:
    """Return the rows of collections by blocks, as delayed values."""
    _delayed()
    parts = {"X": X, "y": y} | ({} if sample_weight is None else {"sample_weight": sample_weight})
    columns = {name: _row_blocks(name, part) for name, part in parts.items()}
    for name, blocks in columns.items():
        if len(blocks) != len(columns["X"]):
            raise InvalidInputError(
                f"{name} must have as many blocks of rows as X, {len(columns['X'])}; got {len(blocks)}"
            )
    return list(zip(*columns.values(), strict=True))


def _row_blocks(name: str, collection: Any) -> list[Any]:
    if not hasattr(collection, "to_delayed"):
        raise InvalidTypeError(f"{name} must be a Dask array or data frame; got {type(collection).__name__}")
    numblocks = getattr(collection, "numblocks", None)
    if numblocks is None:
        return list(collection.to_delayed())
    if len(numblocks) == 2 and numblocks[1] > 1:
        collection = collection.rechunk({1: -1})
    return list(collection.to_delayed().ravel())


def _tree(group: Sequence[tuple[Any, ...]], first: int, options: dict[str, int]) -> Any:
    """Return the statistics of some blocks as a delayed value."""
    delayed = _delayed()
    layer = [delayed(_summed)(first + k, options, *block) for k, block in enumerate(group)]
    while len(layer) > 1:
        layer = [delayed(_merged)(layer[k : k + _FAN]) for k in range(0, len(layer), _FAN)]
    return layer[0]


def _summed(number: int, options: dict[str, int], X: Any, y: Any, sample_weight: Any = None) -> SufficientStatistics:
    """Return the statistics of one block; a task on a worker."""
    statistics = SufficientStatistics(**options)
    if not len(X):
        return statistics
    try:
        return statistics.partial_fit(X, y, sample_weight)
    except (InvalidInputError, InvalidTypeError) as error:
        raise type(error)(f"block {number} of rows: {error}") from None


def _merged(parts: Sequence[SufficientStatistics]) -> SufficientStatistics:
    """Return the statistics of all parts, which stay as they are: tasks may be repeated."""
    first = parts[0]
    total = SufficientStatistics(max_memory=first.max_memory, keep=first.keep, random_state=first.random_state)
    for part in parts:
        total.merge(part)
    return total


def _computed(value: Any, checkpoint: str | os.PathLike[str] | None) -> Any:
    try:
        return value.compute()
    except QSDPError:
        raise
    except Exception as error:  # whatever a cluster that went away makes Dask raise
        kept = "" if checkpoint is None else f"; {os.fspath(checkpoint)!r} holds what was summed before"
        reason = str(error).split("\n", 1)[0] or "no reason given"
        raise SolverError(f"Dask stopped with {type(error).__name__}: {reason}{kept}") from error


def _blocks_done(blocks: Sequence[tuple[Any, ...]], n_samples: int, checkpoint: str | os.PathLike[str]) -> int:
    """Return how many of the first blocks have so many rows."""
    lengths = _computed(_delayed()(list)([_delayed()(len)(block[0]) for block in blocks]), checkpoint)
    total = 0
    for number, length in enumerate(lengths):
        if total == n_samples:
            return number
        total += length
    if total == n_samples:
        return len(blocks)
    raise InvalidInputError(
        f"{os.fspath(checkpoint)!r} must be of the first blocks of X; it has {n_samples} rows, where no block ends"
    )
