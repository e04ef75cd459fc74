"""Trees of bounds on the bilinear price: enumeration of leaves, best-first branching above them."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np

from qsdp._validation import FloatArray
from qsdp.pricing.enumeration import Enumeration, IntArray, signs_of, tail_order
from qsdp.pricing.pool import AtomPool
from qsdp.pricing.result import Leaf, PriceTree, SignArray
from qsdp.pricing.scaling import Scaled, rounding
from qsdp.pricing.shifts import bordered, first_shift, leaf_matrix, shift_bound, tighten

__all__ = ["Branching", "Effort"]

#: Sign vectors evaluated at once.
_CHUNK = 2**15

#: Coordinates up to which enumeration is faster than any bound.
_SMALL = 22

#: Relative distance at which a bound counts as reaching the best price: rounding, not looseness.
_TOUCH = 1e-9

#: Floats in the shifts of open nodes before the search dives instead of branching best-first.
_OPEN_FLOATS = 10**7


@dataclass(frozen=True, eq=False)
class Node:
    """Vectors that share their first signs, and what bounds their price."""

    signs: SignArray
    shift: FloatArray
    bound: float


class Effort:
    """Predicts whether branching closes a node in less time than enumeration.

    A branching has lowered the bound by so much on average; the nodes needed to close the gap double with
    every level. Times are those of one core, in seconds, and need not be accurate.
    """

    def __init__(self, size: int, bound: float) -> None:
        self.node = 3e-3 * max(1.0, size / 33.0) ** 2.5
        # A first guess that counts like ten branchings.
        self.drops, self.weight = 10.0 * bound / (2.5 * size), 10.0

    def learn(self, drop: float) -> None:
        """Take note of how much lower than its parent's the bound of a child is."""
        self.drops += max(0.0, drop)
        self.weight += 1.0

    def enumerate(self, free: int, gap: float) -> bool:
        """Return whether to enumerate a node of so many free coordinates, so far above the best price."""
        drop = self.drops / self.weight
        levels = gap / drop if drop > 0.0 else np.inf
        return bool(self.node * 2.0 ** min(levels, 100.0) > 2e-3 + 2.0 ** (free - 32.0))


class Branching:
    """One proof.

    Parameters
    ----------
    scaled : Scaled
    pool : AtomPool
        Holds the best price, and takes in the vectors met.
    enumerated : int
        Number of free coordinates up to which a node may be enumerated.
    stop : callable
        Polled often.
    """

    def __init__(self, scaled: Scaled, pool: AtomPool, enumerated: int, stop: Callable[[], bool]) -> None:
        self.scaled, self.pool, self.enumerated, self.stop = scaled, pool, enumerated, stop
        self.M = scaled.M
        self.order = tail_order(self.M)
        self.leaves: list[Leaf] = []
        self.enumerations: dict[int, Enumeration] = {}
        self.open: list[tuple[float, int, Node]] = []
        self.proven = 0.0

    def run(self, seed: FloatArray | None) -> tuple[float, bool]:
        """Return an upper bound on the maximum, and whether it is exact; `seed` is a shift of the root."""
        N = len(self.M)
        if min(_SMALL, self.enumerated) >= N and self._enumerate(np.empty(0, dtype=np.int8)):
            return self._upper(), True
        ticket = count()
        root = self._root(seed)
        effort = Effort(N, root.bound)
        self.open = [(-root.bound, next(ticket), root)]
        dive: list[Node] = []
        while self.open or dive:
            diving = bool(dive)
            node = dive.pop() if diving else heapq.heappop(self.open)[2]
            if self._reached(node.bound):
                self._close(node)
                continue
            free = N - len(node.signs)
            gap = node.bound - self.pool.target
            done = False
            if not self.stop():
                if free <= self.enumerated and (free <= 1 or effort.enumerate(free, gap)):
                    done = self._enumerate(node.signs)
                    children = []
                else:
                    children = self._children(node)
                    done = True
            if not done:
                for rest in [node, *dive]:
                    heapq.heappush(self.open, (-rest.bound, next(ticket), rest))
                return self._upper(), False
            for child in children:
                effort.learn(node.bound - child.bound)
                if self._reached(child.bound):
                    self._close(child)
                elif diving or len(self.open) * 2 * N > _OPEN_FLOATS:
                    dive.append(child)
                else:
                    heapq.heappush(self.open, (-child.bound, next(ticket), child))
        return self._upper(), True

    def tree(self) -> PriceTree:
        """Return the tree that proves the bound."""
        leaves = self.leaves + [self._leaf(node) for _, _, node in self.open]
        return PriceTree(self.scaled.order(self.order), tuple(leaves))

    def verify(self, tree: PriceTree) -> float:
        """Return the bound that a tree proves."""
        position = np.full(self.scaled.size, -1)
        position[self.scaled.support] = np.arange(len(self.M))
        inside = position[tree.order] >= 0
        self.order = position[tree.order][inside]
        plain = []
        for leaf in tree.leaves:
            k, N = len(leaf.signs), self.scaled.size
            signs = leaf.signs[inside[:k]]
            if leaf.shift is None:
                plain.append(signs)
                continue
            shift = np.ldexp(leaf.shift, -self.scaled.exponent)
            kept = np.concatenate([[True], position >= 0, inside[k:]])
            spare = float(np.maximum(shift[~kept], 0.0).sum())
            bound = shift_bound(self._matrix(signs), shift[kept]) if len(shift) == 1 + N + N - k else np.inf
            self.proven = max(self.proven, bound + spare)
        # Vectors below what the other leaves prove need not be told apart.
        self.pool.best = max(self.pool.best, self.proven)
        for signs in plain:
            self._enumerate(signs)
        return self._upper()

    def _upper(self) -> float:
        enumerated = self.pool.best
        if any(leaf.shift is None for leaf in self.leaves):
            enumerated = max(enumerated, min(self.pool.level(), self.pool.target))
        bounds = [self.proven, *(-entry[0] for entry in self.open)]
        return max(enumerated + rounding(self.M), *bounds)

    def _reached(self, bound: float) -> bool:
        return bound <= self.pool.target + _TOUCH * self.pool.best

    def _close(self, node: Node) -> None:
        self.proven = max(self.proven, node.bound)
        self.leaves.append(self._leaf(node))

    def _leaf(self, node: Node) -> Leaf:
        """Return the node as a leaf in all coordinates and the given matrix's units."""
        n, N, k = len(self.M), self.scaled.size, len(node.signs)
        shift = np.zeros(1 + N + N - k)
        shift[0] = node.shift[0]
        shift[1 + self.scaled.support] = node.shift[1 : 1 + n]
        shift[1 + N : 1 + N + n - k] = node.shift[1 + n :]
        return Leaf(node.signs, np.ldexp(shift, self.scaled.exponent))

    def _enumerate(self, signs: SignArray) -> bool:
        """Take in all completions of `signs`; return whether that was finished."""
        k, N = len(signs), len(self.M)
        if N and k not in self.enumerations:
            self.enumerations[k] = Enumeration(self.M[self.order[k:]], self.stop)
        inverse = np.argsort(self.order)
        fixed = signs.astype(np.float64)

        def accept(codes: IntArray) -> None:
            for begin in range(0, len(codes), _CHUNK):
                free = signs_of(codes[begin : begin + _CHUNK], N - k)
                U = np.hstack([np.broadcast_to(fixed, (len(free), k)), free])
                self.pool.add(U[:, inverse])

        start = fixed @ self.M[self.order[:k]]
        finished = N == 0 or self.enumerations[k].run(
            start, half=k == 0, level=self.pool.level, accept=accept, stop=self.stop
        )
        if finished:
            self.leaves.append(Leaf(signs, None))
        return finished

    def _matrix(self, signs: SignArray) -> FloatArray:
        k = len(signs)
        return bordered(signs.astype(np.float64) @ self.M[self.order[:k]], leaf_matrix(self.M[self.order[k:]]))

    def _root(self, seed: FloatArray | None) -> Node:
        N = len(self.M)
        K = leaf_matrix(self.M[self.order])
        rows = np.abs(self.M).sum(axis=1)
        guesses = [0.5 * np.concatenate([z, z[self.order]]) for z in (rows, seed) if z is not None]
        shifts = [np.concatenate([[0.0], guess]) for guess in guesses]
        z = first_shift(K, guesses)
        shifts.append(np.concatenate([[0.0], z]))
        if not self.stop():
            shifts.append(tighten(K, np.zeros(N), z, self.pool.target, root=True))
        B = bordered(np.zeros(N), K)
        bounds = [shift_bound(B, shift) for shift in shifts]
        best = int(np.argmin(bounds))
        return Node(np.empty(0, dtype=np.int8), shifts[best], bounds[best])

    def _children(self, node: Node) -> list[Node]:
        """Return both nodes with one more sign; below the root, with two, of which the first is +1."""
        N, k = len(self.M), max(len(node.signs), 1)
        extra = k - len(node.signs)
        prefix = np.concatenate([node.signs, np.ones(extra, dtype=np.int8)])
        K = leaf_matrix(self.M[self.order[k + 1 :]])
        start = node.shift[1 + np.r_[:N, N + extra + 1 : 2 * N - len(node.signs)]]
        children = []
        for sign in (1, -1):
            signs = np.append(prefix, np.int8(sign))
            c = signs.astype(np.float64) @ self.M[self.order[: k + 1]]
            shift = tighten(K, c, start, self.pool.target)
            # The parent's shift, its fixed coordinates added to the first entry, is one of the child's.
            kept = np.concatenate([[node.shift[0] + node.shift[1 + N : 2 + N + extra].sum()], start])
            B = bordered(c, K)
            bound = shift_bound(B, shift)
            if bound > node.bound:
                bound, shift = min((bound, 0, shift), (shift_bound(B, kept), 1, kept))[::2]
            children.append(Node(signs, shift, bound))
        return children
