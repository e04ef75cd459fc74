"""Best-first branch and bound for the largest pricing value, in which nodes of few vectors are enumerated."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.numeric import ROUNDING
from qsdp._utils.parallel import LARGE_FLOATS, chunks
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.pricing.bound_trees import BoundTree, Leaf, SignArray
from qsdp.pricing.enumeration import Enumeration, fits, signs_of, tail_order
from qsdp.pricing.pool import Pool
from qsdp.pricing.scaling import Scaled, rounding
from qsdp.pricing.shifts import free_matrix, homogenized, root_shift, shift_bound, tighten

__all__ = ["Node", "TreeSearch"]

#: Signs of the root: none is fixed.
_ROOT: SignArray = np.empty(0, dtype=np.int8)


@dataclass(frozen=True, eq=False)
class Node:
    """Node: the vectors with fixed first entries and a bound on their values."""

    signs: SignArray
    shift: FloatArray
    bound: float


class TreeSearch:
    """Proof of an upper bound by branch and bound; a node fixes the first signs of u, in an order of the coordinates.

    A time limit is checked at every node and in enumerations.

    Parameters
    ----------
    scaled : Scaled
        The matrix.
    pool : Pool
        Collects the evaluated vectors and keeps the best value.
    max_free : int
        Number of free coordinates up to which a node is enumerated.
    """

    def __init__(self, scaled: Scaled, pool: Pool, max_free: int) -> None:
        self.scaled, self.pool, self.max_free = scaled, pool, max_free
        self.M, self.size = scaled.M, len(scaled.M)
        self.order = tail_order(self.M)
        self.inverse = np.argsort(self.order)
        #: Bound on the rounding error of an evaluated value; the bound of a shift already includes that of eigenvalues.
        self.rounding = rounding(self.M)
        self.open: list[tuple[float, int, Node]] = []
        self.closed: list[Node] = []
        self.enumerated: list[SignArray] = []
        self.enumerations: dict[int, Enumeration] = {}

    def prove(self, seed: FloatArray | None) -> tuple[float, bool]:
        """Prove an upper bound on the maximum; return it, and whether it is exact. `seed` is a shift of the root."""
        if self._is_small(0) and self.enumerate(_ROOT):
            self.enumerated.append(_ROOT)
            return self.upper(), True
        exact = self.run(self._root_node(seed))
        return self.upper(), exact

    def tree(self) -> BoundTree:
        """Return the tree that proves the bound."""
        leaves = (*(Leaf(signs, None) for signs in self.enumerated), *(self._leaf(node) for node in self.bounded()))
        return BoundTree(self.scaled.order(self.order), leaves)

    def run(self, root: Node) -> bool:
        """Close all nodes below `root`; return whether all were closed."""
        ticket = count()
        self._push(root, ticket)
        dive: list[Node] = []
        while self.open or dive:
            diving = bool(dive)
            node = dive.pop() if diving else heapq.heappop(self.open)[2]
            if self._is_closed(node.bound):
                self.closed.append(node)
                continue
            small = self._is_small(len(node.signs))
            if deadline.over() or (small and not self.enumerate(node.signs)):
                for rest in [node, *dive]:
                    self._push(rest, ticket)
                return False
            if small:
                self.enumerated.append(node.signs)
                continue
            for child in self.children(node):
                if self._is_closed(child.bound):
                    self.closed.append(child)
                elif diving or len(self.open) * len(child.shift) > 2 * LARGE_FLOATS:
                    dive.append(child)
                else:
                    self._push(child, ticket)
        return True

    def upper(self) -> float:
        """Return the proven bound: the largest bound of a node, or the enumerated value plus its rounding error."""
        largest = self.pool.best
        if self.enumerated:
            largest = max(largest, self.pool.level())
        return max([largest + self.rounding, *(node.bound for node in self.bounded())])

    def bounded(self) -> list[Node]:
        """Return the nodes that were not enumerated."""
        return self.closed + [node for _, _, node in self.open]

    def _is_small(self, k: int) -> bool:
        """Whether vectors with k fixed signs are few enough to be enumerated."""
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
        remaining = np.concatenate([[first], node.shift[1 : 1 + N], node.shift[2 + N + extra :]])
        children = []
        for sign in (1, -1):
            signs = np.append(prefix, np.int8(sign))
            c = signs.astype(np.float64) @ self.M[self.order[: k + 1]]
            children.append(self.child(node, signs, K, c, remaining))
        return children

    def _root_node(self, seed: FloatArray | None) -> Node:
        """Create the root node with the best of several shifts; `seed` is an optional one from the caller."""
        rows = np.abs(self.M).sum(axis=1)
        shifts = [0.5 * np.concatenate([[0.0], z, z[self.order]]) for z in (rows, seed) if z is not None]
        if not deadline.over():
            z = root_shift(self.M)
            shifts.append(np.concatenate([[0.0], z[self.size :], z[: self.size][self.order]]))
        B = homogenized(np.zeros(self.size), free_matrix(self.M[self.order]))
        bounds = [shift_bound(B, shift) for shift in shifts]
        best = int(np.argmin(bounds))
        return Node(_ROOT, shifts[best], bounds[best] + self.rounding)

    def child(self, parent: Node, signs: SignArray, K: FloatArray, c: FloatArray, remaining: FloatArray) -> Node:
        """Create the child of `signs`; its shift is improved from `remaining`, the parent's in child coordinates."""
        B, shift = homogenized(c, K), np.zeros(1)
        if len(K):
            shift = tighten(K, c, remaining[1:], self.pool.target)
        bound = shift_bound(B, shift) + self.rounding
        if bound > parent.bound:
            other = shift_bound(B, remaining) + self.rounding
            if other < bound:
                bound, shift = other, remaining
        return Node(signs, shift, bound)

    def _leaf(self, node: Node) -> Leaf:
        """Convert a node to a leaf in all coordinates, with zeros for zero rows, and in the original units."""
        n, N, k = self.size, self.scaled.size, len(node.signs)
        full = np.zeros(1 + N + N - k)
        full[0] = node.shift[0]
        full[1 + self.scaled.support] = node.shift[1 : 1 + n]
        full[1 + N : 1 + N + n - k] = node.shift[1 + n :]
        return Leaf(node.signs, np.ldexp(full, self.scaled.exponent))

    def _push(self, node: Node, ticket: count[int]) -> None:
        heapq.heappush(self.open, (-node.bound, next(ticket), node))

    def _is_closed(self, bound: float) -> bool:
        return bound <= self.pool.target + ROUNDING * self.pool.best
