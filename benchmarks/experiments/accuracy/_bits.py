"""Bits of a fitted model, one function for each kind, by one rule for all.

A real number takes 32 bits; a place on the axis of a column (a threshold, a mean, a deviation) 16; one of k things
ceil(log2 k), which is a bit for a sign, and the number of bits it was rounded to for a rounded weight. Everything
counts that is needed to get from a row to its class, but the names of classes and columns. Standardised columns cost
float models nothing, whose coefficients take means and deviations in; rounded linear models the deviation, since means
go into their constants; rounded quadratic ones, networks among them, both. Categories are bits already.
"""

from __future__ import annotations

from functools import partial

from qsdp.bench.uci import classical
from qsdp.encoding import Encoding
from qsdp.networks import BilinearNetwork
from qsdp.networks.weights import FLOAT_BITS, bits_of

REAL, PLACE = 32, 16

#: Places on the axis of a standardised column that kinds of models need.
FLOAT, LINEAR, QUADRATIC = 0, 1, 2


def network_bits(network: BilinearNetwork) -> int:
    """Return the bits of a network as this package stores it, or of its quadratic form where that is less.

    `n_bits` and `form_bits` of a network, with reals of 32 in place of 64 bits.
    """
    reals = network.n_outputs if network.shared_alpha else network.form_bits // FLOAT_BITS
    return min(_neuron_bits(network), network.form_bits - (FLOAT_BITS - REAL) * reals)


def _neuron_bits(network: BilinearNetwork) -> int:
    signs = 2 * network.n_neurons * (bits_of(network.levels) * network.n_inputs + network.lifted)
    return signs + (network.n_bits - signs) * REAL // FLOAT_BITS


def encoding_bits(encoding: Encoding, standardisation: int = QUADRATIC) -> int:
    """Return the bits of an encoding: one place for a threshold, `standardisation` ones for a standardised number."""
    places = {"value": standardisation, "above": 1}
    return PLACE * sum(places.get(expression.kind, 0) for expression in encoding.expressions)


def linear_bits(n_columns: int, n_outputs: int, precision: int = REAL) -> int:
    """Return the bits of weights and intercepts; rounded weights have a scale for each output."""
    reals = 1 if precision == REAL else 2
    return n_outputs * (precision * n_columns + REAL * reals)


def form_bits(size: int, n_outputs: int, precision: int = REAL) -> int:
    """Return the bits of symmetric matrices of a size; rounded ones have a scale and a constant each."""
    reals = 0 if precision == REAL else 2
    return n_outputs * (precision * size * (size + 1) // 2 + REAL * reals)


#: Of trees; a threshold is a place, and the shape of one takes a bit a node.
node_bits, tree_bits = partial(classical.node_bits, threshold=PLACE), partial(classical.tree_bits, threshold=PLACE)
boosting_bits = partial(classical.boosting_bits, threshold=PLACE, real=REAL)
