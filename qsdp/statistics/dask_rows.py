"""Rows of Dask collections: chunks are read, encoded, sampled and summed where they are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.arrays import check_device
from qsdp.exceptions import InvalidInputError, InvalidTypeError, MissingPackageError, QSDPError, SolverError
from qsdp.statistics.sample import Rows, RowSample, naming

__all__ = ["DaskRows", "dask_rows", "is_collection", "map_rows"]

#: Number of results that one task merges. It waits for all of them and holds two at a time.
_FAN = 8


def is_collection(value: Any) -> bool:
    """Return whether a value is a Dask array, data frame or series; Dask need not be installed."""
    return type(value).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(value, "to_delayed")


def dask_rows(source: Any) -> DaskRows | None:
    """Return the rows of a tuple (X, y) or (X, y, sample_weight) of Dask collections; None for other sources."""
    if isinstance(source, DaskRows):
        return source
    if not (isinstance(source, tuple) and source and is_collection(source[0])):
        return None
    if len(source) not in (2, 3):
        raise InvalidTypeError(
            f"batches must be (X, y) or (X, y, sample_weight) for Dask collections; got a tuple of {len(source)}"
        )
    return DaskRows(*source)


class DaskRows:
    """Rows of Dask collections; as an iterable, the batches of their chunks, of which one at a time is transferred.

    Parameters
    ----------
    X : dask array of shape (n, d), or dask data frame
        Data; chunk lengths need not be known.
    y : dask array of shape (n,) or (n, C), or dask series or data frame
        Targets, with the same number and lengths of chunks of rows as X.
    sample_weight : dask array or series of shape (n,), optional

    Raises
    ------
    InvalidInputError, InvalidTypeError
        An argument is not such a collection, or has another number of chunks.
    """

    def __init__(self, X: Any, y: Any, sample_weight: Any = None) -> None:
        parts = {"X": X, "y": y} | ({} if sample_weight is None else {"sample_weight": sample_weight})
        columns = {name: _row_chunks(name, part) for name, part in parts.items()}
        for name, chunks in columns.items():
            if len(chunks) != len(columns["X"]):
                raise InvalidInputError(
                    f"{name} must have as many chunks of rows as X, {len(columns['X'])}; got {len(chunks)} (arrays "
                    "made from columns of a data frame may have other chunks: pass data frames and series)"
                )
        self._chunks = list(zip(*columns.values(), strict=True))
        self._function: Callable[..., tuple[Any, ...]] | None = None

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for task in self._tasks(_parts):
            parts = _computed(task)
            if len(parts[0]):
                yield parts

    def map(self, function: Callable[..., tuple[Any, ...]]) -> DaskRows:
        """Return the rows that a function of a chunk's (X, y[, sample_weight]) returns; it runs on the workers."""
        mapped = copy(self)
        mapped._function = function
        return mapped

    def check_device(self, device: object) -> None:
        """Check the argument `device` on a worker, before any work.

        Raises
        ------
        InvalidTypeError, InvalidInputError, UnavailableSolverError
            As in `SufficientStatistics`.
        """
        if device is not None:
            _computed(_delayed()(check_device)(device))

    def reduced(self, work: Callable[..., Any], merge: Callable[[Sequence[Any]], Any]) -> Any:
        """Merge the results of ``work(number, X, y[, sample_weight])`` on all chunks in a tree of tasks.

        Parameters
        ----------
        work : callable
            Function of a chunk. If it raises an invalid-input error of this package, the message gets the chunk number.
        merge : callable
            Function of a list of results, which it must not modify, as tasks may be repeated.

        Raises
        ------
        SolverError
            The scheduler or all workers were lost.
        """
        layer = self._tasks(work)
        while len(layer) > 1:
            layer = [_delayed()(merge)(layer[k : k + _FAN]) for k in range(0, len(layer), _FAN)]
        return _computed(layer[0])

    def sample(self, size: int, seed: int, *, missing: bool) -> tuple[Rows, int]:
        """Return a uniform sample of the rows of positive weight, in order, and the number of all such rows.

        Parameters
        ----------
        size, seed : int
        missing : bool
            Whether entries of X may be missing (NaN).

        Raises
        ------
        InvalidInputError
            There is no such row, or a chunk has other numbers that are not finite. The message then names the chunk.
        """
        sample = self.reduced(partial(_sampled, size, seed, missing), _merged_samples)
        if sample.rows is None or not sample.seen:
            raise InvalidInputError("X must have at least one row of positive weight; got none")
        return sample.rows, sample.seen

    def _tasks(self, work: Callable[..., Any]) -> list[Any]:
        applied = _delayed()(_applied)
        return [applied(number, self._function, work, *chunk) for number, chunk in enumerate(self._chunks)]


def map_rows(function: Callable[[Any], npt.NDArray[Any]], X: Any, dtype: npt.DTypeLike, *row_shape: int) -> Any:
    """Apply a function to the rows of a Dask collection, and return a collection with the same chunks.

    Parameters
    ----------
    function : callable
        Function of a chunk of at least one row. It returns a value of shape `row_shape` for each row.
    X : dask array of shape (n, d), or dask data frame
    dtype : dtype
        Data type of the values.
    *row_shape : int
        Nothing for one number for each row, or the number of values for each row.

    Returns
    -------
    dask array, or dask series or data frame with the index of X
    """
    empty = np.empty((0, *row_shape), dtype)
    of_chunk = partial(_of_chunk, function, empty)
    if hasattr(X, "numblocks"):
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        columns = {"chunks": (X.chunks[0], row_shape)} if row_shape else {"drop_axis": 1}
        return X.map_blocks(of_chunk, dtype=dtype, meta=empty, **columns)
    frame = partial(_with_index, of_chunk, bool(row_shape))
    return X.map_partitions(frame, meta=frame(X._meta))


def _of_chunk(function: Callable[[Any], npt.NDArray[Any]], empty: npt.NDArray[Any], chunk: Any) -> npt.NDArray[Any]:
    return function(chunk) if len(chunk) else empty


def _with_index(function: Callable[[Any], npt.NDArray[Any]], frame: bool, part: Any) -> Any:
    import pandas as pd

    return (pd.DataFrame if frame else pd.Series)(function(part), index=part.index)


def _delayed() -> Any:
    try:
        from dask import delayed
    except ImportError:
        raise MissingPackageError(
            'Dask collections need Dask: pip install "dask[array,dataframe]" distributed'
        ) from None
    return delayed


def _row_chunks(name: str, collection: Any) -> list[Any]:
    _delayed()
    if not hasattr(collection, "to_delayed"):
        raise InvalidTypeError(f"{name} must be a Dask array or data frame; got {type(collection).__name__}")
    numblocks = getattr(collection, "numblocks", None)
    if numblocks is None:
        # Full optimisation would fuse chunks of files, and more of them for a series than for a frame of many columns.
        simple = collection.simplify() if hasattr(collection, "simplify") else collection
        return list(simple.to_delayed(optimize_graph=False))
    if len(numblocks) == 2 and numblocks[1] > 1:
        collection = collection.rechunk({1: -1})
    return list(collection.to_delayed().ravel())


def _applied(
    number: int, function: Callable[..., tuple[Any, ...]] | None, work: Callable[..., Any], *chunk: Any
) -> Any:
    """Apply functions to a chunk on a Dask worker, adding the chunk number to the messages of errors."""
    with naming(f"chunk {number} of rows"):
        return work(number, *(chunk if function is None or not len(chunk[0]) else function(*chunk)))


def _parts(number: int, *chunk: Any) -> tuple[Any, ...]:
    del number
    return chunk


def _computed(value: Any) -> Any:
    try:
        return value.compute()
    except QSDPError:
        raise
    except Exception as error:  # Dask raises many kinds of errors if the cluster is lost
        reason = str(error).split("\n", 1)[0] or "no reason given"
        raise SolverError(f"Dask stopped with {type(error).__name__}: {reason}") from error


def _sampled(size: int, seed: int, missing: bool, number: int, X: Any, y: Any, sample_weight: Any = None) -> RowSample:
    sample = RowSample(size, seed)
    if len(X):
        sample.add(Rows.from_chunk(X, y, sample_weight, missing=missing), [number])
    return sample


def _merged_samples(parts: Sequence[RowSample]) -> RowSample:
    total = RowSample(parts[0].size, parts[0].seed)
    for part in parts:
        total.merge(part)
    return total
