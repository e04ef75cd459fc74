"""Choice of the number of neurons for which a sampled network matches its relaxation."""

from __future__ import annotations

import math

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.encoding.cuts import without_outliers
from qsdp.losses import ClassLoss, DataFit
from qsdp.networks import BilinearNetwork
from qsdp.relaxation import Relaxation

__all__ = ["LEAST_NEURONS", "MOST_NEURONS", "deviation", "more_neurons"]

#: Default minimum and maximum number of neurons per output; half of the minimum costs 0.2 points of accuracy.
LEAST_NEURONS, MOST_NEURONS = 8, 128

#: Deviation that is small enough.
_ENOUGH = 0.04

#: Largest factor by which the sweeps of a polish after the first eight reduce the deviation.
_SETTLED = 4.0


def deviation(network: BilinearNetwork, relaxation: Relaxation, expected_loss: float = 0.0) -> float:
    r"""Compute the deviation of a network's outputs g from its relaxation's outputs f, relative to the test error.

    It is four times the Jensen gap :math:`(L(f) + L(g)) / 2 - L((f + g) / 2)` of the loss L, divided by an estimate of
    the error on new samples, to which the deviation adds. For the squared loss, the numerator is :math:`\|f - g\|^2`.
    The estimate is the larger of the objective of the relaxation and the expected loss on new samples, if known. The
    loss of the relaxation without the regulariser would be far below that error if samples are few. Outliers of a
    robust loss do not count as errors of the other samples: their losses are clipped to the fences of all losses.
    """
    problem = relaxation.problem
    f, g = problem.relaxed_predictions(relaxation.Z_stack), problem.outputs(network)
    loss = problem.data_fit.value
    gap = 0.5 * (loss(f) + loss(g)) - loss(0.5 * (f + g))
    if (error := max(relaxation.objective - _excess_of_outliers(problem.data_fit, f), expected_loss)) > 0.0:
        return 4.0 * max(gap, 0.0) / error
    # Both match targets that are all zero.
    return math.inf if gap > 0.0 else 0.0


def _excess_of_outliers(data_fit: DataFit, predictions: FloatArray) -> float:
    """Compute the excess of outlying losses over the fences of all losses, for robust losses of numeric targets."""
    if not data_fit.loss.bounded_dual or isinstance(data_fit.loss, ClassLoss):
        return 0.0
    values = data_fit.loss.values(predictions, data_fit.target)
    return float(np.sum(data_fit.weighted(np.maximum(values - without_outliers(values, data_fit.weights), 0.0))))


def more_neurons(
    n_neurons: int,
    network: BilinearNetwork,
    relaxation: Relaxation,
    expected_loss: float = 0.0,
    *,
    settled: bool = True,
) -> int:
    """Choose the next number of neurons: twice `n_neurons`, or `n_neurons` if these suffice.

    Parameters
    ----------
    n_neurons : int
        Neurons that were drawn.
    network : BilinearNetwork
        Network with these neurons.
    relaxation : Relaxation
        Relaxation that they were drawn from.
    expected_loss : float
        See `deviation`.
    settled : bool
        Whether the network is finished. During a polish, more neurons are drawn only if the current number will
        certainly not be enough.
    """
    enough = _ENOUGH if settled else _ENOUGH * _SETTLED
    most = MOST_NEURONS * network.n_outputs
    return (
        n_neurons
        if deviation(network, relaxation, expected_loss) <= enough
        else max(n_neurons, min(2 * n_neurons, most))
    )
