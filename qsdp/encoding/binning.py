"""Thresholds that divide the values of a column into bins of equal weight or equal width."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Literal

import numpy as np

from qsdp._utils.validation import FloatArray

__all__ = ["STRATEGIES", "Distribution", "without_outliers"]

STRATEGIES = ("quantile", "uniform")

#: Tail probabilities of quantiles, tried in turn until the two quantiles differ, and multiples of their distance beyond
#: which entries are outliers.
_FENCES = ((0.25, 4.4), (0.05, 1.5), (0.01, 0.9))

_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")

#: Deviation of a threshold from the middle between two values, relative to their gap, that is allowed for fewer digits.
_LEEWAY = 0.125

#: If quantiles coincide, more are tried, up to this multiple of the requested number.
_MAX_QUANTILES = 1024


@dataclass(frozen=True)
class Distribution:
    """Empirical distribution of a column: its distinct values and their cumulative weights.

    Attributes
    ----------
    values : ndarray of shape (k,)
        Finite values in ascending order, at least one.
    below : ndarray of shape (k,)
        Weight of all entries that are not above the value.
    """

    values: FloatArray
    below: FloatArray

    @classmethod
    def from_entries(cls, entries: FloatArray, weights: FloatArray | None = None) -> Distribution:
        """Compute the distribution of entries (n,) with positive weights; a weight k is the same as k equal entries."""
        if weights is None:
            values, counts = np.unique(entries, return_counts=True)
            return cls(values, np.cumsum(counts).astype(np.float64))
        values, position = np.unique(entries, return_inverse=True)
        return cls(values, np.cumsum(np.bincount(position, weights)))

    def median(self) -> float:
        """Return the median; it is the mean of two values if half of the weight lies below."""
        first, second = (int(np.searchsorted(2.0 * self.below, self.below[-1], side=side)) for side in _SIDES)
        return float(0.5 * self.values[first] + 0.5 * self.values[min(second, len(self.values) - 1)])

    def quantile(self, fraction: float) -> float:
        """Return the smallest value such that at least a `fraction` of the weight is not above it."""
        return float(self.values[min(np.searchsorted(self.below, fraction * self.below[-1]), len(self.values) - 1)])

    def fences(self, times: float = 1.0) -> tuple[float, float]:
        """Compute limits beyond which entries are outliers; infinite if nearly all of the weight is on one value.

        The limits resist outliers of up to a quarter of the weight on either side, unless half of it is on one value.
        Their distance from the quantiles is multiplied by `times`.
        """
        for tail, factor in _FENCES:
            low, high = self.quantile(tail), self.quantile(1.0 - tail)
            if high > low:
                margin = times * factor * (high - low)
                return low - margin, high + margin
        return -math.inf, math.inf

    def thresholds(self, max_count: int, strategy: str) -> list[float]:
        """Compute up to `max_count` ascending thresholds t that divide the values x into nonempty bins by x > t.

        Parameters
        ----------
        max_count : int
        strategy : {"quantile", "uniform"}
            Parts of equal weight, or of equal width between the smallest and the largest value. If k values have at
            most that many thresholds, all k - 1 are returned.

        Notes
        -----
        A threshold is the shortest decimal near the middle of the gap between two neighbouring values. If much of
        the weight is on one value, several quantiles fall into the same gap. More of them are then taken, so that the
        other values are divided too.
        """
        values = self.values
        if len(values) - 1 <= max_count:
            gaps = np.arange(len(values) - 1)
        elif strategy == "quantile":
            gaps = _quantile_gaps(self.below, max_count)
        else:
            # Use a convex combination, because the difference of huge values would overflow.
            fractions = np.arange(1, max_count + 1) / (max_count + 1)
            gaps = np.searchsorted(values, (1.0 - fractions) * values[0] + fractions * values[-1], side="right") - 1
            gaps = np.unique(np.clip(gaps, 0, len(values) - 2))
        return [_between(float(values[gap]), float(values[gap + 1])) for gap in gaps.tolist()]


def without_outliers(entries: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Clip outliers of entries (n,) or columns (n, C) to the fences of their distribution."""
    columns = entries.reshape(len(entries), -1).T
    moved = np.stack(
        [np.clip(column, *Distribution.from_entries(column, weights).fences()) for column in columns], axis=1
    )
    return moved.reshape(entries.shape)


def _quantile_gaps(below: FloatArray, n_thresholds: int) -> np.ndarray:
    """Choose at most `n_thresholds` distinct gaps between values, those nearest to equidistant quantiles."""

    def gaps(count: int) -> np.ndarray:
        targets = below[-1] * (np.arange(1, count + 1) / (count + 1))
        above = np.clip(np.searchsorted(below, targets), 1, len(below) - 2)
        nearer_left = targets - below[above - 1] <= below[above] - targets
        return np.unique(above - nearer_left)

    fits, fails = n_thresholds, n_thresholds * _MAX_QUANTILES
    best = gaps(fits)
    while len(best) < n_thresholds and fails - fits > 1:
        middle = (fits + fails) // 2
        tried = gaps(middle)
        if len(tried) <= n_thresholds:
            fits, best = middle, tried
        else:
            fails = middle
    return best


def _between(low: float, high: float) -> float:
    """Find the shortest decimal t near the middle of low <= t < high."""
    middle = 0.5 * low + 0.5 * high
    if not low <= middle < high:
        return low
    # One digit more tells all floats apart.
    for digits in range(1, sys.float_info.dig + 2):
        short = float(f"{middle:.{digits}g}")
        if abs(short - middle) <= _LEEWAY * (high - low) and low <= short < high:
            return short
    return middle
