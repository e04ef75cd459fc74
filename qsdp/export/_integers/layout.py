"""Layouts of an integer network: stored weights, and proven bounds on everything that is computed from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import ROUNDING
from qsdp._utils.validation import IntArray
from qsdp.export._description import terms_of_neurons
from qsdp.export._integers.integer_network import IntegerNetwork, Neurons, rounded_up
from qsdp.export._integers.vectors import RowVectors, Vectors
from qsdp.networks.storage import bits_of_integers

__all__ = ["NetworkLayout", "StoredIntegers", "layouts", "type_width"]

#: Widths of the integers of C, and the minimum used: narrower arithmetic is not faster on relevant machines.
_WIDTHS, _MIN_WIDTH = (8, 16, 32, 64), 16


class StoredIntegers(NamedTuple):
    """Integers of a layout, each of which is low + step * number for a number of `n_bits` bits."""

    integers: IntArray
    low: int
    step: int
    n_bits: int

    @classmethod
    def from_integers(cls, integers: IntArray) -> StoredIntegers:
        """Store any integers with the minimum number of bits, at least one."""
        low, high = (int(integers.min()), int(integers.max())) if integers.size else (0, 0)
        return cls(integers, low, 1, max((high - low).bit_length(), 1))

    @classmethod
    def from_signs(cls, signs: IntArray) -> StoredIntegers:
        """Store -1 and 1 as a bit."""
        return cls(signs, -1, 2, 1)


@dataclass(frozen=True, eq=False)
class RowTerms:
    """What the outputs of rows add up in the layout "neurons": neurons, and products of inputs and the constant.

    Attributes
    ----------
    operands : ndarray of shape (k,)
        Entries of the vectors that neurons read.
    n_neurons : int
    constant : int
        Factor of the products of inputs: the constant times first-layer weights.
    inputs : ndarray of shape (p,)
        Inputs that have weights themselves.
    weights : ndarray of shape (n_neurons + p, C)
        Second-layer weights, and then those of inputs; empty if all weights are one.
    """

    operands: IntArray
    n_neurons: int
    constant: int
    inputs: IntArray
    weights: IntArray

    @classmethod
    def from_neurons(cls, neurons: Neurons, constant: int) -> RowTerms:
        """Store the weights of the inputs that have some, or of all inputs if that takes no more bits."""
        m, N = len(neurons.left) - neurons.n_linear, neurons.left.shape[1]
        if not neurons.n_linear:
            weights = neurons.weights if neurons.sizes is None else neurons.weights[:0]
            return cls(np.arange(N), m, 0, np.arange(0), weights)
        constant *= int(neurons.left[-1].sum())
        weights = np.zeros((N, neurons.weights.shape[1]), dtype=np.int64)
        weights[neurons.left[m:].argmax(axis=1)] = neurons.weights[m:]
        operands = np.flatnonzero(np.any(neurons.left[:m], axis=0) | np.any(neurons.right[:m], axis=0))
        candidates = [
            cls(operands, m, constant, inputs, np.concatenate([neurons.weights[:m], weights[inputs]]))
            for inputs in (np.arange(N), np.flatnonzero(np.any(weights, axis=1)))
        ]
        return min(candidates, key=lambda terms: terms.size)

    @property
    def size(self) -> int:
        """Bits of the weights, and of the tables of positions, which those from 0 without a gap do not need."""
        positions = [*self._positions(self.operands), *self._positions(self.inputs)]
        width = type_width(int(np.abs(self.weights).max(initial=0)))
        return self.weights.size * width + sum(8 if position < 2**8 else 16 for position in positions)

    @staticmethod
    def _positions(chosen: IntArray) -> list[int]:
        return [] if np.array_equal(chosen, np.arange(len(chosen))) else [int(chosen.max())] * len(chosen)


@dataclass(frozen=True, eq=False)
class NetworkLayout:
    """Layout of a network: its stored integers, and bounds on intermediate values.

    Attributes
    ----------
    name : {"neurons", "form"}
    parts : tuple of StoredIntegers
        Stored integers, of the same shape but for the last axis, along which they follow each other. Neurons of rows,
        of shape (m, sides, D), are weights and, where the constant has different signs, its sign. Those of blocks,
        sorted by block and output, are the signs of both sides and a weight. A form is the upper triangles of its
        matrices, row by row, block by block and output by output.
    counts : ndarray of int
        Numbers of neurons of each block and output, of shape (R C,); empty for rows and forms.
    size : int
        Bits of all weights, including the second layer, and of counts.
    terms : RowTerms or None
        Terms of neurons of rows; None for blocks and forms.
    projection_bound, sum_bound : int
        Proven bounds on all intermediate values: on entries of vectors, projections, and neurons and products of
        blocks; and on sums and outputs.
    """

    name: str
    parts: tuple[StoredIntegers, ...]
    counts: IntArray
    size: int
    projection_bound: int
    sum_bound: int
    terms: RowTerms | None = None

    @property
    def numbers(self) -> IntArray:
        """All stored integers."""
        return np.concatenate([part.integers for part in self.parts], axis=-1)

    @property
    def weights(self) -> StoredIntegers:
        """The stored integers that may have more than one bit: first-layer weights, terms' weights, or entries."""
        return self.parts[-1 if self.counts.size else 0]

    @property
    def n_bits(self) -> int:
        """Bits of a stored integer."""
        return self.weights.n_bits

    @cached_property
    def table(self) -> npt.NDArray[np.uint8]:
        """Packed bits, the most significant bit of an integer first."""
        parts = []
        for part in self.parts:
            bits = bits_of_integers((part.integers - part.low) // part.step, part.n_bits)
            parts.append(bits.reshape(*bits.shape[:-2], bits.shape[-2] * bits.shape[-1]))
        return np.packbits(np.concatenate(parts, axis=-1))

    @property
    def projection_width(self) -> int:
        """Bits of the integers of coordinates, projections and values of neurons."""
        return max(type_width(self.projection_bound), _MIN_WIDTH)

    @property
    def sum_width(self) -> int:
        """Bits of the integers of sums and outputs."""
        return max(type_width(self.sum_bound), self.projection_width)


def layouts(samples: Vectors, network: IntegerNetwork) -> list[NetworkLayout]:
    """Build all layouts of a network, the smaller one first."""
    form = (_form_of_rows if isinstance(samples, RowVectors) else _form_of_blocks)(samples, network)
    candidates = [form]
    if network.neurons is not None:
        make = _neurons_of_rows if isinstance(samples, RowVectors) else _neurons_of_blocks
        candidates.append(make(samples, network, network.neurons))
    return sorted(candidates, key=lambda layout: (layout.size, layout.name))


def type_width(bound: int) -> int:
    """Return the bits of the narrowest signed type for integers up to a bound in magnitude; 128 if there is none."""
    return next((width for width in _WIDTHS if bound < 2 ** (width - 1)), 128)


def _layout(
    name: str,
    parts: list[StoredIntegers],
    bounds: tuple[int, int],
    counts: IntArray | None = None,
    terms: RowTerms | None = None,
) -> NetworkLayout:
    """Create a layout of the bits of its parts and terms, and of 8 for each count."""
    counts = np.zeros(0, dtype=np.int64) if counts is None else counts
    size = sum(part.integers.size * part.n_bits for part in parts) + 8 * counts.size + (terms.size if terms else 0)
    return NetworkLayout(name, tuple(parts), counts, size, *bounds, terms)


def _entries(samples: Vectors, network: IntegerNetwork) -> StoredIntegers:
    """Store the entries of symmetric matrices: half of the coefficients of products of two different numbers."""
    blocks = samples.blocks
    entries = network.forms // blocks.counts.astype(np.int64)
    by_block = [entries[:, blocks.starts[r] : blocks.starts[r + 1]].ravel() for r in range(blocks.n_blocks)]
    return StoredIntegers.from_integers(np.concatenate(by_block))


def _form_of_rows(samples: Vectors, network: IntegerNetwork) -> NetworkLayout:
    entries, z = _entries(samples, network), samples.vector
    # Rows of upper triangles are summed first.
    upper = np.abs(network.triangles(samples.blocks)).astype(np.float64) @ z
    sums = upper @ z
    totals = sums * np.abs(network.factors) + [float(abs(constant)) for constant in network.bias]
    largest = max(upper.max(), sums.max(), totals.max(), np.abs(entries.integers).max())
    return _layout("form", [entries], (rounded_up(z.max()), rounded_up(largest)))


def _form_of_blocks(samples: Vectors, network: IntegerNetwork) -> NetworkLayout:
    entries, largest = _entries(samples, network), samples.largest_products
    sums = float((np.abs(network.forms) * samples.weights(network.common)[samples.blocks.block] @ largest).max())
    sums += max(abs(entries.low), 2**entries.n_bits) * int(samples.gains(network.common).max())
    products, slack = int(2.0 * largest.max() * (1.0 + ROUNDING)), 1.0 + ROUNDING
    return _layout("form", [entries], (products, max(int(sums * slack), network.totals, products)))


def _neurons_of_rows(samples: Vectors, network: IntegerNetwork, neurons: Neurons) -> NetworkLayout:
    both = np.stack([neurons.left] if neurons.is_square else [neurons.left, neurons.right], axis=1)
    d = both.shape[-1] - (samples.constant != 0)
    terms = RowTerms.from_neurons(neurons, (samples.inputs and samples.inputs.constant) or 0)
    stored = both[: terms.n_neurons]
    main, last = stored[..., terms.operands[:d]], stored[..., d:]
    top = max(int(np.abs(main).max(initial=0)), 1)
    step = 1 if np.any((main + top) % 2) else 2
    parts = [StoredIntegers(main, -top, step, (2 * top // step).bit_length())]
    # In a network of squares the constant is always added.
    if samples.constant and not np.all(last == 1):
        parts.append(StoredIntegers.from_signs(last))
    values = neurons.bounds(samples)
    projections = np.abs(both).astype(np.float64) @ samples.vector
    sums = max(network.totals, rounded_up(values.max() if neurons.sizes is None else values.sum()))
    return _layout("neurons", parts, (rounded_up(projections.max()), sums), terms=terms)


def _neurons_of_blocks(samples: Vectors, network: IntegerNetwork, neurons: Neurons) -> NetworkLayout:
    """Store a term for each neuron and output that it serves."""
    neuron, output = terms_of_neurons(neurons.weights, neurons.block)
    signs = np.concatenate([neurons.left[neuron], neurons.right[neuron]], axis=1)
    C = network.n_outputs
    counts = np.bincount(neurons.block[neuron] * C + output, minlength=samples.blocks.n_blocks * C)
    values = int((samples.counts * samples.vector.sum() ** 2).max() * (1.0 + ROUNDING))
    parts = [StoredIntegers.from_signs(signs), StoredIntegers.from_integers(neurons.weights[neuron, output][:, None])]
    return _layout("neurons", parts, (values, max(network.sums, network.totals)), counts)
