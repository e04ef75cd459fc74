"""Branch and bound for the largest pricing value of polynomial networks, with one tree per sign of the form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.parallel import CACHE_FLOATS
from qsdp._utils.tuning import MANY_ROWS
from qsdp._utils.validation import FloatArray
from qsdp.inner_problem import maxcut_bound
from qsdp.pricing.branching import Node, TreeSearch
from qsdp.pricing.pool import FormPool, Pool
from qsdp.pricing.result import SignArray
from qsdp.pricing.scaling import Scaled, form_rounding
from qsdp.pricing.shifts import homogenized, root_shift

__all__ = ["FormTree"]


class FormTree(TreeSearch):
    r"""Branch and bound for :math:`\pm q^T K q`; a node fixes the first levels of q.

    If `lifted`, the last nonzero row belongs to the coordinate fixed at +1. `enumerated` is the number of vectors up to
    which a node is enumerated.

    Notes
    -----
    A node fixes :math:`q_F = s`. Its bound holds for the form in (1, q_R / M), where M is the largest level. The
    squares of these entries are at most one, so shifts are nonnegative unless M = 1. A form -K is bounded as K' = -K.
    """

    def __init__(self, scaled: Scaled, pool: FormPool, levels: int, lifted: bool, enumerated: int) -> None:
        N = len(scaled.M)
        rows = np.argsort(-np.abs(scaled.M).sum(axis=1), kind="stable")
        # The fixed coordinate comes first.
        order = np.concatenate([rows[rows == N - 1], rows[rows != N - 1]]) if lifted else rows
        self.K = scaled.M[np.ix_(order, order)]
        super().__init__(
            scaled,
            pool,
            order=order,
            root=np.ones(int(lifted), dtype=np.int8),
            signs=(1, -1),
            rounding=form_rounding(self.K, levels),
            positive=levels > 2,
        )
        self.levels, self.top, self.max_vectors = levels, levels - 1.0, enumerated

    def _is_small(self, k: int) -> bool:
        return k == self.size or self.levels ** (self.size - k) <= self.max_vectors

    def enumerate(self, fixed: SignArray, signs: tuple[int, ...]) -> bool:
        """Enumerate all completions into the pool; return whether the enumeration finished."""
        start = fixed.astype(np.float64)
        return enumerate_forms(self.K, start, self.levels, signs, self.pool, lambda Q: Q[:, self.inverse])

    def children(self, node: Node) -> list[Node]:
        """Create one child node for each level of the next coordinate."""
        k, sign = len(node.signs), node.sign
        inner = self._inner(k + 1, sign)
        _, before = self._outer(node.signs, sign)
        children = []
        for level in range(1 - self.levels, self.levels, 2):
            signs = np.append(node.signs, np.int8(level)).astype(np.int8)
            border, constant = self._outer(signs, sign)
            # The new coordinate's part of the constant is subtracted from the first entry of the parent's shift.
            first = float(node.shift[0] + node.shift[1] * (level / self.top) ** 2 - (constant - before))
            kept = np.concatenate([[first], node.shift[2:]])
            children.append(self.child(node, signs, inner, border, constant, kept))
        return children

    def _root_node(self, seed: FloatArray | None, sign: int) -> Node:
        k, square = len(self.root), self.top**2
        inner = self._inner(k, sign)
        border, constant = self._outer(self.root, sign)
        B = homogenized(border, inner)
        shifts = [np.abs(B).sum(axis=1)]
        if seed is not None:
            z = seed[self.order] * square
            z = np.maximum(z, 0.0) if self.positive else z
            # The fixed coordinate is the first entry; its diagonal is in the constant.
            shifts.append(np.concatenate([[z[0] / square - constant if k else 0.0], z[k:]]))
        if not deadline.over():
            z = root_shift(maxcut_bound, B)
            # With more than two levels, squares may be less than one, and then no entry may be negative.
            shifts.append(np.concatenate([z[:1], np.maximum(z[1:], 0.0)]) if self.positive else z)
        return self.first_node(inner, border, constant, sign, shifts)

    def _expanded(self, shift: FloatArray, k: int) -> FloatArray:
        full = np.zeros(1 + self.scaled.size - k)
        full[: len(shift)] = shift
        return full

    def _inner(self, k: int, sign: int) -> FloatArray:
        """Return the form of the coordinates from k on, in units of the largest level."""
        inner: FloatArray = sign * self.top**2 * self.K[k:, k:]
        return inner

    def _outer(self, signs: SignArray, sign: int) -> tuple[FloatArray, float]:
        """Return the linear part, twice K_RF s in units of the largest level, and the constant."""
        k, s = len(signs), signs.astype(np.float64)
        linear: FloatArray = 2.0 * sign * self.top * (self.K[k:, :k] @ s)
        return linear, sign * float(s @ self.K[:k, :k] @ s)


def _level_rows(numbers: npt.NDArray[np.int64], size: int, levels: int) -> FloatArray:
    """Convert numbers to vectors (len(numbers), size) of levels, which encode their digits."""
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
) -> bool:
    r"""Add to the pool all completions of `fixed` for which one of ``signs * q' K q`` exceeds the pool's level.

    If no coordinate is fixed, only one of q and -q is visited. `place` reorders vectors from K's order to the pool's.
    Only the best vectors of a block are added, as there may be many ties. Returns whether the enumeration finished.

    With q = (s, a, b), all values are the product of a table of :math:`(2 K_{ba} a, f_a, 1)` and one of
    :math:`(b, 1, f_b)`. Only the extremes of a block are computed unless one exceeds the level.
    """
    k, free = len(fixed), len(K) - len(fixed)
    right = 0
    while right < free and levels ** (right + 1) <= MANY_ROWS:
        right += 1
    left = free - right
    a, b = slice(k, k + left), slice(k + left, k + free)
    linear = 2.0 * (K[k:, :k] @ fixed)
    constant = float(fixed @ K[:k, :k] @ fixed)
    B = _level_rows(np.arange(levels**right, dtype=np.int64), right, levels)
    form_b = B @ linear[left:] + np.einsum("ij,ij->i", B @ K[b, b], B)
    table = np.column_stack([B, np.ones(len(B)), form_b]).T.copy()
    count = levels**left
    if k == 0 and left:
        # Each two digits of q and -q add up to levels - 1, so one of the two numbers is in the first half.
        count = (count + 1) // 2
    margin = form_rounding(K, levels)
    step = CACHE_FLOATS // len(B)
    values = np.empty((step, len(B)))
    for begin in range(0, count, step):
        if deadline.over():
            return False
        A = _level_rows(np.arange(begin, min(begin + step, count), dtype=np.int64), left, levels)
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
        if len(chosen) > MANY_ROWS:
            chosen = chosen[np.argpartition(-magnitudes.ravel()[chosen], MANY_ROWS)[:MANY_ROWS]]
        i, j = np.divmod(chosen, len(B))
        pool.add(place(np.hstack([np.broadcast_to(fixed, (len(i), k)), A[i], B[j]])))
    return True
