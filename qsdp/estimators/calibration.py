"""Calibration of scores to log odds of classes, for losses that do not model probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression

from qsdp._utils import deadline
from qsdp._utils.numeric import EPS, HALF_DIGITS
from qsdp._utils.tuning import SMALL
from qsdp._utils.validation import FloatArray
from qsdp.choosing.options import REFINEMENT_TIME
from qsdp.estimators.held_out import held_out_predictions
from qsdp.estimators.targets import TargetScaling
from qsdp.problem import TrainingProblem

__all__ = ["Calibration"]


class Lines(NamedTuple):
    """Slopes and intercepts of log odds, of shape () or (C,)."""

    slopes: FloatArray
    intercepts: FloatArray


@dataclass(eq=False)
class Calibration:
    r"""Platt's calibration: the log odds of a class against the rest are :math:`a f + b`, a > 0, for its score f.

    All classes share one line; for two classes, b = 0. The likeliest class is then the predicted one.
    Lines are found by logistic regression on held-out predictions of relaxations, which are solved coarsely and not
    sampled or refined, so that all folds together take less time than a fit. They are found on first use and kept.
    They depend only on the training set, a weight k counts as k equal rows, and
    `resample` does not change them. A separate line for each class would change decisions, and had log-losses smaller
    by about 0.02 on six data sets.

    Attributes
    ----------
    problem : TrainingProblem or None
        None if the lines are known. Its sample weights include class weights: probabilities are those of the weighted
        samples.
    scaling : TargetScaling
        Map from outputs to scores.
    one_each : bool
        Whether there are more than two classes.
    """

    problem: TrainingProblem | None
    scaling: TargetScaling
    one_each: bool

    @classmethod
    def of_lines(cls, lines: Lines, scaling: TargetScaling, one_each: bool) -> Calibration:
        """Create a calibration from known slopes and intercepts."""
        calibration = cls(None, scaling, one_each)
        calibration.__dict__["lines"] = lines
        return calibration

    @property
    def is_fitted(self) -> bool:
        """Whether the slopes and intercepts have been computed."""
        return "lines" in vars(self)

    def without_data(self) -> Calibration:
        """Return the same calibration with computed slopes and intercepts, and without the training problem."""
        return self.of_lines(self.lines, self.scaling, self.one_each)

    def log_odds(self, outputs: FloatArray) -> FloatArray:
        """Return log odds for outputs of shape (n,) or (n, C), one against the rest in every column."""
        odds: FloatArray = self.lines.slopes * outputs + self.lines.intercepts
        return odds

    @cached_property
    def lines(self) -> Lines:
        """Slopes and intercepts of the log odds, common to all outputs or per output; computed on first use."""
        assert self.problem is not None
        # As long as the choices before a fit.
        with deadline.after(0.5 * REFINEMENT_TIME):
            parts = list(held_out_predictions(self.problem))
        outputs = np.concatenate([self.scaling.decode(held_out.squeezed(predicted)) for held_out, predicted in parts])
        truth = np.concatenate([self.scaling.targets(held_out.y) for held_out, _ in parts])
        weights = np.concatenate([held_out.data_fit.weighted(np.ones(held_out.n_samples)) for held_out, _ in parts])
        # Platt's targets depend on the numbers of rows, and weights may have any unit.
        weights *= float(self.problem.row_counts.sum()) / self.problem.data_fit.total_weight
        # The rest is coded as -1, or as 0 in one-hot rows.
        is_class = truth > 0.5
        if self.one_each:
            pooled = outputs.ravel(), is_class.ravel(), np.repeat(weights, outputs.shape[1])
            slope, intercept = _line(*pooled, intercept=True)
            return Lines(np.array(slope), np.array(intercept))
        columns = zip(*(part.reshape(len(part), -1).T for part in (outputs, is_class)), strict=True)
        slopes = np.array([_line(own, known, weights)[0] for own, known in columns])
        return Lines(slopes.reshape(outputs.shape[1:]), np.zeros(()))


def _line(
    scores: FloatArray, is_class: npt.NDArray[np.bool_], weights: FloatArray, *, intercept: bool = False
) -> tuple[float, float]:
    """Return slope and intercept of the log odds of a class; the intercept is zero unless `intercept` is true.

    As in Platt's method, the targets are (N + 1) / (N + 2) and 1 / (N + 2) for classes of weight N, not one and zero.
    Scores that separate the classes then have finite odds. Each sample counts with both parts of its target.
    """
    totals = np.where(is_class, weights[is_class].sum(), weights[~is_class].sum())
    own = (totals + 1.0) / (totals + 2.0)
    part = np.where(is_class, own, 1.0 - own)
    units = TargetScaling.of(scores, weights, centre=intercept, scale=intercept)
    scale = float(units.scale) if intercept else float(np.abs(scores).max()) or 1.0
    centred = (scores - units.offset) / scale
    # The slope for scores of unit size that carry no information is small, and positive, since they still decide.
    slope, level = SMALL, 0.0
    if np.ptp(centred) > len(scores) * EPS or (not intercept and np.any(centred)):
        # Use Newton's method: with gradient methods, weights and repeated rows would differ in some digits.
        model = LogisticRegression(C=np.inf, fit_intercept=intercept, solver="newton-cholesky", tol=HALF_DIGITS)
        both = np.r_[weights * part, weights * (1.0 - part)]
        model.fit(np.tile(centred, 2)[:, None], np.repeat([1, 0], len(scores)), both)
        slope, level = max(float(model.coef_[0, 0]), SMALL), float(np.ravel(model.intercept_)[0])
    slope /= scale
    return slope, level - slope * float(units.offset)
