"""How many neurons a network needs to match the relaxation that it was drawn from."""

from __future__ import annotations

import math

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.encoding.cuts import without_outliers
from qsdp.losses import ClassLoss, DataFit
from qsdp.networks import BilinearNetwork
from qsdp.relaxation import Relaxation

__all__ = ["LEAST_NEURONS", "MOST_NEURONS", "deviation", "more_neurons"]

#: Neurons for each output where no number is given. On 17 data sets a start with 4 in place of 8 took a tenth fewer
#: bits, and 0.2 points of accuracy.
LEAST_NEURONS, MOST_NEURONS = 8, 128

#: Deviation that is small enough. Vehicle, digits and banknote, which 128 neurons an output classify better than 32,
#: deviate by more with 64; of nine other sets 8 to 32 deviate by less, and more had no higher accuracy.
_ENOUGH = 0.04

#: By what the sweeps of a polish after the first eight divide the deviation: on those sets, letters and glass by 6 at
#: most, where it was not small already, and by 1.5 in the middle.
_MOST_SETTLED, _SETTLED = 10.0, 1.5

#: By how much twice as many neurons divide a large deviation: on those sets by 2 to 3.4.
_FALL = 3.0


def deviation(network: BilinearNetwork, relaxation: Relaxation, expected_loss: float = 0.0) -> float:
    r"""Return how far the outputs g of a network are from those of its relaxation, f, as a share of the error.

    That is four times the Jensen gap :math:`(L(f) + L(g)) / 2 - L((f + g) / 2)` of the loss L over the larger of two
    numbers: for the squared loss it is :math:`\|f - g\|^2` over that one. They stand for the error on new samples, to
    which what the network does not share with the relaxation adds: the objective of the relaxation, since its loss
    alone, without the regulariser, is far below that error where samples are few, and the loss that is expected of new
    samples, if it is known. Samples that a robust loss leaves to themselves are no error of the others: theirs is
    moved to the fences of all.
    """
    problem = relaxation.problem
    f, g = problem.relaxed_predictions(relaxation.Z_stack), problem.predictions(network)
    loss = problem.data_fit.value
    gap = 0.5 * (loss(f) + loss(g)) - loss(0.5 * (f + g))
    if (error := max(relaxation.objective - _excess_of_outliers(problem.data_fit, f), expected_loss)) > 0.0:
        return 4.0 * max(gap, 0.0) / error
    # Targets that are all zero are met by both.
    return math.inf if gap > 0.0 else 0.0


def _excess_of_outliers(data_fit: DataFit, predictions: FloatArray) -> float:
    """Return by how much losses of bounded slope of numbers exceed the fences of their distribution."""
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
    """Return how many neurons to draw after so many: a power of two times as many, or no more where those are enough.

    Parameters
    ----------
    n_neurons : int
        Neurons that were drawn.
    network : BilinearNetwork
        What was made of them.
    relaxation : Relaxation
        What they were drawn from.
    expected_loss : float
        See `deviation`.
    settled : bool
        Whether the network is finished. After the first sweeps of a polish more neurons are drawn only where these will
        not be enough for sure.
    """
    most = MOST_NEURONS * network.n_outputs
    off = deviation(network, relaxation, expected_loss) / _ENOUGH
    if off <= (1.0 if settled else _MOST_SETTLED) or n_neurons >= most:
        return n_neurons
    off /= 1.0 if settled else _SETTLED
    doublings = round(math.log(off, _FALL)) if off < math.inf else 1
    return min(n_neurons << max(doublings, 1), most)
