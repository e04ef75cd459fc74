"""Classes of the models of the suite, and searches for their hyper-parameters, by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier

from benchmarks.methods.search import InteriorSearch
from benchmarks.uci.quadratic import QuadraticRidgeClassifier
from benchmarks.uci.rounding import PRECISION, grids
from benchmarks.uci.trained import (
    FloatBackprop,
    MatchedBackprop,
    RefittedStraightThrough,
    RoundedBackprop,
    RoundedReLU,
    StraightThrough,
)
from qsdp._utils.validation import FloatArray
from qsdp.estimators import QuantizedNetworkClassifier

__all__ = [
    "BetaSearch",
    "DecisionTreeClassifier",
    "FloatBackprop",
    "GridSearchCV",
    "HistGradientBoostingClassifier",
    "InteriorSearch",
    "LogisticRegression",
    "MatchedBackprop",
    "QuadraticRidgeClassifier",
    "QuantizedNetworkClassifier",
    "RefittedStraightThrough",
    "RelaxationClassifier",
    "RoundedBackprop",
    "RoundedLogistic",
    "RoundedReLU",
    "StraightThrough",
]


class RelaxationClassifier(QuantizedNetworkClassifier):
    """Classifier that predicts by the relaxation itself, a quadratic function with real coefficients."""

    def _output(self, X: Any) -> FloatArray:
        outputs = self.result_.relaxation.outputs(self._inputs(np.asarray(X, dtype=np.float64)))
        decoded: FloatArray = self.target_scaling_.decode(outputs)
        return decoded


class BetaSearch(GridSearchCV):  # type: ignore[misc]
    """Grid search of beta on folds, from the largest useful one of the whole training part to a ten-thousandth of it.

    Beta is the same in every fold. `network`, if given, is fitted with the best beta in place of the model whose
    scores are compared.
    """

    def __init__(self, estimator: Any, *, cv: Any = None, network: Any = None) -> None:
        super().__init__(estimator, {}, cv=cv, error_score="raise")
        self.network = network

    def fit(self, X: FloatArray, y: npt.NDArray[Any]) -> BetaSearch:
        """Search, then fit the network to all rows."""
        largest = clone(self.estimator).set_params(beta="100%").fit(X, y).result_.problem.beta
        # With thousands of samples, a thousandth of the largest would end the grid too early.
        self.param_grid = {"beta": largest * np.geomspace(1.0, 1e-4, 9)}
        super().fit(X, y)
        if self.network is not None:
            self.best_estimator_: Any = clone(self.network).set_params(**self.best_params_).fit(X, y)
        return self


class RoundedLogistic(LogisticRegression):  # type: ignore[misc]
    """Logistic regression with weights of 8-bit integers times one scale per output, and real constants."""

    def fit(self, X: FloatArray, y: npt.NDArray[Any]) -> RoundedLogistic:
        """Fit, then round the weights."""
        integers, steps = next(grids(super().fit(X, y).coef_, PRECISION, cuts=(1.0,)))
        self.coef_ = steps * integers
        return self
