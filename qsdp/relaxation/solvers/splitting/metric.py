"""The metric of operator splitting: when it is estimated anew, and from what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qsdp._utils.validation import FloatArray

__all__ = ["MetricRule", "first_scales", "norm_ratio", "shape_of"]


@dataclass(frozen=True)
class MetricRule:
    """How the iteration is relaxed, and when its metric is estimated anew."""

    #: Over-relaxation, between 0 and 2.
    relaxation: float = 1.7
    #: Iterations to the first renewal of the metric, at least and at most.
    soonest: int = 5
    latest: int = 10
    #: By which share of the iterations so far the next renewal is later.
    growth: float = 0.5
    #: A factorisation of side p takes as long as about ``p / side`` iterations of one output, and ``p / costly`` of
    #: many, which are bound by memory. The first renewals no solve can do without: of ten outputs of 101 inputs
    #: (p = 5151) one after 10 iterations left 60 to do, another after 30 left 50, but every few iterations 65.
    side: float = 100.0
    costly: int = 300
    #: Smallest weight z, as a share of their mean, that shapes the metric: at first, and in the end. Early weights are
    #: noise, but where z vanishes the metric has to follow.
    first_floor: float = 1e-2
    last_floor: float = 1e-5
    #: Renewals after which the floor falls, by a decade at each.
    steady: int = 4
    #: Iterations that all outputs do in a common metric, and as a share of the side of its factorisation: a metric of
    #: its own costs every output one.
    together: int = 150
    together_share: float = 0.04
    #: Changes of the metric below this factor are not worth a factorisation.
    worthwhile: float = 1.1


def first_scales(z: FloatArray, r: float, floor: float) -> FloatArray:
    """Return the metric for weights z, raised to a share of their mean, and diagonal r."""
    mean = float(np.maximum(z, 0.0).mean())
    if not (mean > 0.0 and r > 0.0):
        return np.ones_like(z)
    with np.errstate(over="ignore"):
        delta: FloatArray = (2.0 * np.maximum(z, floor * mean) / r) ** 0.25
    return np.clip(delta, 1e-60, 1e60)


def shape_of(z: FloatArray, floor: float) -> FloatArray:
    """Return the metric for weights z, raised to a share of their mean, up to a factor."""
    logs = np.log(np.maximum(z, floor * float(np.maximum(z, 0.0).mean())))
    shape: FloatArray = np.exp(0.25 * (logs - logs.mean()))
    return shape


def norm_ratio(numerators: Sequence[FloatArray], denominators: Sequence[FloatArray]) -> float:
    """Return the ratio of the norms of stacked arrays, and 0 where one vanishes or is not finite."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.sqrt(sum(np.vdot(a, a) for a in numerators) / sum(np.vdot(a, a) for a in denominators))
    return float(ratio) if np.isfinite(ratio) else 0.0
