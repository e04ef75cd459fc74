"""Best-first branch and bound in which nodes of few vectors are enumerated."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.numeric import ROUNDING
from qsdp._utils.parallel import LARGE_FLOATS
from qsdp._utils.validation import FloatArray
from qsdp.pricing.pool import Pool
from qsdp.pricing.result import BoundTree, Leaf, SignArray
from qsdp.pricing.scaling import Scaled
from qsdp.pricing.shifts import homogenized, shift_bound, tighten

__all__ = ["Node", "TreeSearch"]


@dataclass(frozen=True, eq=False)
class Node:
    """Node: the vectors with fixed first entries and a bound on their values."""

    signs: SignArray
    shift: FloatArray
    bound: float


class TreeSearch(ABC):
    """Proof of an upper bound by branch and bound; a time limit is checked at every node and in enumerations.

    Parameters
    ----------
    scaled : Scaled
        The matrix.
    pool : Pool
        Collects the evaluated vectors and keeps the best value.
    order : ndarray of shape (n,), intp
        Order in which coordinates are fixed.
    root : ndarray of shape (k,), int8
        Values of the coordinates that are fixed from the start.
    rounding : float
        Bound on the rounding error of an evaluated value; the bound of a shift already includes that of eigenvalues.
    """

    def __init__(
        self,
        scaled: Scaled,
        pool: Pool,
        *,
        order: npt.NDArray[np.intp],
        root: SignArray,
        rounding: float,
    ) -> None:
        self.scaled, self.pool, self.size = scaled, pool, len(scaled.M)
        self.order, self.inverse, self.root, self.rounding = order, np.argsort(order), root, rounding
        self.open: list[tuple[float, int, Node]] = []
        self.closed: list[Node] = []
        self.enumerated: list[SignArray] = []

    @abstractmethod
    def _is_small(self, k: int) -> bool:
        """Whether vectors with k fixed coordinates are few enough to be enumerated, or cannot be branched."""

    @abstractmethod
    def _root_node(self, seed: FloatArray | None) -> Node:
        """Create the root node, which contains all vectors; `seed` is an optional shift from the caller."""

    @abstractmethod
    def children(self, node: Node) -> list[Node]:
        """Create the child nodes, which fix one more coordinate."""

    @abstractmethod
    def enumerate(self, fixed: SignArray) -> bool:
        """Enumerate all completions into the pool; return whether this finished."""

    @abstractmethod
    def _expanded(self, shift: FloatArray, k: int) -> FloatArray:
        """Expand the shift of a node with k fixed coordinates by zeros for the zero rows of the matrix."""

    def prove(self, seed: FloatArray | None) -> tuple[float, bool]:
        """Prove an upper bound on the maximum; return it, and whether it is exact. `seed` is a shift of the root."""
        if self._is_small(len(self.root)) and self.enumerate(self.root):
            self.enumerated.append(self.root)
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
        found = self.pool.best
        if self.enumerated:
            found = max(found, self.pool.level())
        return max([found + self.rounding, *(node.bound for node in self.bounded())])

    def bounded(self) -> list[Node]:
        """Return the nodes that were not enumerated."""
        return self.closed + [node for _, _, node in self.open]

    def first_node(self, K: FloatArray, c: FloatArray, shifts: Sequence[FloatArray]) -> Node:
        """Create a root node with the best of several shifts."""
        B = homogenized(c, K)
        bounds = [shift_bound(B, shift) for shift in shifts]
        best = int(np.argmin(bounds))
        return Node(self.root, shifts[best], bounds[best] + self.rounding)

    def child(self, parent: Node, signs: SignArray, K: FloatArray, c: FloatArray, kept: FloatArray) -> Node:
        """Create the child node of `signs`; its shift is improved from `kept`, the parent's in child coordinates."""
        B, shift = homogenized(c, K), np.zeros(1)
        if len(K):
            shift = tighten(K, c, kept[1:], self.pool.target)
        bound = shift_bound(B, shift) + self.rounding
        if bound > parent.bound:
            other = shift_bound(B, kept) + self.rounding
            if other < bound:
                bound, shift = other, kept
        return Node(signs, shift, bound)

    def _leaf(self, node: Node) -> Leaf:
        """Convert a node to a leaf in all coordinates and in the original units."""
        shift = self._expanded(node.shift, len(node.signs))
        return Leaf(node.signs, np.ldexp(shift, self.scaled.exponent))

    def _push(self, node: Node, ticket: count[int]) -> None:
        heapq.heappush(self.open, (-node.bound, next(ticket), node))

    def _is_closed(self, bound: float) -> bool:
        return bound <= self.pool.target + ROUNDING * self.pool.best
