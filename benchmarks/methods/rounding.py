"""Weights rounded to a few bits: by one uniform grid, or by the best of many, refitted to the rows.

The comparison asks what a rounded model can reach, so rounding gets every help that costs no bits. It tries sixteen
cuts of the weights and two grids, with zero and without, and keeps the one with the smallest training loss after
refitting the scale and constant of each output.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy
from scipy.special import expit, softmax

from benchmarks.uci.rounding import grids
from qsdp._utils.validation import FloatArray

PRECISIONS = (2, 4, 8)

#: Function from scores (n, K) to the training loss, and scales and constants of shape (K,).
Fit = Callable[[FloatArray], tuple[float, FloatArray, FloatArray]]


def best_rounded(
    weights: FloatArray, precision: int, scores: Callable[[FloatArray], FloatArray], fit: Fit
) -> tuple[FloatArray, FloatArray]:
    """Return rounded weights (K, p) times their scales, a row for each output, and constants (K,).

    `scores` returns scores (n, K) of the training set for such weights; `precision` is the number of bits of a weight.
    """
    best = (np.inf, weights, np.zeros(len(weights)))
    for rounded, _ in grids(weights, precision):
        loss, scale, constant = fit(scores(rounded))
        if loss < best[0]:
            best = loss, scale[:, None] * rounded, constant
    return best[1], best[2]


def fit_squares(targets: FloatArray) -> Fit:
    """Return a function that fits scale and constant of each score to targets (n, K) by least squares."""
    middle = targets.mean(axis=0)

    def fit(scores: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        mean = scores.mean(axis=0)
        centred = scores - mean
        squares = (centred**2).sum(axis=0)
        scale = (centred * targets).sum(axis=0) / np.where(squares > 0.0, squares, 1.0)
        residual = targets - middle - scale * centred
        return float((residual**2).sum()), scale, middle - scale * mean

    return fit


def fit_logistic(codes: npt.NDArray[np.intp]) -> Fit:
    """Return a function that fits scale and constant of each score to classes by logistic regression, unpenalised.

    With two classes, a single score stands for the second one.
    """

    def fit(scores: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        K = scores.shape[1]
        spread = scores.std(axis=0)
        spread[spread == 0.0] = 1.0
        units = scores / spread

        def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
            scale, constant = parameters.reshape(2, K)
            logits = units * scale + constant
            if K == 1:
                error = expit(logits) - codes[:, None]
                value = np.logaddexp(0.0, logits[:, 0]) - codes * logits[:, 0]
            else:
                error = softmax(logits, axis=1)
                value = np.logaddexp.reduce(logits, axis=1) - logits[np.arange(len(codes)), codes]
                error[np.arange(len(codes)), codes] -= 1.0
            gradient = np.concatenate([(error * units).mean(axis=0), error.mean(axis=0)])
            return float(value.mean()), gradient

        # For separable classes, unbounded scales would go to infinity.
        bounds = [(-100.0, 100.0)] * (2 * K)
        solution = scipy.optimize.minimize(loss, np.repeat([1.0, 0.0], K), jac=True, method="L-BFGS-B", bounds=bounds)
        scale, constant = solution.x.reshape(2, K)
        return float(solution.fun), scale / spread, constant

    return fit
