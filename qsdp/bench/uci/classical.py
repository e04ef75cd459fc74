"""Linear models, float and rounded, trees, boosted and single, and a quadratic function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier

from qsdp._utils.validation import FloatArray
from qsdp.bench.uci.method import UCIMethod
from qsdp.bench.uci.quadratic import QuadraticRidgeClassifier
from qsdp.bench.uci.rounding import grids
from qsdp.networks.weights import FLOAT_BITS, bits_of

__all__ = ["CLASSICAL", "boosting_bits", "node_bits", "tree_bits"]

_BITS = 8


class RoundedLogistic(LogisticRegression):  # type: ignore[misc]
    """Logistic regression whose weights are integers of 8 bits times one scale an output; constants stay real."""

    def fit(self, X: FloatArray, y: npt.NDArray[Any]) -> RoundedLogistic:
        """Fit, then round."""
        integers, steps = next(grids(super().fit(X, y).coef_, _BITS, cuts=(1.0,)))
        self.coef_ = steps * integers
        return self


def _linear_bits(model: LogisticRegression) -> int:
    return FLOAT_BITS * (int(model.coef_.size) + int(model.intercept_.size))


def _rounded_bits(model: LogisticRegression) -> int:
    """Return the bits of weights, and of the scale and the constant of each output."""
    outputs, columns = model.coef_.shape
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


def _form_bits(model: QuadraticRidgeClassifier) -> int:
    """Return the bits of coefficients and constants."""
    monomials, outputs = (int(size) for size in model.coef_.shape)
    return FLOAT_BITS * (monomials + 1) * outputs


def _searched(
    name: str, what: str, make: Callable[[int], Any], grid: Mapping[str, Any], bits: Callable[[Any], int]
) -> UCIMethod:
    """Return the method that is the best of a grid on the folds."""
    return UCIMethod(
        name,
        what,
        lambda folds, seed: GridSearchCV(make(seed), grid, cv=folds, error_score="raise"),
        lambda search: bits(search.best_estimator_),
        chosen=lambda search: {name: float(value) for name, value in search.best_params_.items()},
    )


def _boosting(seed: int) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(max_iter=300, early_stopping=True, n_iter_no_change=15, random_state=seed)


_STRENGTHS = {"C": np.logspace(-3, 3, 7).tolist()}
CLASSICAL = (
    _searched(
        "logistic",
        "logistic regression, float",
        lambda seed: LogisticRegression(max_iter=1000),
        _STRENGTHS,
        _linear_bits,
    ),
    _searched(
        "logistic-rounded",
        "logistic regression, 8 bits a weight",
        lambda seed: RoundedLogistic(max_iter=1000),
        _STRENGTHS,
        _rounded_bits,
    ),
    _searched(
        "tree",
        "one decision tree, its size by validation",
        lambda seed: DecisionTreeClassifier(random_state=seed),
        {"max_leaf_nodes": [2**k for k in range(1, 12)]},
        tree_bits,
    ),
    _searched("boosting", "gradient-boosted trees, float", _boosting, {"learning_rate": [0.05, 0.2]}, boosting_bits),
    UCIMethod(
        "quadratic-ridge",
        "all monomials of degree two, ridge, float",
        lambda folds, seed: QuadraticRidgeClassifier(folds),
        _form_bits,
        chosen=lambda model: {"lambda": model.lambda_},
    ),
)
