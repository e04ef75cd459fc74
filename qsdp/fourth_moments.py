r"""Gram matrix of products of two columns, computed from the distinct products of four columns.

The entry of the pairs (a, b) and (c, d) is :math:`\sum_i w_i x_{ia} x_{ib} x_{ic} x_{id}`, for any order of the four
columns. So of the :math:`p^2` entries, p = N(N + 1)/2, only about :math:`N^4/24` are distinct, a third of the entries
of a triangle. They are computed as products of the pairs whose larger column lies in a block of columns with all pairs
that begin in that block or later.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.arrays import library_of
from qsdp._utils.deadline import NEVER, Deadline
from qsdp._utils.parallel import LARGE_FLOATS
from qsdp._utils.validation import FloatArray

__all__ = ["gram_of_pairs", "gram_operations", "pair_places", "pairs_of"]

#: Columns of a block. With more columns, more entries are computed twice; with fewer, products are too narrow.
_COLUMNS = 16

#: Up to this size there is one block; beyond it, two are faster.
_ONE_BLOCK = 24

#: Minimum number of rows of a batch: each batch updates all sums.
_LEAST_ROWS = 2048


def gram_operations(n: int, size: int) -> float:
    """Return the approximate number of floating-point operations for the Gram matrix of n rows."""
    counts = [_counts(size, block) for block in _blocks(size)]
    return 2.0 * n * sum(ending * beginning for ending, beginning in counts)


def gram_of_pairs(
    X: FloatArray,
    weights: FloatArray | None = None,
    deadline: Deadline = NEVER,
    dtype: Any = np.float64,
    device: str | None = None,
) -> FloatArray:
    r"""Return :math:`F^T W F` of shape (p, p) for rows :math:`F_i` of all products of two entries of a row of X.

    Parameters
    ----------
    X : ndarray of shape (n, N)
    weights : ndarray of shape (n,), optional
        Positive weights of the rows; None gives every row weight one.
    deadline : Deadline
        Time limit; when it passes, TimeOver is raised during the computation.
    dtype : data type
        Data type of the result and of the products of batches of rows, which are summed in double precision.
    device : str, optional
        Device of torch on which the products run; None means NumPy.

    Notes
    -----
    Pairs are in the order of `numpy.triu_indices`.
    """
    n, size = X.shape
    starts, blocks = _pair_starts(size), _blocks(size)
    library = library_of(device, dtype)
    sums = [library.zeros(_counts(size, block)) for block in blocks]
    step = max(_LEAST_ROWS, LARGE_FLOATS // int(starts[-1]))
    for begin in range(0, n, step):
        rows = slice(begin, begin + step)
        x = library.take(np.ascontiguousarray(X[rows].T, dtype=dtype))
        weighted = x if weights is None else library.take(x * library.take(weights[rows]))
        pairs = library.joined([x[a:] * x[a] for a in range(size)])
        for block, total in zip(blocks, sums, strict=True):
            deadline.check()
            if len(blocks) == 1:
                ending = pairs if weights is None else library.joined([x[a:] * weighted[a] for a in range(size)])
            else:
                ending = library.joined([weighted[: b + 1] * x[b] for b in block])
            total += ending @ pairs[starts[block.start] :].T
    totals = [library.give(total) for total in sums]
    return totals[0].astype(dtype, copy=False) if len(blocks) == 1 else _expanded(totals, size, dtype)


def _expanded(sums: list[FloatArray], size: int, dtype: Any) -> FloatArray:
    """Return all entries of the Gram matrix, given the distinct ones."""
    starts = _pair_starts(size)
    gram = np.empty((starts[-1], starts[-1]), dtype=dtype)
    place = pair_places(size)
    for block, total in zip(_blocks(size), sums, strict=True):
        origin, first = starts[block.start], block.start * (block.start + 1) // 2
        for b in block:
            # Products of the pairs (a, b), a <= b, with the pairs that begin at b or later.
            own = total[b * (b + 1) // 2 - first :][: b + 1]
            with_b = own[:, place[b:, b:] - origin]
            later = own[:, starts[b + 1] - origin :]
            for a in range(b + 1):
                row = starts[a] + b - a
                gram[row : starts[a + 1], starts[b] : starts[b + 1]] = with_b[a]
                gram[row, starts[b + 1] :] = later[a]
    for a in range(1, size):
        rows = slice(starts[a], starts[a + 1])
        gram[rows, : starts[a]] = gram[: starts[a], rows].T
    return gram


@lru_cache(maxsize=8)
def pairs_of(size: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return cached, read-only `numpy.triu_indices`, since that takes as long as a small Gram matrix."""
    pairs = np.triu_indices(size)
    for numbers in pairs:
        numbers.flags.writeable = False
    return pairs


@lru_cache(maxsize=8)
def pair_places(size: int) -> npt.NDArray[np.intp]:
    """Return read-only places (size, size) of pairs in the order of `numpy.triu_indices`, for both orders of a pair."""
    numbers = np.arange(size)
    low, high = np.minimum.outer(numbers, numbers), np.maximum.outer(numbers, numbers)
    places: npt.NDArray[np.intp] = _pair_starts(size)[low] + high - low
    places.flags.writeable = False
    return places


def _blocks(size: int) -> list[range]:
    columns = size if size <= _ONE_BLOCK else _COLUMNS
    return [range(start, min(start + columns, size)) for start in range(0, size, columns)]


def _counts(size: int, block: range) -> tuple[int, int]:
    """Return the number of pairs that end in a block, and the number of pairs that begin there or later."""
    left = size - block.start
    return sum(block) + len(block), left * (left + 1) // 2


@lru_cache(maxsize=8)
def _pair_starts(size: int) -> npt.NDArray[np.intp]:
    """Return the read-only places of the pairs (a, a), followed by the number of pairs."""
    starts: npt.NDArray[np.intp] = np.concatenate([[0], np.cumsum(size - np.arange(size))])
    starts.flags.writeable = False
    return starts
