r"""Oracle of bilinear networks: :math:`\max_{u, v} |u^T M v| = \max_u \|Mu\|_1`."""

from __future__ import annotations

from typing import Any

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.numeric import DIGITS
from qsdp._utils.parallel import chunks
from qsdp._utils.tuning import MOST_STEPS
from qsdp._utils.validation import FloatArray, check_integer
from qsdp.pricing.bilinear_tree import BilinearTree
from qsdp.pricing.oracle import Oracle
from qsdp.pricing.pool import CENTRES, PairPool, signs
from qsdp.pricing.result import SignArray
from qsdp.pricing.scaling import Scaled

__all__ = ["BilinearOracle", "check_enumerated"]


def check_enumerated(name: str, value: Any) -> int:
    """Check a number of free signs whose vectors are enumerated; more than 40 would take days."""
    return check_integer(name, value, minimum=0, maximum=40)


class BilinearOracle(Oracle[PairPool]):
    r"""Pricing oracle for the largest :math:`|u^T M v|` over :math:`u, v \in \{\pm1\}^N`: search and proof.

    Parameters
    ----------
    size : int
        N.
    enumerated : int, default=30
        Number of free coordinates up to which all vectors are enumerated instead of branching. This takes at worst 0.3
        seconds for 30, and 1.9 times as long for each further one.

    Examples
    --------
    >>> import numpy as np
    >>> from qsdp.pricing import BilinearOracle
    >>> best = BilinearOracle(3).prove(np.array([[1.0, 2.0, 0.0], [2.0, -1.0, 0.0], [0.0, 0.0, 1.0]]))
    >>> best.value, best.exact, best.upper - best.value < 1e-12
    (5.0, True, True)
    """

    def __init__(self, size: int, *, enumerated: int = 30) -> None:
        self.size = check_integer("size", size, minimum=1)
        self.enumerated = check_enumerated("enumerated", enumerated)

    def _pool(self, scaled: Scaled, threshold: float, max_atoms: int, incumbent: float, slack: float) -> PairPool:
        return PairPool(scaled.M, threshold, max_atoms, incumbent, slack)

    def _draw(self, rng: np.random.Generator, count: int, size: int) -> FloatArray:
        return rng.choice([-1.0, 1.0], size=(count, size))

    def _improve(self, pool: PairPool, starts: FloatArray) -> None:
        improve(pool, starts)

    def _tree(self, scaled: Scaled, pool: PairPool) -> BilinearTree:
        return BilinearTree(scaled, pool, self.enumerated)

    def _atoms(self, scaled: Scaled, pool: PairPool) -> tuple[SignArray, SignArray]:
        U, V = pool.pairs
        return scaled.expand(U), scaled.expand(V)


def alternate(M: FloatArray, U: FloatArray) -> FloatArray:
    r"""Increase :math:`\|Mu\|_1` by sign alternation, ``v = sign(M u)``, ``u = sign(M v)``, from the rows of U.

    Most starts settle within ten rounds.
    """
    U = U.copy()
    active = np.arange(len(U))
    for _ in range(MOST_STEPS):
        moved = signs(signs(U[active] @ M) @ M)
        changed = (moved != U[active]).any(axis=1)
        active, moved = active[changed], moved[changed]
        if len(active) == 0:
            break
        U[active] = moved
    return U


def improve(pool: PairPool, starts: FloatArray) -> None:
    """Local search: add to the pool the optima reached from `starts` and from neighbours of the best optima.

    In each round every sign of the best distinct optima is flipped.
    """
    N = len(pool.M)
    U, values = _settle(pool, starts, first=True)
    flips = 1.0 - 2.0 * np.eye(N)
    tried: set[bytes] = set()
    for _ in range(MOST_STEPS):
        # One optimum per value is enough, because most ties are the same atom in another version.
        _, distinct = np.unique(np.round(values, DIGITS), return_index=True)
        centres = [u for u in U[distinct[::-1][:CENTRES]] if (u * u[0]).tobytes() not in tried]
        if not centres or deadline.over():
            return
        tried.update((u * u[0]).tobytes() for u in centres)
        before = np.sort(values)[-min(CENTRES, len(values)) :].min()
        moved, gained = _settle(pool, (np.array(centres)[:, None, :] * flips[None]).reshape(-1, N))
        better = gained > before
        if not better.any():
            return
        U, values = np.vstack([U, moved[better]]), np.concatenate([values, gained[better]])


def _settle(pool: PairPool, starts: FloatArray, *, first: bool = False) -> tuple[FloatArray, FloatArray]:
    """Alternate from as many starts as time allows, add the optima to the pool, and return them with their values.

    With `first`, the starts themselves are added as well.
    """
    found, values = [starts[:0]], [np.empty(0)]
    for rows in deadline.in_time(chunks(len(starts), len(pool.M))):
        if first:
            pool.add(starts[rows])
        found.append(alternate(pool.M, starts[rows]))
        values.append(pool.add(found[-1]))
    return np.vstack(found), np.concatenate(values)
