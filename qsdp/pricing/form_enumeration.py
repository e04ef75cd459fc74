"""All values of a quadratic form over levels, by products of two tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray
from qsdp.pricing.pool import Pool
from qsdp.pricing.scaling import form_rounding

__all__ = ["enumerate_forms", "level_rows"]

#: Rows of the right table at most, and of blocks of the left one: one MiB of values, which stays in the cache.
_RIGHT, _LEFT = 2**11, 64


def level_rows(numbers: npt.NDArray[np.int64], size: int, levels: int) -> FloatArray:
    """Return the vectors of shape (len(numbers), size) whose entries are the digits of numbers, as levels."""
    digits = (numbers[:, None] // levels ** np.arange(size - 1, -1, -1, dtype=np.int64)) % levels
    rows: FloatArray = 2.0 * digits.astype(np.float64) - (levels - 1.0)
    return rows


def enumerate_forms(
    K: FloatArray,
    fixed: FloatArray,
    levels: int,
    signs: tuple[int, ...],
    pool: Pool,
    place: Callable[[FloatArray], FloatArray],
    stop: Callable[[], bool],
    most: int = 2**13,
) -> bool:
    r"""Show the pool all completions of `fixed` for which one of ``signs * q' K q`` exceeds its level.

    Parameters
    ----------
    K : ndarray of shape (N, N)
        In the order in which coordinates are fixed.
    fixed : ndarray of shape (k,)
        Values of the first coordinates; if there are none, only one of q and -q is visited.
    levels : int
    signs : tuple of int
        (1,), (-1,) or both.
    pool : Pool
        Takes the vectors found.
    place : callable
        Brings vectors of shape (., N) into the pool's order.
    stop : callable
        Polled at every block.
    most : int, default=2**13
        Number of vectors of a block that the pool is shown, the best ones: ties may be many.

    Returns
    -------
    bool
        Whether the enumeration was finished.

    Notes
    -----
    With q = (s, a, b) all values are one product of a table of :math:`(2 K_{ba} a, f_a, 1)` and one of
    :math:`(b, 1, f_b)`; of a block of them only the extremes are computed, unless one exceeds the level.
    """
    k, free = len(fixed), len(K) - len(fixed)
    right = 0
    while right < free and levels ** (right + 1) <= _RIGHT:
        right += 1
    left = free - right
    a, b = slice(k, k + left), slice(k + left, k + free)
    linear = 2.0 * (K[k:, :k] @ fixed)
    constant = float(fixed @ K[:k, :k] @ fixed)
    B = level_rows(np.arange(levels**right, dtype=np.int64), right, levels)
    form_b = B @ linear[left:] + np.einsum("ij,ij->i", B @ K[b, b], B)
    table = np.column_stack([B, np.ones(len(B)), form_b]).T.copy()
    count = levels**left
    if k == 0 and left:
        # Digits of q and -q add up to levels - 1 each: one of the two numbers is in the first half.
        count = (count + 1) // 2
    margin = form_rounding(K, levels)
    values = np.empty((_LEFT, len(B)))
    for begin in range(0, count, _LEFT):
        if stop():
            return False
        A = level_rows(np.arange(begin, min(begin + _LEFT, count), dtype=np.int64), left, levels)
        form_a = constant + A @ linear[:left] + np.einsum("ij,ij->i", A @ K[a, a], A)
        rows = np.column_stack([2.0 * (A @ K[a, b]), form_a, np.ones(len(A))])
        block = np.matmul(rows, table, out=values[: len(A)])
        level = pool.level() - margin
        high = 1 in signs and float(block.max()) > level
        low = -1 in signs and float(block.min()) < -level
        if not high and not low:
            continue
        magnitudes = np.abs(block) if len(signs) == 2 else signs[0] * block
        chosen = np.flatnonzero(magnitudes > level)
        if len(chosen) > most:
            chosen = chosen[np.argpartition(-magnitudes.ravel()[chosen], most)[:most]]
        i, j = np.divmod(chosen, len(B))
        pool.add(place(np.hstack([np.broadcast_to(fixed, (len(i), k)), A[i], B[j]])))
    return True
