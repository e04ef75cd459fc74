"""The metric of operator splitting, estimated from the iterates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qsdp._utils.validation import FloatArray

__all__ = ["first_scales", "norm_ratio", "shape_of"]


def first_scales(z: FloatArray, r: float, floor: float) -> FloatArray:
    """Compute the metric for weights z, raised to at least the fraction `floor` of their mean, and a diagonal r."""
    mean = float(np.maximum(z, 0.0).mean()) if z.size else 0.0
    if not (mean > 0.0 and r > 0.0):
        return np.ones_like(z)
    with np.errstate(over="ignore"):
        delta: FloatArray = (2.0 * np.maximum(z, floor * mean) / r) ** 0.25
    return np.clip(delta, 1e-60, 1e60)


def shape_of(z: FloatArray, floor: float) -> FloatArray:
    """Compute the metric, up to a factor, for weights z, raised to at least the fraction `floor` of their mean."""
    logs = np.log(np.maximum(z, floor * float(np.maximum(z, 0.0).mean())))
    shape: FloatArray = np.exp(0.25 * (logs - logs.mean()))
    return shape


def norm_ratio(numerators: Sequence[FloatArray], denominators: Sequence[FloatArray]) -> float:
    """Compute the ratio of the norms of stacked arrays; 0 if it vanishes or is not finite."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.sqrt(sum(np.vdot(a, a) for a in numerators) / sum(np.vdot(a, a) for a in denominators))
    return float(ratio) if np.isfinite(ratio) else 0.0
