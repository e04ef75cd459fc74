"""Pool of the best distinct atoms, and the level that further atoms must exceed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qsdp._utils.tuning import MAX_STEPS
from qsdp._utils.validation import FloatArray
from qsdp.pricing.bound_trees import SignArray

__all__ = ["CENTRES", "Pool", "alternate", "alternated_pairs", "canonical", "signs"]

#: Maximum number of optima near which a round of local search continues.
CENTRES = 30


def signs(values: FloatArray) -> FloatArray:
    """Return the signs of an array as floats, +1 for zero."""
    # Adding zero turns -0 into +0, which is faster than a comparison and a selection.
    result: FloatArray = np.copysign(1.0, values + 0.0)
    return result


def alternate(M: FloatArray, U: FloatArray) -> FloatArray:
    r"""Increase :math:`\|Mu\|_1` by sign alternation, ``v = sign(M u)``, ``u = sign(M v)``, from the rows of U.

    Most starts converge within ten rounds.
    """
    U = U.copy()
    active = np.arange(len(U))
    for _ in range(MAX_STEPS):
        moved = signs(signs(U[active] @ M) @ M)
        changed = (moved != U[active]).any(axis=1)
        active, moved = active[changed], moved[changed]
        if len(active) == 0:
            break
        U[active] = moved
    return U


def alternated_pairs(M: FloatArray, vectors: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Alternate signs from those of vectors (k, N); return the values :math:`\|Mu\|_1`, U, and V = sign(U M)."""
    U = alternate(M, signs(vectors))
    products = U @ M
    return np.abs(products).sum(axis=1), U, signs(products)


class Pool:
    r"""Collection of the pairs (u, sign(Mu)) with the largest values :math:`\|Mu\|_1`, distinct up to signs and order.

    Parameters
    ----------
    M : ndarray of shape (N, N)
        Symmetric.
    threshold : float
        Only atoms of a larger value are stored.
    max_atoms : int
        Maximum number of atoms.
    incumbent : float
        A value known to be attained.
    slack : float
        Relative tolerance of the best value.
    """

    #: Enumeration collects atoms only if their value is within this fraction of the best. Lower ones are useless while
    #: much better ones exist, and a lower level would screen fewer vectors.
    band = 0.01

    def __init__(self, M: FloatArray, threshold: float, max_atoms: int, incumbent: float, slack: float) -> None:
        self.M, self.threshold, self.max_atoms, self.slack = M, max(threshold, 0.0), max_atoms, slack
        self.best = max(0.0, incumbent)
        self.values: FloatArray = np.empty(0)
        self.atoms: SignArray = np.empty((0, 0), dtype=np.int8)

    def add(self, vectors: FloatArray) -> FloatArray:
        """Add vectors u, given as rows, and return their values."""
        P = vectors @ self.M
        values: FloatArray = np.abs(P).sum(axis=1)
        chosen = self._chosen(values)
        if len(chosen):
            pairs = canonical(vectors[chosen].astype(np.int8), signs(P[chosen]).astype(np.int8))
            self._merge(np.hstack(pairs), values[chosen])
        return values

    @property
    def pairs(self) -> tuple[SignArray, SignArray]:
        """Return U and V of shape (k, N)."""
        N = len(self.M)
        atoms = self.atoms.reshape(len(self.values), 2 * N)
        return atoms[:, :N], atoms[:, N:]

    @property
    def target(self) -> float:
        """Bound below which a set of vectors cannot improve the best value by more than the slack."""
        return (1.0 + self.slack) * self.best

    def level(self) -> float:
        """Return the value that a vector must exceed to improve the best value or the pool; it never falls."""
        if self.max_atoms == 0 or self.threshold >= self.target:
            return self.target
        smallest = float(self.values[-1]) if len(self.values) == self.max_atoms else 0.0
        return min(self.target, max(self.threshold, smallest, (1.0 - self.band) * self.best))

    def _chosen(self, values: FloatArray) -> npt.NDArray[np.intp]:
        """Update the best value, and select the vectors to be merged into the pool."""
        if len(values) == 0:
            return np.arange(0)
        self.best = max(self.best, float(values.max()))
        wanted = values > self.threshold
        if len(self.values) == self.max_atoms:
            wanted &= values > (self.values[-1] if self.max_atoms else np.inf)
        chosen = np.flatnonzero(wanted)
        # This is more than enough even if every atom occurs in four versions; ties are broken by position.
        count = 2 * 4 * self.max_atoms
        return chosen[np.argsort(-values[chosen], kind="stable")[:count]] if len(chosen) > count else chosen

    def _merge(self, atoms: SignArray, values: FloatArray) -> None:
        """Merge atoms into the pool without duplicate rows, and keep the best."""
        if len(self.values):
            atoms, values = np.vstack([self.atoms, atoms]), np.concatenate([self.values, values])
        # Rows are compared, not values, because the values of versions of one atom differ by rounding.
        keys = np.ascontiguousarray(atoms).view(np.dtype((np.void, atoms.shape[1]))).ravel()
        _, first = np.unique(keys, return_index=True)
        best = first[np.argsort(-values[first], kind="stable")][: self.max_atoms]
        self.atoms, self.values = atoms[best], values[best]


def canonical(U: SignArray, V: SignArray) -> tuple[SignArray, SignArray]:
    """Choose a canonical representative of (u, v), (-u, -v), (v, u) and (-v, -u) for every row."""
    first, second = U * U[:, :1], V * V[:, :1]
    unequal = first != second
    where = np.argmax(unequal, axis=1)
    rows = np.arange(len(U))
    swap = first[rows, where] < second[rows, where]
    # This keeps the sign of the product u' M v.
    sign = U[:, :1] * V[:, :1]
    left, right = np.where(swap[:, None], second, first), np.where(swap[:, None], first, second)
    return left, right * sign
