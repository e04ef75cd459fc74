"""Atoms of column generation: signed neurons and columns with real weights, each of which feeds one output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.parallel import chunks
from qsdp._utils.validation import FloatArray
from qsdp.block_layout import Layout
from qsdp.networks import BilinearNetwork

__all__ = ["Atoms", "pricing_values"]

Weights = npt.NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Atoms:
    r"""Atoms (columns) of the master problem, signed neurons :math:`\pm \langle \mathcal{X}_i, u_j v_j^T \rangle`.

    Atoms of a column with a real weight are the column and its negative.

    Attributes
    ----------
    U, V : ndarray of shape (k, N), int8
    signs : ndarray of shape (k,), int8
    outputs : ndarray of shape (k,)
        Output that each atom feeds.
    block : ndarray of shape (k,)
        Block of each atom, or R + k for the k-th column with a real weight. Entries of U and V beyond the side of the
        block are 0, and all of those of a real weight; V is 1 in linear blocks.
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
        """Convert the neurons and real weights of a network to atoms, one for each output that they feed."""
        rows, outputs = np.nonzero(network.output_weights)
        neurons = cls.of_neurons(network, rows, np.sign(network.output_weights[rows, outputs]), outputs)
        return neurons + cls.of_weights(network.column_weights.T, network.layout)

    @classmethod
    def of_weights(cls, weights: FloatArray, layout: Layout) -> Atoms:
        """Create the atoms of the nonzero real weights (C, p) of a layout."""
        outputs, columns = np.nonzero(weights)
        zeros = np.zeros((len(columns), layout.side), dtype=np.int8)
        return cls(zeros, zeros, np.sign(weights[outputs, columns]).astype(np.int8), outputs, layout.n_blocks + columns)

    @classmethod
    def of_outputs(cls, parts: Sequence[Atoms]) -> Atoms:
        """Combine the atoms of several outputs."""
        names = ("U", "V", "signs", "block")
        U, V, signs, block = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
        return cls(U, V, signs, np.repeat(np.arange(len(parts)), [len(part) for part in parts]), block)

    def numbers(self, n_blocks: int) -> npt.NDArray[np.intp]:
        """Return the index of each atom's matrix among those of all outputs and blocks; -1 for real weights."""
        return np.where(self.block < n_blocks, self.outputs * n_blocks + self.block, -1)

    def vectors(self, layout: Layout) -> FloatArray:
        """Compute the packed entries (k, P) of the atoms, see `Layout.products`."""
        vectors = layout.products(self.U.astype(float), self.V.astype(float), self.block)
        real = np.flatnonzero(self.block >= layout.n_blocks)
        vectors[real, layout.weight_entries[self.block[real] - layout.n_blocks]] = 1.0
        return vectors * self.signs[:, None]

    def values(self, data: Any) -> FloatArray:
        """Compute the values (n, k) of the atoms on the rows of a data map."""
        layout, real = data.layout, self.block >= data.n_blocks
        if not np.any(real):
            products: FloatArray = data.products(self.U, self.V, self.block) * self.signs
            return products
        values = np.empty((data.n_rows, len(self)))
        neurons = self[~real]
        values[:, ~real] = data.products(neurons.U, neurons.V, neurons.block)
        values[:, real] = data.features(layout.weight_entries[self.block[real] - layout.n_blocks])
        return values * self.signs

    def real_weights(self, weights: FloatArray, layout: Layout, n_outputs: int) -> FloatArray:
        """Sum signed weights (k,) of the atoms of columns with real weights to an array (C, p)."""
        real = self.block >= layout.n_blocks
        sums = np.zeros((n_outputs, layout.n_weights))
        np.add.at(sums, (self.outputs[real], self.block[real] - layout.n_blocks), (self.signs * weights)[real])
        return sums

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
        # Where no block has neurons, sides have no entries.
        sides = (self.U, self.V) if self.U.shape[1] else (np.zeros((len(self), 1), dtype=np.int8),) * 2
        for side in sides:
            first = side[np.arange(len(side)), np.argmax(side != 0, axis=1)]
            orientation = np.where(first < 0, np.int8(-1), np.int8(1))
            signs *= orientation
            oriented.append([row.tobytes() for row in side * orientation[:, None]])
        rest = [row.tobytes() for row in np.stack([self.outputs, self.block, signs > 0], axis=1).astype(np.int64)]
        return [min(u, v) + max(u, v) + last for u, v, last in zip(*oriented, rest, strict=True)]


def pricing_values(network: Any, matrices: FloatArray, real: FloatArray | None = None) -> FloatArray:
    """Compute the pricing values u' M v (m, C) of all neurons, for the matrices (K, N, N) of each output and block.

    Sums over columns with real weights (C, p) do not change them, but are needed where no block has neurons.
    """
    if network.blocks is not None:
        entries = network.layout.entries(matrices, real)
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
