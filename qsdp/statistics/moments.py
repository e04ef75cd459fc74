"""Compensated sums of products of monomials, stored as packed triangles."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpstrf, dsfrk, dtfttr, dtrttf

from qsdp._utils.arrays import ON_PROCESSOR, ArrayLibrary, library_of
from qsdp._utils.numeric import EPS, LARGEST_INTEGER
from qsdp._utils.parallel import CACHE_FLOATS
from qsdp._utils.validation import FloatArray

__all__ = ["EXACT_SIZE", "PackedSums", "changed", "monomials", "n_monomials", "packed_size", "root"]

#: Number of rows whose products are summed before they enter the compensated sum.
_ROWS_AT_ONCE = 2**15

#: Largest sum of squares of integers for which all sums of their products are exact in any order.
EXACT_SIZE = 0.99 * LARGEST_INTEGER


def n_monomials(d: int) -> int:
    """Return the number of distinct products of two factors, each one of d columns or 1."""
    return (d + 1) * (d + 2) // 2


def packed_size(side: int) -> int:
    """Return the number of entries of the lower triangle of a square matrix, diagonal included."""
    return side * (side + 1) // 2


def monomials(columns: FloatArray, d: int, weights: FloatArray | None, library: ArrayLibrary = ON_PROCESSOR) -> Any:
    """Return the monomials of the rows times root weights, one monomial per row, as an array of the library.

    Monomials are the products of two of the first d columns and 1, followed by the other columns.
    """
    roots = library.take(np.ones(len(columns)) if weights is None else np.sqrt(weights))
    extended = library.take(np.vstack([columns[:, :d].T, np.ones(len(columns))]))
    weighted = extended if weights is None else extended * roots
    F = library.empty((n_monomials(d) + columns.shape[1] - d, len(columns)))
    place = 0
    for k in range(d + 1):
        library.multiply(extended[k:], weighted[k], F[place : place + d + 1 - k])
        place += d + 1 - k
    library.multiply(library.take(columns[:, d:].T), roots, F[place:])
    return F


def changed(W: FloatArray, d: int, scale: FloatArray, shift: FloatArray) -> FloatArray:
    """Transform W, with one column per monomial, to the monomials of the data columns times `scale` plus `shift`."""
    q = n_monomials(d)
    first, second = np.triu_indices(d + 1)
    # Places of the columns themselves and, last, of 1.
    places = np.flatnonzero(second == d)
    s, t = np.append(scale[:d], 1.0), np.append(shift[:d], 0.0)
    result: FloatArray = W * np.concatenate([s[first] * s[second], scale[d:]])
    if np.any(t):
        result[:, :q] += W[:, places[second]] * (t[first] * s[second])
        result[:, :q] += W[:, places[first]] * (s[first] * t[second])
        result[:, :q] += W[:, [q - 1]] * (t[first] * t[second])
    result[:, q:] += W[:, [q - 1]] * shift[d:]
    return result


class PackedSums:
    """Lower triangle of a sum of outer products, accumulated by compensated summation.

    It is kept in rectangular full packed format, for which LAPACK has products at the speed of full matrices. On a
    device, the products of the last rows are a full matrix; everything else is in main memory.

    Parameters
    ----------
    side : int
    high, low : ndarray of shape (side (side + 1) / 2,), optional
        The sum so far, and its rounding errors.
    device : str, optional
        Torch device on which products are summed; None means NumPy.
    """

    def __init__(
        self, side: int, high: FloatArray | None = None, low: FloatArray | None = None, device: str | None = None
    ) -> None:
        self.side, self.high, self.low, self.device = side, high, low, device
        #: Products of the last rows, packed, or full on a device, and the number of these rows.
        self._recent: FloatArray | None = None
        self._full: Any = None
        self._rows = 0
        #: Bound of the magnitude of these products, if they are of integers.
        self._size = 0.0

    def __getstate__(self) -> dict[str, Any]:
        # Fold first, so that two triangles are sent instead of three.
        self.fold()
        return {name: value for name, value in vars(self).items() if name != "library"}

    @cached_property
    def library(self) -> ArrayLibrary:
        """The array library that sums products; pickles do not contain it."""
        return library_of(self.device)

    def add(self, F: Any, size: float = 0.0) -> None:
        """Add F F' for an array F of shape (side, rows).

        For integers, `size` is the largest entry of F F': the sum then stays exact.
        """
        if self._size + size > EXACT_SIZE:
            self.fold()
        self._size += size
        if self.device is not None:
            product = F @ F.T
            if self._full is None:
                self._full = product
            else:
                self._full += product
        else:
            beta, into = (0.0, np.empty(packed_size(self.side))) if self._recent is None else (1.0, self._recent)
            # Whichever of F and its transpose LAPACK takes without a copy.
            A, trans = (F, "N") if F.flags.f_contiguous else (F.T, "T")
            self._recent = dsfrk(self.side, F.shape[1], 1.0, A, beta, into, trans=trans, uplo="L", overwrite_c=1)
        self._rows += F.shape[1]
        if self._rows >= _ROWS_AT_ONCE:
            self.fold()

    def fold(self) -> None:
        """Add the buffered products of recent rows to the compensated sum."""
        self._take_full()
        recent, self._recent, self._rows, self._size = self._recent, None, 0, 0.0
        if recent is not None:
            self._add_compensated(recent)

    def _take_full(self) -> None:
        """Move the products that were summed on a device to main memory, packed."""
        if self._full is not None:
            packed, _ = dtrttf(self.library.give(self._full).T, uplo="L")
            self._recent, self._full = packed if self._recent is None else self._recent + packed, None

    def merge(self, other: PackedSums) -> None:
        """Add another sum, whose value stays unchanged."""
        self.fold()
        other._take_full()
        for part in (other.high, other.low, other._recent):
            if part is not None:
                self._add_compensated(part.copy() if self.high is None else part)

    def changed(self, d: int, scale: FloatArray, shift: FloatArray) -> PackedSums:
        """Return the sums of the monomials of columns times `scale` plus `shift`."""
        self.fold()
        high, low = (None if part is None else self._congruent(part, d, scale, shift) for part in (self.high, self.low))
        return PackedSums(self.side, high, low, self.device)

    def triangle(self) -> FloatArray:
        """Return the sum as a matrix, of which only the lower triangle is valid."""
        self._take_full()
        parts = [part for part in (self._recent, self.low, self.high) if part is not None]
        return self._unpacked(np.sum(parts, axis=0))

    def _add_compensated(self, added: FloatArray) -> None:
        if self.high is None:
            self.high = added
            return
        if self.low is None:
            self.low = np.zeros_like(self.high)
        for start in range(0, len(added), CACHE_FLOATS):
            part = slice(start, start + CACHE_FLOATS)
            a, b = self.high[part], added[part]
            total = a + b
            virtual = total - a
            self.low[part] += (a - (total - virtual)) + (b - virtual)
            self.high[part] = total

    def _congruent(self, packed: FloatArray, d: int, scale: FloatArray, shift: FloatArray) -> FloatArray:
        lower = np.tril(self._unpacked(packed))
        full = lower + np.tril(lower, -1).T
        full = changed(changed(full, d, scale, shift).T, d, scale, shift)
        result, _ = dtrttf(np.asfortranarray(0.5 * (full + full.T)), uplo="L")
        return np.asarray(result)

    def _unpacked(self, packed: FloatArray) -> FloatArray:
        full, _ = dtfttr(self.side, packed, uplo="L")
        return np.asarray(full)


def root(triangle: FloatArray) -> FloatArray:
    """Return W such that W'W has this lower triangle, with as many rows as its rank, by pivoted Cholesky."""
    diagonal = triangle.diagonal()
    sizes = np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    unit = triangle / sizes / sizes[:, None]
    factor, pivots, rank, _ = dpstrf(unit, lower=1, tol=2.0 * np.sqrt(len(sizes)) * EPS, overwrite_a=1)
    W = np.empty((rank, len(sizes)))
    W[:, pivots - 1] = np.tril(factor)[:, :rank].T
    W *= sizes
    return W
