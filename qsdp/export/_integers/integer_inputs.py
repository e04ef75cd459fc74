"""Integer inputs of the encoding of fixed-point columns, and bounds on their errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import gcd

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray, IntArray
from qsdp.encoding import Expression, InputColumn
from qsdp.encoding.expressions import KINDS
from qsdp.export._description import ModelDescription
from qsdp.export._integers.fixed_point import Limits, Scales, compared, fixed_fills

__all__ = ["Bits", "Inputs", "Numbers", "integer_inputs"]

#: Largest error, in units of inputs, that a common shift of all numbers may add; a common shift needs no table.
_SHARED_SHIFT = Fraction(1, 16)

#: Largest multiple of a common unit for which bits and the constant column stay exact.
_MAX_UNITS = 2**12


@dataclass(frozen=True, eq=False)
class Numbers:
    r"""Numeric inputs: :math:`\lfloor (e \cdot \text{slope} + h) / 2^\text{shift} \rfloor + \text{start}`.

    Here e is the column minus `low`, from 0 to `width`, and h is half of :math:`2^\text{shift}`. All have shape (k,).

    Attributes
    ----------
    column, low, width, slope, shift, start : ndarray of int
    error : ndarray of float
        Largest distance of an input from the input for the column's exact value, in units of inputs.
    rounding : ndarray of float
        Additional error due to rounding the column to its nearest fixed-point number.
    """

    column: IntArray
    low: IntArray
    width: IntArray
    slope: IntArray
    shift: IntArray
    start: IntArray
    error: npt.NDArray[np.float64]
    rounding: npt.NDArray[np.float64]

    def encode(self, columns: IntArray) -> IntArray:
        """Compute the inputs of shape (n, k) from columns without missing entries, shape (n, number of columns)."""
        above = np.clip(columns[:, self.column] - self.low, 0, self.width)
        inputs: IntArray = ((above * self.slope + self.half) >> self.shift) + self.start
        return inputs

    @property
    def half(self) -> IntArray:
        """Half of the divisor, added before the shift to round."""
        half: IntArray = 1 << self.shift >> 1
        return half

    @property
    def top(self) -> IntArray:
        """Largest inputs minus `start`."""
        top: IntArray = (self.width * self.slope + self.half) >> self.shift
        return top

    @property
    def largest(self) -> IntArray:
        """Largest magnitudes of the inputs."""
        largest: IntArray = np.maximum(np.abs(self.start), np.abs(self.top + self.start))
        return largest


@dataclass(frozen=True, eq=False)
class Bits:
    """Inputs that are bits of one kind: `on` if the column is above or equal to `value`, or missing, else `off`."""

    kind: str
    column: IntArray
    value: IntArray
    off: IntArray
    on: IntArray
    error: npt.NDArray[np.float64]

    def encode(self, columns: IntArray, filled: IntArray) -> IntArray:
        """Compute the inputs of shape (n, k) from columns with missing entries, and with filled entries."""
        bits = filled[:, self.column] > self.value if self.kind == "above" else columns[:, self.column] == self.value
        return np.where(bits, self.on, self.off)

    @property
    def largest(self) -> IntArray:
        """Largest magnitudes of the inputs."""
        return np.maximum(np.abs(self.off), np.abs(self.on))


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
    max_entry : int
        The largest fixed-point number. A missing entry is below its negative.
    positions : ndarray of int
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
    max_entry: int
    positions: IntArray
    order: IntArray
    unit: Fraction
    error: FloatArray
    rounding: FloatArray

    @property
    def largest(self) -> IntArray:
        """Bounds on the magnitudes of the inputs."""
        parts = [self.numbers.largest, *(bits.largest for bits in self.bits)]
        every = np.concatenate([*parts, [] if self.constant is None else [abs(self.constant)]])
        return every.astype(np.int64)[self.positions]

    def encode(self, columns: IntArray) -> IntArray:
        """Compute the integer inputs of shape (n, d) from fixed-point columns."""
        filled = columns if self.fills is None else np.where(columns < -self.max_entry, self.fills, columns)
        parts = [self.numbers.encode(filled), *(bits.encode(columns, filled) for bits in self.bits)]
        if self.constant is not None:
            parts.append(np.full((len(columns), 1), self.constant, dtype=np.int64))
        return np.hstack(parts)[:, self.positions]


def integer_inputs(
    description: ModelDescription, limits: Limits, scales: Scales, digits: int, max_entry: int
) -> Inputs:
    """Build the integer inputs of an encoding, with at most `digits` bits and fixed-point numbers up to `max_entry`."""
    encoding, constant = description.encoding, description.constant
    assert encoding is not None
    placed = list(enumerate(encoding.expressions))
    placed.sort(key=lambda pair: pair[1].position)
    kinds = {kind: [pair for pair in placed if pair[1].kind == kind] for kind in KINDS}
    pairs = [Fraction(value) for expression in encoding.expressions for value in expression.bit_values or ()]
    values = [*pairs, *([] if constant is None else [Fraction(constant)])]
    extremes = [
        abs(end - Fraction(expression.center)) / Fraction(expression.scale)
        for expression, span in zip(encoding.expressions, limits, strict=True)
        for end in span or ()
    ]
    unit = _unit(values, extremes, digits)
    fills = fixed_fills(encoding.columns, encoding.expressions, scales, max_entry)
    number_inputs = numbers(kinds["value"], encoding.columns, limits, scales, unit, fills)
    bit_inputs = tuple(
        bits_of_kind(kind, [expression for _, expression in members], encoding.columns, scales, unit, max_entry)
        for kind, members in kinds.items()
        if members and kind != "value"
    )
    filled = [expression for kind in ("value", "above") for _, expression in kinds[kind]]
    order = [index for members in kinds.values() for index, _ in members]
    by_column = sorted(range(len(filled)), key=lambda at: filled[at].position)
    n_bits = len(order) - len(kinds["value"])
    error, rounding = (
        [number_inputs.error, *(bits.error for bits in bit_inputs)],
        [number_inputs.rounding, np.zeros(n_bits)],
    )
    whole = None
    if constant is not None:
        order.append(len(order))
        whole = round(Fraction(constant) / unit)
        error.append(np.array([float(abs(whole - Fraction(constant) / unit))]))
        rounding.append(np.zeros(1))
    positions = np.array([*by_column, *range(len(filled), len(order))], dtype=np.int64)
    return Inputs(
        scales,
        fills if any(encoding.columns[expression.position].fill is not None for expression in filled) else None,
        number_inputs,
        bit_inputs,
        whole,
        max_entry,
        positions,
        np.array(order, dtype=np.int64)[positions],
        unit,
        np.concatenate(error)[positions],
        np.concatenate(rounding)[positions],
    )


def _unit(values: list[Fraction], extremes: list[Fraction], digits: int) -> Fraction:
    """Choose the unit of the inputs: exact if all are bits, else the power of two that yields `digits` digits."""
    present = [abs(value) for value in values if value]
    if present and not extremes:
        denominator = max(value.denominator for value in present)
        common = Fraction(reduce(gcd, (int(value * denominator) for value in present)), denominator)
        if max(present) <= _MAX_UNITS * common:
            return common
    largest = max([*present, *extremes], default=Fraction(0)) or Fraction(1)
    exponent = 0
    while largest * Fraction(2) ** exponent > 2**digits - 1:
        exponent -= 1
    while largest * Fraction(2) ** (exponent + 1) <= 2**digits - 1:
        exponent += 1
    return Fraction(2) ** -exponent


def numbers(
    expressions: Sequence[tuple[int, Expression]],
    columns: Sequence[InputColumn],
    limits: Limits,
    scales: Scales,
    unit: Fraction,
    fills: IntArray,
) -> Numbers:
    """Build the integer inputs of numeric expressions, given as (index, expression), in multiples of a unit."""
    rows: list[tuple[int, ...]] = []
    errors: list[tuple[float, float]] = []
    parts = [
        _stepped(expression, limits[index], scales[expression.position], unit) for index, expression in expressions
    ]
    slopes = _slopes([(step, high - low) for _, _, low, high, step in parts])
    for (_, expression), (span, scale, low, high, step), (slope, shift) in zip(expressions, parts, slopes, strict=True):
        first, last = ((end / scale - Fraction(expression.center)) * scale * step for end in (low, high))
        start = round(first)
        rows.append((expression.position, low, high - low, slope, shift, start))
        drift = max(abs(start - first), abs(start + Fraction((high - low) * slope, 1 << shift) - last))
        cut = (
            max(abs(low / scale - span[0]), abs(high / scale - span[1])) if expression.low is not None else Fraction(0)
        )
        error = drift + (Fraction(1, 2) if slope % (1 << shift) else 0) + cut * scale * step
        fill = columns[expression.position].fill
        if fill is not None:
            exact_fill, fixed_fill = min(max(Fraction(fill), span[0]), span[1]), int(fills[expression.position])
            error += abs(exact_fill * scale - min(max(fixed_fill, low), high)) * step
        errors.append((float(error), float(step / 2)))
    table = np.array(rows, dtype=np.int64).reshape(-1, 6).T
    bounds = np.array(errors, dtype=np.float64).reshape(-1, 2).T
    return Numbers(*table, *bounds)


def _stepped(
    expression: Expression, span: tuple[Fraction, Fraction] | None, scale: Fraction | None, unit: Fraction
) -> tuple[tuple[Fraction, Fraction], Fraction, int, int, Fraction]:
    """Compute limits and scale of a number, its limits in fixed point, and the size of one step in units of inputs."""
    assert span is not None
    assert scale is not None
    low, high = (round(end * scale) for end in span)
    return span, scale, low, high, 1 / (scale * Fraction(expression.scale) * unit)


def _slopes(steps: Sequence[tuple[Fraction, int]]) -> list[tuple[int, int]]:
    """Choose slopes and shifts for numbers of these steps and widths, with one common shift if that costs little."""
    separate = [_slope(step, width) for step, width in steps]
    shift = min((shift for _, shift in separate), default=0)
    shared = [(round(step * (1 << shift)), shift) for step, _ in steps]
    cheap = (
        width * abs(step - Fraction(slope, 1 << shift)) <= _SHARED_SHIFT
        for (step, width), (slope, _) in zip(steps, shared, strict=True)
    )
    return shared if all(cheap) else separate


def _slope(step: Fraction, width: int) -> tuple[int, int]:
    """Choose slope and shift; the slope has at most 16 bits, so that products fit into unsigned 32 bits."""
    if width == 0:
        return 0, 31
    for shift in range(31, 0, -1):
        slope = round(step * (1 << shift))
        if slope < 2**16 and width * slope + (1 << shift >> 1) < 2**32:
            return slope, shift
    return round(step), 0


def bits_of_kind(
    kind: str,
    expressions: Sequence[Expression],
    columns: Sequence[InputColumn],
    scales: Scales,
    unit: Fraction,
    max_entry: int,
) -> Bits:
    """Build the integer inputs of the bits of one kind, in multiples of a unit."""
    values = [
        compared(expression, columns[expression.position], scales[expression.position], max_entry)
        for expression in expressions
    ]
    pairs = np.array([_bit_pair(expression, unit) for expression in expressions]).reshape(-1, 3)
    positions = np.array([expression.position for expression in expressions], dtype=np.int64)
    off, on = pairs[:, :2].astype(np.int64).T
    return Bits(kind, positions, np.array(values, dtype=np.int64), off, on, pairs[:, 2].astype(np.float64))


def _bit_pair(expression: Expression, unit: Fraction) -> tuple[int, int, float]:
    exact = [(Fraction(bit) - Fraction(expression.center)) / Fraction(expression.scale) / unit for bit in (0, 1)]
    off, on = map(round, exact)
    return off, on, float(max(abs(off - exact[0]), abs(on - exact[1])))
