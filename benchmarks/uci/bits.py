"""Storage of fitted models in bits, counted by the same rule for all kinds of models.

A real number takes 32 bits, a position on the axis of a column (such as a threshold) 16, and a choice among k items
ceil(log2 k), which is one bit for a sign. The shape of a tree takes one bit per node. Weights rounded to integers take
the Golomb-Rice code of each output and a byte for its parameter, or the bits they were rounded to if those are fewer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray
from qsdp.networks.compact import encoded_bits, fold, parameter_of
from qsdp.networks.weights import FLOAT_BITS as REAL
from qsdp.networks.weights import bits_of
from qsdp.report.sizes import POSITION_BITS, boosting_bits, node_bits

if TYPE_CHECKING:
    from sklearn.tree import DecisionTreeClassifier

__all__ = [
    "POSITION_BITS",
    "REAL",
    "boosting_bits",
    "coded_bits",
    "linear_bits",
    "node_bits",
    "tree_bits",
    "weights_bits",
]


def linear_bits(weights: FloatArray, precision: int = REAL) -> int:
    """Return the bits of a linear model with weights (K, p) and constants; rounded weights have a scale per output."""
    return sum(weights_bits(row, precision) + REAL * (1 if precision == REAL else 2) for row in weights)


def weights_bits(weights: FloatArray, precision: int) -> int:
    """Return the bits of the weights of an output: floats, or values on a grid symmetric about zero."""
    steps: npt.NDArray[Any] = np.diff(np.unique(weights))
    if precision == REAL or not len(steps):
        return precision * len(weights)
    # Integer places on the grid, rounded down if the grid has no zero; 1e-6 absorbs rounding errors.
    numbers = fold(np.floor(weights / steps[steps > 1e-9 * steps.max()].min() + 1e-6).astype(np.int64))
    return min(precision * len(weights), coded_bits(numbers))


def coded_bits(numbers: npt.NDArray[Any]) -> int:
    """Return the bits of the Golomb-Rice code of nonnegative integers and of a byte for its parameter."""
    return encoded_bits(numbers, parameter_of(numbers)) + 8


def tree_bits(model: DecisionTreeClassifier) -> int:
    """Return the bits of a decision tree, whose leaves are classes."""
    return node_bits(int(model.get_n_leaves()), model.n_features_in_, bits_of(len(model.classes_)))
