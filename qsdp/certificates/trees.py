"""Bound trees as arrays of certificate files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import read_only
from qsdp.exceptions import StorageError
from qsdp.pricing import BoundTree, Leaf, LeafCuts

__all__ = ["read_trees", "tree_arrays"]


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
