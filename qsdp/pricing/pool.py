"""The best distinct atoms met so far, and the level that others must exceed to matter."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qsdp._validation import FloatArray
from qsdp.pricing.result import SignArray

__all__ = ["BAND", "AtomPool", "signs"]

#: Atoms are collected by enumeration only if their price is within this share of the best: lower ones are no
#: use while so much better ones exist, and a lower level would screen less.
BAND = 0.01


def signs(values: FloatArray) -> FloatArray:
    """Return the signs of an array as floats, +1 for zero."""
    # Adding zero turns -0 to +0; faster than a comparison and a choice.
    result: FloatArray = np.copysign(1.0, values + 0.0)
    return result


class AtomPool:
    r"""Collects pairs (u, sign(Mu)) by their price :math:`\|Mu\|_1`.

    Parameters
    ----------
    M : ndarray of shape (N, N)
        Symmetric.
    threshold : float
        Atoms of no more than this price are not kept.
    max_atoms : int
        Number of atoms kept.
    incumbent : float
        A price known to be attained.
    slack : float
        Relative excess over the best price that need not be found.
    """

    def __init__(
        self, M: FloatArray, threshold: float, max_atoms: int, incumbent: float = 0.0, slack: float = 0.0
    ) -> None:
        self.M, self.threshold, self.max_atoms, self.slack = M, threshold, max_atoms, slack
        self.best = max(0.0, incumbent)
        self.values: FloatArray = np.empty(0)
        self.U: SignArray = np.empty((0, len(M)), dtype=np.int8)
        self.V = self.U

    @property
    def target(self) -> float:
        """Price that a set of vectors must be able to exceed, or it cannot improve the best beyond the slack."""
        return (1.0 + self.slack) * self.best

    def level(self) -> float:
        """Price that a vector must exceed to improve the best price or the collection; it never falls."""
        if self.max_atoms == 0 or self.threshold >= self.target:
            return self.target
        least = float(self.values[-1]) if len(self.values) == self.max_atoms else 0.0
        return min(self.target, max(self.threshold, least, (1.0 - BAND) * self.best))

    def add(self, U: FloatArray) -> FloatArray:
        """Take in sign vectors u as rows, and return their prices."""
        P = U @ self.M
        values: FloatArray = np.abs(P).sum(axis=1)
        if len(values) == 0:
            return values
        self.best = max(self.best, float(values.max()))
        wanted = values > max(self.threshold, 0.0)
        if len(self.values) == self.max_atoms:
            wanted &= values > (self.values[-1] if self.max_atoms else np.inf)
        chosen = np.flatnonzero(wanted)
        if len(chosen) > 8 * self.max_atoms:
            # More than enough even if every atom comes in four versions; ties are cut by position.
            chosen = chosen[np.argsort(-values[chosen], kind="stable")[: 8 * self.max_atoms]]
        if len(chosen):
            self._merge(U[chosen].astype(np.int8), signs(P[chosen]).astype(np.int8), values[chosen])
        return values

    def _merge(self, U: SignArray, V: SignArray, values: FloatArray) -> None:
        U, V = canonical(U, V)
        U, V, values = np.vstack([self.U, U]), np.vstack([self.V, V]), np.concatenate([self.values, values])
        # The same atom has one price up to rounding, by which its versions must not be told apart.
        _, first = np.unique(_keys(np.hstack([U, V])), return_index=True)
        best = first[np.argsort(-values[first], kind="stable")][: self.max_atoms]
        self.U, self.V, self.values = U[best], V[best], values[best]


def canonical(U: SignArray, V: SignArray) -> tuple[SignArray, SignArray]:
    """Return one of (u, v), (-u, -v), (v, u), (-v, -u) for every row: which one does not depend on which came."""
    first, second = U * U[:, :1], V * V[:, :1]
    unequal = first != second
    where = np.argmax(unequal, axis=1)
    rows = np.arange(len(U))
    swap = first[rows, where] < second[rows, where]
    # The sign of the product u' M v stays.
    sign = U[:, :1] * V[:, :1]
    left, right = np.where(swap[:, None], second, first), np.where(swap[:, None], first, second)
    return left.astype(np.int8), (right * sign).astype(np.int8)


def _keys(signs: SignArray) -> npt.NDArray[np.void]:
    packed = np.ascontiguousarray(np.packbits(signs < 0, axis=1))
    return packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
