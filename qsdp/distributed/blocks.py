"""Dask arrays and data frames as blocks of rows, which are worked on where they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import _safe_indexing

from qsdp._utils.arrays import check_device
from qsdp._utils.validation import check_sample_weight
from qsdp.exceptions import InvalidInputError, InvalidTypeError, MissingPackageError, QSDPError, SolverError
from qsdp.statistics.batches import check_finite
from qsdp.statistics.sample import RowSample

__all__ = ["RowBlocks", "Rows", "is_collection", "map_rows"]

#: Results that one task merges: it holds two of them at a time, and waits for all.
_FAN = 8


def is_collection(value: Any) -> bool:
    """Return whether a value is an array, a data frame or a series of Dask, which need not be there."""
    return type(value).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(value, "to_delayed")


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of data and targets with their weights, None if each is one.

    Attributes
    ----------
    X : ndarray or data frame of shape (k, d)
    y : ndarray of shape (k,) or (k, C)
    weights : ndarray of shape (k,) or None
    """

    X: Any
    y: npt.NDArray[Any]
    weights: npt.NDArray[Any] | None

    @classmethod
    def of(cls, X: Any, y: Any, sample_weight: Any = None, *, missing: bool = True) -> Rows:
        """Return the rows of positive weight of a block, whose lengths and numbers are checked."""
        check_finite("X", X, missing=missing)
        check_finite("y", y)
        target, weights = np.asarray(y), check_sample_weight(sample_weight, len(X))
        if len(target) != len(X):
            raise InvalidInputError(f"y must have {len(X)} rows, as X has; got {len(target)}")
        return cls(X, target, weights).counting

    @property
    def counting(self) -> Rows:
        """Those of positive weight."""
        if self.weights is None or np.all(self.weights > 0.0):
            return self
        return self.take(np.flatnonzero(self.weights > 0.0))

    @property
    def repetitions(self) -> npt.NDArray[Any]:
        """The weights of those of positive weight, or ones."""
        return np.ones(len(self)) if self.weights is None else self.weights[self.weights > 0.0]

    def __len__(self) -> int:
        return len(self.y)

    def take(self, indices: Iterable[int]) -> Rows:
        """Return some of the rows."""
        chosen = np.asarray(indices if isinstance(indices, np.ndarray) else list(indices), dtype=np.intp)
        return Rows(
            _safe_indexing(self.X, chosen), self.y[chosen], None if self.weights is None else self.weights[chosen]
        )

    def stacked(self, other: Rows) -> Rows:
        """Return the rows with others below."""
        if hasattr(self.X, "iloc"):
            from dask.dataframe.dispatch import concat

            X = concat([self.X, other.X])
        else:
            X = np.concatenate([self.X, other.X])
        weights = None if self.weights is None or other.weights is None else np.append(self.weights, other.weights)
        return Rows(X, np.concatenate([self.y, other.y]), weights)


class RowBlocks:
    """Rows of Dask collections, by blocks.

    Parameters
    ----------
    X : dask array of shape (n, d), or dask data frame
        Lengths of chunks need not be known.
    y : dask array of shape (n,) or (n, C), or dask series or data frame
        Of as many blocks of rows as X, of the same lengths.
    sample_weight : dask array or series of shape (n,), optional

    Raises
    ------
    InvalidInputError, InvalidTypeError
        One is no such collection, or of another number of blocks.
    """

    def __init__(self, X: Any, y: Any, sample_weight: Any = None) -> None:
        parts = {"X": X, "y": y} | ({} if sample_weight is None else {"sample_weight": sample_weight})
        columns = {name: _row_blocks(name, part) for name, part in parts.items()}
        for name, blocks in columns.items():
            if len(blocks) != len(columns["X"]):
                raise InvalidInputError(
                    f"{name} must have as many blocks of rows as X, {len(columns['X'])}; got {len(blocks)} (arrays "
                    "made of columns of a file may have other blocks than its frame: give frames and series)"
                )
        self._blocks = list(zip(*columns.values(), strict=True))

    def __len__(self) -> int:
        return len(self._blocks)

    def check_device(self, device: object) -> None:
        """Check the argument `device` where a worker is, before any work.

        Raises
        ------
        InvalidTypeError, InvalidInputError, UnavailableSolverError
            As of `SufficientStatistics`.
        """
        if device is not None:
            _computed(_delayed()(check_device)(device), "")

    def lengths(self, kept: str = "") -> list[int]:
        """Return the numbers of rows of the blocks; `kept` is as of `reduced`."""
        delayed = _delayed()
        lengths: list[int] = _computed(delayed(list)([delayed(len)(block[0]) for block in self._blocks]), kept)
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
        """Return what `merge` makes of ``work(number, X, y[, sample_weight])`` of some blocks, in a tree of tasks.

        Parameters
        ----------
        work : callable
            Errors of this package that it raises are named by the number of the block.
        merge : callable
            Of a list of results, which stay as they are: tasks may be repeated.
        start, stop : int
            The first of the blocks, and the one after the last.
        kept : str
            What is said of earlier work where Dask stops.

        Raises
        ------
        SolverError
            The scheduler or all workers went away.
        """
        delayed = _delayed()
        some = enumerate(self._blocks[start:stop], start)
        layer = [delayed(_named)(work, number, *block) for number, block in some]
        while len(layer) > 1:
            layer = [delayed(merge)(layer[k : k + _FAN]) for k in range(0, len(layer), _FAN)]
        return _computed(layer[0], kept)

    def stream(self, work: Callable[..., tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Yield what `work` makes of a block after the other; one at a time comes here, empty ones do not."""
        for number, block in enumerate(self._blocks):
            parts = _computed(_delayed()(_named)(work, number, *block), "")
            if len(parts[0]):
                yield parts

    def sample(self, size: int, seed: int, *, missing: bool) -> tuple[Rows, int]:
        """Return a uniform sample of the rows of positive weight, in their order, and the number of all such rows.

        Parameters
        ----------
        size, seed : int
        missing : bool
            Whether entries of X may be missing (NaN).

        Raises
        ------
        InvalidInputError
            There is none; or a block holds other numbers that are not finite, which the message names by its rows.
        """
        found: RowSample[Rows] = self.reduced(partial(_sampled, size, seed, missing), _merged_samples)
        if found.rows is None or not found.seen:
            raise InvalidInputError("X must have a row of positive weight at least; got none")
        return found.rows, found.seen


def map_rows(
    function: Callable[[Any], npt.NDArray[Any]], X: Any, dtype: npt.DTypeLike, n_columns: int | None = None
) -> Any:
    """Return a function of the rows of a Dask collection as another one, of the same blocks.

    Parameters
    ----------
    function : callable
        Of a block of rows, at least one; returns as many values, or rows of so many columns.
    X : dask array of shape (n, d), or dask data frame
    dtype : dtype
        Of the values.
    n_columns : int, optional

    Returns
    -------
    dask array, or dask series or data frame with the index of X
    """
    shape = (0,) if n_columns is None else (0, n_columns)
    of_block = partial(_of_block, function, np.empty(shape, dtype))
    if hasattr(X, "numblocks"):
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        if n_columns is None:
            return X.map_blocks(of_block, dtype=dtype, drop_axis=1, meta=np.empty(shape, dtype))
        return X.map_blocks(of_block, dtype=dtype, chunks=(X.chunks[0], (n_columns,)), meta=np.empty(shape, dtype))
    return X.map_partitions(partial(_with_index, of_block), meta=_with_index(of_block, X._meta))


def _of_block(function: Callable[[Any], npt.NDArray[Any]], empty: npt.NDArray[Any], block: Any) -> npt.NDArray[Any]:
    return function(block) if len(block) else empty


def _with_index(function: Callable[[Any], npt.NDArray[Any]], part: Any) -> Any:
    import pandas as pd

    values = function(part)
    return (pd.Series if values.ndim == 1 else pd.DataFrame)(values, index=part.index)


def _delayed() -> Any:
    try:
        from dask import delayed
    except ImportError:
        raise MissingPackageError(
            'qsdp.distributed needs Dask: pip install "dask[array,dataframe]" distributed'
        ) from None
    return delayed


def _row_blocks(name: str, collection: Any) -> list[Any]:
    _delayed()
    if not hasattr(collection, "to_delayed"):
        raise InvalidTypeError(f"{name} must be a Dask array or data frame; got {type(collection).__name__}")
    numblocks = getattr(collection, "numblocks", None)
    if numblocks is None:
        # Whole optimisation would fuse blocks of files, more of them for a series than for a frame of many columns.
        simple = collection.simplify() if hasattr(collection, "simplify") else collection
        return list(simple.to_delayed(optimize_graph=False))
    if len(numblocks) == 2 and numblocks[1] > 1:
        collection = collection.rechunk({1: -1})
    return list(collection.to_delayed().ravel())


def _named(work: Callable[..., Any], number: int, *block: Any) -> Any:
    """Return what the work makes of a block, whose number errors name; a task on a worker."""
    try:
        return work(number, *block)
    except (InvalidInputError, InvalidTypeError) as error:
        raise type(error)(f"block {number} of rows: {error}") from None


def _computed(value: Any, kept: str) -> Any:
    try:
        return value.compute()
    except QSDPError:
        raise
    except Exception as error:  # whatever a cluster that went away makes Dask raise
        reason = str(error).split("\n", 1)[0] or "no reason given"
        raise SolverError(f"Dask stopped with {type(error).__name__}: {reason}{kept}") from error


def _sampled(
    size: int, seed: int, missing: bool, number: int, X: Any, y: Any, sample_weight: Any = None
) -> RowSample[Rows]:
    sample: RowSample[Rows] = RowSample(size, seed)
    if len(X):
        sample.add(Rows.of(X, y, sample_weight, missing=missing), [number])
    return sample


def _merged_samples(parts: Sequence[RowSample[Rows]]) -> RowSample[Rows]:
    total: RowSample[Rows] = RowSample(parts[0].size, parts[0].seed)
    for part in parts:
        total.merge(part)
    return total
