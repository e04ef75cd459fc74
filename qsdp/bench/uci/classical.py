"""Bits of linear models, float and rounded, of trees, boosted and single."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from qsdp._utils.validation import FloatArray
from qsdp.bench.uci.rounding import grids
from qsdp.networks.weights import FLOAT_BITS, bits_of

__all__ = ["RoundedLogistic", "boosting_bits", "linear_bits", "node_bits", "rounded_bits", "tree_bits"]

_BITS = 8


class RoundedLogistic(LogisticRegression):  # type: ignore[misc]
    """Logistic regression whose weights are integers of 8 bits times one scale an output; constants stay real."""

    def fit(self, X: FloatArray, y: npt.NDArray[Any]) -> RoundedLogistic:
        """Fit, then round."""
        integers, steps = next(grids(super().fit(X, y).coef_, _BITS, cuts=(1.0,)))
        self.coef_ = steps * integers
        return self


def linear_bits(model: LogisticRegression) -> int:
    """Return the bits of weights and constants."""
    return FLOAT_BITS * (int(model.coef_.size) + int(model.intercept_.size))


def rounded_bits(model: LogisticRegression) -> int:
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
