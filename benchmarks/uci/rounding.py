"""Weights rounded to a few bits by uniform grids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from qsdp._utils.validation import FloatArray

__all__ = ["PRECISION", "grids"]

#: Bits of the suite's rounded logistic regression.
PRECISION = 8
#: Cuts of the weights of an output, as shares of the largest.
_CUTS = np.geomspace(0.05, 1.0, 16)


def grids(
    weights: FloatArray, precision: int, cuts: Iterable[float] = _CUTS
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield weights (K, p) rounded to grids of at most ``2 ** precision`` values, and the step (K, 1) of each row."""
    largest = np.abs(weights).max(axis=1, keepdims=True)
    largest[largest == 0.0] = 1.0
    half = 2 ** (precision - 1)
    for cut in cuts:
        reach = cut * largest
        ratio = np.clip(weights / reach, -1.0, 1.0)
        yield np.rint((half - 1) * ratio), reach / max(half - 1, 1)
        yield np.clip(np.floor(half * ratio), -half, half - 1) + 0.5, reach / half
