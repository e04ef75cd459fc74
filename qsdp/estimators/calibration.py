"""Log odds of classes from scores that are none, by samples held out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression

from qsdp._utils.deadline import Deadline
from qsdp._utils.numeric import EPS
from qsdp._utils.validation import FloatArray
from qsdp.estimators.targets import TargetScaling
from qsdp.problem import TrainingProblem
from qsdp.relaxation.selection import held_out_predictions

__all__ = ["Calibration"]

#: Seconds that the relaxations of the folds may take together.
_TIME_LIMIT = 60.0


@dataclass(eq=False)
class Calibration:
    r"""Platt's calibration: the log odds of a class against the rest are :math:`a f + b` for its score f.

    Found by logistic regression on what relaxations of training parts predict for the samples outside. Those are solved
    coarsely and nothing is sampled or refined, so that all folds together take less than a fit; and they are found
    when they are asked for first, and kept from then on: `fit` takes no longer. They depend on the training data
    alone, a weight counts as so many equal rows, and `resample` leaves them as they are.

    Near the boundary the likeliest class may be another than the predicted one, as always with an intercept.
    Without one, by a temperature, both agree; on seven data sets, two splits each, its log-loss was larger on all but
    two splits (ten classes of digits: 0.32 on average, here 0.13).

    Attributes
    ----------
    problem : TrainingProblem
        With class weights in its sample weights: probabilities are those of the weighted samples.
    scaling : TargetScaling
        From outputs to scores.
    """

    problem: TrainingProblem
    scaling: TargetScaling

    def log_odds(self, outputs: FloatArray) -> FloatArray:
        """Return log odds for outputs of shape (n,) or (n, C), one against the rest in every column."""
        slopes, intercepts = self._lines
        odds: FloatArray = slopes * outputs + intercepts
        return odds

    @cached_property
    def _lines(self) -> tuple[FloatArray, FloatArray]:
        parts = list(held_out_predictions(self.problem, Deadline.after(_TIME_LIMIT)))
        outputs = np.concatenate([self.scaling.decode(predicted) for _, predicted in parts])
        truth = np.concatenate([self.scaling.decode(held_out.y) for held_out, _ in parts])
        weights = np.concatenate([held_out.data_fit.weighted(np.ones(held_out.n_samples)) for held_out, _ in parts])
        # Codes of the rest are -1, or 0 beside 1.
        is_class = truth > 0.5
        if outputs.ndim == 1:
            slope, intercept = _line(outputs, is_class, weights)
            return np.array(slope), np.array(intercept)
        lines = np.array([_line(outputs[:, k], is_class[:, k], weights) for k in range(outputs.shape[1])])
        return lines[:, 0], lines[:, 1]


def _line(scores: FloatArray, is_class: npt.NDArray[np.bool_], weights: FloatArray) -> tuple[float, float]:
    """Return slope and intercept of the log odds of a class.

    As Platt has it, the targets are (N + 1) / (N + 2) and 1 / (N + 2) for classes of weight N in place of one and zero:
    scores that separate the classes have finite odds. Every sample counts with both parts of its target.
    """
    totals = np.where(is_class, weights[is_class].sum(), weights[~is_class].sum())
    own = (totals + 1.0) / (totals + 2.0)
    part = np.where(is_class, own, 1.0 - own)
    both = np.r_[weights * part, weights * (1.0 - part)]
    if np.ptp(scores) <= len(scores) * EPS * np.abs(scores).max():
        return 0.0, float(np.log(weights @ part) - np.log(weights @ (1.0 - part)))
    units = TargetScaling.of(scores, weights)
    # Newton's method, since gradients leave digits that tell weights from repeated rows.
    model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-8)
    model.fit(np.tile(units.encode(scores), 2)[:, None], np.repeat([1, 0], len(scores)), both)
    slope = float(model.coef_[0, 0] / units.scale)
    return slope, float(model.intercept_[0] - slope * units.offset)
