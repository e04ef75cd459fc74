"""Choice of the number of neurons for which a sampled network matches its relaxation."""

from __future__ import annotations

import math

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.encoding.binning import without_outliers
from qsdp.losses import ClassLoss, DataFit
from qsdp.relaxation import Relaxation

__all__ = ["ENOUGH", "MAX_NEURONS", "MIN_NEURONS", "deviation", "more_neurons", "reachable_deviation"]

#: Default minimum and maximum number of neurons per output; half of the minimum costs 0.2 points of accuracy.
MIN_NEURONS, MAX_NEURONS = 8, 128

#: Deviation that is small enough, unless rows are many enough to ask for less.
ENOUGH = 0.04

#: Largest factor by which twice the neurons, or further sweeps of a polish after the first eight, reduce the deviation.
#: Eight times the neurons reduced it by 3 to 31 altogether on 18 of 19 tables.
_LARGEST_REDUCTION = 6.0


def deviation(g: FloatArray, f: FloatArray, relaxation: Relaxation, expected_loss: float = 0.0) -> float:
    r"""Compute the deviation of a network's outputs g from its relaxation's outputs f, relative to the test error.

    It is four times the Jensen gap :math:`(L(f) + L(g)) / 2 - L((f + g) / 2)` of the loss L, divided by an estimate of
    the error on new samples, to which the deviation adds. For the squared loss, the numerator is :math:`\|f - g\|^2`.
    The estimate is the larger of the objective of the relaxation and the expected loss on new samples, if known. The
    loss of the relaxation without the regulariser would be far below that error if samples are few. Outliers of a
    robust loss do not count as errors of the other samples: their losses are clipped to the fences of all losses.
    """
    data_fit = relaxation.problem.data_fit
    loss = data_fit.value
    gap = 0.5 * (loss(f) + loss(g)) - loss(0.5 * (f + g))
    if (error := max(relaxation.objective - _excess_of_outliers(data_fit, f), expected_loss)) > 0.0:
        return 4.0 * max(gap, 0.0) / error
    # Both match targets that are all zero.
    return math.inf if gap > 0.0 else 0.0


def _excess_of_outliers(data_fit: DataFit, predictions: FloatArray) -> float:
    """Compute the excess of outlying losses over the fences of all losses, for robust losses of numeric targets."""
    if not data_fit.loss.bounded_dual or isinstance(data_fit.loss, ClassLoss):
        return 0.0
    values = data_fit.loss.values(predictions, data_fit.target)
    return float(np.sum(data_fit.weighted(np.maximum(values - without_outliers(values, data_fit.weights), 0.0))))


def reachable_deviation(deviation: float, before: float) -> float:
    """Estimate the smallest deviation that a polish may still reach, from those of its last two checks.

    It is at least a sixth of the last one, and does not fall by more than it fell between the two.
    """
    return max(deviation / _LARGEST_REDUCTION, 2.0 * deviation - before)


def more_neurons(n_neurons: int, n_outputs: int, deviation: float, enough: float = ENOUGH) -> int:
    """Choose the next number of neurons, or `n_neurons` if the deviation or number is enough.

    The number is doubled until the deviation could be small enough: it is divided by six for each of two doublings, and
    by two, as that of samples, for each further one.
    """
    needed, largest = n_neurons, MAX_NEURONS * n_outputs
    while deviation > enough and needed < largest:
        deviation /= _LARGEST_REDUCTION if needed < 4 * n_neurons else 2.0
        needed = min(2 * needed, largest)
    return needed
