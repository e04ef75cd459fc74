"""Linear models, float and rounded, trees, boosted and single, and a quadratic function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier

from qsdp._utils.validation import FloatArray
from qsdp.bench.uci.method import Folds, UCIMethod
from qsdp.bench.uci.quadratic import QuadraticRidgeClassifier
from qsdp.bench.uci.rounding import grids
from qsdp.networks.weights import FLOAT_BITS, bits_of

__all__ = ["CLASSICAL", "boosting_bits", "node_bits", "tree_bits"]

_BITS = 8


def _logistic(folds: Folds, seed: int) -> GridSearchCV:
    grid = {"C": np.logspace(-3, 3, 7).tolist()}
    return GridSearchCV(LogisticRegression(max_iter=1000), grid, cv=folds, error_score="raise")


class RoundedLogistic(LogisticRegression):  # type: ignore[misc]
    """Logistic regression whose weights are integers of 8 bits times one scale an output; constants stay real."""

    def fit(self, X: FloatArray, y: npt.NDArray[Any]) -> RoundedLogistic:
        """Fit, then round."""
        integers, steps = next(grids(super().fit(X, y).coef_, _BITS, cuts=(1.0,)))
        self.coef_ = steps * integers
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


def node_bits(n_leaves: int, n_columns: int, leaf: int, threshold: int = FLOAT_BITS) -> int:
    """Return the bits of a tree: a type for each node, column and threshold of a split, so many bits for a leaf."""
    return (n_leaves - 1) * (1 + bits_of(n_columns) + threshold) + n_leaves * (1 + leaf)


def tree_bits(model: DecisionTreeClassifier, threshold: int = FLOAT_BITS) -> int:
    """Return the bits of a decision tree, whose leaves are classes."""
    return node_bits(int(model.get_n_leaves()), model.n_features_in_, bits_of(len(model.classes_)), threshold)


def boosting_bits(model: HistGradientBoostingClassifier, threshold: int = FLOAT_BITS, real: int = FLOAT_BITS) -> int:
    """Return the bits of boosted trees, whose leaves are real numbers, and of the scores that they begin with."""
    leaves = [int(tree.get_n_leaf_nodes()) for stage in model._predictors for tree in stage]
    constants = real * int(model.n_trees_per_iteration_)
    return constants + sum(node_bits(count, model.n_features_in_, real, threshold) for count in leaves)


def _of_best(bits: Callable[[Any], int]) -> Callable[[GridSearchCV], int]:
    return lambda search: bits(search.best_estimator_)


def _form_bits(model: QuadraticRidgeClassifier) -> int:
    """Return the bits of coefficients and constants."""
    monomials, outputs = (int(size) for size in model.coef_.shape)
    return FLOAT_BITS * (monomials + 1) * outputs


def _grid_choice(model: GridSearchCV) -> dict[str, float]:
    return {name: float(value) for name, value in model.best_params_.items()}


CLASSICAL = (
    UCIMethod("logistic", "logistic regression, float", _logistic, _linear_bits, chosen=_grid_choice),
    UCIMethod("logistic-rounded", "logistic regression, 8 bits a weight", _rounded, _rounded_bits, chosen=_grid_choice),
    UCIMethod("tree", "one decision tree, its size by validation", _tree, _of_best(tree_bits), chosen=_grid_choice),
    UCIMethod("boosting", "gradient-boosted trees, float", _boosting, _of_best(boosting_bits), chosen=_grid_choice),
    UCIMethod(
        "quadratic-ridge",
        "all monomials of degree two, ridge, float",
        lambda folds, seed: QuadraticRidgeClassifier(folds),
        _form_bits,
        chosen=lambda model: {"lambda": model.lambda_},
    ),
)
