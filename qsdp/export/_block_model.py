"""Integer models of networks on image patches, with proven bounds of every sum."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import qsdp.encoding
from qsdp._utils.numeric import EPS, ROUNDING
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.exceptions import ExportError, InvalidInputError
from qsdp.export._layout import type_width
from qsdp.export._model import ModelDescription
from qsdp.networks import BlockForm, BlockNetwork
from qsdp.networks.compact import integer_weights
from qsdp.networks.storage import bits_of_integers

if TYPE_CHECKING:
    from qsdp.encoding import Patches

__all__ = ["BlockIntegers", "BlockLayout", "BlockModel", "block_model"]

#: Bits of second-layer weights that are not small multiples of a scale.
_DIGITS = 15

#: Minimum and maximum number of bits of factors between outputs.
_FACTOR_DIGITS = 6, 31

_BYTE = 255


@dataclass(frozen=True, eq=False)
class BlockIntegers:
    r"""Integer second layer: scores are `unit` times :math:`F_c \sum_j q_{jc}\, u_j^T M_{r_j} v_j + B_c`.

    Attributes
    ----------
    forms : ndarray of shape (C, P)
        The vectors whose inner products with the packed sums of products M are the sums above.
    neurons : tuple of ndarray, or None
        Signs U and V of shape (t, N), blocks and outputs of shape (t,), and weights q of shape (t,) of the terms, by
        block and output; None for a form.
    factors : ndarray of shape (C,)
    bias : tuple of int
    unit, error : ndarray of shape (C,)
        Factors from outputs to scores, and bounds on their distance from the model's scores.
    sums, totals : int
        Bounds on the magnitudes of the sums over neurons, and of outputs.
    """

    forms: IntArray
    neurons: tuple[IntArray, IntArray, IntArray, IntArray, IntArray] | None
    factors: IntArray
    bias: tuple[int, ...]
    unit: FloatArray
    error: FloatArray
    sums: int
    totals: int

    @property
    def n_outputs(self) -> int:
        """Number of outputs C."""
        return len(self.bias)

    @property
    def rounding_error(self) -> FloatArray:
        """Same as `error`, since pixels are integers and are not rounded."""
        return self.error


@dataclass(frozen=True, eq=False)
class BlockLayout:
    """Storage layout of a network: packed bits, and the widths of the integers that evaluate it.

    Attributes
    ----------
    name : {"neurons", "form"}
    table : ndarray of uint8
        Packed bits, the most significant bit of a number first. Neurons, sorted by block and output, are the signs of
        U and V and a weight. Forms are one number for each packed entry, block by block and output by output.
    n_bits, low : int
        A weight or entry of `n_bits` bits represents low + number.
    counts : ndarray of shape (R C,)
        Numbers of neurons of each block and output; empty for forms.
    projection_bound, sum_bound : int
        Bounds on sums of products and values of neurons, and on sums.
    """

    name: str
    table: npt.NDArray[np.uint8]
    n_bits: int
    low: int
    counts: IntArray
    projection_bound: int
    sum_bound: int

    @property
    def projection_width(self) -> int:
        """Bits of the integers of products and values of neurons."""
        return max(type_width(self.projection_bound), 16)

    @property
    def sum_width(self) -> int:
        """Bits of the integers of sums and outputs."""
        return max(type_width(self.sum_bound), self.projection_width)


@dataclass(frozen=True, eq=False)
class BlockModel:
    """Integer model of a network on patches, which computes exactly what its C code does.

    Attributes
    ----------
    description : ModelDescription
    network : BlockIntegers
    layout : BlockLayout
    """

    description: ModelDescription
    network: BlockIntegers
    layout: BlockLayout

    #: Pixels are bytes, and no column is rounded.
    input_range = (0, _BYTE)
    inputs = None

    @property
    def encoder(self) -> Patches:
        """Encoder of the images."""
        encoder: Patches = self.description.blocks
        return encoder

    def columns(self, X: Any) -> npt.NDArray[np.uint8]:
        """Return images as flat rows of bytes, shape (n, pixels)."""
        images = self.encoder.samples(X)
        wrong = (images != np.rint(images)) | (images < 0) | (images > _BYTE)
        if np.any(wrong):
            raise InvalidInputError(f"X must hold integers from 0 to {_BYTE}; found {images[wrong][0]:g}")
        return images.reshape(len(images), -1).astype(np.uint8)

    def outputs(self, columns: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Compute the integer outputs (n, C) of flat rows of pixels."""
        images = np.asarray(columns).astype(np.uint8).reshape(-1, *self.encoder.image_shape_)
        products = self.encoder.encoded(images).astype(np.int64)
        sums = products @ self.network.forms.T
        outputs: npt.NDArray[Any] = sums * self.network.factors + np.array(self.network.bias)
        return outputs

    def scores(self, outputs: npt.NDArray[Any]) -> FloatArray:
        """Convert integer outputs to scores of the original model."""
        scores: FloatArray = outputs.astype(np.float64) * self.network.unit
        return scores


@dataclass(frozen=True, eq=False)
class _PatchBounds:
    """Bounds of the integers of an encoder, for pixels that are bytes: of packed entries, and of neurons by block."""

    encoder: Patches

    @cached_property
    def vector(self) -> FloatArray:
        """Bounds of the entries of a patch, of shape (N,)."""
        encoder, area = self.encoder, self.encoder.downsample**2
        centre = int(encoder.centre) * area
        pixels = max(abs(centre), abs(_BYTE * area - centre))
        largest = np.full(encoder.layout_.side, float(pixels))
        if encoder.constant_:
            largest[-1] = int(encoder.constant_) * area
        return largest

    @cached_property
    def neurons(self) -> FloatArray:
        """Bounds of the values of neurons, by block, of shape (R,)."""
        return np.asarray(self.encoder.positions * self.vector.sum() ** 2)

    @cached_property
    def entries(self) -> FloatArray:
        """Bounds of the packed entries, of shape (P,)."""
        layout = self.encoder.layout_
        return np.asarray(self.encoder.positions[layout.block] * self.vector[layout.first] * self.vector[layout.second])


def patches_of(description: ModelDescription) -> Patches:
    """Return the encoder of a network on images; raise ExportError if there is none, or another one."""
    encoder = description.blocks
    if encoder is None:
        raise ExportError("a network on blocks without an estimator needs encoder, the fitted Patches of its images")
    if not isinstance(encoder, qsdp.encoding.Patches):
        raise ExportError(f"only networks on Patches can be exported; got {encoder!r:.60}")
    return encoder


def block_model(description: ModelDescription, *, width: int, layout: str) -> BlockModel:
    """Convert a network on patches of byte images to integers, in the smaller layout whose sums fit.

    Raises
    ------
    ExportError
        The encoder is not `Patches`, its centre or constant are not integers, or sums do not fit into `width` bits.
    """
    encoder = patches_of(description)
    for name in ("centre", "constant_"):
        if not float(value := getattr(encoder, name)).is_integer():
            raise ExportError(f"{name} of the encoder must be an integer; got {value:g}")
    bounds = _PatchBounds(encoder)
    integers = _integers(description, bounds, width)
    found = [one(encoder, integers, bounds) for name, one in _LAYOUTS.items() if layout in {"auto", name}]
    fitting = [one for one in found if one is not None and one.sum_width <= width]
    if not fitting:
        if not any(found):
            raise ExportError(f"layout must be 'form' for a form of integers; got {layout!r}")
        raise ExportError(f"the sums do not fit into the {width} bits of width: take a larger width or fewer neurons")
    return BlockModel(description, integers, min(fitting, key=lambda one: one.table.size + one.counts.size))


def _integers(description: ModelDescription, bounds: _PatchBounds, width: int) -> BlockIntegers:
    """Quantize the second layer to integers, exactly if the weights are small multiples of one scale per output."""
    network, offset, factor = description.network, description.offset, description.factor
    layout = bounds.encoder.layout_
    if isinstance(network, BlockForm):
        neurons, scales = None, network.scales * factor
        forms = (network.integers * layout.counts).astype(np.int64)
        sums = np.abs(forms) @ bounds.entries
        lost = np.zeros(len(offset))
    else:
        assert isinstance(network, BlockNetwork)
        alpha = network.output_weights
        try:
            weights, own = integer_weights(alpha)
        except InvalidInputError:
            own = np.abs(alpha).max(axis=0) / (2**_DIGITS - 1)
            weights = np.rint(alpha / np.where(own > 0.0, own, 1.0)).astype(np.int64)
        reach, scales = bounds.neurons[network.block], own * factor
        lost = factor * (np.abs(alpha - weights * own).T @ reach)
        sums = np.abs(weights).T @ reach
        neurons = _sorted(network, weights)
        forms = _forms(network, weights)
    spare = width - 2 - int(sums.max()).bit_length()
    least, most = _FACTOR_DIGITS
    unit, factors = _common(scales, description.decision, min(max(spare, least), most))
    bias = tuple(round(Fraction(b) / Fraction(u)) for b, u in zip(offset.tolist(), unit.tolist(), strict=True))
    error = lost + np.abs(scales - factors * unit) * sums + np.abs(offset - np.array(bias) * unit)
    # Scales and units are floats.
    error += 4.0 * EPS * (scales * sums + np.abs(offset))
    totals = sums * factors + np.abs(np.array(bias, dtype=np.float64))
    slack = 1.0 + ROUNDING
    return BlockIntegers(
        forms, neurons, factors, bias, unit, error * slack, int(sums.max() * slack), int(totals.max() * slack)
    )


def _forms(network: BlockNetwork, weights: IntArray) -> IntArray:
    """Compute the integer vectors (C, P) whose inner products with packed entries are the sums over neurons."""
    U, V = network.U.astype(np.float64), network.V.astype(np.float64)
    vectors = network.layout.products(U, V, network.block)
    return np.asarray(np.rint(weights.T @ vectors), dtype=np.int64)


def _sorted(network: BlockNetwork, weights: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
    """Sort the terms of the sums over neurons by block and output; a neuron of several outputs is several terms."""
    neuron, output = np.nonzero(weights)
    order = np.lexsort((output, network.block[neuron]))
    neuron, output = neuron[order], output[order]
    U, V = (side[neuron].astype(np.int64) for side in (network.U, network.V))
    return U, V, network.block[neuron], output, weights[neuron, output]


def _common(scales: FloatArray, decision: str, digits: int) -> tuple[FloatArray, IntArray]:
    """Factor scales into units and integer factors (C,) of some bits; one common unit if outputs are compared."""
    used = np.where(scales > 0.0, scales, scales.max() or 1.0)
    if decision != "argmax" or np.all(used == used[0]):
        return used, np.ones(len(scales), dtype=np.int64)
    unit = used.max() / (2**digits - 1)
    return np.full(len(scales), unit), np.rint(used / unit).astype(np.int64)


def _as_neurons(encoder: Patches, integers: BlockIntegers, bounds: _PatchBounds) -> BlockLayout | None:
    if integers.neurons is None:
        return None
    U, V, block, output, weights = integers.neurons
    low, n_bits = _range(weights)
    signs = (np.concatenate([U, V], axis=1) > 0).astype(np.uint8)
    bits = np.concatenate([signs, bits_of_integers(weights - low, n_bits)], axis=1)
    groups = encoder.layout_.n_blocks * integers.n_outputs
    counts = np.bincount(block * integers.n_outputs + output, minlength=groups)
    return BlockLayout(
        "neurons", np.packbits(bits), n_bits, low, counts, _upper(bounds.neurons), max(integers.sums, integers.totals)
    )


def _as_form(encoder: Patches, integers: BlockIntegers, bounds: _PatchBounds) -> BlockLayout:
    layout = encoder.layout_
    # Entries off the diagonal count twice, which the products take over: those of neurons of signs are even.
    entries = integers.forms // layout.counts.astype(np.int64)
    low, n_bits = _range(entries)
    by_block = [entries[:, layout.starts[r] : layout.starts[r + 1]].ravel() for r in range(layout.n_blocks)]
    bits = bits_of_integers(np.concatenate(by_block) - low, n_bits)
    sums = float((np.abs(integers.forms) @ bounds.entries).max() + max(abs(low), 2**n_bits))
    products = _upper(2.0 * bounds.entries)
    sum_bound = max(int(sums * (1.0 + ROUNDING)), integers.totals, products)
    return BlockLayout("form", np.packbits(bits), n_bits, low, np.zeros(0, dtype=np.int64), products, sum_bound)


_LAYOUTS = {"neurons": _as_neurons, "form": _as_form}


def _range(numbers: IntArray) -> tuple[int, int]:
    """Return the smallest number, and the number of bits (at least one) that encode the offsets from it."""
    low = int(numbers.min(initial=0))
    return low, max((int(numbers.max(initial=0)) - low).bit_length(), 1)


def _upper(values: FloatArray) -> int:
    return int(values.max() * (1.0 + ROUNDING))
