"""Bits of a fitted model, with one function for each kind of model and the same rule for all.

A real number takes 32 bits. A position on the axis of a column (a threshold, a mean, a deviation) takes 16. A choice
among k items takes ceil(log2 k), which is one bit for a sign. The shape of a tree takes one bit per node. Weights
rounded to integers, including networks' quadratic forms, take the Golomb-Rice code of each output and a byte for its
parameter, or the bits they were rounded to if those are fewer. A term of a sparse score counts a column, a threshold
and a choice among its integers, like a split of a tree. The order of neurons and redundant signs are not stored.
Everything needed to get from a row to its class counts, except the names of classes and columns. Standardised columns
cost float models nothing, since coefficients absorb means and deviations; they cost rounded linear models the
deviations, since constants absorb the means, and rounded quadratic ones, including networks, both. Categories are bits
already.

A network counts `network_bits`, and a model of this package `model_bits`, with the columns. Comparisons of training
methods at an equal number of neurons count `n_bits`, the neurons without a code, and no positions on columns, which are
the same for all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import qsdp
from benchmarks.uci.bits import (
    POSITION_BITS,
    REAL,
    boosting_bits,
    coded_bits,
    linear_bits,
    node_bits,
    tree_bits,
    weights_bits,
)
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.networks.compact import fold
from qsdp.networks.weights import bits_of
from qsdp.report.sizes import encoding_bits

__all__ = [
    "FLOAT",
    "LINEAR",
    "POSITION_BITS",
    "QUADRATIC",
    "REAL",
    "boosting_bits",
    "encoding_bits",
    "form_bits",
    "linear_bits",
    "model_bits",
    "network_bits",
    "node_bits",
    "places_bits",
    "score_bits",
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


def score_bits(n_terms: int, n_columns: int, largest: int) -> int:
    """Return the bits of a sparse score: a constant, and a column, a threshold and an integer for each term.

    The integers are not zero and at most `largest` in absolute value. As the shape of a tree takes one bit per node, a
    bit after the constant and after every term tells whether another one follows.
    """
    return REAL + 1 + n_terms * (1 + bits_of(n_columns) + POSITION_BITS + bits_of(2 * largest))


def model_bits(model: Any) -> int:
    """Return the bits of a fitted estimator: its network, and the positions on its columns."""
    return network_bits(model.network_) + places_bits(model)


def places_bits(model: Any) -> int:
    """Return the bits of the positions on columns of a fitted estimator.

    Of the inputs of an additive model, those without a weight and without neurons take none, and numbers that only have
    a weight take a deviation, since the constant absorbs the mean.
    """
    network, encoder = model.network_, model.encoder_
    if network.blocks is None:
        return encoding_bits(encoder.encoding_)
    expressions = encoder.inputs_.expressions_
    weighted = network.column_weights[: len(expressions)].any(axis=1)
    of_neurons = np.array([encoder.products == "all" or one.kind != "above" for one in expressions])
    of_neurons &= network.n_neurons > 0
    numbers, above = (np.array([one.kind == kind for one in expressions]) for kind in ("value", "above"))
    used = of_neurons | weighted
    return int(POSITION_BITS * ((of_neurons & numbers).sum() + (used & (numbers | above)).sum()))


def network_bits(network: qsdp.BilinearNetwork) -> int:
    """Return the bits of a binary network in the smallest of three descriptions of the same function.

    Networks on blocks of inputs are stored as they are, with their weights.

    These are the neurons one by one; where the neurons of an output share the magnitude of their weight, also the
    neurons of each output as a set, and the integers of the quadratic form; otherwise the form in real numbers.
    """
    if network.blocks is not None:
        return network.n_bits
    size = network.U.shape[1]
    if not network.shared_alpha:
        return min(network.n_bits, REAL * network.n_outputs * (size * (size + 1) // 2))
    second_layer = network.n_bits - network.U.size - network.V.size
    listed = neuron_numbers(network.U, network.V)
    outputs = network.output_weights.astype(bool)
    sets = [listed[used] for used in outputs.T]
    gaps = [np.diff(np.sort(one), prepend=0) for one in sets]
    (matrices,) = network.to_integer_form().matrices
    return min(
        network.n_bits,
        sum(coded_bits(one) for one in gaps) + second_layer,
        sum(coded_bits(matrix_numbers(one)) + REAL for one in matrices),
    )


def neuron_numbers(U: npt.NDArray[np.int8], V: npt.NDArray[np.int8]) -> npt.NDArray[np.object_]:
    """Convert binary neurons to numbers, which are the same for (u, v), (v, u) and (-u, -v).

    The digits of a vector's number are its signs, changed if the first one is positive. Pairs are counted along a
    triangle. The last bit is that of a sign change of one vector alone.
    """
    first, second = (
        np.array([int("".join(map(str, row)), 2) for row in ((W > 0) != (W[:, :1] > 0)).astype(int)], dtype=object)
        for W in (U, V)
    )
    larger, smaller = np.maximum(first, second), np.minimum(first, second)
    numbers: npt.NDArray[np.object_] = larger * (larger + 1) + 2 * smaller + (U[:, 0] != V[:, 0]).astype(int)
    return numbers


def matrix_numbers(matrix: IntArray) -> IntArray:
    r"""Return the upper triangle of an integer form as nonnegative numbers, without bits that follow from its diagonal.

    In a binary network, :math:`T_{ij} + T_{ii} + (T_{ii} - T_{jj}) / 2` is even, so the last bits of the diagonal's
    entries, which are equal, give those of all others.
    """
    rows, columns = np.triu_indices(len(matrix), 1)
    diagonal = np.diag(matrix)
    return fold(np.concatenate([diagonal, matrix[rows, columns]]) >> 1)
