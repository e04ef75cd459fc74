"""Bound trees: construction, scaling, structural checks, and their arrays in certificate files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray, read_only
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.pricing import BoundTree, Leaf, LeafCuts

__all__ = ["check_tree", "read_trees", "root_tree", "scaled_tree", "tree_arrays"]


def root_tree(
    z: FloatArray, vectors: npt.NDArray[np.int8] | None = None, weights: FloatArray | None = None
) -> BoundTree:
    r"""Build the tree of one leaf from weights `z` of a relaxation, with ``Diag(z) +- M`` positive semidefinite.

    Cuts of (u, v), vectors (p, q) of shape (m, 2N), and weights are those of a `DualBound`. With :math:`a = p + q`
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
        "order": np.array([tree.order for tree in trees], dtype="<i8"),
        "leaves": np.array([len(tree.leaves) for tree in trees], dtype="<i8"),
        "lengths": np.array([len(leaf.signs) for leaf in leaves], dtype="<i8"),
        "signs": np.concatenate([leaf.signs for leaf in leaves]).astype(np.int8),
        "shifted": np.array([leaf.shift is not None for leaf in leaves]),
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
        vectors, mine = np.zeros((len(members), int(size)), dtype=np.int8), np.isin(cut, members)
        vectors[cut[mine] - members[0], nodes[mine]] = values[mine]
        cuts_of_leaves.append(LeafCuts(read_only(vectors), read_only(weights[members].astype(np.float64))))
    return cuts_of_leaves


def read_trees(arrays: dict[str, npt.NDArray[Any]], size: int) -> tuple[BoundTree, ...]:
    """Decode trees for matrices of side `size` from arrays; raise `StorageError` if they are inconsistent."""
    lengths, shifted = arrays["lengths"], arrays["shifted"]
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
