"""Branch and bound for the largest bilinear pricing value."""

from __future__ import annotations

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.parallel import chunks
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.pricing.branching import Node, TreeSearch
from qsdp.pricing.enumeration import Enumeration, fits
from qsdp.pricing.pool import PairPool
from qsdp.pricing.result import SignArray
from qsdp.pricing.scaling import Scaled, rounding
from qsdp.pricing.shifts import free_matrix, root_shift
from qsdp.pricing.sign_vectors import signs_of, tail_order

__all__ = ["BilinearTree"]


class BilinearTree(TreeSearch):
    """Branch and bound for bilinear pricing values; a node fixes the first signs of u.

    `enumerated` is the number of free coordinates up to which a node is enumerated.
    """

    def __init__(self, scaled: Scaled, pool: PairPool, enumerated: int) -> None:
        self.M = scaled.M
        super().__init__(
            scaled,
            pool,
            order=tail_order(self.M),
            root=np.empty(0, dtype=np.int8),
            rounding=rounding(self.M),
        )
        self.max_free = enumerated
        self.enumerations: dict[int, Enumeration] = {}

    def _is_small(self, k: int) -> bool:
        free = self.size - k
        return free <= self.max_free and fits(self.size, free)

    def enumerate(self, fixed: SignArray) -> bool:
        """Enumerate all completions into the pool; return whether the enumeration finished."""
        if self.size == 0:
            return True
        k, free = len(fixed), self.size - len(fixed)
        if k not in self.enumerations:
            self.enumerations[k] = Enumeration(self.M[self.order[k:]])
        prefix = fixed.astype(np.float64)

        def accept(codes: IntArray) -> None:
            for part in chunks(len(codes), self.size):
                rest = signs_of(codes[part], free)
                U = np.hstack([np.broadcast_to(prefix, (len(rest), k)), rest])
                self.pool.add(U[:, self.inverse])

        start = prefix @ self.M[self.order[:k]]
        return self.enumerations[k].run(start, half=k == 0, level=self.pool.level, accept=accept)

    def children(self, node: Node) -> list[Node]:
        """Return both child nodes, with one more sign fixed; the root's children have two, the first of them +1."""
        N, k = self.size, max(len(node.signs), 1)
        extra = k - len(node.signs)
        prefix = np.concatenate([node.signs, np.ones(extra, dtype=np.int8)])
        K = free_matrix(self.M[self.order[k + 1 :]])
        # The parent's shift is valid for the children if its newly fixed coordinates are added to the first entry.
        first = node.shift[0] + node.shift[1 + N : 2 + N + extra].sum()
        kept = np.concatenate([[first], node.shift[1 : 1 + N], node.shift[2 + N + extra :]])
        children = []
        for sign in (1, -1):
            signs = np.append(prefix, np.int8(sign))
            c = signs.astype(np.float64) @ self.M[self.order[: k + 1]]
            children.append(self.child(node, signs, K, c, kept))
        return children

    def _root_node(self, seed: FloatArray | None) -> Node:
        rows = np.abs(self.M).sum(axis=1)
        shifts = [0.5 * np.concatenate([[0.0], z, z[self.order]]) for z in (rows, seed) if z is not None]
        if not deadline.over():
            z = root_shift(self.M)
            shifts.append(np.concatenate([[0.0], z[self.size :], z[: self.size][self.order]]))
        return self.first_node(free_matrix(self.M[self.order]), np.zeros(self.size), shifts)

    def _expanded(self, shift: FloatArray, k: int) -> FloatArray:
        n, N = self.size, self.scaled.size
        full = np.zeros(1 + N + N - k)
        full[0] = shift[0]
        full[1 + self.scaled.support] = shift[1 : 1 + n]
        full[1 + N : 1 + N + n - k] = shift[1 + n :]
        return full
