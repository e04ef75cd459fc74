"""Polynomial pieces of a ReLU network of one input: the intervals on which it is a polynomial, and the polynomials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import Chebyshev, chebyshev

from qsdp._utils.validation import FloatArray, check_real
from qsdp.baselines import TrainedLayer, relu
from qsdp.exceptions import InvalidInputError
from qsdp.networks import QuadraticForm

__all__ = ["Piece", "polynomial_pieces"]

#: Position at which an interval is sampled, as a share of it. At the middle, a neuron may happen to touch zero.
_INSIDE = 0.43701602444882104

#: Distance from an end, as a share of half an interval, up to which a root counts as the end itself.
_AT_END = 1e-9

#: Coefficients below this share of the largest one count as rounding errors.
_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class Piece:
    r"""An interval on which a network is :math:`\sum_k a_k x^k`.

    Attributes
    ----------
    low, high : float
    coefficients : ndarray of shape (2^H + 1,)
        Coefficients :math:`a_0, a_1, \dots` of the powers of x, for H quadratic layers.
    taylor : ndarray of shape (2^H + 1,)
        Coefficients of the same polynomial in powers of x minus the middle of the interval.
    """

    low: float
    high: float
    coefficients: FloatArray
    taylor: FloatArray

    def __call__(self, x: FloatArray) -> FloatArray:
        """Return the values at points of the interval."""
        middle = 0.5 * (self.low + self.high)
        return np.asarray(np.polynomial.polynomial.polyval(np.asarray(x) - middle, self.taylor), dtype=np.float64)


def polynomial_pieces(layers: Sequence[TrainedLayer], low: float, high: float) -> list[Piece]:
    """Return the polynomial pieces of a network of one input and one output on an interval.

    Parameters
    ----------
    layers : sequence of TrainedLayer
        Layers such as ``layers_`` of an estimator, with the activation `relu` or none.
    low, high : float
        The interval.

    Returns
    -------
    list of Piece
        Pieces in order; neighbouring pieces have different polynomials.

    Raises
    ------
    InvalidInputError
        A layer has another activation, so that the network is not a piecewise polynomial.

    Notes
    -----
    On the intervals found so far, the pre-activations of the next layer are polynomials. They are interpolated at
    Chebyshev points, and their roots, where a neuron switches, divide the intervals further.

    Examples
    --------
    >>> import numpy as np
    >>> from qsdp import QuadraticForm
    >>> from qsdp.baselines import TrainedLayer, relu
    >>> from benchmarks.papers.fan.pieces import polynomial_pieces
    >>> hidden = TrainedLayer(QuadraticForm([[[1.0]]], [[0.0]], [-1.0]), relu)
    >>> layers = [hidden, TrainedLayer(QuadraticForm([[[0.0]]], [[2.0]]))]
    >>> [(round(piece.low, 9), round(piece.high, 9)) for piece in polynomial_pieces(layers, -2.0, 2.0)]
    [(-2.0, -1.0), (-1.0, 1.0), (1.0, 2.0)]
    """
    low, high = check_real("low", low, minimum=-np.inf), check_real("high", high, minimum=-np.inf)
    if not low < high:
        raise InvalidInputError(f"low must be below high; got {low:g} and {high:g}")
    forms = _checked_forms(layers)
    edges = np.array([low, high])
    degree = 1
    for number, layer in enumerate(layers):
        degree *= 2 if np.any(forms[number].S) else 1
        if layer.activation is relu:
            edges = _divide(layers[: number + 1], forms, edges, degree)
    pieces: list[Piece] = []
    kept = low
    inside = edges[:-1] + _INSIDE * np.diff(edges)
    expansions = [_expansion(layers, forms, x, 0.0) for x in inside]
    for number, (right, coefficients) in enumerate(zip(edges[1:], expansions, strict=True)):
        last = number == len(expansions) - 1
        if not last and _same(coefficients, expansions[number + 1], max(abs(low), abs(high))):
            continue
        middle = 0.5 * (kept + right)
        pieces.append(Piece(float(kept), float(right), coefficients, _expansion(layers, forms, inside[number], middle)))
        kept = right
    return pieces


def _checked_forms(layers: Sequence[TrainedLayer]) -> list[QuadraticForm]:
    if not layers:
        raise InvalidInputError("layers must hold at least one layer; got none")
    for layer in layers:
        if layer.activation not in (None, relu):
            raise InvalidInputError(
                "layers must have the activation relu or none, the only ones with polynomial pieces; "
                f"got {layer.activation!r}"
            )
    forms = [QuadraticForm(*layer.form.to_quadratic_form().parts) for layer in layers]
    if forms[0].n_inputs != 1 or len(forms[-1].S) != 1:
        raise InvalidInputError(
            f"layers must have one input and one output; got {forms[0].n_inputs} and {len(forms[-1].S)}"
        )
    return forms


def _preactivations(layers: Sequence[TrainedLayer], forms: Sequence[QuadraticForm], x: FloatArray) -> FloatArray:
    """Return the pre-activations of the last of the layers, (points, units)."""
    H = x[:, None]
    for layer, form in zip(layers[:-1], forms, strict=False):
        H = layer.apply(form.predict(H))
    values: FloatArray = forms[len(layers) - 1].predict(H)
    return values


def _divide(
    layers: Sequence[TrainedLayer], forms: Sequence[QuadraticForm], edges: FloatArray, degree: int
) -> FloatArray:
    """Return the edges and the points at which a neuron of the last layer switches, in order."""
    nodes = chebyshev.chebpts1(degree + 1)
    middles, halves = 0.5 * (edges[:-1] + edges[1:]), 0.5 * np.diff(edges)
    points = middles[:, None] + halves[:, None] * nodes
    values = _preactivations(layers, forms, points.ravel()).reshape(*points.shape, -1)
    interpolate = np.linalg.inv(chebyshev.chebvander(nodes, degree))
    coefficients = np.einsum("kp,ipu->iuk", interpolate, values)
    added: list[FloatArray] = []
    for interval, (middle, half) in enumerate(zip(middles, halves, strict=True)):
        roots = [_roots(unit) for unit in coefficients[interval]]
        candidates = np.unique(np.concatenate([[-1.0, 1.0], *roots]))
        between = middle + half * (candidates[:-1] + _INSIDE * np.diff(candidates))
        signs = _preactivations(layers, forms, between) > 0.0
        switches = np.any(signs[1:] != signs[:-1], axis=1)
        added.append(middle + half * candidates[1:-1][switches])
    return np.unique(np.concatenate([edges, *added]))


def _roots(coefficients: FloatArray) -> FloatArray:
    """Return the real roots within (-1, 1) of a Chebyshev series."""
    size = np.abs(coefficients).max()
    if size == 0.0:
        return np.empty(0)
    trimmed = chebyshev.chebtrim(coefficients, _ROUNDING * size)
    roots = Chebyshev(trimmed).roots() if len(trimmed) > 1 else np.empty(0)
    real = roots.real[np.abs(roots.imag) < 1e-7]
    # A root at an end belongs to the neuron that made this point an end.
    within: FloatArray = real[np.abs(real) < 1.0 - _AT_END]
    return within


def _expansion(layers: Sequence[TrainedLayer], forms: Sequence[QuadraticForm], x: float, centre: float) -> FloatArray:
    """Return the network's polynomial around x, in powers of the distance from a centre."""
    P = np.array([[centre, 1.0]])
    H = np.array([[x]])
    for layer, form in zip(layers, forms, strict=True):
        z = form.predict(H)
        products = np.zeros((len(P), len(P), 2 * P.shape[1] - 1))
        for power in range(P.shape[1]):
            products[:, :, power : power + P.shape[1]] += P[:, None, power, None] * P[None, :, :]
        Z = np.einsum("kij,ijp->kp", form.S, products)
        Z[:, : P.shape[1]] += form.s @ P
        Z[:, 0] += form.s0
        P = Z if layer.activation is None else np.where(z[0, :, None] > 0.0, Z, 0.0)
        H = layer.apply(z)
    coefficients: FloatArray = P[0]
    return coefficients


def _same(first: FloatArray, second: FloatArray, reach: float) -> bool:
    """Return whether two polynomials agree on an interval around 0, up to rounding."""
    powers = max(reach, 1.0) ** np.arange(len(first))
    scale = float(np.sum(np.abs(first) * powers)) or 1.0
    return float(np.sum(np.abs(first - second) * powers)) <= 1e-12 * scale
