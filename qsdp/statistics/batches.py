"""Sources of rows in batches, which may exceed memory, and errors that name the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from qsdp._utils.progress import NO_BAR, ProgressBar
from qsdp._utils.validation import check_integer
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.statistics.dask_rows import dask_rows
from qsdp.statistics.sample import naming

__all__ = ["add_batches", "has_weight", "is_empty", "row_batches", "streams"]


def streams(batches: Any, passes: int = 1) -> Iterator[Iterable[Any]]:
    """Yield an iterable of batches for each pass over a source.

    The source is an iterable, a function that returns one, or a tuple (X, y[, sample_weight]) of Dask collections.

    Raises
    ------
    InvalidTypeError
        The source is none of these.
    InvalidInputError
        It can be read only once, and several passes are requested.
    """
    source = dask_rows(batches) or batches
    previous = None
    for _ in range(passes):
        stream = source() if callable(source) else source
        if isinstance(stream, str) or hasattr(stream, "__array__") or not isinstance(stream, Iterable):
            raise InvalidTypeError(
                "batches must be an iterable of (X, y) or (X, y, sample_weight), a function that returns one, or a "
                f"tuple of Dask collections; got {type(stream).__name__}"
            )
        used_up = stream is previous or not callable(source)
        if passes > 1 and used_up and isinstance(stream, Iterator):
            raise InvalidInputError(
                f"batches must be readable more than once for passes={passes}: give a list, or a function that returns "
                f"a new stream for each pass; got {type(stream).__name__}"
            )
        yield stream
        previous = stream


def add_batches(stream: Iterable[Any], add: Callable[..., object], bar: ProgressBar = NO_BAR, name: str = "") -> None:
    """Call ``add(X, y[, sample_weight])`` for each batch of a stream; its errors name the batch and its first row.

    The bar shows the number of rows, after `name`.

    Raises
    ------
    InvalidTypeError
        A batch is not a tuple of two or three.
    InvalidInputError
        There is no row.
    """
    row = 0
    for number, batch in enumerate(stream):
        parts = batch if isinstance(batch, tuple) else (batch,)
        if len(parts) not in (2, 3):
            raise InvalidTypeError(
                f"batch {number} must be a tuple (X, y) or (X, y, sample_weight); got {type(batch).__name__}"
            )
        with naming(f"batch {number}, which begins at row {row}"):
            add(*parts)
        row += len(parts[0])
        bar.count(row, None, ", ".join(part for part in (name, f"{row:,} rows") if part))
    if not row:
        raise InvalidInputError("batches must have at least one row; got an empty stream")


def is_empty(X: Any, y: Any) -> bool:
    """Whether a batch has no rows, as after a filter of the rows of a chunk; raise if it has targets nevertheless."""
    if not hasattr(X, "__len__") or len(X):
        return False
    if len(y):
        raise InvalidInputError(f"y must have no rows, as X has none; got {len(y)}")
    return True


def has_weight(X: Any, y: Any, sample_weight: Any = None) -> bool:
    """Whether a batch has rows whose weight is not zero."""
    return not is_empty(X, y) and (sample_weight is None or bool(np.any(np.asarray(sample_weight) != 0)))


def row_batches(X: Any, y: Any, sample_weight: Any = None, *, rows: int = 2**16) -> Iterator[tuple[Any, ...]]:
    """Yield arrays, for example memory-mapped ones, in batches of rows for `SufficientStatistics.from_batches`.

    Parameters
    ----------
    X : array of shape (n, d)
        Data, of any type that slices by rows.
    y : array of shape (n,) or (n, C)
        Targets.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    rows : int, default=65536
        Number of rows in a batch.

    Yields
    ------
    tuple
        ``(X, y)`` or ``(X, y, sample_weight)`` of consecutive rows.
    """
    rows = check_integer("rows", rows, minimum=1)
    for start in range(0, len(X), rows):
        yield tuple(part[start : start + rows] for part in (X, y, sample_weight) if part is not None)
