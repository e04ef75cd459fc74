"""Layouts of samples with several data matrices or vectors: sides, kinds, prices and positions of packed entries."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import (
    LARGEST,
    SMALLEST,
    FloatArray,
    check_choice,
    check_integer,
    check_numbers,
    check_real,
    read_only,
)
from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = ["KINDS", "WEIGHTS", "Layout", "PatchGeometry", "WeightColumns", "check_layout", "single_block"]

#: Kinds of blocks whose neurons have signs: a symmetric matrix for each sample, or a vector.
KINDS = ("quadratic", "linear")

#: Kind of the blocks of columns that have real weights in place of neurons.
WEIGHTS = "weights"


class PatchGeometry(NamedTuple):
    """Integers from which `qsdp-check` recomputes packed rows of images, in the order in which certificates store them.

    Attributes
    ----------
    size, stride, padding : int
        Side of the patches, distance between neighbours, and border of zeros around an image.
    regions : int
        Regions per side of an image.
    pooling : int
        Side of the squares of pixels that are summed.
    centre, constant : int
        Number subtracted from these sums, and last entry of the patches unless it is zero.
    floats : int
        Bytes, 4 or 8, of the floats to which means over the patches of a region are rounded; 0 for integer sums.
    """

    size: int
    stride: int
    padding: int
    regions: int
    pooling: int
    centre: int
    constant: int
    floats: int = 0


class WeightColumns(NamedTuple):
    r"""A block of columns with real weights.

    Attributes
    ----------
    position : int
        Number of the block among all blocks of a sample.
    omega : tuple of float
        Price :math:`\omega_k` of each weight.
    """

    position: int
    omega: tuple[float, ...]


@dataclass(frozen=True)
class Layout:
    r"""Layout of the blocks of a sample: sides, kinds, penalty weights, and positions of packed entries.

    In a stack of matrices, of shape (R, N, N), each has the side N of the largest block. Rows and columns beyond a
    block's side are zero. A linear block x counts as the diagonal matrix of x: for signs u and v, the values of both
    kinds of neurons are the same.

    Columns with real weights are not in the stack: the p columns of all such blocks are one vector beside it. A point
    is a stack and weights of shape (C, p), and packed entries hold both.

    Attributes
    ----------
    sizes : tuple of int
        Sides :math:`N_r` of the R blocks with neurons.
    linear : tuple of bool
        Whether each of them is a vector of :math:`N_r` numbers rather than a symmetric matrix.
    omega : tuple of float
        Weights :math:`\omega_r` of their penalties.
    weights : tuple of WeightColumns
        The blocks of columns with real weights.
    patches : PatchGeometry, optional
        Numbers from which `qsdp-check` recomputes the packed rows of integer images. Layouts that differ only in these
        are equal.
    """

    sizes: tuple[int, ...]
    linear: tuple[bool, ...]
    omega: tuple[float, ...]
    weights: tuple[WeightColumns, ...] = ()
    patches: PatchGeometry | None = field(default=None, compare=False)

    @property
    def n_blocks(self) -> int:
        """Number R of blocks with neurons, each of which has a matrix in the stack."""
        return len(self.sizes)

    @cached_property
    def n_weights(self) -> int:
        """Number p of columns with real weights."""
        return sum(len(columns.omega) for columns in self.weights)

    @cached_property
    def weight_omega(self) -> FloatArray:
        r"""Prices :math:`\omega_k` of the real weights, of shape (p,)."""
        return read_only(np.array([price for columns in self.weights for price in columns.omega]))

    # -- all blocks, in their order in a sample ------------------------------------------------------

    def listed(self, of_neurons: Sequence[Any], of_weights: Sequence[Any]) -> tuple[Any, ...]:
        """List what belongs to the blocks with neurons and to those with real weights in the order of the blocks."""
        values = list(of_neurons)
        for columns, value in zip(self.weights, of_weights, strict=True):
            values.insert(columns.position, value)
        return tuple(values)

    @property
    def all_sizes(self) -> tuple[int, ...]:
        """Sides of all blocks; of real weights, the number of columns."""
        return self.listed(self.sizes, [len(columns.omega) for columns in self.weights])

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of all blocks."""
        return self.listed([KINDS[flat] for flat in self.linear], [WEIGHTS] * len(self.weights))

    @property
    def all_omega(self) -> tuple[float | tuple[float, ...], ...]:
        """Weights of the penalties of all blocks: a number, or a tuple if those of real weights differ."""
        prices = [columns.omega for columns in self.weights]
        return self.listed(self.omega, [price[0] if len(set(price)) == 1 else price for price in prices])

    def same_blocks(self, other: Layout) -> bool:
        """Whether the other layout has blocks of the same sizes and kinds; penalties may differ."""
        return (self.all_sizes, self.kinds) == (other.all_sizes, other.kinds)

    def described(self, *, than: Layout | None) -> str:
        """Describe the layout for an error message, by an attribute in which it differs from another one."""
        names = ("all_sizes", "kinds", "all_omega")
        differing = [name for name in names if than is None or getattr(self, name) != getattr(than, name)]
        return f"blocks of {differing[0].removeprefix('all_')} {getattr(self, differing[0])!r:.90}"

    @cached_property
    def _slices(self) -> tuple[slice, ...]:
        """Packed entries of all blocks."""
        counts = self.listed(np.diff(self.starts).tolist(), [len(columns.omega) for columns in self.weights])
        ends = np.cumsum((0, *counts)).tolist()
        return tuple(slice(*pair) for pair in itertools.pairwise(ends))

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Packed entries of each block with neurons."""
        positions = {columns.position for columns in self.weights}
        return tuple(part for position, part in enumerate(self._slices) if position not in positions)

    @cached_property
    def weight_entries(self) -> npt.NDArray[np.intp]:
        """Indices of the packed entries of the columns with real weights, of shape (p,)."""
        parts = [np.arange(self.n_entries)[self._slices[columns.position]] for columns in self.weights]
        return read_only(np.concatenate([np.zeros(0, dtype=np.intp), *parts]))

    @cached_property
    def matrix_entries(self) -> slice | npt.NDArray[np.intp]:
        """Indices of the packed entries of the blocks with neurons: a slice if there are no others."""
        if not self.weights:
            return slice(None)
        return read_only(np.delete(np.arange(self.n_entries), self.weight_entries))

    # -- packed entries ------------------------------------------------------------------------------

    @cached_property
    def side(self) -> int:
        """Side N of the largest block with neurons; 0 if there is none."""
        return max(self.sizes, default=0)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Index of the first packed entry of each block among those of blocks with neurons, then their number."""
        counts = [n if flat else n * (n + 1) // 2 for n, flat in zip(self.sizes, self.linear, strict=True)]
        return (0, *np.cumsum(counts, dtype=np.intp).tolist())

    @property
    def n_entries(self) -> int:
        """Number P of packed entries of a sample, those with real weights included."""
        return self.starts[-1] + self.n_weights

    @cached_property
    def block(self) -> npt.NDArray[np.intp]:
        """Block of each packed entry, of shape (P,); R for those with real weights."""
        return self._spread(np.repeat(np.arange(self.n_blocks), np.diff(self.starts)), self.n_blocks)

    @cached_property
    def _pairs(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Rows and columns, in their matrices, of the packed entries of the blocks with neurons."""
        pairs = [
            np.array([np.arange(n)] * 2 if flat else np.triu_indices(n))
            for n, flat in zip(self.sizes, self.linear, strict=True)
        ]
        first, second = np.concatenate([np.zeros((2, 0), dtype=np.intp), *pairs], axis=1)
        return first, second

    def _spread(self, entries: npt.NDArray[Any], of_weights: Any) -> npt.NDArray[Any]:
        """Extend an array over the packed entries of blocks with neurons to all packed entries."""
        whole = np.empty(self.n_entries, dtype=entries.dtype)
        whole[self.matrix_entries] = entries
        whole[self.weight_entries] = of_weights
        return read_only(whole)

    @cached_property
    def first(self) -> npt.NDArray[np.intp]:
        """Row of each packed entry in its matrix, of shape (P,); 0 for real weights, which have no matrix."""
        return self._spread(self._pairs[0], 0)

    @cached_property
    def second(self) -> npt.NDArray[np.intp]:
        """Column of each packed entry in its matrix, of shape (P,), at least its row."""
        return self._spread(self._pairs[1], 0)

    @cached_property
    def counts(self) -> FloatArray:
        """Number of times that each packed entry occurs in its matrix: 1 on the diagonal, else 2."""
        return read_only(np.where(self.first == self.second, 1.0, 2.0))

    @cached_property
    def factors(self) -> FloatArray:
        """Roots of `counts`: entries times these are coordinates in an orthonormal basis of symmetric matrices."""
        return read_only(np.sqrt(self.counts))

    @cached_property
    def _positions(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        origin = np.repeat(np.arange(self.n_blocks), np.diff(self.starts)) * self.side**2
        first, second = self._pairs
        return read_only(origin + first * self.side + second), read_only(origin + second * self.side + first)

    @cached_property
    def prices(self) -> FloatArray:
        r"""Penalties :math:`\omega_r D_r` of a second-layer weight of one, of shape (R,)."""
        return read_only(np.array(self.omega) * self.sizes)

    @cached_property
    def entry_prices(self) -> FloatArray:
        r"""Price of each packed entry, of shape (P,): that of its block, or :math:`\omega_k` of a real weight."""
        return self._spread(np.repeat(self.prices, np.diff(self.starts)), self.weight_omega)

    def priced(self, alpha: FloatArray, block: npt.NDArray[np.intp]) -> FloatArray:
        """Multiply second-layer weights (m, C) of neurons in these blocks by the penalties of a weight of one."""
        return np.asarray(alpha * self.prices[block][:, None])

    @cached_property
    def used(self) -> npt.NDArray[np.bool_]:
        """Mask of shape (R, N) of the rows of the matrices that belong to a block."""
        return read_only(np.arange(self.side) < np.array(self.sizes)[:, None])

    def entries(self, T: FloatArray, weights: FloatArray | None = None) -> FloatArray:
        """Pack a stack of symmetric matrices (C R, N, N) and real weights (C, p), or zeros, into entries (C, P)."""
        return self._packed(self._flat(T, weights).take(self._positions[0], axis=1), weights)

    def means(self, T: FloatArray, weights: FloatArray | None = None) -> FloatArray:
        """Pack the symmetric parts of a stack of matrices (C R, N, N), and real weights (C, p), into entries (C, P)."""
        flat = self._flat(T, weights)
        upper, lower = self._positions
        return self._packed(0.5 * (flat.take(upper, axis=1) + flat.take(lower, axis=1)), weights)

    def _flat(self, T: FloatArray, weights: FloatArray | None) -> FloatArray:
        # Without blocks of neurons, the number of outputs is that of the weights.
        length = self.n_blocks * self.side**2
        n_outputs = len(weights) if weights is not None else T.size // length if length else 0
        return T.reshape(n_outputs, length)

    def _packed(self, entries: FloatArray, weights: FloatArray | None) -> FloatArray:
        if not self.weights:
            return entries
        whole = np.zeros((len(entries), self.n_entries))
        whole[:, self.matrix_entries] = entries
        if weights is not None:
            whole[:, self.weight_entries] = weights
        return whole

    def matrices(self, entries: FloatArray) -> FloatArray:
        """Unpack entries (C, P) to a stack of symmetric matrices (C R, N, N); real weights are columns of entries."""
        upper, lower = self._positions
        flat = np.zeros((len(entries), self.n_blocks * self.side**2))
        part = entries[:, self.matrix_entries]
        flat[:, upper] = part
        flat[:, lower] = part
        return flat.reshape(len(entries) * self.n_blocks, self.side, self.side)

    @property
    def n_constraints(self) -> int:
        """Number of dual constraints of an output: one for each block with neurons, and one for all real weights."""
        return self.n_blocks + bool(self.weights)

    def pricing_sizes(self, entries: FloatArray) -> FloatArray:
        """Bound pricing values by magnitudes of packed entries, (..., P): one for each constraint, (..., R or R + 1).

        These are the sums over each block with neurons, and the largest of the real weights.
        """
        sums = np.zeros((*entries.shape[:-1], self.n_constraints))
        if self.n_blocks == 1:
            # A product takes a fraction of the time of a product of entries and their sums.
            sums[..., 0] = entries[..., self.matrix_entries] @ self.counts[self.matrix_entries]
        elif self.sizes:
            matrices = (self.counts * entries)[..., self.matrix_entries]
            sums[..., : self.n_blocks] = np.add.reduceat(matrices, self.starts[:-1], axis=-1)
        if self.weights:
            sums[..., -1] = entries[..., self.weight_entries].max(axis=-1)
        return sums

    def check_matrices(self, name: str, matrices: Any, n_outputs: int) -> list[FloatArray]:
        """Check a list over all blocks of finite arrays, see `stack`, and return them as float64."""
        if not isinstance(matrices, (list, tuple)):
            raise InvalidTypeError(f"{name} must be a list with an array for each block; got {type(matrices).__name__}")
        arrays = [check_numbers(name, array, "(C, N, N) for each block") for array in matrices]
        sides = zip(self.all_sizes, self.kinds, strict=True)
        shapes = [(n_outputs, n, n) if kind == KINDS[0] else (n_outputs, n) for n, kind in sides]
        received = [array.shape for array in arrays]
        if received != shapes:
            raise InvalidInputError(f"{name} must have arrays of shapes {shapes}; got {received}")
        return arrays

    def scales(self, delta: FloatArray, sigma: float) -> FloatArray:
        """Return the factors (P,) of entries in coordinates scaled by `delta`, (R, N), and real weights by `sigma`."""
        block, (first, second) = np.repeat(np.arange(self.n_blocks), np.diff(self.starts)), self._pairs
        return self._spread(1.0 / (delta[block, first] * delta[block, second]), 1.0 / sigma)

    def stack(self, parts: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Combine arrays over all blocks into a stack (C R, N, N) and real weights (C, p).

        The arrays are (C, N_r, N_r), or (C, N_r) for linear blocks and blocks of real weights.
        """
        positions = [columns.position for columns in self.weights]
        weights = [parts[position] for position in positions]
        whole = np.zeros((len(parts[0]), self.n_blocks, self.side, self.side))
        neurons = [part for position, part in enumerate(parts) if position not in positions]
        for r, (part, n) in enumerate(zip(neurons, self.sizes, strict=True)):
            if self.linear[r]:
                whole[:, r, np.arange(n), np.arange(n)] = part
            else:
                whole[:, r, :n, :n] = part
        stack = whole.reshape(len(whole) * self.n_blocks, self.side, self.side)
        return stack, np.concatenate([np.zeros((len(whole), 0)), *weights], axis=1)

    def unstack(self, stack: FloatArray, weights: FloatArray | None = None) -> list[FloatArray]:
        """Split a stack (C R, N, N) and real weights (C, p), or zeros, into arrays over all blocks, see `stack`."""
        if weights is None:
            weights = np.zeros((len(stack) // self.n_blocks, self.n_weights))
        whole = stack.reshape(len(weights), self.n_blocks, self.side, self.side)
        parts = [whole[:, r, :n, :n] for r, n in enumerate(self.sizes)]
        neurons = [part.diagonal(0, 1, 2) if flat else part for part, flat in zip(parts, self.linear, strict=True)]
        return list(self.listed(neurons, self.split(weights)))

    def split(self, weights: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Split real weights (C, p) into arrays over their blocks."""
        ends = np.cumsum([len(columns.omega) for columns in self.weights], dtype=np.intp)
        return np.split(weights, ends[:-1], axis=1) if self.weights else []

    def products(self, U: FloatArray, V: FloatArray, block: npt.NDArray[np.intp] | None = None) -> FloatArray:
        r"""Compute vectors (k, P) whose inner products with packed entries are the values of neurons.

        These are :math:`u_j^T \mathcal{X}_r v_j` in a quadratic block, and :math:`x_r^T u_j` in a linear one. Entries
        with real weights belong to no neuron and are zero. `block` is the block of each pair of rows of U and V, of
        shape (k, N); None is the first.
        """
        vectors = np.zeros((len(U), self.n_entries))
        for r in range(self.n_blocks):
            pairs = slice(None) if block is None else np.flatnonzero(block == r)
            entries = self.slices[r]
            first, second = self.first[entries], self.second[entries]
            u, v = U[pairs], V[pairs]
            if self.linear[r]:
                mixed = u[:, first]
            else:
                # An entry off the diagonal occurs twice, so this is not halved there.
                mixed = u[:, first] * v[:, second]
                mixed += u[:, second] * v[:, first]
                mixed *= 0.5 * self.counts[entries]
            vectors[pairs, entries] = mixed
        return vectors


@lru_cache(maxsize=16)
def single_block(size: int) -> Layout:
    """Create the layout of a single symmetric matrix, in the order of `numpy.triu_indices`."""
    return Layout((size,), (False,), (1.0,))


def check_layout(sizes: Any, kinds: Any = None, omega: Any = None) -> Layout:
    """Check sides, kinds and penalty weights of blocks (see `Blocks`), and return the layout."""
    listed = _listed("sizes", sizes)
    if not listed:
        raise InvalidInputError("sizes must have an entry for each block; got none")
    checked = tuple(check_integer("sizes", size, minimum=1) for size in listed)
    names = ["quadratic"] * len(checked) if kinds is None else _listed("kinds", kinds)
    factors = [1.0] * len(checked) if omega is None else _listed("omega", omega)
    for name, values in (("kinds", names), ("omega", factors)):
        if len(values) != len(checked):
            raise InvalidInputError(f"{name} must have an entry for each of {len(checked)} blocks; got {len(values)}")
    names = [check_choice("kinds", kind, (*KINDS, WEIGHTS)) for kind in names]
    blocks = list(zip(checked, names, factors, strict=True))
    of_neurons = [block for block in blocks if block[1] != WEIGHTS]
    return Layout(
        tuple(size for size, _, _ in of_neurons),
        tuple(kind == KINDS[1] for _, kind, _ in of_neurons),
        tuple(_factor(factor) for _, _, factor in of_neurons),
        tuple(
            WeightColumns(position, _prices(factor, size))
            for position, (size, kind, factor) in enumerate(blocks)
            if kind == WEIGHTS
        ),
    )


def _factor(omega: Any) -> float:
    factor = check_real("omega", omega, strict=True)
    if not SMALLEST <= factor <= LARGEST:
        raise InvalidInputError(f"omega must be within {SMALLEST:g} .. {LARGEST:g}; got {factor!r:.60}")
    return factor


def _prices(omega: Any, size: int) -> tuple[float, ...]:
    """Check the price of all weights of a block, or a price for each of them."""
    if not isinstance(omega, (list, tuple, np.ndarray)) or np.ndim(omega) == 0:
        return (_factor(omega),) * size
    prices = check_numbers("omega", omega, f"({size},) for a block of {size} weights")
    if prices.shape != (size,):
        raise InvalidInputError(f"omega of a block of {size} weights must have the shape ({size},); got {prices.shape}")
    return tuple(_factor(price) for price in prices.tolist())


def _listed(name: str, values: Any) -> list[Any]:
    # NumPy raises its own error for lists of lists of several lengths.
    flat = isinstance(values, Sequence) or getattr(values, "ndim", 0) == 1
    if isinstance(values, (str, bytes)) or not flat:
        raise InvalidTypeError(f"{name} must be a list with an entry for each block; got {values!r:.60}")
    return list(values)
