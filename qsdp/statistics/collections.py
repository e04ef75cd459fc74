"""Data that do not fit into memory: batches, and chunks of Dask collections, processed where they are stored."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.arrays import check_device
from qsdp.exceptions import InvalidInputError, InvalidTypeError, MissingPackageError, QSDPError, SolverError
from qsdp.statistics.batches import naming, numbered
from qsdp.statistics.sample import Rows, RowSample

__all__ = ["RowBatches", "RowChunks", "Rows", "is_collection", "map_rows"]

#: Number of results that one task merges. It waits for all of them and holds two at a time.
_FAN = 8


def is_collection(value: Any) -> bool:
    """Return whether a value is a Dask array, data frame or series; Dask need not be installed."""
    return type(value).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(value, "to_delayed")


class RowBatches:
    """Rows that arrive in batches and may exceed memory, as the data of an estimator's `fit`.

    Encoding, beta and what else needs rows are learned from a uniform sample. With a squared loss, the network is
    trained on statistics of all rows; with other losses, on the sample, and certified by passes over all rows.

    Parameters
    ----------
    batches : callable
        Returns an iterator over batches ``(X, y)`` or ``(X, y, sample_weight)``, arrays or data frames. It is called
        once for every pass, and must give the same rows every time.
    checkpoint : path-like, optional
        File to which statistics are saved during their pass, with a digest of the encoding in its name; a repeated fit
        continues from it, with the same rows in the same order. It is not deleted.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> rng = np.random.default_rng(0)
    >>> parts = [rng.standard_normal((500, 3)) for _ in range(4)]
    >>> rows = qsdp.RowBatches(lambda: ((X, X[:, 0] * X[:, 1]) for X in parts))
    >>> model = qsdp.QuantizedNetworkRegressor(random_state=0).fit(rows)
    >>> round(model.score(parts[0], parts[0][:, 0] * parts[0][:, 1]), 1)
    1.0
    """

    def __init__(
        self,
        batches: Callable[[], Iterable[tuple[Any, ...]]],
        *,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        if not callable(batches):
            raise InvalidTypeError(
                "batches must be a function that returns an iterator over (X, y) or (X, y, sample_weight), called once "
                f"for every pass; got {type(batches).__name__}"
            )
        self._batches, self.checkpoint = batches, checkpoint
        self._has_passed = False

    def stream(self, work: Callable[..., tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Yield ``work(number, X, y[, sample_weight])`` of batch after batch; empty results are skipped."""
        empty = True
        for number, batch in numbered(self._batches()):
            empty = False
            parts = _named(work, number, *batch, what="batch")
            if len(parts[0]):
                yield parts
        if empty and self._has_passed:
            raise InvalidInputError(
                "batches must return a new iterator whenever it is called, once for every pass; got no batch after the "
                "first pass, so its iterator was used up"
            )
        self._has_passed = self._has_passed or not empty

    def sample(self, size: int, seed: int, *, missing: bool) -> tuple[Rows, int]:
        """Return a uniform sample of the rows of positive weight, and the number of all such rows, in one pass."""
        found = RowSample(size, seed)

        def checked(number: int, *batch: Any) -> tuple[Any, ...]:
            rows = Rows.of(*batch, missing=missing)
            if len(rows) and found.rows is not None:
                rows.check_alike(found.rows)
            found.add(rows, [number])
            return (rows,)

        for _ in self.stream(checked):
            pass
        return _checked_sample(found)


class RowChunks:
    """Chunks of rows of Dask collections.

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

    def __len__(self) -> int:
        return len(self._chunks)

    def check_device(self, device: object) -> None:
        """Check the argument `device` on a worker, before any work.

        Raises
        ------
        InvalidTypeError, InvalidInputError, UnavailableSolverError
            As in `SufficientStatistics`.
        """
        if device is not None:
            _computed(_delayed()(check_device)(device), "")

    def lengths(self, kept: str = "") -> list[int]:
        """Return the number of rows of each chunk; `kept` is as in `reduced`."""
        delayed = _delayed()
        lengths: list[int] = _computed(delayed(list)([delayed(len)(chunk[0]) for chunk in self._chunks]), kept)
        return lengths

    def reduced(
        self,
        work: Callable[..., Any],
        merge: Callable[[Sequence[Any]], Any],
        *,
        start: int = 0,
        stop: int | None = None,
        kept: str = "",
    ) -> Any:
        """Merge the results of ``work(number, X, y[, sample_weight])`` on some chunks in a tree of tasks.

        Parameters
        ----------
        work : callable
            Function of a chunk. If it raises an invalid-input error of this package, the message gets the chunk number.
        merge : callable
            Function of a list of results, which it must not modify, as tasks may be repeated.
        start, stop : int
            First chunk, and the chunk after the last one.
        kept : str
            Text about earlier work, appended to the error message if Dask stops.

        Raises
        ------
        SolverError
            The scheduler or all workers were lost.
        """
        delayed = _delayed()
        some = enumerate(self._chunks[start:stop], start)
        layer = [delayed(_named)(work, number, *chunk) for number, chunk in some]
        while len(layer) > 1:
            layer = [delayed(merge)(layer[k : k + _FAN]) for k in range(0, len(layer), _FAN)]
        return _computed(layer[0], kept)

    def stream(self, work: Callable[..., tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Yield the result of `work` chunk by chunk; only one is transferred at a time, and empty ones are skipped."""
        for number, chunk in enumerate(self._chunks):
            parts = _computed(_delayed()(_named)(work, number, *chunk), "")
            if len(parts[0]):
                yield parts

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
        return _checked_sample(self.reduced(partial(_sampled, size, seed, missing), _merged_samples))


def _checked_sample(found: RowSample) -> tuple[Rows, int]:
    if found.rows is None or not found.seen:
        raise InvalidInputError("X must have at least one row of positive weight; got none")
    return found.rows, found.seen


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


def _named(work: Callable[..., Any], number: int, *chunk: Any, what: str = "chunk") -> Any:
    """Apply `work` to a chunk, adding the chunk number to the messages of errors; it may run on a Dask worker."""
    with naming(f"{what} {number} of rows"):
        return work(number, *chunk)


def _computed(value: Any, kept: str) -> Any:
    try:
        return value.compute()
    except QSDPError:
        raise
    except Exception as error:  # Dask raises many kinds of errors if the cluster is lost
        reason = str(error).split("\n", 1)[0] or "no reason given"
        raise SolverError(f"Dask stopped with {type(error).__name__}: {reason}{kept}") from error


def _sampled(size: int, seed: int, missing: bool, number: int, X: Any, y: Any, sample_weight: Any = None) -> RowSample:
    sample = RowSample(size, seed)
    if len(X):
        sample.add(Rows.of(X, y, sample_weight, missing=missing), [number])
    return sample


def _merged_samples(parts: Sequence[RowSample]) -> RowSample:
    total = RowSample(parts[0].size, parts[0].seed)
    for part in parts:
        total.merge(part)
    return total
