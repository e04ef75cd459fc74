"""Restricted problem of smooth losses, by Newton steps over non-negative weights."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.tuning import MOST_STEPS, SMALL
from qsdp._utils.validation import FloatArray
from qsdp.column_generation.restricted._best import Best, RestrictedSolution
from qsdp.column_generation.restricted._nonnegative import descended, nonnegative_minimum
from qsdp.losses import Curvature, DataFit

__all__ = ["curvature_matrix", "sampling_chances", "solve_smooth"]


def solve_smooth(
    F: FloatArray,
    fit: DataFit,
    penalties: FloatArray,
    outputs: npt.NDArray[np.intp] | None,
    tol: float,
    start: FloatArray,
) -> RestrictedSolution:
    best, a = Best(F, fit, penalties, outputs), start

    def evaluate(weights: FloatArray) -> tuple[float, FloatArray]:
        prediction = best.predict(weights)
        return fit.value(prediction) + float(penalties @ weights), prediction

    value, prediction = evaluate(a)
    for iteration in range(MOST_STEPS):
        gradient = fit.gradient(prediction)
        if best.update(a, -gradient, iteration, np.inf) <= tol or best.stalled or deadline.over():
            break
        slope = penalties + best.correlations(gradient)
        # Weights of zero whose slope is positive stay zero in this step.
        chosen = np.flatnonzero((a > 0.0) | (slope < 0.0))
        own = a[chosen]
        H = curvature_matrix(F[:, chosen], fit.curvature(prediction), None if outputs is None else outputs[chosen])
        change = np.zeros_like(a)
        change[chosen] = nonnegative_minimum(H, slope[chosen] - H @ own, own) - own
        moved = descended(evaluate, a, change, value, float(slope @ change))
        if moved is None:
            break
        a, value, prediction = moved
    return best.solution()


def curvature_matrix(F: FloatArray, curvature: Curvature, outputs: npt.NDArray[np.intp] | None) -> FloatArray:
    """Compute F' W F with the curvature W of the loss, for columns F that feed `outputs`, or a single output."""
    if outputs is None:
        G = F * np.sqrt(curvature.diagonal)
        return G.T @ G
    H = np.zeros((len(outputs),) * 2)
    if curvature.coupling is not None:
        products = F * curvature.coupling[:, outputs]
        H -= products.T @ products
    for output, diagonal in enumerate(curvature.diagonal.T):
        mine = np.flatnonzero(outputs == output)
        H[np.ix_(mine, mine)] += F[:, mine].T @ (diagonal[:, None] * F[:, mine])
    return H


def sampling_chances(sizes: FloatArray, count: int) -> FloatArray:
    """Return the chances with which to draw about `count` samples in proportion to their sizes, at most one each."""
    if count >= len(sizes):
        return np.ones(len(sizes))
    # Samples of size zero keep a small chance, so that rounding of sizes cannot exclude any.
    shares = sizes + SMALL * (sizes.mean() or 1.0)
    ordered = np.sort(shares)[::-1]
    # With the k largest drawn for certain, the others share the remaining chances.
    rest = np.cumsum(ordered[::-1])[::-1]
    certain = int(np.argmax(ordered * (count - np.arange(len(ordered))) <= rest))
    chances: FloatArray = np.minimum(1.0, shares * ((count - certain) / rest[certain]))
    return chances
