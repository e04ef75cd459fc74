"""Integer networks of rows: first-layer weights are unchanged, second-layer weights become multiples of a unit."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from qsdp._utils.numeric import ROUNDING
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.export._description import ModelDescription
from qsdp.export._exact import ExactNetwork, exact_network
from qsdp.export._integers.integer_inputs import Inputs
from qsdp.export._integers.integer_network import EXACT, Bounds, IntegerNetwork, Neurons, rounded_up, unit_of
from qsdp.export._integers.vectors import RowVectors
from qsdp.networks.quadratic_form import form_of_neurons
from qsdp.networks.weights import shared_columns

__all__ = ["integers_of_rows"]

#: The gain stops growing once projections have this many bits more than kappa needs.
_MORE_DIGITS = 6

#: Number of bits by which the unit of second-layer weights is refined if the constant term is not a multiple of it.
_REST_BITS = 8


def integers_of_rows(
    description: ModelDescription, inputs: Inputs | None, input_range: tuple[int, int], digits: int
) -> tuple[RowVectors, IntegerNetwork, Bounds]:
    """Convert a network to integers.

    Parameters
    ----------
    description : ModelDescription
    inputs : Inputs or None
    input_range : (int, int)
    digits : int
        Bits of second-layer weights that are not multiples of the smallest one, and of kappa if it is not a multiple
        of the unit.

    Returns
    -------
    RowVectors, IntegerNetwork, callable
        The callable is the bound on the errors of scores, see `Bounds`.
    """
    d = description.network.n_inputs
    exact = exact_network(description, np.arange(d) if inputs is None else inputs.order)
    rows = RowVectors(description, inputs, input_range, 0, n_inputs=d, gain=1, constant_error=0.0)
    unit = Fraction(1) if inputs is None else inputs.unit
    if exact.tail:
        reach = float((np.abs(exact.left[:, :d]) @ rows.vector).max())
        gain, kappa, error = _scaled_kappa(exact.tail[0], unit, digits, reach)
        rows = RowVectors(description, inputs, input_range, kappa, n_inputs=d, gain=gain, constant_error=error)
    n_linear = 0
    if description.constant is not None and exact.is_product and not exact.tail:
        exact, n_linear = _with_linear(exact)
    left, exact_weights, sizes = _grouped(exact, exact.alpha * float(unit / rows.gain) ** 2, n_linear)
    units, weights, factors = _quantized(exact_weights, sizes, exact.rest, digits, description.decision == "argmax")
    bias = tuple(round(Fraction(rest) / Fraction(scale)) for rest, scale in zip(exact.rest, units, strict=True))
    form = np.rint(form_of_neurons(left, exact.right, weights.astype(np.float64))).astype(np.int64)
    blocks = rows.blocks
    forms = form[:, blocks.first, blocks.second] * blocks.counts.astype(np.int64)
    neurons = Neurons(left, exact.right, np.zeros(len(left), dtype=np.int64), weights, sizes, n_linear)
    sums = neurons.bounds(rows) @ np.abs(weights).astype(np.float64)
    totals = sums * np.abs(factors) + [float(abs(constant)) for constant in bias]
    network = IntegerNetwork(
        neurons if exact.is_product else None,
        forms,
        1,
        factors,
        bias,
        units,
        rounded_up(sums.max()),
        rounded_up(totals.max()),
    )
    lost = exact_weights - weights * factors * units

    def bounds(error: FloatArray) -> FloatArray:
        """Bound errors for exact vectors z + e: 2 e'Sz + e'Se, plus rounding of second layer and constants."""
        exact_form, lost_form = (np.abs(form_of_neurons(left, exact.right, alpha)) for alpha in (exact_weights, lost))
        pairs = zip(exact.rest, bias, units, strict=True)
        rest = np.array([abs(float(Fraction(constant) - whole * Fraction(unit))) for constant, whole, unit in pairs])
        z = rows.vector
        bound = 2.0 * (exact_form @ z) @ error + (exact_form @ error) @ error + (lost_form @ z) @ z + rest
        return np.asarray(bound * (1.0 + ROUNDING))

    return rows, network, bounds


def _scaled_kappa(kappa: float, unit: Fraction, digits: int, reach: float) -> tuple[int, int, float]:
    """Choose the smallest sufficient gain; return it, kappa as an integer in units over the gain, and its error.

    Kappa must be exact or have enough digits, or projections (bounded by `reach`) be so large that its error is small.
    """
    gain = 1
    while True:
        exact = Fraction(kappa) / unit * gain
        rounded = round(exact) or (1 if kappa > 0.0 else -1)
        error = abs(rounded - exact)
        enough = abs(rounded) >= 2 ** (digits - 1) or gain >= 2**digits or gain * reach >= 2 ** (digits + _MORE_DIGITS)
        if error <= EXACT * abs(exact) or enough:
            return gain, rounded, float(error)
        gain *= 2


def _with_linear(exact: ExactNetwork) -> tuple[ExactNetwork, int]:
    """Return a network whose last input is constant with small integers, and its number of linear neurons.

    These are the last ones, and multiply an input by the constant. Their sides become twice a unit vector, so that the
    matrix of the product has integers, and a unit vector. The sides of other neurons are divided by a common divisor.
    """
    left, right, last = exact.left.copy(), exact.right.copy(), exact.n_inputs - 1
    linear = (np.count_nonzero(left, axis=1) == 1) & (right[:, last] != 0) & ~np.any(right[:, :last], axis=1)
    n_linear = int(np.logical_and.accumulate(linear[::-1]).sum())
    m = len(left) - n_linear
    inputs, units = (left[m:] != 0).argmax(axis=1), np.eye(last + 1, dtype=np.int64)
    if not n_linear or len(set(inputs.tolist())) < n_linear:
        return exact, 0
    alpha = exact.alpha.copy()
    alpha[m:] *= 0.5 * left[m:].sum(axis=1, keepdims=True) * right[m:, last:]
    left[m:], right[m:] = 2 * units[inputs], units[last]
    divisor = max(int(np.gcd.reduce(np.concatenate([left[:m], right[:m]]), axis=None)), 1)
    reduced = left[:m] // divisor, right[:m] // divisor
    # Sums l_i r_j + l_j r_i, twice the entries of a matrix, are even if the same entries of both sides are odd.
    if np.array_equal(reduced[0] % 2, reduced[1] % 2):
        left[:m], right[:m] = reduced
        alpha[:m] *= float(divisor**2)
    return replace(exact, left=left, right=right, alpha=alpha), n_linear


def _grouped(exact: ExactNetwork, weights: FloatArray, n_linear: int) -> tuple[IntArray, FloatArray, IntArray | None]:
    """Return left weights, second-layer weights, and the sizes of groups of equal second-layer weights, if any.

    The sign of a neuron's only weight moves to its left side if this creates groups. Beside linear neurons there are
    none.
    """
    if n_linear:
        return exact.left, weights, None
    sizes = _sizes(weights)
    if sizes is not None or not exact.is_product or exact.is_square:
        return exact.left, weights, sizes
    sizes = None if np.any((weights != 0.0).sum(axis=1) > 1) else _sizes(np.abs(weights))
    if sizes is None:
        return exact.left, weights, None
    signs = np.where(weights.sum(axis=1) < 0.0, -1, 1)
    return exact.left * signs[:, None], np.abs(weights), sizes


def _sizes(weights: FloatArray) -> IntArray | None:
    shared = shared_columns(weights)
    return None if shared is None else np.array(shared[0], dtype=np.int64)


def _quantized(
    weights: FloatArray, sizes: IntArray | None, rest: FloatArray, digits: int, common: bool
) -> tuple[FloatArray, IntArray, IntArray]:
    """Quantize weights to units (C,), integers (m, C) and common factors (C,) of groups, exactly if possible.

    Units are small enough to represent the constants `rest`, of shape (C,), to a few bits. Outputs that are compared
    with each other have a `common` one.
    """
    # A group has one weight: the only value in its column that is not zero.
    few = weights if sizes is None else np.take_along_axis(weights, np.abs(weights).argmax(axis=0)[None], axis=0)
    C = weights.shape[1]
    units, whole = np.ones(C), np.zeros(few.shape, dtype=np.int64)
    for outputs in [slice(None)] if common else [slice(k, k + 1) for k in range(C)]:
        units[outputs] = _unit(few[:, outputs], rest[outputs], digits)
        whole[:, outputs] = np.rint(few[:, outputs] / units[outputs])
    if sizes is None:
        return units, whole, np.ones(C, dtype=np.int64)
    served = np.repeat(np.eye(C, dtype=np.int64), sizes, axis=0)
    return units, served * (whole[0] != 0), np.where(sizes > 0, whole[0], 0)


def _unit(weights: FloatArray, rest: FloatArray, digits: int) -> float:
    if not weights.any():
        return float(np.abs(rest).max()) / 2**digits or 1.0
    unit, exact = unit_of(weights, digits)
    misfit = rest / unit
    if exact and np.any(np.abs(misfit - np.rint(misfit)) > ROUNDING) and np.all(np.abs(misfit) < 2.0**digits):
        return unit / 2.0**_REST_BITS
    return unit
