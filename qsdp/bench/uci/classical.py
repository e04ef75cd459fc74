"""Linear models, float and rounded, trees, boosted and single, and a quadratic function."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier

from qsdp._utils.validation import FloatArray
from qsdp.bench.uci.method import Folds, Method
from qsdp.bench.uci.quadratic import QuadraticRidgeClassifier
from qsdp.networks.weights import FLOAT_BITS, bits_of

__all__ = ["CLASSICAL"]

_BITS = 8


def _logistic(folds: Folds, seed: int) -> GridSearchCV:
    grid = {"C": np.logspace(-3, 3, 7).tolist()}
    return GridSearchCV(LogisticRegression(max_iter=1000), grid, cv=folds, error_score="raise")


class RoundedLogistic(LogisticRegression):  # type: ignore[misc]
    """Logistic regression whose weights are integers of 8 bits times one scale an output; constants stay real."""

    def fit(self, X: FloatArray, y: npt.NDArray[Any]) -> RoundedLogistic:
        """Fit, then round."""
        weights: FloatArray = super().fit(X, y).coef_
        steps = np.abs(weights).max(axis=1, keepdims=True) / (2 ** (_BITS - 1) - 1)
        steps[steps == 0.0] = 1.0
        self.coef_ = steps * np.rint(weights / steps)
        return self


def _rounded(folds: Folds, seed: int) -> GridSearchCV:
    return _logistic(folds, seed).set_params(estimator=RoundedLogistic(max_iter=1000))


def _tree(folds: Folds, seed: int) -> GridSearchCV:
    sizes = {"max_leaf_nodes": [2**k for k in range(1, 12)]}
    return GridSearchCV(DecisionTreeClassifier(random_state=seed), sizes, cv=folds, error_score="raise")


def _boosting(folds: Folds, seed: int) -> GridSearchCV:
    model = HistGradientBoostingClassifier(max_iter=300, early_stopping=True, n_iter_no_change=15, random_state=seed)
    return GridSearchCV(model, {"learning_rate": [0.05, 0.2]}, cv=folds, error_score="raise")


def _linear_bits(model: GridSearchCV) -> int:
    best = model.best_estimator_
    return FLOAT_BITS * (int(best.coef_.size) + int(best.intercept_.size))


def _rounded_bits(model: GridSearchCV) -> int:
    """Return the bits of weights, and of the scale and the constant of each output."""
    outputs, columns = model.best_estimator_.coef_.shape
    return int(outputs * (_BITS * columns + 2 * FLOAT_BITS))


def _tree_bits(model: GridSearchCV) -> int:
    """Return the bits of thresholds, column indices and classes of leaves, plus one per node for its type."""
    leaves, column = int(model.best_estimator_.get_n_leaves()), bits_of(model.n_features_in_)
    return leaves * (bits_of(len(model.classes_)) + 1) + (leaves - 1) * (FLOAT_BITS + column + 1)


def _boosting_bits(model: GridSearchCV) -> int:
    """Return the bits of thresholds, leaf values and column indices, plus one per node for its type."""
    best = model.best_estimator_
    column = bits_of(best.n_features_in_)
    bits = FLOAT_BITS * np.size(best._baseline_prediction)
    for trees in best._predictors:
        for tree in trees:
            leaves = int(tree.get_n_leaf_nodes())
            splits = len(tree.nodes) - leaves
            bits += leaves * (FLOAT_BITS + 1) + splits * (FLOAT_BITS + column + 1)
    return int(bits)


def _form_bits(model: QuadraticRidgeClassifier) -> int:
    """Return the bits of coefficients and constants."""
    monomials, outputs = (int(size) for size in model.coef_.shape)
    return FLOAT_BITS * (monomials + 1) * outputs


def _grid_choice(model: GridSearchCV) -> dict[str, float]:
    return {name: float(value) for name, value in model.best_params_.items()}


CLASSICAL = (
    Method("logistic", "logistic regression, float", _logistic, _linear_bits, chosen=_grid_choice),
    Method("logistic-rounded", "logistic regression, 8 bits a weight", _rounded, _rounded_bits, chosen=_grid_choice),
    Method("tree", "one decision tree, its size by validation", _tree, _tree_bits, chosen=_grid_choice),
    Method("boosting", "gradient-boosted trees, float", _boosting, _boosting_bits, chosen=_grid_choice),
    Method(
        "quadratic-ridge",
        "all monomials of degree two, ridge, float",
        lambda folds, seed: QuadraticRidgeClassifier(folds),
        _form_bits,
        chosen=lambda model: {"lambda": model.lambda_},
    ),
)
