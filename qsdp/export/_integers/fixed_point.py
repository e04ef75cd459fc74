"""Conversion of columns to fixed-point numbers and codes of categories."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import check_real
from qsdp.encoding import Expression, InputColumn
from qsdp.exceptions import ExportError, InvalidInputError, InvalidTypeError
from qsdp.export._description import ModelDescription

__all__ = [
    "MISSING",
    "Limits",
    "Scales",
    "checked_scales",
    "column_scales",
    "compared",
    "factor_of",
    "fixed_columns",
    "fixed_fills",
    "limits_of",
]

#: Limits of every expression, in the units of its column: None for a bit.
Limits = list[tuple[Fraction, Fraction] | None]
#: Scale of every column: None for categories and for columns that are not used.
Scales = list[Fraction | None]

#: The largest fixed-point number of 32 bits; the smallest, `MISSING`, represents a missing entry.
LARGEST = 2**31 - 1
MISSING = -LARGEST - 1

#: Steps between the limits of a number: maximum, maximum for fine thresholds, maximum with a user's scale, minimum.
_STEPS, _FINE_STEPS, _MAX_STEPS, _MIN_STEPS = 2**16 - 1, 2**20, 2**24, 2**6


def limits_of(description: ModelDescription) -> Limits:
    """Determine the limits at which numeric inputs of an encoding are clipped.

    Numbers without limits are clipped where they leave the training range by more than its width.
    """
    assert description.encoding is not None
    limits: Limits = []
    for index, expression in enumerate(description.encoding.expressions):
        if expression.is_bit:
            limits.append(None)
        elif expression.low is not None and expression.high is not None:
            limits.append((Fraction(expression.low), Fraction(expression.high)))
        elif description.ranges is None:
            raise ExportError(f"column {expression.column!r} needs limits: its range in training is not known")
        else:
            low, high = (Fraction(float(ends[index])) for ends in description.ranges)
            center, scale, more = Fraction(expression.center), Fraction(expression.scale), high - low
            limits.append((center + scale * (low - more), center + scale * (high + more)))
    return limits


def column_scales(
    description: ModelDescription, limits: Limits, user_scales: Mapping[str, float] | None, max_entry: int = LARGEST
) -> Scales:
    """Choose the scale of every column: the fixed-point number is the nearest integer to scale times the entry.

    `user_scales` are scales by column name. The default is the finest power of ten that leaves 16 bits between the
    limits of a number. It is finer if thresholds need it, with one decimal more than they have, as long as no number
    exceeds `max_entry`.
    """
    encoding = description.encoding
    assert encoding is not None
    by_user = checked_scales(user_scales, [column.name for column in encoding.columns])
    scales: Scales = []
    for position, column in enumerate(encoding.columns):
        inputs = [pair for pair in zip(encoding.expressions, limits, strict=True) if pair[0].position == position]
        if inputs and len(column.categories or ()) > max_entry:
            raise ExportError(f"column {column.name!r} has more than {max_entry} categories")
        if not inputs or column.categories is not None:
            scales.append(None)
            continue
        entries = _Entries(
            [span for _, span in inputs if span is not None],
            [Fraction(threshold_of(expression)) for expression, _ in inputs if expression.kind == "above"],
        )
        scale = by_user.get(column.name) or entries.power_of_ten(Fraction(column.fill or 0.0), max_entry)
        if not entries.fit(scale, max_entry):
            raise ExportError(
                f"column {column.name!r}: fixed-point numbers up to {max_entry} with scale {float(scale):g} cannot "
                f"hold it; between its limits there must be from {_MIN_STEPS} to {_MAX_STEPS} steps"
            )
        scales.append(scale)
    return scales


def checked_scales(scales: Mapping[str, float] | None, names: Sequence[str]) -> dict[str, Fraction]:
    """Check the user's scales of columns, by name, and return them as fractions."""
    if not isinstance(scales, (Mapping, type(None))):
        raise InvalidTypeError(f"scales must map names of columns to numbers; got {scales!r:.60}")
    scales = scales or {}
    if unknown := [name for name in scales if name not in names]:
        raise InvalidInputError(f"scales must be those of columns, {names!r:.60}; got {unknown[0]!r:.60}")
    return {name: Fraction(check_real(f"scales[{name!r}]", scale, strict=True)) for name, scale in scales.items()}


class _Entries(NamedTuple):
    """Numbers that a column's fixed-point format must represent: the limits of its inputs, and its thresholds."""

    limits: list[tuple[Fraction, Fraction]]
    thresholds: list[Fraction]

    @property
    def widths(self) -> list[Fraction]:
        """Positive distances between limits."""
        return [high - low for low, high in self.limits if high > low]

    @property
    def largest(self) -> Fraction:
        """Largest magnitude of a limit or threshold."""
        return max(map(abs, [*self.thresholds, *chain(*self.limits)]), default=Fraction(0))

    def fit(self, scale: Fraction, max_entry: int) -> bool:
        """Whether no number exceeds `max_entry` at this scale, and the number of steps between limits is allowed."""
        steps = [int(width * scale) for width in self.widths]
        return self.largest * scale <= max_entry and all(_MIN_STEPS <= count <= _MAX_STEPS for count in steps)

    def power_of_ten(self, fill: Fraction, max_entry: int) -> Fraction:
        """Choose the default scale of a column in which missing entries are replaced by `fill`."""
        wanted = [max(_decimals(threshold) + 1, 0) for threshold in self.thresholds]
        # A column of zeros fits with any scale.
        allowed = [_largest_exponent(max_entry, max(abs(fill), self.largest) or Fraction(1))]
        if self.widths:
            wanted.append(_largest_exponent(_STEPS, max(self.widths)))
            allowed.append(_largest_exponent(_FINE_STEPS, max(self.widths)))
        return Fraction(10) ** min(max(wanted, default=0), *allowed)


def _decimals(number: Fraction) -> int:
    """Count the decimals of the nearest float; negative for multiples of ten."""
    return -int(Decimal(repr(float(number))).normalize().as_tuple().exponent)


def _largest_exponent(bound: int, size: Fraction) -> int:
    """Compute the largest k with ``size * 10**k <= bound``."""
    k = math.floor(math.log10(bound) - math.log10(size))
    while size * Fraction(10) ** k > bound:
        k -= 1
    return k


def compared(expression: Expression, column: InputColumn, scale: Fraction | None, max_entry: int = LARGEST) -> int:
    """Return the integer constant with which a fixed-point number or a category code is compared."""
    if expression.kind == "above":
        assert scale is not None
        return _below_threshold(threshold_of(expression), scale, max_entry)
    if expression.kind == "equals":
        assert column.categories is not None
        return column.categories.index(expression.value)
    return -max_entry - 1


def threshold_of(expression: Expression) -> float:
    """Return the threshold of a bit of kind "above"."""
    assert isinstance(expression.value, (int, float))
    return float(expression.value)


def _below_threshold(threshold: float, scale: Fraction, max_entry: int) -> int:
    """Find the largest fixed-point number that is not above a threshold.

    A fixed-point number n represents the double nearest to ``n / scale``, so that decimals are compared as written.
    """
    n = math.floor(Fraction(threshold) * scale)
    while float(Fraction(n + 1) / scale) <= threshold:
        n += 1
    while float(Fraction(n) / scale) > threshold:
        n -= 1
    return min(max(n, -max_entry), max_entry)


def fixed_fills(
    columns: Sequence[InputColumn], expressions: Sequence[Expression], scales: Scales, max_entry: int
) -> npt.NDArray[np.int64]:
    """Compute fixed-point fill values of missing entries, on the same side of every threshold as the original ones."""
    fills = np.zeros(len(columns), dtype=np.int64)
    for position, (column, scale) in enumerate(zip(columns, scales, strict=True)):
        if scale is None or column.fill is None:
            continue
        fill = min(max(round(Fraction(column.fill) * scale), -max_entry), max_entry)
        for expression in expressions:
            if expression.kind == "above" and expression.position == position:
                threshold = threshold_of(expression)
                last = _below_threshold(threshold, scale, max_entry)
                fill = max(fill, last + 1) if column.fill > threshold else min(fill, last)
        fills[position] = fill
    return fills


def fixed_columns(
    description: ModelDescription, columns: Sequence[npt.NDArray[Any]], scales: Scales, max_entry: int = LARGEST
) -> npt.NDArray[np.int64]:
    """Convert the columns of a table to fixed-point numbers and category codes, shape (n, number of columns).

    Numbers are clipped at `max_entry` in magnitude; a missing entry is the integer below them. Halves are rounded away
    from zero, as exported C does: both do the same operations in double precision.
    """
    assert description.encoding is not None
    fixed = np.zeros((len(columns[0]), len(columns)), dtype=np.int64)
    table = description.encoding.columns
    for position, column in enumerate(table):
        if column.categories is not None:
            codes: dict[Any, int] = {symbol: code for code, symbol in enumerate(column.categories)}
            codes[None] = -max_entry - 1
            fixed[:, position] = [codes.get(symbol, -1) for symbol in columns[position].tolist()]
    numeric = [position for position, scale in enumerate(scales) if scale is not None]
    if numeric:
        entries = np.column_stack([columns[position] for position in numeric])
        holes = np.isnan(entries)
        for index in np.flatnonzero(holes.any(axis=0)).tolist():
            if table[numeric[index]].fill is None:
                raise InvalidInputError(f"column {table[numeric[index]].name!r} of X must have no missing entries")
        scaled = np.clip(
            _scaled(np.where(holes, 0.0, entries), [scale for scale in scales if scale is not None]),
            -max_entry,
            max_entry,
        )
        whole = np.trunc(scaled)
        rest = scaled - whole
        fixed[:, numeric] = np.where(holes, -max_entry - 1, whole + (rest >= 0.5) - (rest <= -0.5))
    return fixed


def _scaled(entries: npt.NDArray[np.float64], scales: Sequence[Fraction]) -> npt.NDArray[np.float64]:
    """Multiply entries by scales, or divide if a scale is one over an integer, exactly as exported C does."""
    divisors, factors = np.array([factor_of(scale) for scale in scales]).T
    with np.errstate(over="ignore"):
        scaled: npt.NDArray[np.float64] = entries / divisors * factors
    return scaled


def factor_of(scale: Fraction) -> tuple[float, float]:
    """Represent a scale in double precision as a divisor and a factor, one of which is 1."""
    if scale.numerator == 1:
        return float(scale.denominator), 1.0
    return 1.0, float(scale)
