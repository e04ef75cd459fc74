"""Streams of batches: accumulation with checkpoints, and errors that name the batch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from qsdp._utils.progress import NO_BAR, ProgressBar
from qsdp._utils.summary import first_few
from qsdp._utils.validation import check_integer
from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = [
    "accumulate",
    "check_finite",
    "has_weight",
    "is_empty",
    "naming",
    "numbered",
    "require_rows",
    "row_batches",
    "streams",
]


def accumulate(
    statistics: Any,
    batches: Iterable[Any],
    checkpoint: str | os.PathLike[str] | None,
    every: int,
    bar: ProgressBar = NO_BAR,
) -> None:
    """Add a stream of batches to statistics, skipping the first rows if the statistics already contain them.

    With a checkpoint, the statistics are saved after `every` rows, at the end and before an error.
    """
    taken = saved = statistics.n_samples_seen_
    first = 0

    def save(least: int) -> None:
        nonlocal saved
        if checkpoint is not None and statistics.total_weight_ and statistics.n_samples_seen_ >= saved + least:
            statistics.save(checkpoint)
            saved = statistics.n_samples_seen_

    for number, parts in numbered(batches):
        rows = len(parts[0])
        known = min(rows, max(0, taken - first))
        try:
            with naming(f"batch {number}, which begins at row {first + known}"):
                if known < rows:
                    statistics.partial_fit(*(part if part is None or not known else part[known:] for part in parts))
        except (InvalidInputError, InvalidTypeError):
            save(1)
            raise
        first += rows
        save(every)
        bar.count(first, None, f"{first:,} rows")
    require_rows(statistics.n_samples_seen_)
    if first < taken:
        raise InvalidInputError(f"batches must be the stream of the checkpoint, of at least {taken} rows; got {first}")
    save(1)


def streams(batches: Any, passes: int = 1) -> Iterator[Iterable[Any]]:
    """Yield an iterable of batches for each pass over a source: an iterable, or a function that returns one.

    Raises
    ------
    InvalidTypeError
        The source is neither.
    InvalidInputError
        It can be read only once, and several passes are requested.
    """
    previous = None
    for _ in range(passes):
        stream = batches() if callable(batches) else batches
        if isinstance(stream, str) or hasattr(stream, "__array__") or not isinstance(stream, Iterable):
            raise InvalidTypeError(
                "batches must be an iterable of (X, y) or (X, y, sample_weight), or a function that returns one; got "
                f"{type(stream).__name__}"
            )
        used_up = stream is previous or not callable(batches)
        if passes > 1 and used_up and iter(stream) is stream:
            raise InvalidInputError(
                f"batches must be readable more than once for passes={passes}: give a list, or a function that returns "
                f"a new stream for each pass; got {type(stream).__name__}"
            )
        yield stream
        previous = stream


def numbered(batches: Iterable[Any]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the number and the two or three arrays of each batch of a stream."""
    for number, batch in enumerate(batches):
        parts = batch if isinstance(batch, tuple) else (batch,)
        if len(parts) not in (2, 3):
            raise InvalidTypeError(
                f"batch {number} must be a tuple (X, y) or (X, y, sample_weight); got {type(batch).__name__}"
            )
        yield number, parts


def is_empty(X: Any, y: Any) -> bool:
    """Whether a batch has no rows, as a chunk of which a filter kept none; raise if it has targets nevertheless."""
    if not hasattr(X, "__len__") or len(X):
        return False
    if len(y):
        raise InvalidInputError(f"y must have no rows, as X has none; got {len(y)}")
    return True


def has_weight(X: Any, y: Any, sample_weight: Any = None) -> bool:
    """Whether a batch has rows whose weight is not zero."""
    return not is_empty(X, y) and (sample_weight is None or bool(np.any(np.asarray(sample_weight) != 0)))


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Context manager that names a batch in the messages of errors raised inside."""
    try:
        yield
    except (InvalidInputError, InvalidTypeError) as error:
        raise type(error)(f"{where}: {error}") from None


def require_rows(n_samples: int) -> None:
    """Raise `InvalidInputError` if a stream had no rows."""
    if not n_samples:
        raise InvalidInputError("batches must have at least one row; got an empty stream")


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


def check_finite(name: str, array: Any, *, missing: bool = False) -> None:
    """Raise an error that lists the rows with entries that are not finite; with `missing`, NaN is allowed."""
    try:
        numbers = array if isinstance(array, np.ndarray) else np.asarray(array, dtype=np.float64)
        wrong = np.isinf(numbers) if missing else ~np.isfinite(numbers)
    except (TypeError, ValueError, OverflowError):
        return  # Not numbers: later checks raise the error.
    if wrong.ndim in (1, 2) and wrong.any():
        rows = np.flatnonzero(wrong.reshape(len(wrong), -1).any(axis=1))
        shown = first_few(list(map(str, rows)))
        allowed, found = ("finite or missing", "infinity") if missing else ("finite", "NaN or infinity")
        raise InvalidInputError(f"{name} must be {allowed}; {found} in row {shown} of this batch, from 0")
