"""Search for the hyper-parameters of a classifier on grids that are extended beyond their edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from benchmarks.methods.budget import BUDGET, Budget, Folds, chosen_by
from qsdp._utils.validation import FloatArray

__all__ = ["InteriorSearch"]


class InteriorSearch(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifier with hyper-parameters chosen by cross-validated accuracy, on grids extended by `choose`.

    Its `choice_` is a `Choice`, and `best_estimator_` is fitted to all samples with `best_params_`, by its own
    `fit_whole` if it has one.
    """

    def __init__(self, estimator: Any, grid: Mapping[str, Sequence[float]], folds: Folds, budget: Budget = BUDGET):
        self.estimator = estimator
        self.grid = grid
        self.folds = folds
        self.budget = budget

    def fit(self, X: FloatArray, y: npt.NDArray[Any]) -> InteriorSearch:
        """Choose hyper-parameters, then fit to all samples; networks trained by gradients as in `Budget.fit`."""
        measures = {"score": lambda model, rows, labels: float(model.score(rows, labels))}
        self.choice_ = chosen_by(measures, self.estimator, self.grid, X, y, self.folds, self.budget)["score"]
        self.best_params_ = self.choice_.best
        best = clone(self.estimator).set_params(**self.best_params_)
        self.best_estimator_ = best.fit_whole(X, y) if hasattr(best, "fit_whole") else self.budget.fit(best, X, y)
        self.classes_ = self.best_estimator_.classes_
        return self

    def predict(self, X: FloatArray) -> npt.NDArray[Any]:
        """Return the labels predicted by the best estimator."""
        labels: npt.NDArray[Any] = self.best_estimator_.predict(X)
        return labels
