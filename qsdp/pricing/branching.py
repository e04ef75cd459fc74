"""Best-first branch and bound: bounds of nodes, or enumeration where that closes them sooner."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import count

import numpy as np

from qsdp._utils.deadline import Deadline
from qsdp._utils.validation import FloatArray
from qsdp.pricing.pool import Pool
from qsdp.pricing.result import SignArray

__all__ = ["CHUNK", "Node", "TreeSearch"]

#: Vectors evaluated at once.
CHUNK = 2**15

#: Relative distance at which a bound counts as reaching the best price: rounding, not looseness.
_TOUCH = 1e-9

#: Floats in the shifts of open nodes before the search dives instead of branching best-first.
_OPEN_FLOATS = 10**7


@dataclass(frozen=True, eq=False)
class Node:
    """Vectors that share their first entries, and what bounds their price; `sign` is that of a form K or -K."""

    signs: SignArray
    shift: FloatArray
    bound: float
    sign: int = 1


class _Effort:
    """Predicts the time, in seconds of one core, that branching takes to close a node.

    A branching has lowered the bound by so much on average; the nodes needed to close the gap multiply with
    every level.
    """

    def __init__(self, size: int, bound: float, node: float, branches: int) -> None:
        self.node, self.branches = node, branches
        # A first guess that counts like ten branchings.
        self.drops, self.weight = 10.0 * bound / (2.5 * max(size, 1)), 10.0

    def learn(self, drop: float) -> None:
        """Take note of how much lower than its parent's the bound of a child is."""
        self.drops += max(0.0, drop)
        self.weight += 1.0

    def seconds(self, gap: float) -> float:
        """Return the time to close a node whose bound exceeds the best price by `gap`."""
        levels = gap * self.weight / self.drops if self.drops > 0.0 else np.inf
        return float(self.node * float(self.branches) ** min(levels, 100.0))


class TreeSearch(ABC):
    """One proof by branch and bound.

    Parameters
    ----------
    pool : Pool
        Holds the best price, and takes in the vectors met.
    deadline : Deadline
        Polled often.
    size : int
        Number of coordinates.
    branches : int
        Number of children of a node.
    node_seconds : float
        Rough time that the bound of a node takes.
    """

    def __init__(
        self, pool: Pool, deadline: Deadline, size: int, branches: int = 2, node_seconds: float = 3e-3
    ) -> None:
        self.pool, self.deadline, self.size = pool, deadline, size
        self.branches, self.node_seconds = branches, node_seconds
        self.open: list[tuple[float, int, Node]] = []
        self.closed: list[Node] = []
        self.enumerated: list[tuple[SignArray, int]] = []

    @abstractmethod
    def children(self, node: Node) -> list[Node]:
        """Return the nodes that fix one more coordinate."""

    @abstractmethod
    def enumerate(self, node: Node) -> bool:
        """Show all completions to the pool; return whether that was finished."""

    @abstractmethod
    def enumeration_seconds(self, node: Node) -> float:
        """Return roughly how long enumeration takes: infinite if not allowed, zero if there is no choice."""

    def run(self, roots: list[Node]) -> bool:
        """Close all nodes below `roots`; return whether that was finished."""
        ticket = count()
        effort = _Effort(self.size, max(root.bound for root in roots), self.node_seconds, self.branches)
        for root in roots:
            self._push(root, ticket)
        dive: list[Node] = []
        while self.open or dive:
            diving = bool(dive)
            node = dive.pop() if diving else heapq.heappop(self.open)[2]
            if self._reached(node.bound):
                self.closed.append(node)
                continue
            children: list[Node] = []
            done = not self._stop()
            seconds = self.enumeration_seconds(node)
            # What cannot be finished in time proves nothing.
            worth = seconds < min(effort.seconds(node.bound - self.pool.target), 0.5 * self.deadline.left)
            if done and (worth or seconds == 0.0):
                done = self.enumerate(node)
                if done:
                    self.enumerated.append((node.signs, node.sign))
            elif done:
                children = self.children(node)
            if not done:
                for rest in [node, *dive]:
                    self._push(rest, ticket)
                return False
            for child in children:
                effort.learn(node.bound - child.bound)
                if self._reached(child.bound):
                    self.closed.append(child)
                elif diving or len(self.open) * len(child.shift) > _OPEN_FLOATS:
                    dive.append(child)
                else:
                    self._push(child, ticket)
        return True

    def _stop(self) -> bool:
        return self.deadline.over

    def upper(self, rounding: float) -> float:
        """Return the bound proven: that of the nodes, and of the enumeration with its rounding."""
        found = self.pool.best
        if self.enumerated:
            found = max(found, self.pool.level())
        return max([found + rounding, *(node.bound for node in self.bounded())])

    def bounded(self) -> list[Node]:
        """Return the nodes that were not enumerated."""
        return self.closed + [node for _, _, node in self.open]

    def _push(self, node: Node, ticket: count[int]) -> None:
        heapq.heappush(self.open, (-node.bound, next(ticket), node))

    def _reached(self, bound: float) -> bool:
        return bound <= self.pool.target + _TOUCH * self.pool.best
