"""Integer models: exact evaluation from fixed-point columns to outputs and classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray, IntArray, check_choice, check_integer, check_matrix
from qsdp.encoding.expressions import KINDS
from qsdp.exceptions import ExportError, InvalidInputError, InvalidTypeError
from qsdp.export._fixed_point import (
    Bits,
    Limits,
    Numbers,
    Scales,
    bits_of_kind,
    column_scales,
    fixed_columns,
    fixed_fills,
    limits_of,
    numbers,
)
from qsdp.export._integer_network import IntegerNetwork, integer_network
from qsdp.export._layout import LAYOUTS, NetworkLayout, layouts
from qsdp.export._model import ModelDescription, describe

__all__ = [
    "DIGITS",
    "INPUT_RANGE",
    "Inputs",
    "IntegerModel",
    "check_width",
    "checked_range",
    "integer_inputs",
    "integer_model",
]

#: Default input range of a network without an encoding.
INPUT_RANGE = (-(2**15), 2**15 - 1)

#: Numbers of bits of rounded quantities, tried in this order until all sums fit.
DIGITS = range(15, 5, -1)

#: Largest multiple of a common unit for which bits and the constant column stay exact.
_MOST_UNITS = 2**12


@dataclass(frozen=True, eq=False)
class Inputs:
    """Map from fixed-point columns to integer inputs.

    Inputs are ordered: numbers and thresholds, column by column, then the other bits, then the constant.

    Attributes
    ----------
    scales : list of Fraction or None
        Scales of the columns; None for categories and for unused columns.
    fills : ndarray of shape (number of columns,), or None
        Fixed-point numbers that replace missing entries; None if no entry may be missing.
    numbers : Numbers
    bits : tuple of Bits
        One for each of the kinds "above", "equals" and "missing" that occurs.
    constant : int or None
    most : int
        The largest fixed-point number. A missing entry is below its negative.
    places : ndarray of int
        Position of each input among numbers, bits and the constant, one kind after another.
    order : ndarray of int
        Input of the network that each integer input represents.
    unit : Fraction
        Inputs of the network are `unit` times these.
    error, rounding : ndarray of float
        See `Numbers`.
    """

    scales: Scales
    fills: IntArray | None
    numbers: Numbers
    bits: tuple[Bits, ...]
    constant: int | None
    most: int
    places: IntArray
    order: IntArray
    unit: Fraction
    error: FloatArray
    rounding: FloatArray

    @property
    def largest(self) -> IntArray:
        """Bounds on the magnitudes of the inputs."""
        parts = [self.numbers.largest, *(one.largest for one in self.bits)]
        every = np.concatenate([*parts, [] if self.constant is None else [abs(self.constant)]])
        return every.astype(np.int64)[self.places]

    def encode(self, columns: IntArray) -> IntArray:
        """Compute the integer inputs of shape (n, d) from fixed-point columns."""
        filled = columns if self.fills is None else np.where(columns < -self.most, self.fills, columns)
        parts = [self.numbers.encode(filled), *(one.encode(columns, filled) for one in self.bits)]
        if self.constant is not None:
            parts.append(np.full((len(columns), 1), self.constant, dtype=np.int64))
        return np.hstack(parts)[:, self.places]


@dataclass(frozen=True, eq=False, repr=False)
class IntegerModel:
    """Integer model, which computes exactly what exported code does.

    Attributes
    ----------
    description : ModelDescription
    inputs : Inputs or None
        None for a network alone, which takes integers.
    input_range : tuple of int
        Smallest and largest entry that the model takes.
    network : IntegerNetwork
    layout : NetworkLayout
    """

    description: ModelDescription
    inputs: Inputs | None
    input_range: tuple[int, int]
    network: IntegerNetwork
    layout: NetworkLayout

    #: Rows are not series.
    series = None

    @property
    def n_columns(self) -> int:
        """Number of entries of a row."""
        return self.description.n_columns

    def columns(self, X: Any) -> IntArray:
        """Convert an array or a data frame to the argument of `outputs`: fixed-point numbers and category codes.

        Numbers beyond the fixed-point range, including infinities, are clipped to the largest number of their sign.
        """
        if self.inputs is not None:
            columns = self.description.columns(X, infinite=True)
            return fixed_columns(self.description, columns, self.inputs.scales, self.inputs.most)
        given = check_matrix("X", X, n_columns=self.description.n_columns)
        low, high = self.input_range
        wrong = (given != np.rint(given)) | (given < low) | (given > high)
        if np.any(wrong):
            raise InvalidInputError(f"X must hold integers from {low} to {high}; found {given[wrong][0]:g}")
        return given.astype(np.int64)

    def outputs(self, columns: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Compute the integer outputs of shape (n, C) for the result of `columns`; Python integers if necessary."""
        return self.network.outputs(columns if self.inputs is None else self.inputs.encode(columns))

    def scores(self, outputs: npt.NDArray[Any]) -> FloatArray:
        """Convert integer outputs to scores of the original model."""
        scores: FloatArray = outputs.astype(np.float64) * self.network.unit
        return scores


def integer_model(
    model: Any,
    *,
    input_range: Sequence[int] | None = None,
    scales: Mapping[str, float] | None = None,
    column_width: int | None = None,
    width: int = 64,
    layout: str = "auto",
) -> IntegerModel:
    """Convert a model to integers, with the maximum number of digits for which all sums provably fit.

    Parameters
    ----------
    model : network, estimator, pipeline, model of `qsdp fit` or ModelDescription
    input_range : (int, int), optional
        Smallest and largest input of a network alone; 16 bits by default.
    scales : mapping of str to float, optional
        Scale of each column, by name: the fixed-point number is the integer nearest to the scale times the entry.
    column_width : {16, 32}, optional
        Bits of the fixed-point numbers; 32 by default.
    width : {16, 32, 64}
        Largest number of bits of an accumulator.
    layout : {"auto", "neurons", "form"}
        Representation to store; "auto" chooses the smaller one.

    Raises
    ------
    ExportError
        Sums do not fit, or a part of the model cannot be expressed in integers.
    """
    description = describe(model)
    check_choice("layout", layout, ["auto", *LAYOUTS])
    check_width(width)
    if column_width not in {None, 16, 32}:
        raise InvalidInputError(f"column_width must be 16 or 32; got {column_width!r:.60}")
    if description.encoding is None:
        if scales is not None or column_width is not None:
            name = "column_width is" if scales is None else "scales are"
            raise InvalidInputError(f"{name} for columns; a network alone takes integers, see input_range")
        limits, fixed = None, None
        given = checked_range(INPUT_RANGE if input_range is None else input_range)
    else:
        if input_range is not None:
            raise InvalidInputError("input_range is for a network alone; the columns of this model have scales")
        limits = limits_of(description)
        most = 2 ** ((column_width or 32) - 1) - 1
        fixed, given = column_scales(description, limits, scales, most), (-most - 1, most)
    found = _fitting(description, limits, fixed, given, width, layout)
    if found is not None:
        return found
    raise ExportError(
        f"the sums do not fit into the {width} bits of width with {DIGITS[-1]} digits: take a larger width, a smaller "
        "input_range or fewer neurons"
    )


def _fitting(
    description: ModelDescription,
    limits: Limits | None,
    scales: Scales | None,
    given: tuple[int, int],
    width: int,
    layout: str,
) -> IntegerModel | None:
    """Build the smaller of the layouts that fit, each with the maximum number of digits; None if none fits."""
    candidates: dict[str, IntegerModel] = {}
    for digits in DIGITS:
        inputs = (
            None if limits is None or scales is None else integer_inputs(description, limits, scales, digits, given[1])
        )
        network = _network(description, inputs, given, digits)
        every = [one for one in layouts(network) if layout in {"auto", one.name}]
        if not every:
            raise ExportError(
                f"layout must be 'form' for an integer form or an activation without a square; got {layout!r}"
            )
        for one in every:
            if one.sum_width <= width:
                candidates.setdefault(one.name, IntegerModel(description, inputs, given, network, one))
        if every[0].name in candidates:
            break
    return min(candidates.values(), key=lambda one: one.layout.size, default=None)


def check_width(width: int) -> int:
    """Check `width`, the bits of the widest accumulator, and return it."""
    if width not in {16, 32, 64}:
        raise InvalidInputError(f"width must be 16, 32 or 64; got {width!r:.60}")
    return width


def checked_range(given: Sequence[int]) -> tuple[int, int]:
    """Check the smallest and the largest input, integers of 32 bits, and return them."""
    if not hasattr(given, "__len__") or len(given) != 2:
        raise InvalidTypeError(f"input_range must be two integers; got {given!r:.60}")
    low, high = (check_integer("input_range", end, minimum=-(2**31), maximum=2**31 - 1) for end in given)
    if low >= high:
        raise InvalidInputError(f"input_range must be two integers, the smaller one first; got {given!r:.60}")
    return low, high


def _network(
    description: ModelDescription, inputs: Inputs | None, given: tuple[int, int], digits: int
) -> IntegerNetwork:
    """Build the integer network for integer inputs."""
    d = description.network.n_inputs
    if inputs is None:
        order, largest = np.arange(d), np.full(d, max(map(abs, given)), dtype=np.int64)
        unit, error, rounding = Fraction(1), np.zeros(d), np.zeros(d)
    else:
        order, largest = inputs.order, inputs.largest
        unit, error, rounding = inputs.unit, inputs.error, inputs.rounding
    return integer_network(
        description.network,
        description.offset,
        description.factor,
        order=order,
        unit=unit,
        largest=largest,
        error=error,
        rounding=rounding,
        digits=digits,
        common_unit=description.decision == "argmax",
    )


def integer_inputs(description: ModelDescription, limits: Limits, scales: Scales, digits: int, most: int) -> Inputs:
    """Build the integer inputs of an encoding, with at most so many digits and fixed-point numbers up to `most`."""
    encoding, constant = description.encoding, description.constant
    assert encoding is not None
    placed = list(enumerate(encoding.expressions))
    placed.sort(key=lambda pair: pair[1].position)
    kinds = {kind: [pair for pair in placed if pair[1].kind == kind] for kind in KINDS}
    pairs = [Fraction(value) for one in encoding.expressions for value in one.bit_values or ()]
    values = [*pairs, *([] if constant is None else [Fraction(constant)])]
    extremes = [
        abs(end - Fraction(one.center)) / Fraction(one.scale)
        for one, span in zip(encoding.expressions, limits, strict=True)
        for end in span or ()
    ]
    unit = _unit(values, extremes, digits)
    fills = fixed_fills(encoding.columns, encoding.expressions, scales, most)
    own_numbers = numbers(kinds["value"], encoding.columns, limits, scales, unit, fills)
    own_bits = tuple(
        bits_of_kind(kind, [one for _, one in own], encoding.columns, scales, unit, most)
        for kind, own in kinds.items()
        if own and kind != "value"
    )
    filled = [one for kind in ("value", "above") for _, one in kinds[kind]]
    order = [place for own in kinds.values() for place, _ in own]
    by_column = sorted(range(len(filled)), key=lambda at: filled[at].position)
    n_bits = len(order) - len(kinds["value"])
    error, rounding = [own_numbers.error, *(one.error for one in own_bits)], [own_numbers.rounding, np.zeros(n_bits)]
    whole = None
    if constant is not None:
        order.append(len(order))
        whole = round(Fraction(constant) / unit)
        error.append(np.array([float(abs(whole - Fraction(constant) / unit))]))
        rounding.append(np.zeros(1))
    places = np.array([*by_column, *range(len(filled), len(order))], dtype=np.int64)
    return Inputs(
        scales,
        fills if any(encoding.columns[one.position].fill is not None for one in filled) else None,
        own_numbers,
        own_bits,
        whole,
        most,
        places,
        np.array(order, dtype=np.int64)[places],
        unit,
        np.concatenate(error)[places],
        np.concatenate(rounding)[places],
    )


def _unit(values: list[Fraction], extremes: list[Fraction], digits: int) -> Fraction:
    """Choose the unit of the inputs: exact if all are bits, else the power of two that yields `digits` digits."""
    present = [abs(value) for value in values if value]
    if present and not extremes:
        denominator = max(value.denominator for value in present)
        common = Fraction(reduce(gcd, (int(value * denominator) for value in present)), denominator)
        if max(present) <= _MOST_UNITS * common:
            return common
    largest = max([*present, *extremes], default=Fraction(0)) or Fraction(1)
    exponent = 0
    while largest * Fraction(2) ** exponent > 2**digits - 1:
        exponent -= 1
    while largest * Fraction(2) ** (exponent + 1) <= 2**digits - 1:
        exponent += 1
    return Fraction(2) ** -exponent
