"""Thresholds that divide the values of a column into parts of equal weight or equal width."""

from __future__ import annotations

import numpy as np

from qsdp._utils.validation import FloatArray

__all__ = ["STRATEGIES", "choose_thresholds", "weighted_median"]

STRATEGIES = ("quantile", "uniform")

#: Share of the gap between two neighbouring values by which a threshold may leave its middle to be a short decimal.
_LEEWAY = 0.125

#: Factor on the number of quantiles asked for up to which more are tried where some coincide.
_MOST_QUANTILES = 1024


def choose_thresholds(values: FloatArray, weights: FloatArray, n_thresholds: int, strategy: str) -> FloatArray:
    """Return at most `n_thresholds` ascending thresholds t, which divide the values x by x > t into nonempty parts.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Finite.
    weights : ndarray of shape (n,)
        Positive; a weight k is the same as k equal values.
    n_thresholds : int
    strategy : {"quantile", "uniform"}
        Parts of equal weight, or of equal width between the smallest and the largest value. k distinct values have all
        their k - 1 thresholds where that is not too many.

    Notes
    -----
    A threshold is the shortest decimal near the middle of the gap between two neighbouring values. Where much of the
    weight is on one value, several quantiles fall into the same gap; then more of them are taken, so that the rest of
    the values is divided too.
    """
    distinct, total = _distinct(values, weights)
    if len(distinct) - 1 <= n_thresholds:
        gaps = np.arange(len(distinct) - 1)
    elif strategy == "quantile":
        gaps = _quantile_gaps(np.cumsum(total), n_thresholds)
    else:
        low, high = distinct[0], distinct[-1]
        # As a convex combination: the difference of huge values would overflow.
        shares = np.arange(1, n_thresholds + 1) / (n_thresholds + 1)
        gaps = np.searchsorted(distinct, (1.0 - shares) * low + shares * high, side="right") - 1
        gaps = np.unique(np.clip(gaps, 0, len(distinct) - 2))
    return np.array([_between(distinct[gap], distinct[gap + 1]) for gap in gaps.tolist()])


def weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """Return the median of values of which one of weight k counts as k, the mean of two where half lies below."""
    distinct, total = _distinct(values, weights)
    below = np.cumsum(total)
    first, second = (int(np.searchsorted(2.0 * below, below[-1], side=side)) for side in ("left", "right"))
    return float(0.5 * distinct[first] + 0.5 * distinct[min(second, len(distinct) - 1)])


def _distinct(values: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    distinct, position = np.unique(values, return_inverse=True)
    return distinct, np.bincount(position, weights).astype(np.float64)


def _quantile_gaps(below: FloatArray, n_thresholds: int) -> np.ndarray:
    """Return the gaps nearest to as many equidistant quantiles as give no more than `n_thresholds` distinct ones."""

    def gaps(count: int) -> np.ndarray:
        targets = below[-1] * (np.arange(1, count + 1) / (count + 1))
        above = np.clip(np.searchsorted(below, targets), 1, len(below) - 2)
        nearer_left = targets - below[above - 1] <= below[above] - targets
        return np.unique(above - nearer_left)

    fits, fails = n_thresholds, n_thresholds * _MOST_QUANTILES
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
    """Return the shortest decimal t near the middle of low <= t < high."""
    middle = 0.5 * low + 0.5 * high
    if not low <= middle < high:
        return low
    for digits in range(1, 17):
        short = float(f"{middle:.{digits}g}")
        if abs(short - middle) <= _LEEWAY * (high - low) and low <= short < high:
            return short
    return middle
