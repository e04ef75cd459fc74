"""Degree-two polynomial activations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qsdp._utils.numeric import CANCELLED, ROUNDING
from qsdp._utils.validation import LARGEST, SMALLEST, FloatArray, check_choice, check_numbers, check_real
from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = ["ACTIVATIONS", "BILINEAR", "PolynomialActivation", "activation_name", "get_activation"]


@dataclass(frozen=True)
class PolynomialActivation:
    r"""Activation :math:`\sigma(t) = a t^2 + b t + c`.

    Parameters
    ----------
    a, b, c : float
        Finite, not all zero.

    Examples
    --------
    >>> import numpy as np
    >>> relu_like = PolynomialActivation.fit_to(lambda t: np.maximum(t, 0.0), (-5.0, 5.0))
    >>> relu_like
    PolynomialActivation(a=0.09375, b=0.5, c=0.46875)
    >>> float(relu_like(2.0))
    1.84375
    """

    a: float
    b: float
    c: float

    def __post_init__(self) -> None:
        for name in ("a", "b", "c"):
            value = getattr(self, name)
            number = check_real(f"activation coefficient {name}", value, minimum=-math.inf)
            object.__setattr__(self, name, number)
        if self.a == self.b == self.c == 0.0:
            raise InvalidInputError("activation must have a coefficient other than zero; got (0, 0, 0)")

    @property
    def coefficients(self) -> tuple[float, float, float]:
        """``(a, b, c)``."""
        return self.a, self.b, self.c

    def __iter__(self) -> Iterator[float]:
        """Iterate over the coefficients: ``a, b, c = activation``."""
        return iter(self.coefficients)

    @property
    def lifted(self) -> bool:
        """Whether there is a linear or constant part, which requires one more coordinate per neuron."""
        return self.b != 0.0 or self.c != 0.0

    def __call__(self, t: Any) -> FloatArray:
        """Evaluate :math:`a t^2 + b t + c`, elementwise."""
        t = np.asarray(t, dtype=np.float64)
        value: FloatArray = (self.a * t + self.b) * t + self.c
        return value

    @classmethod
    def fit_to(
        cls, function: Callable[[FloatArray], Any], interval: tuple[float, float] = (-1.0, 1.0)
    ) -> PolynomialActivation:
        r"""Fit an activation to `function` by least squares on an interval.

        .. math:: \min_{a,b,c} \int_l^h (a t^2 + b t + c - \phi(t))^2 \,dt

        Parameters
        ----------
        function : callable
            Function that maps an array of points to an array of values, such as ``numpy.tanh``.
        interval : (float, float), default=(-1, 1)
            Range (l, h) of the relevant pre-activations, with l < h.

        Notes
        -----
        The function is projected onto the first three Legendre polynomials by Gauss quadrature. The two halves of
        the interval are integrated separately, so that kinks in the middle (ReLU or absolute value on a symmetric
        interval) are integrated exactly.
        """
        low, high = _check_interval(interval)
        if not callable(function):
            raise InvalidTypeError(f"function must be callable; got {type(function).__name__}")
        middle, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        if not (SMALLEST <= half <= LARGEST and half >= ROUNDING * abs(middle)):
            raise InvalidInputError(f"interval is too wide, too narrow or too far from zero; got {interval!r}")
        nodes, weights = np.polynomial.legendre.leggauss(100)
        points = np.concatenate([0.5 * (nodes - 1.0), 0.5 * (nodes + 1.0)])
        weights = 0.5 * np.concatenate([weights, weights])
        values = check_numbers("the values of function", function(middle + half * points), f"{points.shape}")
        if values.shape != points.shape:
            raise InvalidInputError(
                f"function must return {points.size} finite values for as many points; got shape {values.shape}"
            )
        basis = np.polynomial.legendre.legvander(points, 2)
        projected = (basis.T * weights) @ values * (np.arange(3) + 0.5)
        # From Legendre polynomials of the centred variable u = (t - middle) / half to powers of t.
        powers = np.polynomial.legendre.leg2poly(projected)
        c0, c1, c2 = np.append(powers, np.zeros(3 - len(powers)))
        slope = middle / half
        exact = np.array([c2 / half / half, (c1 - 2.0 * c2 * slope) / half, (c2 * slope - c1) * slope + c0])
        return cls(*_simplest(exact, middle + half * points, float(np.abs(values).max())))

    def __str__(self) -> str:
        return f"{self.a:g} t^2 {self.b:+g} t {self.c:+g}"


#: Name for networks without activation, whose neurons are products of two projections.
BILINEAR = "bilinear"

#: Presets by name. "relu_like" is the least-squares fit to ReLU on [-5, 5], to four digits.
ACTIVATIONS: dict[str, PolynomialActivation] = {
    "quadratic": PolynomialActivation(1.0, 0.0, 0.0),
    "relu_like": PolynomialActivation(0.0937, 0.5, 0.4688),
    "linear_quadratic": PolynomialActivation(0.1, 1.0, 0.0),
}


_NOT_QUADRATIC = (
    "bounds and certificates are of networks that are quadratic functions of x, so an activation is a polynomial of "
    "degree two: PolynomialActivation.fit_to approximates others on an interval"
)
_HAS_RELU = (
    f"{_NOT_QUADRATIC}, 'relu_like' is the one of ReLU on [-5, 5]; ReLUNetworkClassifier and ReLUNetworkRegressor of "
    "qsdp.baselines have ReLUs"
)

#: Activations of other networks, and the reasons why they are not supported.
_EXCLUDED = {
    **dict.fromkeys(
        ("sigmoid", "logistic", "tanh", "sign", "step", "heaviside", "softmax", "softplus"), _NOT_QUADRATIC
    ),
    **dict.fromkeys(("relu", "elu", "gelu", "leaky_relu", "silu", "swish"), _HAS_RELU),
}


def get_activation(
    activation: str | Sequence[float] | PolynomialActivation | None,
) -> PolynomialActivation | None:
    """Create an activation from a name or coefficients; None and "bilinear" give None.

    Parameters
    ----------
    activation : None, str, (a, b, c) or PolynomialActivation
        Names are "quadratic" for t^2, "relu_like" for 0.0937 t^2 + 0.5 t + 0.4688 (fitted to ReLU on [-5, 5]) and
        "linear_quadratic" for t + 0.1 t^2.

    Raises
    ------
    InvalidInputError
        The coefficients are not three finite numbers or are all zero, the name is unknown, or it names an activation
        that is not a polynomial of degree two. In the last case, the message gives the reason.
    """
    if activation is None or isinstance(activation, PolynomialActivation):
        return activation
    if isinstance(activation, str):
        if activation == BILINEAR:
            return None
        if activation in _EXCLUDED:
            listing = ", ".join(repr(name) for name in (BILINEAR, *ACTIVATIONS))
            raise InvalidInputError(
                f"activation must be one of {listing}; {activation!r} is excluded: {_EXCLUDED[activation]}"
            )
        return ACTIVATIONS[check_choice("activation", activation, [BILINEAR, *ACTIVATIONS])]
    values = list(activation) if _is_sequence(activation) else []
    if len(values) != 3:
        raise InvalidTypeError(
            f"activation must be None, a name or three finite numbers (a, b, c); got {activation!r:.60}"
        )
    return PolynomialActivation(*values)


def activation_name(activation: PolynomialActivation | None) -> str:
    """Return the name of an activation or, without a name, its coefficients separated by commas."""
    if activation is None:
        return BILINEAR
    polynomial = "polynomial " + ",".join(f"{value:g}" for value in activation.coefficients)
    return next((name for name, preset in ACTIVATIONS.items() if preset == activation), polynomial)


def _is_sequence(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 1
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def _check_interval(interval: Any) -> tuple[float, float]:
    if not _is_sequence(interval) or len(interval) != 2:
        raise InvalidTypeError(f"interval must be two finite numbers l < h; got {interval!r}")
    low, high = (check_real("interval", end, minimum=-math.inf) for end in interval)
    if not low < high:
        raise InvalidInputError(f"interval must be two finite numbers l < h; got {interval!r}")
    return low, high


def _simplest(coefficients: FloatArray, points: FloatArray, size: float) -> list[float]:
    """Replace fitted coefficients by zeros or shorter decimals where the values agree up to rounding errors.

    Quadrature gives 1e-17 for a coefficient of zero, which would add a coordinate to every neuron.
    """
    for mask in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (1, 0, 1), (0, 1, 1), (1, 1, 1)):
        fitted = coefficients * mask
        if fitted.any() and np.abs(np.polyval(fitted - coefficients, points)).max() <= CANCELLED * size:
            break
    short = np.array([float(f"{value:.14g}") for value in fitted])
    if np.abs(np.polyval(short - fitted, points)).max() <= ROUNDING * size:
        fitted = short
    return [float(value) for value in fitted]
