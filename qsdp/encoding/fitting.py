"""Rules that learn an encoding from the columns of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.tuning import FAR
from qsdp._utils.validation import FloatArray, check_choice, check_integer, check_real
from qsdp.encoding.binning import STRATEGIES, Distribution
from qsdp.encoding.expressions import Expression, InputColumn, Symbol
from qsdp.encoding.table_encoding import Encoding

__all__ = [
    "ADDITIVE",
    "AUTO",
    "BITS",
    "CUT",
    "ENCODINGS",
    "FEW",
    "MAX_BITS",
    "MISSING",
    "EncodingRule",
    "distributions",
    "thresholds_of",
]

#: Whether numbers are encoded as themselves and as thresholds.
ENCODINGS = {"standard": (True, False), "thresholds": (False, True), "both": (True, True)}

#: Center and scale of bits.
BITS = {"binary": (0.0, 1.0), "bipolar": (0.5, 0.5)}

MISSING = ("indicator", "fill")

#: Number of standard deviations at which numbers are clipped; from 2 to 3 it does not matter.
CUT = 3.0

#: Maximum number of thresholds of all columns together.
MAX_BITS = 240

#: Number of texts, or of rows that a column numbers, up to which it may be chance that all are distinct.
FEW = 20

#: Names of an additive model with interactions where a network can be one, and of that model.
AUTO, ADDITIVE = "auto", "additive"

Column = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class EncodingRule:
    """Rule for the encoding of a table: the validated parameters of `TableEncoder`."""

    encoding: str = "both"
    n_thresholds: int = 3
    strategy: str = "quantile"
    bits: str = "binary"
    missing: str = "indicator"
    max_categories: int = 50
    cut: float | None = None

    @classmethod
    def recommended(cls, encoding: str, n_columns: int, max_categories: int = max_categories) -> EncodingRule:
        """Return the rule that estimators and the command line use for tables of `n_columns` columns."""
        max_thresholds = MAX_BITS // max(n_columns, 1)
        return cls(
            encoding=encoding,
            n_thresholds=min(max(max_thresholds, 1), cls.n_thresholds),
            max_categories=max_categories,
            cut=CUT,
        )

    def __post_init__(self) -> None:
        check_choice("encoding", self.encoding, ENCODINGS)
        check_integer("n_thresholds", self.n_thresholds, minimum=1)
        check_choice("strategy", self.strategy, STRATEGIES)
        check_choice("bits", self.bits, BITS)
        check_choice("missing", self.missing, MISSING)
        check_integer("max_categories", self.max_categories, minimum=2)
        if self.cut is not None:
            check_real("cut", self.cut, strict=True)

    def fit(
        self,
        table: Sequence[Column],
        names: Sequence[str],
        weights: FloatArray | None = None,
        kinds: Sequence[str] | None = None,
    ) -> tuple[Encoding, dict[str, str]]:
        """Learn the encoding of a table; also return the columns without inputs, with reasons.

        Parameters
        ----------
        table : sequence of ndarray of shape (n,)
            As for `Encoding.encode`: columns of objects are symbols, the others numbers.
        names : sequence of str
        weights : ndarray of shape (n,), optional
            Positive weights of the rows; None means one for each.
        kinds : sequence of str, optional
            Kinds of the columns, which are stored; by default numbers and categories.
        """
        symbols = {position for position, entries in enumerate(table) if entries.dtype == object}
        known = {position: ~np.isnan(entries) for position, entries in enumerate(table) if position not in symbols}
        spread = {
            position: Distribution.from_entries(table[position][rows], None if weights is None else weights[rows])
            for position, rows in known.items()
            if np.any(rows)
        }
        medians = {position: distribution.median() for position, distribution in spread.items()}
        columns = [
            InputColumn(name, categories=self._categories(table[position], weights), kind=kind)
            if position in symbols
            else InputColumn(name, fill=medians.get(position), kind=kind)
            for position, (name, kind) in enumerate(zip(names, kinds or repeat(""), strict=False))
        ]
        filled = [
            self._usual(np.where(known[position], table[position], medians[position]), distribution)
            for position, distribution in spread.items()
        ]
        moments = dict(zip(spread, _moments(filled, weights), strict=True))
        expressions: list[Expression] = []
        dropped = {}
        for position, column in enumerate(columns):
            if position in spread:
                holes = not np.all(known[position])
                added = [*self._of_numbers(column.name, position, spread[position], holes, *moments[position])]
            else:
                added = [*self._of_symbols(column, position)]
            if not added:
                has_values = column.fill is not None or column.categories not in {None, (None,)}
                dropped[column.name] = "constant" if has_values else "no values"
            if position in symbols and (distinct := self._distinct(table[position])):
                added, dropped[column.name] = [], f"an identifier: {distinct} texts are distinct"
            expressions += added
        if not expressions:
            columns[0], zero = _zero(columns[0])
            expressions = [zero]
        return Encoding(tuple(columns), tuple(expressions)), dropped

    def _usual(self, numbers: FloatArray, spread: Distribution) -> FloatArray:
        """Return numbers from which mean and deviation are computed; extreme ones are clipped first if `cut` is set."""
        if self.cut is None:
            return numbers
        # Beyond 100 times the margin of outliers, 594 standard deviations, numbers are errors.
        low, high = spread.fences(FAR)
        return np.where((low <= numbers) & (numbers <= high), numbers, np.clip(numbers, *spread.fences()))

    def _categories(self, entries: Column, weights: FloatArray | None) -> tuple[Symbol | None, ...]:
        totals: dict[Symbol | None, float] = {}
        for symbol, weight in zip(entries.tolist(), repeat(1.0) if weights is None else weights.tolist(), strict=False):
            totals[symbol] = totals.get(symbol, 0.0) + weight
        present = sorted(symbol for symbol in totals if symbol is not None)
        frequent = set(sorted(present, key=lambda symbol: -totals[symbol])[: self.max_categories])
        return (*(symbol for symbol in present if symbol in frequent), *([None] if None in totals else []))

    def _distinct(self, entries: Column) -> int:
        """Return the number of distinct texts if a column is an identifier (nearly all are distinct), else 0.

        Identifiers do not generalise to other rows.
        """
        texts = [entry for entry in entries.tolist() if isinstance(entry, str)]
        distinct = len(set(texts))
        return distinct if distinct > max(min(FEW, self.max_categories), 0.9 * len(texts)) else 0

    def _of_symbols(self, column: InputColumn, position: int) -> Iterator[Expression]:
        categories = column.categories or ()
        center, scale = BITS[self.bits]
        # For two categories, one bit is enough.
        for symbol in categories[1:] if len(categories) == 2 else categories if len(categories) > 2 else ():
            kind = "missing" if symbol is None else "equals"
            yield Expression(column.name, position, kind, symbol, center, scale)

    def _of_numbers(
        self, name: str, position: int, spread: Distribution, holes: bool, mean: float, scale: float
    ) -> Iterator[Expression]:
        as_value, as_bits = ENCODINGS[self.encoding]
        center, step = BITS[self.bits]
        if as_value and len(spread.values) > 1:
            limits = (None, None) if self.cut is None else (mean - self.cut * scale, mean + self.cut * scale)
            yield Expression(name, position, "value", None, mean, scale, *limits)
        # In a column with two values, the value is already a bit.
        if as_bits and len(spread.values) > 1 + as_value:
            for threshold in spread.thresholds(self.n_thresholds, self.strategy):
                yield Expression(name, position, "above", threshold, center, step)
        if holes and self.missing == "indicator":
            yield Expression(name, position, "missing", None, center, step)


def thresholds_of(encoding: Encoding, spread: Mapping[int, Distribution], count: int) -> tuple[Expression, ...]:
    """Return the inputs ``column > threshold`` of at most `count` quantiles per column; `spread` is by position."""
    return tuple(
        Expression(encoding.columns[position].name, position, "above", threshold)
        for position, distribution in spread.items()
        for threshold in distribution.thresholds(count, "quantile")
    )


def distributions(encoding: Encoding, table: list[FloatArray], weights: FloatArray | None) -> dict[int, Distribution]:
    """Return the distributions of the numeric columns with more than two values, by position."""
    spread = {}
    for position in (term.position for term in encoding.expressions if term.kind == "value"):
        known = ~np.isnan(table[position])
        spread[position] = Distribution.from_entries(
            table[position][known], None if weights is None else weights[known]
        )
    return {position: values for position, values in spread.items() if len(values.values) > 2}


def _moments(columns: list[FloatArray], weights: FloatArray | None) -> list[tuple[float, float]]:
    """Compute mean and standard deviation of each column; a deviation of zero is replaced by one."""
    if not columns:
        return []
    # Imported here, because nothing else in this module needs scikit-learn.
    from sklearn.preprocessing import StandardScaler

    X = np.stack(columns, axis=1)
    # Squares of huge and tiny numbers are not representable. Scaling by powers of two does not round.
    exponents = np.frexp(np.abs(X).max(axis=0))[1]
    if weights is not None:
        # The scaler takes the sum of the weights for the number of rows, by which it bounds rounding errors.
        weights = np.ldexp(weights, -int(np.frexp(weights.mean())[1]))
    # With weights, rounding can make the variance of a constant column negative.
    with np.errstate(invalid="ignore"):
        scaler = StandardScaler().fit(np.ldexp(X, -exponents), sample_weight=weights)
    constant = scaler.var_ <= 0.0
    means, scales = np.ldexp(scaler.mean_, exponents), np.where(constant, 1.0, np.ldexp(scaler.scale_, exponents))
    return list(zip(means.tolist(), scales.tolist(), strict=True))


def _zero(column: InputColumn) -> tuple[InputColumn, Expression]:
    """Create an input that is zero on the training set, for tables without useful columns: a network needs an input."""
    if column.categories is not None:
        first = column.categories[0]
        return column, Expression(column.name, 0, "missing" if first is None else "equals", first, center=1.0)
    fill = column.fill or 0.0
    return replace(column, fill=fill), Expression(column.name, 0, "value", center=fill)
