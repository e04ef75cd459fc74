"""Sizes in bits of encodings and of models that networks are compared with.

They follow the rule of `BilinearNetwork.n_bits`: a real number counts 32 bits unless it is rounded, a choice among k
items ceil(log2 k). A position on the axis of a column (a threshold, a mean, a deviation) counts 16 bits, and the shape
of a tree one bit per node.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from qsdp.encoding import Encoding
from qsdp.networks.weights import FLOAT_BITS, bits_of

__all__ = ["LINEAR_BITS", "POSITION_BITS", "boosting_bits", "encoding_bits", "node_bits", "rounded_linear"]

#: Bits of a position on the axis of a column.
POSITION_BITS = 16

#: Bits of each number of a rounded linear model; half as many cost half a point of accuracy.
LINEAR_BITS = 8


def encoding_bits(encoding: Encoding, standardisation: int = 2) -> int:
    """Return the bits of an encoding: 16 per threshold, and `standardisation` times 16 per standardised number.

    Quadratic models need mean and deviation of a number (2), linear ones the deviation (1), as the constant absorbs the
    means, and coefficients that are real numbers absorb both (0).
    """
    counts = {"value": standardisation, "above": 1}
    return POSITION_BITS * sum(counts.get(expression.kind, 0) for expression in encoding.expressions)


def rounded_linear(linear: Any) -> tuple[Any, int]:
    """Return a copy of a linear model with 8 bits for each coefficient and intercept, and its size in bits."""
    rounded, bits = deepcopy(linear), 0
    for name in ("coef_", "intercept_"):
        values = np.asarray(getattr(rounded, name))
        scale = float(np.max(np.abs(values))) / (2 ** (LINEAR_BITS - 1) - 1) or 1.0
        setattr(rounded, name, np.round(values / scale) * scale)
        bits += LINEAR_BITS * values.size + FLOAT_BITS
    return rounded, bits


def node_bits(n_leaves: int, n_columns: int, leaf: int) -> int:
    """Return the bits of a tree: a type per node, a column and threshold per split, `leaf` bits per leaf."""
    return (n_leaves - 1) * (1 + bits_of(n_columns) + POSITION_BITS) + n_leaves * (1 + leaf)


def boosting_bits(model: Any) -> int:
    """Return the bits of scikit-learn's boosted trees, whose leaves are real numbers, and of their initial scores."""
    leaves = [int(tree.get_n_leaf_nodes()) for stage in model._predictors for tree in stage]
    constants = FLOAT_BITS * int(model.n_trees_per_iteration_)
    return constants + sum(node_bits(count, model.n_features_in_, FLOAT_BITS) for count in leaves)
