"""Branch and bound for the largest bilinear pricing value."""

from __future__ import annotations

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.parallel import chunks
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.inner_problem import grothendieck_bound
from qsdp.pricing.branching import Node, TreeSearch
from qsdp.pricing.enumeration import Enumeration, fits
from qsdp.pricing.pool import PairPool
from qsdp.pricing.scaling import Scaled, rounding
from qsdp.pricing.shifts import free_matrix, root_shift
from qsdp.pricing.sign_vectors import signs_of, tail_order

__all__ = ["BilinearTree"]

#: Number of coordinates up to which enumeration is faster than any bound; from 18 to 26 it hardly matters.
_SMALL = 22

#: Cost of screening and evaluating one column of one vector, in the units of the cost of a node.
_SCREENED = 0.4e-9


class BilinearTree(TreeSearch):
    """Branch and bound for bilinear pricing values; a node fixes the first signs of u.

    `max_enumerated` is the number of free coordinates up to which a node may be enumerated.
    """

    def __init__(self, scaled: Scaled, pool: PairPool, max_enumerated: int) -> None:
        self.M, N = scaled.M, len(scaled.M)
        super().__init__(
            scaled,
            pool,
            order=tail_order(self.M),
            root=np.empty(0, dtype=np.int8),
            signs=(1,),
            branches=2,
            node_cost=3e-3 * max(1.0, N / 33.0) ** 2.5,
            rounding=rounding(self.M),
        )
        self.max_enumerated = max_enumerated
        self.enumerations: dict[int, Enumeration] = {}
        # Sum of the logarithms of costs of enumerations relative to the worst case, with a prior of weight one.
        self.logs, self.weight = -1.0, 1.0

    def _enumerate_root(self) -> bool:
        small = self.size <= min(_SMALL, self.max_enumerated)
        return self.size == 0 or (small and self.enumerate(Node(self.root, np.empty(0), np.inf)))

    def _enumeration_cost(self, node: Node) -> float:
        # The cost depends on how close the values are, which earlier enumerations show.
        free = self.size - len(node.signs)
        if free > self.max_enumerated or not fits(self.size, free):
            return np.inf
        ratio = np.exp(self.logs / self.weight)
        return float(2e-3 + ratio * _at_worst(free)) if free > 1 else 0.0

    def enumerate(self, node: Node) -> bool:
        """Enumerate all completions of a node into the pool; return whether the enumeration finished."""
        k, free = len(node.signs), self.size - len(node.signs)
        if k not in self.enumerations:
            self.enumerations[k] = Enumeration(self.M[self.order[k:]])
        fixed = node.signs.astype(np.float64)

        def accept(codes: IntArray) -> None:
            for part in chunks(len(codes), self.size):
                rest = signs_of(codes[part], free)
                U = np.hstack([np.broadcast_to(fixed, (len(rest), k)), rest])
                self.pool.add(U[:, self.inverse])

        enumeration = self.enumerations[k]
        before = enumeration.work
        finished = enumeration.run(fixed @ self.M[self.order[:k]], half=k == 0, level=self.pool.level, accept=accept)
        if finished and free > _SMALL:
            cost = _SCREENED * self.size * (enumeration.work - before)
            self.logs += float(np.log((cost + 1e-3) / _at_worst(free)))
            self.weight += 1.0
        return finished

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
            children.append(self.child(node, signs, K, c, 0.0, kept))
        return children

    def _root_node(self, seed: FloatArray | None, sign: int) -> Node:
        rows = np.abs(self.M).sum(axis=1)
        shifts = [0.5 * np.concatenate([[0.0], z, z[self.order]]) for z in (rows, seed) if z is not None]
        if not deadline.over():
            z = root_shift(grothendieck_bound, self.M)
            shifts.append(np.concatenate([[0.0], z[self.size :], z[: self.size][self.order]]))
        return self.first_node(free_matrix(self.M[self.order]), np.zeros(self.size), 0.0, sign, shifts)

    def _expanded(self, shift: FloatArray, k: int) -> FloatArray:
        n, N = self.size, self.scaled.size
        full = np.zeros(1 + N + N - k)
        full[0] = shift[0]
        full[1 + self.scaled.support] = shift[1 : 1 + n]
        full[1 + N : 1 + N + n - k] = shift[1 + n :]
        return full


def _at_worst(free: int) -> float:
    """Return the worst-case cost of an enumeration, measured at the optimum of a training problem."""
    return float(2.0 * 1.9 ** (free - 33.0))
