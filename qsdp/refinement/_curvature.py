"""Curvatures of the losses along the moves of a coordinate descent: typical ones, and lower bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.losses import Absolute, Hinge, Huber, Logistic, Loss, Squared, SquaredHinge

__all__ = ["TERMS", "curvature_floor", "sampled_curvature"]


def sampled_curvature(
    loss: Loss, f: FloatArray, y: FloatArray, gradient: FloatArray, alpha: FloatArray, step: float
) -> FloatArray:
    r"""Return the curvature of the loss along each row of `alpha` (B, C), per sample: shape (B, n).

    Differences of the gradient over a typical step: the second derivative where there is one, and at kinks the
    curvature that a step of that size meets. For the cross-entropy, :math:`\alpha^T (\mathrm{Diag}(p) - p p^T)
    \alpha`.
    """
    if loss.coupled:
        p = (gradient + y).T
        return np.square(alpha) @ p - np.square(alpha @ p)
    if isinstance(loss, Squared):
        w = np.full_like(f, 2.0)
    else:
        s = max(step, 1e-7 * (1.0 + float(np.abs(f).max())))
        w = (loss.gradient(f + s, y) - loss.gradient(f - s, y)) / (2.0 * s)
    return np.square(alpha) @ w.T


def curvature_floor(
    loss: Loss,
    f: FloatArray,
    y: FloatArray,
    gradient: FloatArray,
    alpha: FloatArray,
    curvature: FloatArray,
    reach: float,
) -> FloatArray:
    r"""Return w (B, n) with :math:`\ell(f + s \alpha) \ge \ell(f) + s\, g^T \alpha + w s^2 / 2`.

    The bound holds for steps that change no prediction by more than `reach`; `curvature` is the exact one of a
    coupled loss.

    Notes
    -----
    A second derivative that is constant on an interval bounds itself as long as the interval is not left. For
    sums of exponentials :math:`|\ell'''| \le r\, \ell''` with r the range of the step, hence the factor
    :math:`2 (e^{-r} + r - 1) / r^2` (Bach, Self-concordant analysis for logistic regression, 2010).
    """
    if loss.coupled:
        return curvature * _shrinkage(2.0 * reach)
    if isinstance(loss, Squared):
        w = np.full_like(f, 2.0)
    elif isinstance(loss, Huber):
        w = np.where(np.abs(f - y) + reach <= loss.delta, 2.0, 0.0)
    elif isinstance(loss, SquaredHinge):
        w = np.where(y * f + reach <= 1.0, 2.0, 0.0)
    elif isinstance(loss, Logistic):
        w = np.abs(gradient) * (1.0 - np.abs(gradient)) * _shrinkage(reach)
    else:
        return np.zeros_like(curvature)
    return np.square(alpha) @ w.T


def _shrinkage(r: float) -> float:
    # Below 1e-4 the difference cancels; 1 - r / 3 is a lower bound there.
    return 1.0 - r / 3.0 if r < 1e-4 else 2.0 * (math.expm1(-r) + r) / (r * r)


def _huber(loss: Any, f: FloatArray, y: FloatArray) -> FloatArray:
    size = np.abs(f - y)
    kept = np.minimum(size, loss.delta)
    terms: FloatArray = kept * (2.0 * size - kept)
    return terms


#: The terms whose sum is the loss of one output, elementwise: to screen many moves at once.
TERMS: dict[type[Loss], Callable[[Any, FloatArray, FloatArray], FloatArray]] = {
    Squared: lambda loss, f, y: np.square(f - y),
    Absolute: lambda loss, f, y: np.abs(f - y),
    Huber: _huber,
    Logistic: lambda loss, f, y: np.logaddexp(0.0, -y * f),
    Hinge: lambda loss, f, y: np.maximum(0.0, 1.0 - y * f),
    SquaredHinge: lambda loss, f, y: np.square(np.maximum(0.0, 1.0 - y * f)),
}
