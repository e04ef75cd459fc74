"""A uniform sample of the rows of a stream."""

from __future__ import annotations

import hashlib

import numpy as np

from qsdp._utils.validation import FloatArray

__all__ = ["RowSample"]


class RowSample:
    """Rows of the smallest random keys, so that samples of parts of a stream are merged to one of the whole.

    Parameters
    ----------
    size : int
        Rows that are kept at most.
    seed : int
    rows : ndarray of shape (k, 2 + c), optional
        Keys, weights and columns of rows so far.
    """

    def __init__(self, size: int, seed: int, rows: FloatArray | None = None) -> None:
        self.size, self.seed, self.rows = size, seed, rows

    @property
    def weights(self) -> FloatArray:
        """Weights of the rows kept, of shape (k,)."""
        assert self.rows is not None
        return self.rows[:, 1]

    @property
    def columns(self) -> FloatArray:
        """Columns of the rows kept, of shape (k, c)."""
        assert self.rows is not None
        return self.rows[:, 2:]

    def add(self, columns: FloatArray, weights: FloatArray | None) -> None:
        """Take in rows."""
        if not self.size:
            return
        # Keys depend on the rows themselves: parts of a stream, of the same seed, do not repeat each other's.
        digest = hashlib.sha256(np.ascontiguousarray(columns).data).digest()
        keys = np.random.default_rng([self.seed, *np.frombuffer(digest, dtype=np.uint32)]).random(len(columns))
        chosen = np.sort(np.argsort(keys, kind="stable")[: self.size])
        ones = np.ones(len(columns)) if weights is None else weights
        self._take(np.column_stack([keys, ones, columns])[chosen])

    def merge(self, other: RowSample) -> None:
        """Take in the sample of other rows."""
        if other.rows is not None:
            self._take(other.rows)

    def _take(self, rows: FloatArray) -> None:
        rows = rows.copy() if self.rows is None else np.vstack([self.rows, rows])
        self.rows = rows[np.sort(np.argsort(rows[:, 0], kind="stable")[: self.size])]
