"""Atoms of column generation: signed neurons, each of which feeds one output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.parallel import chunks
from qsdp._utils.validation import FloatArray
from qsdp.blocks import Layout
from qsdp.networks import BilinearNetwork

__all__ = ["Atoms", "pricing_values"]

Weights = npt.NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Atoms:
    r"""Atoms (columns) of the master problem, signed neurons :math:`\pm \langle \mathcal{X}_i, u_j v_j^T \rangle`.

    Attributes
    ----------
    U, V : ndarray of shape (k, N), int8
    signs : ndarray of shape (k,), int8
    outputs : ndarray of shape (k,)
        Output that each atom feeds.
    block : ndarray of shape (k,)
        Block of each atom. Entries of U and V beyond its side are 0; V is 1 in linear blocks.
    """

    U: Weights
    V: Weights
    signs: Weights
    outputs: npt.NDArray[np.intp]
    block: npt.NDArray[np.intp]

    @classmethod
    def from_signs(cls, U: npt.NDArray[Any], V: npt.NDArray[Any], signs: Any = None) -> Atoms:
        """Create atoms of one output and block."""
        signs = np.ones(len(U)) if signs is None else np.asarray(signs)
        zero = np.zeros(len(U), dtype=np.intp)
        return cls(U.astype(np.int8), V.astype(np.int8), signs.astype(np.int8), zero, zero)

    @classmethod
    def of_neurons(cls, network: Any, rows: Any, signs: Any, outputs: Any = None) -> Atoms:
        """Convert some neurons of a network, with signs, to atoms of the first output or of `outputs`."""
        block, layout = network.block[rows], network.layout
        V = np.where(np.array(layout.linear)[block, None], layout.used[block], network.V[rows]).astype(np.int8)
        return cls(network.U[rows], V, signs.astype(np.int8), block * 0 if outputs is None else outputs, block)

    @classmethod
    def of_network(cls, network: BilinearNetwork) -> Atoms:
        """Convert the neurons of a network to atoms, one for each output that they feed."""
        rows, outputs = np.nonzero(network.output_weights)
        return cls.of_neurons(network, rows, np.sign(network.output_weights[rows, outputs]), outputs)

    @classmethod
    def of_outputs(cls, parts: Sequence[Atoms]) -> Atoms:
        """Combine the atoms of several outputs."""
        names = ("U", "V", "signs", "block")
        U, V, signs, block = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
        return cls(U, V, signs, np.repeat(np.arange(len(parts)), [len(part) for part in parts]), block)

    def numbers(self, n_blocks: int) -> npt.NDArray[np.intp]:
        """Return the index of each atom's matrix among those of all outputs and blocks."""
        return self.outputs * n_blocks + self.block

    def in_blocks(self, layout: Layout) -> Atoms:
        """Convert atoms whose `outputs` are indices of matrices to atoms with outputs and blocks."""
        outputs, block = np.divmod(self.outputs, layout.n_blocks)
        U, V = (side * layout.used[block] for side in (self.U, self.V))
        return Atoms(U, V, self.signs, outputs, block)

    def __len__(self) -> int:
        return len(self.U)

    def __getitem__(self, rows: Any) -> Atoms:
        return Atoms(*(values[rows] for values in vars(self).values()))

    def __add__(self, other: Atoms) -> Atoms:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Atoms(*(np.concatenate(pair) for pair in pairs))

    def drop_duplicates(self, known: set[bytes]) -> Atoms:
        """Select the atoms whose keys are not in `known`, without duplicates, and add their keys to `known`."""
        fresh = []
        for j, key in enumerate(self.keys()):
            if key not in known:
                known.add(key)
                fresh.append(j)
        return self[fresh]

    def keys(self) -> list[bytes]:
        """Compute hashable keys of atoms, equal for (u, v), (v, u) and (-u, -v); (u, -v) has the opposite sign."""
        oriented, signs = [], self.signs.copy()
        for side in (self.U, self.V):
            first = side[np.arange(len(side)), np.argmax(side != 0, axis=1)]
            orientation = np.where(first < 0, np.int8(-1), np.int8(1))
            signs *= orientation
            oriented.append([row.tobytes() for row in side * orientation[:, None]])
        rest = [row.tobytes() for row in np.stack([self.outputs, self.block, signs > 0], axis=1).astype(np.int64)]
        return [min(u, v) + max(u, v) + last for u, v, last in zip(*oriented, rest, strict=True)]


def pricing_values(network: Any, matrices: FloatArray) -> FloatArray:
    """Compute the pricing values u' M v (m, C) of all neurons, for the matrices (K, N, N) of each output and block."""
    if network.blocks is not None:
        entries = network.layout.entries(matrices)
        values = np.empty((network.n_neurons, len(entries)))
    else:
        values = np.empty((network.n_neurons, len(matrices)))
    for rows in chunks(len(values), max(matrices.shape[1], values.shape[1])):
        U, V = network.U[rows].astype(np.float64), network.V[rows].astype(np.float64)
        if network.blocks is not None:
            values[rows] = network.layout.products(U, V, network.block[rows]) @ entries.T
        else:
            for k, M in enumerate(matrices):
                values[rows, k] = np.einsum("ij,ij->i", U @ M, V)
    return values
