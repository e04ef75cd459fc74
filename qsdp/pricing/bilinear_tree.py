"""The tree of a proof of the bilinear price."""

from __future__ import annotations

import numpy as np

from qsdp._utils.deadline import Deadline
from qsdp._utils.validation import FloatArray
from qsdp.inner_problem import grothendieck_bound
from qsdp.pricing.branching import CHUNK, Node, TreeSearch
from qsdp.pricing.enumeration import Enumeration
from qsdp.pricing.pool import PairPool
from qsdp.pricing.result import Leaf, PriceTree, SignArray
from qsdp.pricing.scaling import Scaled, rounding
from qsdp.pricing.shifts import bordered, leaf_matrix, root_shift, shift_bound, tighten
from qsdp.pricing.sign_vectors import IntArray, signs_of, tail_order

__all__ = ["BilinearTree"]

#: Coordinates up to which enumeration is faster than any bound.
_SMALL = 22

#: Seconds in which one column of one vector is screened, what follows included.
_SCREENED = 0.4e-9

_NONE: SignArray = np.empty(0, dtype=np.int8)


class BilinearTree(TreeSearch):
    """Bounds the price over vectors u with given first signs.

    Parameters
    ----------
    scaled : Scaled
    pool : PairPool
    limit : int
        Number of free coordinates up to which a node may be enumerated.
    deadline : Deadline
        Polled often.
    """

    def __init__(self, scaled: Scaled, pool: PairPool, limit: int, deadline: Deadline) -> None:
        N = len(scaled.M)
        super().__init__(pool, deadline, N, node_seconds=3e-3 * max(1.0, N / 33.0) ** 2.5)
        self.scaled, self.limit, self.M = scaled, limit, scaled.M
        self.order = tail_order(self.M)
        self.enumerations: dict[int, Enumeration] = {}
        # Of fixed signs' sums and of enumerated prices; that of eigenvalues is in every shift's bound.
        self.margin = rounding(self.M)
        # Logarithms of the times of enumerations relative to the worst; a guess that counts like one.
        self.logs, self.weight = -1.0, 1.0

    def prove(self, seed: FloatArray | None) -> tuple[float, bool]:
        """Return an upper bound on the maximum, and whether it is exact; `seed` is a shift of the root."""
        whole = Node(_NONE, np.empty(0), np.inf)
        if self.size == 0 or (self.size <= min(_SMALL, self.limit) and self.enumerate(whole)):
            self.enumerated.append((_NONE, 1))
            return self.upper(self.margin), True
        exact = self.run([self._root(seed)])
        return self.upper(self.margin), exact

    def tree(self) -> PriceTree:
        """Return the tree that proves the bound."""
        leaves = [Leaf(signs, None) for signs, _ in self.enumerated] + [self._leaf(node) for node in self.bounded()]
        return PriceTree(self.scaled.order(self.order), tuple(leaves))

    def verify(self, tree: PriceTree) -> float:
        """Return the bound that a tree proves."""
        N = self.scaled.size
        position = np.full(N, -1)
        position[self.scaled.support] = np.arange(self.size)
        inside = position[tree.order] >= 0
        self.order = position[tree.order][inside]
        proven, plain = 0.0, []
        for leaf in tree.leaves:
            k = len(leaf.signs)
            signs = leaf.signs[inside[:k]]
            if leaf.shift is None:
                plain.append(Node(signs, np.empty(0), np.inf))
                continue
            shift = np.ldexp(leaf.shift, -self.scaled.exponent)
            kept = np.concatenate([[True], position >= 0, inside[k:]])
            # Zero rows need no shift; a positive one of theirs only makes the bound larger.
            spare = float(np.abs(shift[~kept]).sum())
            proven = max(proven, shift_bound(self._matrix(signs), shift[kept]) + self.margin + spare)
        # Vectors below what the other leaves prove need not be told apart.
        self.pool.best = max(self.pool.best, proven)
        for node in plain:
            if self.size:
                self.enumerate(node)
        return max(proven, self.pool.best + self.margin if plain else 0.0)

    def enumeration_seconds(self, node: Node) -> float:
        """Return the time, which depends on how far apart prices are: learned from what was enumerated."""
        free = self.size - len(node.signs)
        if free > self.limit:
            return np.inf
        ratio = np.exp(self.logs / self.weight)
        return float(2e-3 + ratio * _at_worst(free)) if free > 1 else 0.0

    def enumerate(self, node: Node) -> bool:
        """Take in all completions; return whether that was finished."""
        k, free = len(node.signs), self.size - len(node.signs)
        if k not in self.enumerations:
            self.enumerations[k] = Enumeration(self.M[self.order[k:]], self._stop)
        inverse = np.argsort(self.order)
        fixed = node.signs.astype(np.float64)

        def accept(codes: IntArray) -> None:
            for begin in range(0, len(codes), CHUNK):
                rest = signs_of(codes[begin : begin + CHUNK], free)
                U = np.hstack([np.broadcast_to(fixed, (len(rest), k)), rest])
                self.pool.add(U[:, inverse])

        enumeration = self.enumerations[k]
        before = enumeration.work
        finished = enumeration.run(
            fixed @ self.M[self.order[:k]],
            half=k == 0,
            level=self.pool.level,
            accept=accept,
            stop=self._stop,
        )
        if finished and free > _SMALL:
            # Counted, not measured, so that proofs repeat.
            seconds = _SCREENED * self.size * (enumeration.work - before)
            self.logs += float(np.log((seconds + 1e-3) / _at_worst(free)))
            self.weight += 1.0
        return finished

    def children(self, node: Node) -> list[Node]:
        """Return both nodes with one more sign; below the root, with two, of which the first is +1."""
        N, k = self.size, max(len(node.signs), 1)
        extra = k - len(node.signs)
        prefix = np.concatenate([node.signs, np.ones(extra, dtype=np.int8)])
        K = leaf_matrix(self.M[self.order[k + 1 :]])
        start = node.shift[1 + np.r_[:N, N + extra + 1 : 2 * N - len(node.signs)]]
        # The parent's shift, its newly fixed coordinates added to the first entry, is one of the children's.
        first = node.shift[0] + node.shift[1 + N : 2 + N + extra].sum()
        children = []
        for sign in (1, -1):
            signs = np.append(prefix, np.int8(sign))
            c = signs.astype(np.float64) @ self.M[self.order[: k + 1]]
            B = bordered(c, K)
            shift = tighten(K, c, start, self.pool.target)
            bound = shift_bound(B, shift) + self.margin
            if bound > node.bound:
                kept = np.concatenate([[first], start])
                bound, shift = min((bound, 0, shift), (shift_bound(B, kept) + self.margin, 1, kept))[::2]
            children.append(Node(signs, shift, bound))
        return children

    def _root(self, seed: FloatArray | None) -> Node:
        K = leaf_matrix(self.M[self.order])
        rows = np.abs(self.M).sum(axis=1)
        shifts = [0.5 * np.concatenate([[0.0], z, z[self.order]]) for z in (rows, seed) if z is not None]
        if not self.deadline.over:
            z = root_shift(grothendieck_bound, self.M)
            shifts.append(np.concatenate([[0.0], z[self.size :], z[: self.size][self.order]]))
        B = bordered(np.zeros(self.size), K)
        bounds = [shift_bound(B, shift) + self.margin for shift in shifts]
        best = int(np.argmin(bounds))
        return Node(_NONE, shifts[best], bounds[best])

    def _leaf(self, node: Node) -> Leaf:
        """Return the node as a leaf in all coordinates and the given matrix's units."""
        n, N, k = self.size, self.scaled.size, len(node.signs)
        shift = np.zeros(1 + N + N - k)
        shift[0] = node.shift[0]
        shift[1 + self.scaled.support] = node.shift[1 : 1 + n]
        shift[1 + N : 1 + N + n - k] = node.shift[1 + n :]
        return Leaf(node.signs, np.ldexp(shift, self.scaled.exponent))

    def _matrix(self, signs: SignArray) -> FloatArray:
        k = len(signs)
        return bordered(signs.astype(np.float64) @ self.M[self.order[:k]], leaf_matrix(self.M[self.order[k:]]))


def _at_worst(free: int) -> float:
    """Return the seconds that an enumeration took where prices were least apart, at the optimum of a training."""
    return float(2.0 * 1.9 ** (free - 33.0))
