"""Float methods: logistic regression, boosted trees, and a quadratic function."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from qsdp.bench.uci.method import Folds, Method
from qsdp.bench.uci.quadratic import QuadraticRidgeClassifier
from qsdp.networks.weights import FLOAT_BITS, bits_of

__all__ = ["CLASSICAL"]


def _logistic(folds: Folds, seed: int) -> GridSearchCV:
    grid = {"C": np.logspace(-3, 3, 7).tolist()}
    return GridSearchCV(LogisticRegression(max_iter=1000), grid, cv=folds, error_score="raise")


def _boosting(folds: Folds, seed: int) -> GridSearchCV:
    model = HistGradientBoostingClassifier(max_iter=300, early_stopping=True, n_iter_no_change=15, random_state=seed)
    return GridSearchCV(model, {"learning_rate": [0.05, 0.2]}, cv=folds, error_score="raise")


def _linear_bits(model: GridSearchCV) -> int:
    best = model.best_estimator_
    return FLOAT_BITS * (int(best.coef_.size) + int(best.intercept_.size))


def _tree_bits(model: GridSearchCV) -> int:
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
    Method("boosting", "gradient-boosted trees, float", _boosting, _tree_bits, chosen=_grid_choice),
    Method(
        "quadratic-ridge",
        "all monomials of degree two, ridge, float",
        lambda folds, seed: QuadraticRidgeClassifier(folds),
        _form_bits,
        chosen=lambda model: {"lambda": model.lambda_},
    ),
)
