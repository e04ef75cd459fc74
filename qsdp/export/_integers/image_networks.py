"""Integer networks of images and series, with integers for the blocks' numbers of windows, too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from qsdp._utils.numeric import EPS, LARGEST_INTEGER, ROUNDING
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.encoding import Encoding, Expression, InputColumn
from qsdp.exceptions import ExportError
from qsdp.export._description import ModelDescription
from qsdp.export._integers.fixed_point import checked_scales, column_scales, limits_of
from qsdp.export._integers.integer_inputs import integer_inputs
from qsdp.export._integers.integer_network import Bounds, IntegerNetwork, Neurons, unit_of
from qsdp.export._integers.vectors import ImageVectors, SeriesVectors, Vectors
from qsdp.networks import IntegerForm
from qsdp.networks.compact import integer_weights

__all__ = ["images", "integers_of_blocks", "series"]

#: Standard deviations at which channels are clipped; twice as many cost one bit of every number.
_REACH = 16

#: The largest pixel.
_BYTE = 255

#: Minimum and maximum number of bits of factors between outputs.
_FACTOR_DIGITS = 6, 31

#: Bits of the factors of blocks that are means over different numbers of windows.
_GAIN_DIGITS = 12


def images(description: ModelDescription) -> ImageVectors:
    """Return the integer vectors of images of bytes; raise ExportError if there are none."""
    encoder = description.blocks
    for name in ("centre", "constant_"):
        if not float(value := getattr(encoder, name)).is_integer():
            raise ExportError(f"{name} of the encoder must be an integer; got {value:g}")
    (grid,) = encoder.grids
    return ImageVectors(description, None, (0, _BYTE), int(grid.constant) * grid.area)


def series(
    description: ModelDescription, scales: Mapping[str, float] | None, column_width: int, digits: int
) -> SeriesVectors:
    """Return the integer vectors of series, in so many bits and digits."""
    encoder, max_entry = description.blocks, 2 ** (column_width - 1) - 1
    samples = replace(description, encoding=_encoding_of(encoder, scales, max_entry), blocks=None)
    limits = limits_of(samples)
    inputs = integer_inputs(samples, limits, column_scales(samples, limits, scales, max_entry), digits, max_entry)
    constant = round(Fraction(encoder.constant) / inputs.unit)
    vectors = SeriesVectors(samples, inputs, (-max_entry - 1, max_entry), constant, encoder)
    if vectors.counts.max() * vectors.vector.max() ** 2 > LARGEST_INTEGER:
        raise ExportError("sums of products of a series exceed 2^53: fit it to shorter series")
    return vectors


def _encoding_of(encoder: Any, scales: Mapping[str, float] | None, max_entry: int) -> Encoding:
    """Return the encoding of a sample: channels, clipped at some standard deviations and at the largest entry."""
    names = [f"channel {number}" for number in range(encoder.n_features_in_)]
    by_user = checked_scales(scales, names)
    expressions = []
    for position, (name, mean, scale) in enumerate(
        zip(names, encoder.mean_.tolist(), encoder.scale_.tolist(), strict=True)
    ):
        reach = _REACH * scale if encoder.standardize else math.inf
        end = (
            math.inf
            if encoder.standardize and name not in by_user
            else float(max_entry / by_user.get(name, Fraction(1)))
        )
        # The nearest fixed-point number of a limit is at most the largest one.
        end = math.nextafter(end, 0.0) if end < math.inf else end
        low, high = max(mean - reach, -end), min(mean + reach, end)
        if low >= high:
            raise ExportError(f"{name}: fixed-point numbers with scale {float(by_user[name]):g} do not reach its mean")
        expressions.append(Expression(name, position, "value", center=mean, scale=scale, low=low, high=high))
    return Encoding(tuple(InputColumn(name) for name in names), tuple(expressions))


def integers_of_blocks(
    description: ModelDescription, samples: Vectors, width: int, digits: int
) -> tuple[IntegerNetwork, Bounds]:
    """Convert a network to integers, exactly if its weights are small multiples of one scale per output.

    Parameters
    ----------
    description : ModelDescription
    samples : ImageVectors or SeriesVectors
    width : int
        Bits of outputs.
    digits : int
        Bits of other weights, and of the factors of blocks whose numbers of windows differ.

    Returns
    -------
    IntegerNetwork, callable
        The callable is the bound on the errors of scores, see `Bounds`.
    """
    network, offset, factor = description.network, description.offset, description.factor
    blocks, square = samples.blocks, samples.unit**2
    common = samples.common(min(digits, _GAIN_DIGITS)) if isinstance(samples, SeriesVectors) else 1
    neurons, forms, scales, (sums_by_block, exact, lost) = _second_layer(network, samples, digits)
    sums, scales = sums_by_block @ samples.weights(common), scales * factor * (square / common)
    spare = width - 2 - int(sums.max()).bit_length()
    min_digits, max_digits = _FACTOR_DIGITS
    unit, factors = _common(scales, description.decision, min(max(spare, min_digits), max_digits))
    bias = tuple(round(Fraction(b) / Fraction(u)) for b, u in zip(offset.tolist(), unit.tolist(), strict=True))
    whole_bias = np.array(bias, dtype=np.float64)
    totals = sums * factors + np.abs(whole_bias)
    slack = 1.0 + ROUNDING

    def bounds(error: FloatArray) -> FloatArray:
        """Bound errors for exact vectors z + e: 2 e'Sz + e'Se, plus rounding of gains, weights and constants."""
        rounded = factor * square * ((lost + exact * samples.drift(common)) @ (1.0 / samples.divisors))
        rounded += np.abs(scales - factors * unit) * sums + np.abs(offset - whole_bias * unit)
        # Scales and units are floats.
        rounded += 8.0 * EPS * (scales * sums + np.abs(offset))
        shape = (-1, blocks.n_blocks, blocks.side, blocks.side)
        S = np.abs(blocks.matrices(network.entries / blocks.counts)).reshape(shape)
        moved = square * ((S @ (2.0 * samples.vector + error)) @ error).sum(axis=1)
        return np.asarray(slack * (rounded + factor * moved))

    integers = IntegerNetwork(
        neurons, forms, common, factors, bias, unit, int(sums.max() * slack), int(totals.max() * slack)
    )
    return integers, bounds


def _second_layer(
    network: Any, samples: Vectors, digits: int
) -> tuple[Neurons | None, IntArray, FloatArray, list[FloatArray]]:
    """Return neurons or none, forms, scales of the outputs, and bounds by output and block.

    The bounds are on sums over integer neurons, on those over the network's, and on their differences.
    """
    blocks = samples.blocks
    if isinstance(network, IntegerForm):
        forms = (network.integers * blocks.counts).astype(np.int64)
        sums = np.add.reduceat(np.abs(forms) * samples.largest_products, blocks.starts[:-1], axis=1)
        return None, forms, network.scales, [sums, network.scales[:, None] * sums, np.zeros(sums.shape)]
    alpha = network.output_weights
    weights, scales = _integer_weights(alpha, digits)
    neurons = Neurons(network.U.astype(np.int64), network.V.astype(np.int64), network.block, weights)
    reach = (network.block[:, None] == np.arange(blocks.n_blocks)) * neurons.bounds(samples)[:, None]
    products = blocks.products(network.U.astype(np.float64), network.V.astype(np.float64), network.block)
    forms = np.asarray(np.rint(weights.T @ products), dtype=np.int64)
    return neurons, forms, scales, [np.abs(values).T @ reach for values in (weights, alpha, alpha - weights * scales)]


def _integer_weights(alpha: FloatArray, digits: int) -> tuple[IntArray, FloatArray]:
    """Return second-layer weights as integers times scales, rounded unless they are exactly that."""
    factored = integer_weights(alpha)
    if factored is not None:
        return factored
    scales = np.array([unit_of(column, digits)[0] for column in alpha.T])
    return np.rint(alpha / scales).astype(np.int64), scales


def _common(scales: FloatArray, decision: str, digits: int) -> tuple[FloatArray, IntArray]:
    """Factor scales into units and integer factors (C,) of some bits; one common unit if outputs are compared."""
    used = np.where(scales > 0.0, scales, scales.max() or 1.0)
    if decision != "argmax" or np.all(used == used[0]):
        return used, np.ones(len(scales), dtype=np.int64)
    unit = used.max() / (2**digits - 1)
    return np.full(len(scales), unit), np.rint(used / unit).astype(np.int64)
