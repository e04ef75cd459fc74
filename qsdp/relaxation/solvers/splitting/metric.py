"""The metric of operator splitting: when it is renewed, and how it is estimated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qsdp._utils.validation import FloatArray

__all__ = ["MetricRule", "first_scales", "norm_ratio", "shape_of"]


@dataclass(frozen=True)
class MetricRule:
    """Parameters of the over-relaxation, and of the renewals of the metric."""

    #: Over-relaxation, between 0 and 2.
    relaxation: float = 1.7
    #: Smallest and largest number of iterations before the first renewal of the metric.
    soonest: int = 5
    latest: int = 10
    #: Interval to the next renewal, as a share of the iterations so far.
    growth: float = 0.5
    #: A factorisation of side p takes as long as about ``p / side`` iterations of one output, and ``p / costly`` of
    #: many, which are bound by memory. Every solve needs the first renewals: with ten outputs of 101 inputs (p = 5151),
    #: one after 10 iterations left 60 iterations, another after 30 left 50, but renewals every few iterations left 65.
    side: float = 100.0
    costly: int = 300
    #: Floor of the weights z that shape the metric, as a share of their mean: at first, and in the end. Early weights
    #: are noise, but where z vanishes the metric has to follow.
    first_floor: float = 1e-2
    last_floor: float = 1e-5
    #: Number of renewals after which the floor falls, by a factor of ten at each further renewal.
    steady: int = 4
    #: Number of iterations that all outputs run in a common metric, and the same as a share of the side of its
    #: factorisation: with a metric of its own, every output needs its own factorisation.
    together: int = 150
    together_share: float = 0.04
    #: Changes of the metric below this factor are not worth a factorisation.
    worthwhile: float = 1.1


def first_scales(z: FloatArray, r: float, floor: float) -> FloatArray:
    """Return the metric for weights z, raised to at least a share of their mean, and a diagonal r."""
    mean = float(np.maximum(z, 0.0).mean())
    if not (mean > 0.0 and r > 0.0):
        return np.ones_like(z)
    with np.errstate(over="ignore"):
        delta: FloatArray = (2.0 * np.maximum(z, floor * mean) / r) ** 0.25
    return np.clip(delta, 1e-60, 1e60)


def shape_of(z: FloatArray, floor: float) -> FloatArray:
    """Return the metric, up to a factor, for weights z, raised to at least a share of their mean."""
    logs = np.log(np.maximum(z, floor * float(np.maximum(z, 0.0).mean())))
    shape: FloatArray = np.exp(0.25 * (logs - logs.mean()))
    return shape


def norm_ratio(numerators: Sequence[FloatArray], denominators: Sequence[FloatArray]) -> float:
    """Return the ratio of the norms of stacked arrays, or 0 if the ratio vanishes or is not finite."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.sqrt(sum(np.vdot(a, a) for a in numerators) / sum(np.vdot(a, a) for a in denominators))
    return float(ratio) if np.isfinite(ratio) else 0.0
