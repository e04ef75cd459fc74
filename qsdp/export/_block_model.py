"""Integer models of networks on images and series, with proven bounds of every sum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

import qsdp.encoding
from qsdp._utils.numeric import EPS, ROUNDING
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.exceptions import ExportError, InvalidInputError
from qsdp.export._block_samples import ImageVectors, SeriesVectors, images_of, series_of
from qsdp.export._integer_model import DIGITS, Inputs
from qsdp.export._integer_network import common_unit
from qsdp.export._layout import Widths
from qsdp.export._model import ModelDescription
from qsdp.networks import BlockForm, BlockNetwork
from qsdp.networks.compact import integer_weights
from qsdp.networks.storage import bits_of_integers

__all__ = ["BlockIntegers", "BlockLayout", "BlockModel", "block_model", "check_encoder", "largest_entries"]

#: Minimum and maximum number of bits of factors between outputs.
_FACTOR_DIGITS = 6, 31

#: Bits of the factors of blocks that are means over different numbers of windows.
_GAIN_DIGITS = 12


@dataclass(frozen=True, eq=False)
class BlockIntegers:
    r"""Integer second layer: scores are `unit` times :math:`F_c \sum_j q_{jc} G_{r_j} u_j^T M_{r_j} v_j + B_c`.

    Attributes
    ----------
    forms : ndarray of shape (C, P)
        The vectors whose inner products with the packed sums of products M are the sums above.
    neurons : tuple of ndarray, or None
        Signs U and V of shape (t, N), blocks and outputs of shape (t,), and weights q of shape (t,) of the terms, by
        block and output; None for a form.
    gains : ndarray of shape (R,)
        Factors of the sums of each block.
    factors : ndarray of shape (C,)
    bias : tuple of int
    unit, error, rounding_error : ndarray of shape (C,)
        Factors from outputs to scores, and bounds on their distance from the model's scores: for the values that
        entries stand for, and for entries before rounding.
    sums, totals : int
        Bounds on the magnitudes of the sums over neurons, and of outputs.
    """

    forms: IntArray
    neurons: tuple[IntArray, IntArray, IntArray, IntArray, IntArray] | None
    gains: IntArray
    factors: IntArray
    bias: tuple[int, ...]
    unit: FloatArray
    error: FloatArray
    rounding_error: FloatArray
    sums: int
    totals: int

    @property
    def n_outputs(self) -> int:
        """Number of outputs C."""
        return len(self.bias)


@dataclass(frozen=True, eq=False)
class BlockLayout(Widths):
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


@dataclass(frozen=True, eq=False)
class BlockModel:
    """Integer model of a network on images or series, which computes exactly what its C code does.

    Attributes
    ----------
    description : ModelDescription
        That of a sample, with a column for each channel, for series.
    samples : ImageVectors or SeriesVectors
    network : BlockIntegers
    layout : BlockLayout
    """

    description: ModelDescription
    samples: ImageVectors | SeriesVectors
    network: BlockIntegers
    layout: BlockLayout

    @property
    def encoder(self) -> Any:
        """Encoder of the images or series."""
        return self.samples.encoder

    @property
    def series(self) -> SeriesVectors | None:
        """The series that the model takes; None for images."""
        return self.samples if isinstance(self.samples, SeriesVectors) else None

    @property
    def inputs(self) -> Inputs | None:
        """Map from fixed-point numbers of a sample of a series to integers; None for images."""
        return self.samples.inputs

    @property
    def input_range(self) -> tuple[int, int]:
        """Smallest and largest entry that the model takes."""
        return self.samples.input_range

    @property
    def n_columns(self) -> int:
        """Number of entries of an image or series."""
        return self.samples.n_columns

    def columns(self, X: Any) -> npt.NDArray[Any]:
        """Return images as flat rows of bytes, or series as rows of fixed-point numbers, sample after sample."""
        return self.samples.columns(X)

    def outputs(self, columns: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Compute the integer outputs (n, C) for the result of `columns`."""
        gains = self.network.gains[self.encoder.layout_.block]
        sums = self.samples.products(columns) @ (self.network.forms * gains).T
        outputs: npt.NDArray[Any] = sums * self.network.factors + np.array(self.network.bias)
        return outputs

    def scores(self, outputs: npt.NDArray[Any]) -> FloatArray:
        """Convert integer outputs to scores of the original model."""
        scores: FloatArray = outputs.astype(np.float64) * self.network.unit
        return scores


def check_encoder(description: ModelDescription, *, series: bool = False) -> Any:
    """Return the encoder of a network on images or, if allowed, series; raise ExportError for another one or none."""
    encoder = description.blocks
    if encoder is None:
        raise ExportError("a network on blocks without an estimator needs encoder, the fitted one of its samples")
    kinds = (qsdp.encoding.Patches, qsdp.encoding.Windows) if series else (qsdp.encoding.Patches,)
    if not isinstance(encoder, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        more = "; series are exported by to_c only" if isinstance(encoder, qsdp.encoding.Windows) else ""
        raise ExportError(f"only networks on {names} can be exported; got {encoder!r:.60}{more}")
    return encoder


def block_model(
    description: ModelDescription,
    *,
    width: int,
    layout: str,
    length: int | None = None,
    scales: Mapping[str, float] | None = None,
    column_width: int | None = None,
    most: int = 255,
    digits: Sequence[int] = DIGITS,
) -> BlockModel:
    """Convert a network on byte images or series to integers, in the smaller layout whose sums fit.

    Parameters
    ----------
    description : ModelDescription
    width : {16, 32, 64}
        Bits of the widest accumulator allowed.
    layout : {"auto", "neurons", "form"}
    length : int, optional
        Number of samples of a series.
    scales : mapping of str to float, optional
        Scale of each channel, by name; see `to_c`.
    column_width : {16, 32}, optional
        Bits of the entries of series; 16 by default.
    most : int, default=255
        The largest pixel.
    digits : sequence of int
        Numbers of bits of what must be rounded, tried in this order until all sums fit.

    Raises
    ------
    ExportError
        The encoder is neither `Patches` nor, with a length, `Windows`, its centre or constant are not integers, or sums
        do not fit into `width` bits.
    """
    encoder = check_encoder(description, series=length is not None)
    found: list[BlockLayout | None] = []
    of_series = isinstance(encoder, qsdp.encoding.Windows)
    for number in digits:
        samples: ImageVectors | SeriesVectors = (
            series_of(description, length or 0, scales, column_width or 16, number)
            if of_series
            else images_of(encoder, most)
        )
        integers = _integers(description, samples, width, number)
        found = [one(samples, integers) for name, one in _LAYOUTS.items() if layout in {"auto", name}]
        fitting = [one for one in found if one is not None and one.sum_width <= width]
        if fitting:
            smallest = min(fitting, key=lambda one: one.table.size + one.counts.size)
            # Columns of series are described like those of a table.
            return BlockModel(getattr(samples, "description", description), samples, integers, smallest)
    if not any(found):
        raise ExportError(f"layout must be 'form' for a form of integers; got {layout!r}")
    raise ExportError(f"the sums do not fit into the {width} bits of width: take a larger width or fewer neurons")


def _integers(
    description: ModelDescription, samples: ImageVectors | SeriesVectors, width: int, digits: int
) -> BlockIntegers:
    """Quantize the second layer to integers, exactly if the weights are small multiples of one scale per output.

    Other weights, and the factors of blocks whose numbers of windows differ, have at most so many digits.
    """
    network, offset, factor = description.network, description.offset, description.factor
    layout = samples.encoder.layout_
    gains, common = _gains(samples.divisors, min(digits, _GAIN_DIGITS))
    weight = samples.unit**2
    if isinstance(network, BlockForm):
        neurons, own = None, network.scales
        forms = (network.integers * layout.counts).astype(np.int64)
        integers = np.add.reduceat(np.abs(forms) * largest_entries(samples), layout.starts[:-1], axis=1)
        exact, lost = own[:, None] * integers, np.zeros(integers.shape)
    else:
        assert isinstance(network, BlockNetwork)
        alpha = network.output_weights
        weights, own = _second_layer(alpha, digits)
        # Bounds of the values of neurons, by output and block.
        reach = (network.block == np.arange(layout.n_blocks)[:, None]).T * (samples.counts * samples.vector.sum() ** 2)
        integers, exact, lost = (np.abs(one).T @ reach for one in (weights, alpha, alpha - weights * own))
        neurons, forms = _sorted(network, weights, samples.order), _forms(network, weights)
    sums, scales = integers @ gains, own * factor * (weight / common)
    spare = width - 2 - int(sums.max()).bit_length()
    least, most = _FACTOR_DIGITS
    unit, factors = _common(scales, description.decision, min(max(spare, least), most))
    bias = tuple(round(Fraction(b) / Fraction(u)) for b, u in zip(offset.tolist(), unit.tolist(), strict=True))
    error = (
        factor * weight * (lost @ (1.0 / samples.divisors) + exact @ np.abs(1.0 / samples.divisors - gains / common))
    )
    error += np.abs(scales - factors * unit) * sums + np.abs(offset - np.array(bias) * unit)
    # Scales and units are floats.
    error += 8.0 * EPS * (scales * sums + np.abs(offset))
    totals = sums * factors + np.abs(np.array(bias, dtype=np.float64))
    slack = 1.0 + ROUNDING
    rounded, rounding = (slack * (error + factor * one) for one in _input_errors(network, samples))
    return BlockIntegers(
        forms,
        neurons,
        gains,
        factors,
        bias,
        unit,
        rounded,
        rounding,
        int(sums.max() * slack),
        int(totals.max() * slack),
    )


def _second_layer(alpha: FloatArray, digits: int) -> tuple[IntArray, FloatArray]:
    """Return second-layer weights as integers times scales, rounded unless they are exactly that."""
    try:
        return integer_weights(alpha)
    except InvalidInputError:
        sizes = np.abs(alpha)
        units = [common_unit(one[one > 0.0], digits) if one.any() else 1.0 for one in sizes.T]
        finest = sizes.max(axis=0) / (2**digits - 1)
        own = np.array([one or other for one, other in zip(units, finest.tolist(), strict=True)])
        return np.rint(alpha / own).astype(np.int64), own


def _gains(divisors: IntArray, digits: int) -> tuple[IntArray, int]:
    """Write the inverses of numbers as small integers over a common one, exactly if these are small enough."""
    smallest, common = int(divisors.min()), math.lcm(*divisors.tolist())
    if common >= smallest << digits:
        common = smallest * (2**digits - 1)
    return np.rint(common / divisors).astype(np.int64), common


def largest_entries(samples: ImageVectors | SeriesVectors) -> FloatArray:
    """Bound the magnitudes of the packed sums of products, of shape (P,)."""
    layout, vector = samples.encoder.layout_, samples.vector
    return np.asarray(samples.counts[layout.block] * vector[layout.first] * vector[layout.second])


def _input_errors(network: Any, samples: ImageVectors | SeriesVectors) -> list[FloatArray]:
    """Bound the errors of outputs for vectors z + e: 2 e'Sz + e'Se, for exact entries and for rounded ones."""
    layout, z = samples.encoder.layout_, samples.vector
    S = np.abs(layout.matrices(network.entries / layout.counts)).reshape(-1, layout.n_blocks, layout.side, layout.side)
    return [samples.unit**2 * ((S @ (2.0 * z + e)) @ e).sum(axis=1) for e in samples.errors]


def _forms(network: BlockNetwork, weights: IntArray) -> IntArray:
    """Compute the integer vectors (C, P) whose inner products with packed entries are the sums over neurons."""
    U, V = network.U.astype(np.float64), network.V.astype(np.float64)
    vectors = network.layout.products(U, V, network.block)
    return np.asarray(np.rint(weights.T @ vectors), dtype=np.int64)


def _sorted(
    network: BlockNetwork, weights: IntArray, order: list[int]
) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
    """Sort the terms of the sums over neurons by block, in an order, and output; a neuron may have several terms."""
    neuron, output = np.nonzero(weights)
    block = np.argsort(order)[network.block[neuron]]
    by_block = np.lexsort((output, block))
    neuron, output = neuron[by_block], output[by_block]
    U, V = (side[neuron].astype(np.int64) for side in (network.U, network.V))
    return U, V, block[by_block], output, weights[neuron, output]


def _common(scales: FloatArray, decision: str, digits: int) -> tuple[FloatArray, IntArray]:
    """Factor scales into units and integer factors (C,) of some bits; one common unit if outputs are compared."""
    used = np.where(scales > 0.0, scales, scales.max() or 1.0)
    if decision != "argmax" or np.all(used == used[0]):
        return used, np.ones(len(scales), dtype=np.int64)
    unit = used.max() / (2**digits - 1)
    return np.full(len(scales), unit), np.rint(used / unit).astype(np.int64)


def _as_neurons(samples: ImageVectors | SeriesVectors, integers: BlockIntegers) -> BlockLayout | None:
    if integers.neurons is None:
        return None
    U, V, block, output, weights = integers.neurons
    low, n_bits = _range(weights)
    signs = (np.concatenate([U, V], axis=1) > 0).astype(np.uint8)
    bits = np.concatenate([signs, bits_of_integers(weights - low, n_bits)], axis=1)
    groups = len(samples.order) * integers.n_outputs
    counts = np.bincount(block * integers.n_outputs + output, minlength=groups)
    reach = _upper(samples.counts * samples.vector.sum() ** 2)
    return BlockLayout("neurons", np.packbits(bits), n_bits, low, counts, reach, max(integers.sums, integers.totals))


def _as_form(samples: ImageVectors | SeriesVectors, integers: BlockIntegers) -> BlockLayout:
    layout = samples.encoder.layout_
    # Entries off the diagonal count twice, which the products take over: those of neurons of signs are even.
    entries = integers.forms // layout.counts.astype(np.int64)
    low, n_bits = _range(entries)
    by_block = [entries[:, layout.starts[r] : layout.starts[r + 1]].ravel() for r in samples.order]
    bits = bits_of_integers(np.concatenate(by_block) - low, n_bits)
    largest, gains = largest_entries(samples), integers.gains[layout.block]
    sums = float((np.abs(integers.forms) * gains @ largest).max() + max(abs(low), 2**n_bits) * int(gains.max()))
    products = _upper(2.0 * largest)
    sum_bound = max(int(sums * (1.0 + ROUNDING)), integers.totals, products)
    return BlockLayout("form", np.packbits(bits), n_bits, low, np.zeros(0, dtype=np.int64), products, sum_bound)


_LAYOUTS = {"neurons": _as_neurons, "form": _as_form}


def _range(numbers: IntArray) -> tuple[int, int]:
    """Return the smallest number, and the number of bits (at least one) that encode the offsets from it."""
    low = int(numbers.min(initial=0))
    return low, max((int(numbers.max(initial=0)) - low).bit_length(), 1)


def _upper(values: FloatArray) -> int:
    return int(values.max() * (1.0 + ROUNDING))
