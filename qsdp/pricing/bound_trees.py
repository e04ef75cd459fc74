"""Trees that bound the pricing values of a matrix from above, their arrays in files, and the results of oracles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray, read_only
from qsdp.exceptions import InvalidInputError, StorageError

__all__ = [
    "BoundTree",
    "Leaf",
    "LeafCuts",
    "OracleResult",
    "check_tree",
    "read_trees",
    "root_tree",
    "scaled_tree",
    "tree_arrays",
]

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


def tree_arrays(trees: Sequence[BoundTree]) -> dict[str, Any]:
    """Encode trees as arrays of a file."""
    leaves = [leaf for tree in trees for leaf in tree.leaves]
    return {
        # Real weights alone have no trees.
        "order": np.array([tree.order for tree in trees], dtype="<i8").reshape(len(trees), -1 if trees else 0),
        "leaves": np.array([len(tree.leaves) for tree in trees], dtype="<i8"),
        "lengths": np.array([len(leaf.signs) for leaf in leaves], dtype="<i8"),
        "signs": np.concatenate([np.zeros(0), *(leaf.signs for leaf in leaves)]).astype(np.int8),
        "shifted": np.array([leaf.shift is not None for leaf in leaves], dtype=bool),
        "shifts": np.concatenate([np.zeros(0), *(leaf.shift for leaf in leaves if leaf.shift is not None)]),
        **_cut_arrays(leaves),
    }


def _cut_arrays(leaves: Sequence[Leaf]) -> dict[str, Any]:
    """Encode the cuts of leaves as arrays of a file; no arrays if there are no cuts."""
    cuts = [leaf.cuts for leaf in leaves if leaf.cuts is not None]
    if not cuts:
        return {}
    entries = [np.nonzero(part.vectors) for part in cuts]
    values = [part.vectors[positions] for part, positions in zip(cuts, entries, strict=True)]
    return {
        "cuts": np.array([0 if leaf.cuts is None else len(leaf.cuts.weights) for leaf in leaves], dtype="<i8"),
        "cut_lengths": np.concatenate([np.count_nonzero(part.vectors, axis=1) for part in cuts]).astype("<i8"),
        "cut_nodes": np.concatenate([positions[1] for positions in entries]).astype("<i4"),
        "cut_values": np.concatenate(values).astype(np.int8),
        "cut_weights": np.concatenate([part.weights for part in cuts]),
    }


def _read_cuts(arrays: dict[str, npt.NDArray[Any]], sizes: npt.NDArray[Any]) -> list[LeafCuts | None]:
    """Decode the cuts of leaves whose shifts have these sizes."""
    if "cuts" not in arrays:
        return [None] * len(sizes)
    counts, lengths, weights = arrays["cuts"], arrays["cut_lengths"], arrays["cut_weights"]
    nodes, values = arrays["cut_nodes"], arrays["cut_values"]
    fits = len(counts) == len(sizes) and len(lengths) == len(weights) == counts.sum()
    if not (fits and len(nodes) == len(values) == lengths.sum() and np.all(counts >= 0) and np.all(lengths >= 0)):
        raise StorageError("its cuts do not fit together")
    # The leaf of every cut, and the cut of every entry.
    leaf = np.repeat(np.arange(len(counts)), counts)
    cut = np.repeat(np.arange(len(lengths)), lengths)
    if np.any((nodes < 0) | (nodes >= sizes[leaf[cut]])):
        raise StorageError("its cuts do not fit its leaves")
    cuts_of_leaves: list[LeafCuts | None] = []
    for number, size in enumerate(sizes):
        members = np.flatnonzero(leaf == number)
        if not len(members):
            cuts_of_leaves.append(None)
            continue
        vectors, inside = np.zeros((len(members), int(size)), dtype=np.int8), np.isin(cut, members)
        vectors[cut[inside] - members[0], nodes[inside]] = values[inside]
        cuts_of_leaves.append(LeafCuts(read_only(vectors), read_only(weights[members].astype(np.float64))))
    return cuts_of_leaves


def read_trees(arrays: dict[str, npt.NDArray[Any]], size: int) -> tuple[BoundTree, ...]:
    """Decode trees for matrices of side `size` from arrays; raise `StorageError` if they are inconsistent."""
    lengths, shifted = arrays["lengths"], arrays["shifted"]
    if not any(arrays[name].size for name in ("order", "leaves", "lengths", "shifted", "signs", "shifts")):
        return ()
    signs = np.split(arrays["signs"], np.cumsum(lengths)[:-1])
    sizes = np.where(shifted, 1 + 2 * size - lengths, 0)
    shifts = np.split(arrays["shifts"], np.cumsum(sizes)[:-1])
    leaves = [
        Leaf(read_only(fixed.astype(np.int8)), read_only(shift.astype(np.float64)) if has else None, cuts)
        for fixed, shift, has, cuts in zip(signs, shifts, shifted, _read_cuts(arrays, sizes), strict=True)
    ]
    ends = np.cumsum(arrays["leaves"])
    if not len(ends) or ends[-1] != len(leaves) or len(arrays["signs"]) != lengths.sum():
        raise StorageError("its leaves do not fit together")
    if len(arrays["shifts"]) != sizes.sum():
        raise StorageError("its shifts do not fit together")
    return tuple(
        BoundTree(read_only(order.astype(np.intp)), tuple(leaves[end - count : end]))
        for order, count, end in zip(arrays["order"], arrays["leaves"], ends, strict=True)
    )
