"""Trees of bounds on the bilinear price: enumeration of leaves, best-first branching above them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qsdp._validation import FloatArray
from qsdp.pricing.enumeration import Enumeration, IntArray, signs_of, tail_order
from qsdp.pricing.pool import AtomPool
from qsdp.pricing.result import Leaf, PriceTree
from qsdp.pricing.scaling import Scaled, rounding

__all__ = ["Branching"]

#: Sign vectors evaluated at once.
_CHUNK = 2**15


class Branching:
    """One proof (first version: one enumeration)."""

    def __init__(self, scaled: Scaled, pool: AtomPool, enumerated: int, stop: Callable[[], bool]) -> None:
        self.scaled, self.pool, self.enumerated, self.stop = scaled, pool, enumerated, stop
        self.order = tail_order(scaled.M)
        self.leaves: list[Leaf] = []

    def run(self, seed: FloatArray | None) -> tuple[float, bool]:
        """Return the upper bound and whether it is exact."""
        M = self.scaled.M
        if len(M):
            rows = M[self.order]
            inverse = np.argsort(self.order)

            def accept(codes: IntArray) -> None:
                for begin in range(0, len(codes), _CHUNK):
                    self.pool.add(signs_of(codes[begin : begin + _CHUNK], len(rows))[:, inverse])

            finished = Enumeration(rows, self.stop).run(
                np.zeros(len(M)), half=True, level=self.pool.level, accept=accept, stop=self.stop
            )
            if not finished:
                return float(np.abs(M).sum()), False
        self.leaves.append(Leaf(np.empty(0, dtype=np.int8), None))
        return max(self.pool.best, min(self.pool.level(), self.pool.target)) + rounding(M), True

    def tree(self) -> PriceTree:
        """Return the tree."""
        return PriceTree(self.scaled.order(self.order), tuple(self.leaves))

    def verify(self, tree: PriceTree) -> float:
        """Return a bound."""
        return self.run(None)[0]
