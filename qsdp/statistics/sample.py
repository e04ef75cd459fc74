"""A uniform sample of the rows of a stream."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray

__all__ = ["RowSample", "WeightedRows"]


class _Rows(Protocol):
    """Interface of the rows of a `RowSample`."""

    def __len__(self) -> int: ...

    def take(self: Rows, indices: Iterable[int]) -> Rows: ...

    def stacked(self: Rows, other: Rows) -> Rows: ...


Rows = TypeVar("Rows", bound=_Rows)


class RowSample(Generic[Rows]):
    """Uniform sample of a stream: the rows with the smallest random keys, so that samples of parts can be merged.

    Parameters
    ----------
    size : int
        Maximum number of rows that are kept.
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
            self._take(keys[chosen], rows.take(chosen.tolist()))

    def merge(self, other: RowSample[Rows]) -> None:
        """Merge a sample of other rows into this one."""
        self.seen += other.seen
        if other.rows is not None:
            self._take(other.keys, other.rows)

    def _take(self, keys: FloatArray, rows: Rows) -> None:
        keys = np.concatenate([self.keys, keys])
        rows = rows if self.rows is None else self.rows.stacked(rows)
        chosen = self._smallest(keys)
        self.keys, self.rows = keys[chosen], rows if len(chosen) == len(keys) else rows.take(chosen.tolist())

    def _smallest(self, keys: FloatArray) -> npt.NDArray[np.intp]:
        """Return the indices of the smallest finite keys, in ascending order."""
        chosen = np.argsort(keys, kind="stable")[: self.size]
        return np.sort(chosen[np.isfinite(keys[chosen])])


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Rows of an array, with their weights.

    Attributes
    ----------
    columns : ndarray of shape (k, c)
    weights : ndarray of shape (k,)
    """

    columns: FloatArray
    weights: FloatArray

    def __len__(self) -> int:
        return len(self.columns)

    def take(self, indices: Iterable[int]) -> WeightedRows:
        """Return the rows with these indices."""
        chosen = list(indices)
        return WeightedRows(self.columns[chosen], self.weights[chosen])

    def stacked(self, other: WeightedRows) -> WeightedRows:
        """Return these rows followed by other rows."""
        return WeightedRows(np.vstack([self.columns, other.columns]), np.concatenate([self.weights, other.weights]))
