"""Classes of the models of the suite, and searches for their hyper-parameters, by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier

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
from qsdp.baselines._search import InteriorSearch
from qsdp.estimators import QuantizedNetworkClassifier, QuantizedNetworkClassifierCV
from qsdp.pipeline import QSDPResult
from qsdp.relaxation import beta_max
from qsdp.relaxation.path import geometric
from qsdp.statistics.collections import Rows

__all__ = [
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
    "RelaxationClassifierCV",
    "RoundedBackprop",
    "RoundedLogistic",
    "RoundedReLU",
    "StraightThrough",
    "WideClassifierCV",
]


class WideClassifierCV(QuantizedNetworkClassifierCV):
    """Classifier that chooses beta on a longer regularisation path than the default."""

    def _train(
        self,
        samples: Rows,
        inputs: FloatArray,
        target: FloatArray,
        weights: FloatArray | None,
        options: Any,
        **routed: Any,
    ) -> QSDPResult:
        largest = beta_max(options.problem(inputs, target, weights))
        # With thousands of samples, the default path ends too early: its last beta, 0.001 of the largest, is chosen.
        options = replace(options, betas=geometric(largest, 1e-4, 9))
        return super()._train(samples, inputs, target, weights, options, **routed)


class RelaxationClassifierCV(WideClassifierCV):
    """Classifier that predicts by the relaxation itself, a quadratic function with real coefficients."""

    def _output(self, X: Any) -> FloatArray:
        # While folds are scored, a relaxation takes the place of the network.
        relaxation = self.result_.relaxation if "_result" in vars(self) else self.network_
        outputs = relaxation.outputs(self._inputs(np.asarray(X, dtype=np.float64)))
        return self.target_scaling_.decode(outputs)


class RoundedLogistic(LogisticRegression):  # type: ignore[misc]
    """Logistic regression with weights of 8-bit integers times one scale per output, and real constants."""

    def fit(self, X: FloatArray, y: npt.NDArray[Any]) -> RoundedLogistic:
        """Fit, then round the weights."""
        integers, steps = next(grids(super().fit(X, y).coef_, PRECISION, cuts=(1.0,)))
        self.coef_ = steps * integers
        return self
