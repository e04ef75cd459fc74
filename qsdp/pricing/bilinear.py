r"""The oracle of bilinear networks: :math:`\max_{u, v} |u^T M v| = \max_u \|Mu\|_1`."""

from __future__ import annotations

import numpy as np

from qsdp._utils.deadline import Deadline
from qsdp._utils.validation import FloatArray, check_integer
from qsdp.pricing.bilinear_tree import BilinearTree
from qsdp.pricing.oracle import Oracle
from qsdp.pricing.pool import PairPool
from qsdp.pricing.result import SignArray
from qsdp.pricing.scaling import Scaled
from qsdp.pricing.search import improve

__all__ = ["BilinearOracle"]


class BilinearOracle(Oracle[PairPool]):
    r"""Searches for, and proves, the largest :math:`|u^T M v|` over :math:`u, v \in \{\pm1\}^N`.

    Parameters
    ----------
    size : int
        N.
    enumerated : int, default=40
        Number of free coordinates up to which all vectors may be enumerated, if that is faster than branching
        and within the time limit: at worst two seconds for 33, and 1.9 times as many for each one more.

    Examples
    --------
    >>> import numpy as np
    >>> from qsdp.pricing import BilinearOracle
    >>> best = BilinearOracle(3).prove(np.array([[1.0, 2.0, 0.0], [2.0, -1.0, 0.0], [0.0, 0.0, 1.0]]))
    >>> best.value, best.exact, best.upper - best.value < 1e-12
    (5.0, True, True)
    """

    def __init__(self, size: int, *, enumerated: int = 40) -> None:
        self.size = check_integer("size", size, minimum=1)
        self.enumerated = check_integer("enumerated", enumerated, minimum=0, maximum=40)

    def _pool(self, scaled: Scaled, threshold: float, max_atoms: int, incumbent: float, slack: float) -> PairPool:
        return PairPool(scaled.M, threshold, max_atoms, incumbent, slack)

    def _draw(self, rng: np.random.Generator, count: int, free: int, size: int) -> FloatArray:
        return rng.choice([-1.0, 1.0], size=(count, size))

    def _improve(
        self, pool: PairPool, starts: FloatArray, free: int, rng: np.random.Generator, deadline: Deadline
    ) -> None:
        improve(pool, starts, deadline)

    def _tree(self, scaled: Scaled, pool: PairPool, deadline: Deadline) -> BilinearTree:
        return BilinearTree(scaled, pool, self.enumerated, deadline)

    def _atoms(self, scaled: Scaled, pool: PairPool) -> tuple[SignArray, SignArray, SignArray]:
        U, V = pool.pairs
        return scaled.expand(U), scaled.expand(V), np.ones(len(U), dtype=np.int8)
