"""Results of the pricing oracles: atoms, an upper bound and the tree that proves it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray

__all__ = ["BoundTree", "Leaf", "LeafCuts", "OracleResult"]

SignArray = npt.NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class LeafCuts:
    r"""Weighted inequalities :math:`(b^T x)^2 \ge 1` of sign vectors x, for integer vectors b with an odd sum.

    Attributes
    ----------
    vectors : ndarray of shape (m, p), int8
    weights : ndarray of shape (m,)
        Nonnegative.
    """

    vectors: SignArray
    weights: FloatArray

    @property
    def matrix(self) -> FloatArray:
        r"""Sum of :math:`\gamma_k b_k b_k^T`, in floats."""
        vectors = self.vectors.astype(np.float64)
        matrix: FloatArray = (vectors.T * self.weights) @ vectors
        return matrix

    @property
    def size(self) -> float:
        """Sum of the magnitudes of all entries of all terms of the matrix."""
        return float(self.weights @ np.square(np.abs(self.vectors.astype(np.float64)).sum(axis=1)))

    def scaled(self, scale: float) -> LeafCuts:
        """Return the inequalities with their weights times `scale`."""
        return LeafCuts(self.vectors, scale * self.weights)


@dataclass(frozen=True, eq=False)
class Leaf:
    """Leaf of a tree: the vectors with fixed values of the first coordinates in the tree's order, and their bound.

    Attributes
    ----------
    signs : ndarray of shape (k,), int8
        Values of the coordinates ``order[:k]``: signs.
    shift : ndarray or None
        Diagonal z that proves the leaf's bound (see the module ``qsdp.pricing.shifts``). Its shape is (1 + N + N - k,)
        for (1, v, u_R). None if all completions were enumerated.
    cuts : LeafCuts or None
        Inequalities in the coordinates of the shift. They lower the bound by the sum of their weights.
    """

    signs: SignArray
    shift: FloatArray | None
    cuts: LeafCuts | None = None


@dataclass(frozen=True, eq=False)
class BoundTree:
    """Tree that bounds pricing values: leaves that cover all vectors, each with an upper bound.

    Attributes
    ----------
    order : ndarray of shape (N,), intp
        Order in which coordinates are fixed.
    leaves : tuple of Leaf
        No leaf's signs are a prefix of another's, and every vector lies in a leaf. The sign of ``order[0]`` is
        +1, as (u, v) and (-u, -v) have the same pricing value.
    """

    order: npt.NDArray[np.intp]
    leaves: tuple[Leaf, ...]


@dataclass(frozen=True, eq=False)
class OracleResult:
    """Result of the pricing oracle: the best neuron and a proven bound.

    Attributes
    ----------
    value : float
        Largest pricing value found, or the incumbent if none was larger.
    upper : float
        Proven upper bound on the maximum, rounding included; infinite if nothing was proven.
    exact : bool
        Whether `upper` exceeds `value` by no more than rounding and the requested slack.
    U, V : ndarray of shape (k, N), int8
        Distinct atoms whose pricing value exceeds the threshold, in decreasing order, with ``u' M v > 0``.
    values : ndarray of shape (k,)
        Their pricing values.
    trees : tuple of BoundTree
        The proof of `upper`; empty if nothing was proven.
    """

    value: float
    upper: float
    exact: bool
    U: SignArray
    V: SignArray
    values: FloatArray
    trees: tuple[BoundTree, ...]
