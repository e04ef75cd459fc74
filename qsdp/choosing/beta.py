"""The beta for which the relaxation is as flexible as the best quadratic ridge regression."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.tuning import FIRST_TRY, ROUGH
from qsdp._utils.validation import FloatArray
from qsdp.choosing.regression import MIN_ROWS, DistinctRows, LeftOut, RidgeFit, left_out_fit
from qsdp.inner_problem import grothendieck_bound, uninterrupted
from qsdp.problem import TrainingProblem
from qsdp.relaxation.largest_beta import useful_beta_max
from qsdp.relaxation.solution import Relaxation

__all__ = ["BetaChoice", "choose_beta"]

#: Bounds of beta as a fraction of `beta_max`, the lower one divided by the square root of the number of rows, and the
#: fraction used if no row can be left out.
_MIN_FRACTION, _MAX_FRACTION, _FALLBACK = 0.03, 0.3, 0.01

#: Beta relative to the beta at which the residuals of the regression are dual feasible; two thirds cost 0.4 points.
_RATIO = 0.5


@dataclass(frozen=True)
class BetaChoice:
    """A beta, the losses of the regression that it was read off, and the share of a loss that does not matter.

    Attributes
    ----------
    beta : float
    expected_loss : float
        Squared loss of the regression on as many new rows as the problem has, estimated from left-out rows; zero if it
        is not known.
    training_loss : float
        Squared loss of the regression on the training rows.
    resolution : float
        Share of the expected loss that is too small to matter on new rows; infinite if it is not known.
    """

    beta: float
    expected_loss: float = 0.0
    training_loss: float = 0.0
    resolution: float = math.inf

    def loss_of(self, relaxation: Relaxation) -> float:
        """Estimate the loss of a relaxation on new rows.

        It is that of the regression, scaled down by the ratio of the training losses if the relaxation fits the rows
        better, since the regression is restricted to a subspace of the functions if rows are many.
        """
        if not self.training_loss:
            return self.expected_loss
        problem = relaxation.problem
        loss = problem.data_fit.value(relaxation.fitted)
        return self.expected_loss * min(1.0, loss / self.training_loss)


def choose_beta(problem: TrainingProblem) -> BetaChoice:
    r"""Choose the beta for which the relaxation is as flexible as the best quadratic ridge regression.

    At the solution of a relaxation, minus the gradient of the loss :math:`\nu` reaches the bound of the dual,
    :math:`\tau(\sum_i \nu_i \mathcal{X}_i) = \beta D`: beta is the size of the gradient that is left. So beta is read
    off the ridge regression that is best on left-out rows. It is the fraction
    :math:`\tau(\sum_i w_i r_i \mathcal{X}_i) / (2 \tau(\sum_i w_i y_i \mathcal{X}_i))` of `beta_max`, where r are the
    residuals of the targets y. With several outputs, the denominator is the largest over outputs, and the numerator the
    mean or, for classes, the smallest. No relaxation is solved.

    Rows, also equal ones, are left out one by one: if rows repeat, new rows will have been seen before. The result
    depends neither on the order of the samples nor on whether a row is repeated or has an integer weight. Any beta will
    do if zero is always optimal. If rows are few, or a time limit has passed, the fraction is a hundredth.

    Parameters
    ----------
    problem : TrainingProblem
        Training problem; its beta is ignored.
    """
    with deadline.fraction(FIRST_TRY):
        largest = useful_beta_max(problem)
    if largest == 0.0:
        return BetaChoice(1.0)
    rows = DistinctRows.from_rows(problem.X)
    if rows.count < MIN_ROWS or deadline.over():
        return BetaChoice(_FALLBACK * largest)
    fit = left_out_fit(problem, rows)
    left_out = fit.left_out
    residuals = left_out.means - fit.functions.values(left_out.data(problem, fit.scale), fit.coefficients)
    sizes = _sizes(problem, left_out, residuals)
    # Outputs have one beta. A class whose output it shrinks more than its regression would hardly be predicted.
    size = sizes.min() if _are_classes(left_out.targets) else sizes.mean()
    smallest = _MIN_FRACTION / math.sqrt(rows.count)
    fraction = min(max(_RATIO * float(size / _sizes(problem, left_out, left_out.means).max()), smallest), _MAX_FRACTION)
    resolution = _resolution(fit, rows.count)
    if not problem.loss.quadratic:
        return BetaChoice(fraction * largest, resolution=resolution)
    weight = problem.data_fit.total_weight / float(left_out.weights.sum())
    expected, training = weight * float(fit.errors.sum()), weight * fit.training_loss
    return BetaChoice(fraction * largest, expected, training, resolution)


def _are_classes(targets: FloatArray) -> bool:
    """Whether targets (n, C) encode classes: every column has two values."""
    return bool(np.all((targets == targets.min(axis=0)) | (targets == targets.max(axis=0))))


def _resolution(fit: RidgeFit, n_rows: int) -> float:
    """Return the share of the expected loss that does not matter on new rows.

    It is the smaller of two: by how much the loss of the fit exceeds that of the best function, about half of the
    excess of its loss on new rows over that on the training rows; and the standard error of the loss on `n_rows` rows,
    for normal errors.
    """
    expected = float(fit.errors.sum())
    excess = 0.5 * (1.0 - fit.training_loss / expected) if expected > 0.0 else math.inf
    return min(excess, math.sqrt(2.0 / n_rows))


def _sizes(problem: TrainingProblem, left_out: LeftOut, targets: FloatArray) -> FloatArray:
    r"""Return the largest :math:`\tau(\sum_i w_i y_i \mathcal{X}_i)` of each output, over blocks and real weights."""
    data = problem.map.take(left_out.samples)
    matrices, real = data.pull(left_out.row_weights[:, None] * targets)
    bounds = [float(uninterrupted(grothendieck_bound(M, tol=ROUGH))) for M in matrices]
    sizes: FloatArray = np.column_stack([np.reshape(bounds, (len(real), -1)), np.abs(real)]).max(axis=1)
    return sizes
