"""Rows of data and targets, their checks, and a uniform sample of the rows of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.summary import first_few
from qsdp._utils.validation import FloatArray, check_sample_weight
from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = ["RowSample", "Rows", "check_finite", "naming"]


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Context manager that names a batch in the messages of errors raised inside."""
    try:
        yield
    except (InvalidInputError, InvalidTypeError) as error:
        raise type(error)(f"{where}: {error}") from None


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
        allowed, invalid = ("finite or missing", "infinity") if missing else ("finite", "NaN or infinity")
        raise InvalidInputError(f"{name} must be {allowed}; {invalid} in row {shown} of this batch, from 0")


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of data and targets with their sample weights.

    Attributes
    ----------
    X : ndarray or data frame of shape (k, d)
    y : ndarray of shape (k,) or (k, C)
    weights : ndarray of shape (k,) or None
        None means that each weight is one.
    """

    X: Any
    y: npt.NDArray[Any]
    weights: npt.NDArray[Any] | None

    @classmethod
    def from_chunk(cls, X: Any, y: Any, sample_weight: Any = None, *, missing: bool = True) -> Rows:
        """Check the lengths and numbers of a chunk, and return its rows of positive weight."""
        check_finite("X", X, missing=missing)
        check_finite("y", y)
        target, weights = np.asarray(y), check_sample_weight(sample_weight, len(X), positive=False)
        if len(target) != len(X):
            raise InvalidInputError(f"y must have {len(X)} rows, as X has; got {len(target)}")
        return cls(X, target, weights).counting

    @property
    def counting(self) -> Rows:
        """The rows whose weight is positive."""
        if self.weights is None or np.all(self.weights > 0.0):
            return self
        return self.take(np.flatnonzero(self.weights > 0.0))

    @property
    def repetitions(self) -> npt.NDArray[Any]:
        """The positive weights, or ones if there are no weights."""
        return np.ones(len(self)) if self.weights is None else self.weights[self.weights > 0.0]

    def __len__(self) -> int:
        return len(self.y)

    def take(self, indices: Iterable[int]) -> Rows:
        """Return the rows with these indices."""
        from sklearn.utils import _safe_indexing

        chosen = np.asarray(indices if isinstance(indices, np.ndarray) else list(indices), dtype=np.intp)
        return Rows(
            _safe_indexing(self.X, chosen), self.y[chosen], None if self.weights is None else self.weights[chosen]
        )

    def stacked(self, other: Rows) -> Rows:
        """Return these rows followed by other rows."""
        if hasattr(self.X, "iloc"):
            from pandas import concat

            X = concat([self.X, other.X])
        else:
            X = np.concatenate([self.X, other.X])
        weights = None
        if self.weights is not None or other.weights is not None:
            weights = np.concatenate([np.ones(len(r)) if r.weights is None else r.weights for r in (self, other)])
        return Rows(X, np.concatenate([self.y, other.y]), weights)


class RowSample:
    """Uniform sample of a stream: the rows with the smallest random keys, so that samples of parts can be merged.

    Parameters
    ----------
    size : int
        Maximum number of rows that are stored.
    seed : int
    keys : ndarray of shape (k,), optional
        Keys of the rows so far.
    rows : Rows, optional

    Attributes
    ----------
    seen : int
        Number of rows added so far.
    """

    def __init__(self, size: int, seed: int, keys: FloatArray | None = None, rows: Rows | None = None) -> None:
        self.size, self.seed, self.rows = size, seed, rows
        self.keys: FloatArray = np.zeros(0) if keys is None else keys
        self.seen = 0

    def add(self, rows: Rows, part: Iterable[int]) -> None:
        """Add rows; `part` numbers their part of the stream and seeds the keys, so that parts have different keys."""
        self.seen += len(rows)
        if not self.size:
            return
        keys = np.random.default_rng([self.seed, *part]).random(len(rows))
        worst = self.keys.max() if len(self.keys) == self.size else np.inf
        if len(chosen := self._smallest(np.where(keys < worst, keys, np.inf))):
            self._take(keys[chosen], rows.take(chosen))

    def merge(self, other: RowSample) -> None:
        """Merge a sample of other rows into this one."""
        self.seen += other.seen
        if other.rows is not None:
            self._take(other.keys, other.rows)

    def _take(self, keys: FloatArray, rows: Rows) -> None:
        keys = np.concatenate([self.keys, keys])
        rows = rows if self.rows is None else self.rows.stacked(rows)
        chosen = self._smallest(keys)
        self.keys, self.rows = keys[chosen], rows if len(chosen) == len(keys) else rows.take(chosen)

    def _smallest(self, keys: FloatArray) -> npt.NDArray[np.intp]:
        """Return the indices of the smallest finite keys, in ascending order."""
        chosen = np.argsort(keys, kind="stable")[: self.size]
        return np.sort(chosen[np.isfinite(keys[chosen])])
