"""Trees that bound the pricing values of a matrix from above, and the results of the pricing oracles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray, read_only
from qsdp.exceptions import InvalidInputError

__all__ = ["BoundTree", "Leaf", "LeafCuts", "OracleResult", "check_tree", "root_tree", "scaled_tree"]

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


def root_tree(
    z: FloatArray, vectors: npt.NDArray[np.int8] | None = None, weights: FloatArray | None = None
) -> BoundTree:
    r"""Build the tree of one leaf from weights `z` of a relaxation, with ``Diag(z) +- M`` positive semidefinite.

    Cuts of (u, v), vectors (p, q) of shape (m, 2N), and weights are those of cutting planes. With :math:`a = p + q`
    and :math:`c = p - q`, ``Diag(z) - M`` minus the weighted :math:`a a^T` and ``Diag(z) + M`` minus the weighted
    :math:`c c^T` are positive semidefinite. The cut takes half of each weight, and its mirror image the other half.
    """
    N = len(z)
    shift = read_only(np.concatenate([[0.0], 0.5 * z, 0.5 * z]))
    cuts = None
    if vectors is not None and weights is not None and len(weights):
        p, q, zeros = vectors[:, :N], vectors[:, N:], np.zeros((len(vectors), 1), dtype=np.int8)
        both = np.vstack([np.hstack([zeros, q, p]), np.hstack([zeros, p, q])])
        cuts = LeafCuts(read_only(both), read_only(0.5 * np.concatenate([weights, weights])))
    return BoundTree(np.arange(N), (Leaf(np.zeros(0, dtype=np.int8), shift, cuts),))


def scaled_tree(tree: BoundTree, scale: float) -> BoundTree:
    """Convert a tree for M to one for `scale` times M, ``scale >= 0``, by scaling its shifts."""
    return replace(tree, leaves=tuple(_scaled(leaf, scale) for leaf in tree.leaves))


def _scaled(leaf: Leaf, scale: float) -> Leaf:
    if leaf.shift is None:
        return leaf
    return replace(leaf, shift=scale * leaf.shift, cuts=None if leaf.cuts is None else leaf.cuts.scaled(scale))


def check_tree(tree: BoundTree, size: int) -> None:
    r"""Raise `InvalidInputError` unless the leaves are consistent and cover every u with :math:`u_{o_0} = +1` once.

    Notes
    -----
    Leaves of lengths k cover each u once if none continues another and :math:`\sum 2^{1 - k}` is one.
    """
    if sorted(np.asarray(tree.order).tolist()) != list(range(size)):
        raise InvalidInputError(f"the order of a tree must hold 0 .. {size - 1} once each")
    signs = [tuple(np.asarray(leaf.signs).tolist()) for leaf in tree.leaves]
    for fixed, leaf in zip(signs, tree.leaves, strict=True):
        k = len(fixed)
        if k > size or any(s not in (-1, 1) for s in fixed) or (fixed and fixed[0] != 1):
            raise InvalidInputError(f"a leaf must fix signs -1 and +1, the first of them +1; got {fixed}")
        wrong = leaf.shift is not None and np.shape(leaf.shift) != (1 + size + size - k,)
        if wrong or not np.all(np.isfinite(leaf.shift if leaf.shift is not None else 0.0)):
            raise InvalidInputError(f"the shift of a leaf must be {1 + size + size - k} finite numbers")
        if leaf.cuts is not None:
            _check_cuts(leaf.cuts, 1 + size + size - k if leaf.shift is not None else -1)
    if signs == [()]:
        return
    # In sorted order, a leaf that continues another comes right after it or another continuation of it.
    ordered = sorted(signs)
    nested = any(after[: len(before)] == before for before, after in pairwise(ordered))
    if not signs or nested or sum(2 ** (size - len(fixed)) for fixed in signs) != 2 ** (size - 1):
        raise InvalidInputError("the leaves of a tree must cover every sign vector once")


def _check_cuts(cuts: LeafCuts, size: int) -> None:
    """Raise `InvalidInputError` unless the cuts are valid for all sign vectors of `size` entries."""
    vectors, weights = np.asarray(cuts.vectors), np.asarray(cuts.weights)
    if vectors.shape != (weights.size, size) or vectors.dtype.kind not in "iu" or weights.shape != (weights.size,):
        raise InvalidInputError(f"the cuts of a leaf must be integer vectors of {size} entries with a weight each")
    if not np.all(vectors.sum(axis=1, dtype=np.int64) % 2 == 1):
        raise InvalidInputError("the cuts of a leaf must have odd sums")
    if not np.all((weights >= 0.0) & np.isfinite(weights)):
        raise InvalidInputError("the weights of cuts must be finite and >= 0")
