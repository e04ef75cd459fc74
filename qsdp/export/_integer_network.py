"""Integer networks: first-layer weights are unchanged, second-layer weights become multiples of a unit."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import ROUNDING
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.networks import BilinearNetwork, IntegerForm, PolynomialNetwork
from qsdp.networks.quadratic_form import form_of_neurons
from qsdp.networks.weights import shared_columns

__all__ = ["EXACT", "IntegerNetwork", "common_unit", "integer_network"]

#: Relative error below which a number counts as a multiple of a unit.
EXACT = 1e-12

#: The gain stops growing once projections have this many bits more than kappa needs.
_MORE_DIGITS = 6

#: Number of bits by which the unit of second-layer weights is refined if the constant term is not a multiple of it.
_REST_BITS = 8


@dataclass(frozen=True, eq=False)
class ExactNetwork:
    """Scores in real numbers: ``sum_j alpha_jk (w_j . z)(w'_j . z) + rest_k`` for ``z = (x, kappa)``."""

    left: IntArray
    right: IntArray
    kappa: float
    alpha: FloatArray
    rest: FloatArray
    is_product: bool


@dataclass(frozen=True, eq=False)
class IntegerNetwork:
    r"""Quadratic function of integers: scores are `unit` times its outputs, up to `error`.

    For inputs x, let :math:`z = (\text{gain} \cdot x, \kappa)`, without the last entry if :math:`\kappa` is 0. Then

    .. math:: f_k = \sum_j A_{jk} (w_j^T z)(w_j'^T z) + B_k = z^T S_k z + B_k

    Attributes
    ----------
    left, right : ndarray of shape (m, D)
        :math:`w_j` and :math:`w_j'`; equal for a network of squares.
    gain, kappa : int
        kappa is 0 if z has no such coordinate.
    alpha : ndarray of shape (m, C)
        Second-layer weights A.
    sizes : ndarray of shape (C,) or None
        Number of neurons of each output, if they are consecutive and share one entry of A; otherwise None.
    bias : tuple of int
        Constants B.
    is_product : bool
        Whether there are neurons. An integer form or an activation without a square has only the quadratic form.
    unit : ndarray of shape (C,)
        Positive factors from outputs to scores.
    exact : ExactNetwork
        The exact network that the integers approximate.
    exact_alpha : ndarray of shape (m, C)
        Second-layer weights of the exact scores as functions of z.
    coordinates : ndarray of shape (D,)
        Bounds on the magnitudes of z.
    distance, rounding : ndarray of shape (D,)
        Bounds on the distance of z from its exact value, and on the additional error due to the rounding of columns.
    """

    left: IntArray
    right: IntArray
    gain: int
    kappa: int
    alpha: IntArray
    sizes: IntArray | None
    bias: tuple[int, ...]
    is_product: bool
    unit: FloatArray
    exact: ExactNetwork
    exact_alpha: FloatArray
    coordinates: FloatArray
    distance: FloatArray
    rounding: FloatArray

    @property
    def n_inputs(self) -> int:
        """Number of inputs d."""
        return int(self.left.shape[1]) - (self.kappa != 0)

    @property
    def n_outputs(self) -> int:
        """Number of outputs C."""
        return len(self.bias)

    @property
    def is_square(self) -> bool:
        """Whether both projections of every neuron are the same."""
        return bool(np.array_equal(self.left, self.right))

    @property
    def factors(self) -> IntArray:
        """Common factor of the second-layer weights of each output, shape (C,): ones unless there are groups."""
        if self.sizes is None:
            return np.ones(self.n_outputs, dtype=np.int64)
        factors: IntArray = self.alpha.sum(axis=0) // np.maximum(self.sizes, 1)
        return factors

    @cached_property
    def form(self) -> IntArray:
        """Symmetric integer matrices of shape (C, D, D); multiplied by `factors`, they are S."""
        weights = self.alpha / np.where(self.factors == 0, 1, self.factors)
        return np.rint(form_of_neurons(self.left, self.right, weights)).astype(np.int64)

    @cached_property
    def error(self) -> FloatArray:
        """Bounds of shape (C,) on the difference between the scores and those of exact inputs."""
        return self._bounds(self.distance)

    @cached_property
    def rounding_error(self) -> FloatArray:
        """Bounds like `error`, for columns that are first rounded to fixed-point numbers."""
        return self._bounds(self.distance + self.rounding)

    def _bounds(self, distance: FloatArray) -> FloatArray:
        """Bound errors for exact coordinates z + e: 2 e'Sz + e'Se, plus rounding of second layer and constants."""
        form, lost = self._exact_forms
        pairs = zip(self.exact.rest, self.bias, self.unit, strict=True)
        rest = np.array([abs(float(Fraction(rest) - own * Fraction(unit))) for rest, own, unit in pairs])
        z = self.coordinates
        bounds: FloatArray = 2.0 * (form @ z) @ distance + (form @ distance) @ distance + (lost @ z) @ z + rest
        return bounds * (1.0 + ROUNDING)

    @cached_property
    def _exact_forms(self) -> tuple[FloatArray, FloatArray]:
        """Compute magnitudes of the exact matrices S, and of their differences from the integer S times the unit."""
        lost = self.exact_alpha - self.alpha * self.unit
        first, second = (np.abs(form_of_neurons(self.left, self.right, own)) for own in (self.exact_alpha, lost))
        return first, second

    def outputs(self, inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Compute the outputs of shape (n, C) as exact integers: int64 or Python integers, like the inputs."""
        kind = object if inputs.dtype == object else np.int64
        z: npt.NDArray[Any] = inputs * self.gain
        if self.kappa:
            z = np.hstack([z, np.full((len(z), 1), self.kappa, z.dtype)])
        bias = np.array(self.bias, dtype=kind)
        if not self.is_product:
            values = np.stack([((z @ form.astype(kind)) * z).sum(axis=1) for form in self.form], axis=1)
            values = values * self.factors.astype(kind)
        else:
            values = (z @ self.left.T.astype(kind)) * (z @ self.right.T.astype(kind)) @ self.alpha.astype(kind)
        outputs: npt.NDArray[Any] = values + bias
        return outputs


def integer_network(
    network: BilinearNetwork | PolynomialNetwork | IntegerForm,
    offset: FloatArray,
    factor: FloatArray,
    *,
    order: npt.NDArray[Any],
    unit: Fraction,
    largest: IntArray,
    error: FloatArray,
    rounding: FloatArray,
    digits: int,
    common_unit: bool,
) -> IntegerNetwork:
    """Convert a network to integers.

    Parameters
    ----------
    network : BilinearNetwork, PolynomialNetwork or IntegerForm
    offset, factor : ndarray of shape (C,)
        Scores are offset + factor * output.
    order : ndarray of shape (d,)
        Input of the network that each integer input represents.
    unit : Fraction
        Unit of the integer inputs.
    largest : ndarray of shape (d,)
        Bounds on the magnitudes of the integer inputs.
    error, rounding : ndarray of shape (d,)
        Bounds, in units, on the distance of integer inputs from exact ones, and on the additional error due to the
        rounding of columns.
    digits : int
        Bits of second-layer weights that are not multiples of the smallest one, and of kappa if it is not a multiple
        of the unit.
    common_unit : bool
        Whether outputs are compared with each other and therefore share one unit.
    """
    exact = exact_network(network, order, offset, factor)
    reach = float((np.abs(exact.left[:, : network.n_inputs]) @ largest.astype(np.float64)).max())
    gain, kappa, kappa_error = _scaled_kappa(exact.kappa, unit, digits, reach)
    left, weights, sizes = _grouped(exact, exact.alpha * float(unit / gain) ** 2)
    # Keep one weight per group: the only value in its column that is not zero.
    rows = weights if sizes is None else np.take_along_axis(weights, np.abs(weights).argmax(axis=0)[None], axis=0)
    units, alpha = _quantized(rows, exact.rest, digits, common_unit)
    if sizes is not None:
        alpha = np.repeat(np.diag(alpha[0]), sizes, axis=0)
    bias = tuple(round(Fraction(rest) / Fraction(own)) for rest, own in zip(exact.rest, units, strict=True))
    bounds = [gain * one.astype(np.float64) for one in (largest, error, rounding)]
    if kappa:
        last = (float(abs(kappa)), kappa_error, 0.0)
        bounds = [np.append(one, np.array([end])) for one, end in zip(bounds, last, strict=True)]
    return IntegerNetwork(
        left, exact.right, gain, kappa, alpha, sizes, bias, exact.is_product, units, exact, weights, *bounds
    )


def exact_network(
    network: BilinearNetwork | PolynomialNetwork | IntegerForm,
    order: npt.NDArray[Any],
    offset: FloatArray,
    factor: FloatArray,
) -> ExactNetwork:
    r"""Write a network as products of two linear functions by completing the square of its activation.

    .. math:: a p q + \tfrac b2 (t p + s q) + c s t = a (p + \kappa s)(q + \kappa t) + (c - a \kappa^2) s t,
        \qquad \kappa = b / 2a
    """
    a, b, c = network.activation.coefficients if network.activation else (1.0, 0.0, 0.0)
    if isinstance(network, IntegerForm):
        return _exact_form(network, order, offset, factor)
    alpha = network.output_weights
    if isinstance(network, BilinearNetwork):
        left, right, bias = network.U.astype(np.int64), network.V.astype(np.int64), np.zeros(alpha.shape[1])
        ones = np.ones((network.n_neurons, 1), dtype=np.int64)
        s, t = (left[:, -1:], right[:, -1:]) if network.lifted else (ones, ones)
        left, right = left[:, order], right[:, order]
    else:
        left = right = network.Q.astype(np.int64)[:, order]
        s = t = np.ones((network.n_neurons, 1), dtype=np.int64)
        bias = network.bias.reshape(network.n_outputs)
    kappa = b / (2.0 * a) if a else 1.0
    rest = offset + factor * ((c - a * kappa**2) * (s * t * alpha).sum(axis=0) + bias)
    if a == 0.0:
        # Only the linear part b/2 (t p + s q) is left. The weight takes the 1/2, so the symmetric form has integers.
        zeros = np.zeros_like(s)
        left, right = np.hstack([t * left + s * right, zeros]), np.hstack([0 * right, zeros + 1])
        return ExactNetwork(left, right, kappa, factor * (0.5 * b) * alpha, rest, is_product=False)
    if kappa:
        left, right = np.hstack([left, s]), np.hstack([right, t])
    return ExactNetwork(left, right, kappa, factor * a * alpha, rest, is_product=True)


def _exact_form(form: IntegerForm, order: npt.NDArray[Any], offset: FloatArray, factor: FloatArray) -> ExactNetwork:
    """Write a quadratic form as neurons: one side selects an input, and the other is that input's row."""
    a, b, c = form.activation.coefficients if form.activation else (1.0, 0.0, 0.0)
    lifted = form.activation is not None and form.activation.lifted
    at = np.append(order, form.n_inputs) if lifted else order
    matrices = form.matrices[:, at][:, :, at]
    common = np.maximum(np.gcd.reduce(matrices, axis=(1, 2)), 1)
    matrices = matrices // common[:, None, None]
    C, D = len(matrices), len(at)
    kappa = b / (2.0 * a) if a else 1.0
    corner = matrices[:, -1, -1] if lifted else np.zeros(C, dtype=np.int64)
    scales = factor * form.scales * common
    rest = offset + scales * (c - a * kappa**2) * corner
    served = np.eye(C, dtype=np.int64)
    if a == 0.0:
        last = np.eye(D, dtype=np.int64)[-1:]
        # The left side is doubled and the weight halved, so that the symmetric form has integers.
        left, right, alpha = 2 * matrices[:, -1] * (1 - last), np.repeat(last, C, axis=0), 0.5 * b * scales * served
        return ExactNetwork(left, right, kappa, alpha, rest, is_product=False)
    left, right = np.tile(np.eye(D, dtype=np.int64), (C, 1)), matrices.reshape(C * D, D)
    return ExactNetwork(left, right, kappa if lifted else 0.0, np.repeat(a * scales * served, D, axis=0), rest, False)


def _scaled_kappa(kappa: float, unit: Fraction, digits: int, reach: float) -> tuple[int, int, float]:
    """Choose the smallest sufficient gain; return it, kappa as an integer in units over the gain, and its error.

    Kappa must be exact or have enough digits, or projections (bounded by `reach`) be so large that its error is small.
    """
    if kappa == 0.0:
        return 1, 0, 0.0
    gain = 1
    while True:
        exact = Fraction(kappa) / unit * gain
        rounded = round(exact) or (1 if kappa > 0.0 else -1)
        error = abs(rounded - exact)
        enough = abs(rounded) >= 2 ** (digits - 1) or gain >= 2**digits or gain * reach >= 2 ** (digits + _MORE_DIGITS)
        if error <= EXACT * abs(exact) or enough:
            return gain, rounded, float(error)
        gain *= 2


def _grouped(exact: ExactNetwork, weights: FloatArray) -> tuple[IntArray, FloatArray, IntArray | None]:
    """Return left weights, second-layer weights, and the sizes of groups of equal second-layer weights, if any.

    The sign of a neuron's only weight moves to its left side if this creates groups.
    """
    sizes = _sizes(weights)
    if not exact.is_product:
        return exact.left, weights, sizes
    if sizes is not None or np.array_equal(exact.left, exact.right) or np.any((weights != 0.0).sum(axis=1) > 1):
        return exact.left, weights, sizes
    sizes = _sizes(np.abs(weights))
    if sizes is None:
        return exact.left, weights, None
    signs = np.where(weights.sum(axis=1) < 0.0, -1, 1)
    return exact.left * signs[:, None], np.abs(weights), sizes


def _sizes(weights: FloatArray) -> IntArray | None:
    shared = shared_columns(weights)
    return None if shared is None else np.array(shared[0], dtype=np.int64)


def _quantized(weights: FloatArray, rest: FloatArray, digits: int, common: bool) -> tuple[FloatArray, IntArray]:
    """Quantize weights to units of shape (C,) times integers of shape (k, C), exactly if possible.

    Units are small enough to represent the constants `rest`, of shape (C,), to a few bits.
    """
    groups = [slice(None)] if common else [slice(k, k + 1) for k in range(weights.shape[1])]
    units, alpha = np.ones(weights.shape[1]), np.zeros(weights.shape, dtype=np.int64)
    for group in groups:
        units[group] = _unit(weights[:, group], rest[group], digits)
        alpha[:, group] = np.rint(weights[:, group] / units[group])
    return units, alpha


def common_unit(sizes: FloatArray, digits: int) -> float | None:
    """Return the smallest size if all sizes are multiples of it, at most 2^digits times as large; else None."""
    smallest = float(sizes.min())
    ratios = sizes / smallest
    exact = ratios.max() <= 2**digits and np.all(np.abs(ratios - np.rint(ratios)) <= EXACT * ratios)
    return smallest if exact else None


def _unit(weights: FloatArray, rest: FloatArray, digits: int) -> float:
    sizes = np.abs(weights[weights != 0.0])
    if not sizes.size:
        return float(np.abs(rest).max()) / 2**digits or 1.0
    smallest = common_unit(sizes, digits)
    if smallest is None:
        return float(sizes.max() / (2**digits - 1))
    misfit = rest / smallest
    if np.any(np.abs(misfit - np.rint(misfit)) > ROUNDING) and np.all(np.abs(misfit) < 2.0**digits):
        return float(smallest / 2**_REST_BITS)
    return smallest
