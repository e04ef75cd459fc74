"""Bits of a fitted model, with one function for each kind of model and the same rule for all.

A real number takes 32 bits. A position on the axis of a column (a threshold, a mean, a deviation) takes 16. A choice
among k items takes ceil(log2 k), which is one bit for a sign. The shape of a tree takes one bit per node. Weights
rounded to integers, including networks' quadratic forms, take the Golomb-Rice code of each output and a byte for its
parameter, or the bits they were rounded to if those are fewer. The order of neurons and redundant signs are not stored.
Everything needed to get from a row to its class counts, except the names of classes and columns. Standardised columns
cost float models nothing, since coefficients absorb means and deviations; they cost rounded linear models the
deviations, since constants absorb the means, and rounded quadratic ones, including networks, both. Categories are bits
already.

A network counts `smallest_bits`. Comparisons of training methods at an equal number of neurons count `n_bits`, the
neurons without a code, and no positions on columns, which are the same for all.
"""

from __future__ import annotations

import numpy as np

from benchmarks.uci.bits import PLACE, REAL, boosting_bits, linear_bits, node_bits, tree_bits, weights_bits
from qsdp._utils.validation import FloatArray
from qsdp.report.sizes import encoding_bits

__all__ = [
    "FLOAT",
    "LINEAR",
    "PLACE",
    "QUADRATIC",
    "REAL",
    "boosting_bits",
    "encoding_bits",
    "form_bits",
    "linear_bits",
    "node_bits",
    "tree_bits",
    "weights_bits",
]

#: Number of positions (mean, deviation) that kinds of models need for a standardised column.
FLOAT, LINEAR, QUADRATIC = 0, 1, 2


def form_bits(weights: FloatArray, size: int, precision: int = REAL) -> int:
    """Return the bits of symmetric matrices (K, size^2); each rounded matrix has a scale and a constant."""
    upper = np.triu_indices(size)
    triangles = weights.reshape(-1, size, size)[:, upper[0], upper[1]]
    return sum(weights_bits(row, precision) + REAL * (0 if precision == REAL else 2) for row in triangles)
