"""Activations of layers that need not be polynomials: functions with derivatives or inverses."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit, logit, softmax

from qsdp._utils.validation import FloatArray, _show, check_choice, check_real
from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = [
    "DIFFERENTIABLE",
    "ELU",
    "INVERTIBLE",
    "Activation",
    "Identity",
    "InvertibleActivation",
    "LeakyReLU",
    "ReLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
    "get_differentiable",
    "get_invertible",
]


@dataclass(frozen=True)
class Activation(ABC):
    """A callable function a of pre-activations of shape (n, C); instances compare by class and parameters."""

    name: ClassVar[str]

    @abstractmethod
    def __call__(self, Z: FloatArray) -> FloatArray:
        """Return a(Z)."""

    def backward(self, G: FloatArray, A: FloatArray) -> FloatArray:
        """Return the gradient with respect to Z from the gradient G with respect to A = a(Z)."""
        raise NotImplementedError(f"{type(self).__name__} does not define backward, its derivative")


@dataclass(frozen=True)
class ReLU(Activation):
    r"""The rectifier :math:`\max(0, z)`."""

    name = "relu"

    def __call__(self, Z: FloatArray) -> FloatArray:
        """Return max(0, Z)."""
        return np.maximum(Z, 0.0)

    def backward(self, G: FloatArray, A: FloatArray) -> FloatArray:
        """Return the gradient with respect to Z, with derivative 0 at the kink."""
        return G * (A > 0.0)


@dataclass(frozen=True)
class InvertibleActivation(Activation):
    r"""A function a that is invertible on its range, with a rule for values outside that range.

    A desired value p outside the open range has no pre-activation. It is moved to the nearest point inside, at
    distance :math:`\epsilon` from the end of the range, so that :math:`a^{-1}` stays finite.
    """

    #: Ends of the range, and distance from them to which desired hidden values are clipped.
    low: ClassVar[float] = -math.inf
    high: ClassVar[float] = math.inf
    hidden_eps: ClassVar[float] = 1e-2

    @abstractmethod
    def _inverse(self, P: FloatArray) -> FloatArray:
        """Return the pre-activations of values that lie inside the range."""

    @property
    def domain(self) -> tuple[float, float]:
        """Open interval of the values of the function."""
        return self.low, self.high

    def default_eps(self, width: int) -> float:
        """Return the default distance from the ends to which values of a layer of `width` neurons are clipped."""
        return self.hidden_eps

    def check_eps(self, name: str, eps: object) -> float:
        """Return `eps` if it leaves a nonempty range: it must be > 0 and below half the width of a bounded domain."""
        number = check_real(name, eps, strict=True)
        low, high = self.domain
        # A range that is bounded on one side may be clipped towards zero but not beyond it.
        limit = (high - low) / 2 if math.isfinite(high - low) else -low if low < 0.0 else math.inf
        if number >= limit and math.isfinite(low):
            raise InvalidInputError(f"{name} must be > 0 and < {limit:g} for {self.name}; got {_show(eps)}")
        return number

    def outside(self, P: FloatArray, eps: float) -> float:
        """Return the fraction of the entries of P that `inverse` clips."""
        low, high = self._cut(eps)
        return float(np.mean((low > P) | (high < P))) if P.size else 0.0

    def inverse(self, P: FloatArray, eps: float) -> FloatArray:
        """Return the pre-activations of values P (n, C), first clipped to distance `eps` from the ends of the range."""
        return self._inverse(np.clip(P, *self._cut(eps)))

    def _cut(self, eps: float) -> tuple[float, float]:
        low, high = self.domain
        return low + eps, high - eps


@dataclass(frozen=True)
class Identity(InvertibleActivation):
    """No activation: a linear layer."""

    name = "identity"

    def __call__(self, Z: FloatArray) -> FloatArray:
        """Return Z."""
        return Z

    def backward(self, G: FloatArray, A: FloatArray) -> FloatArray:
        """Return G."""
        return G

    def _inverse(self, P: FloatArray) -> FloatArray:
        return P


@dataclass(frozen=True)
class Sigmoid(InvertibleActivation):
    r"""Logistic sigmoid :math:`1 / (1 + e^{-z})`, with range (0, 1)."""

    name = "sigmoid"
    low, high = 0.0, 1.0

    def __call__(self, Z: FloatArray) -> FloatArray:
        """Return the sigmoid of every entry."""
        values: FloatArray = expit(Z)
        return values

    def backward(self, G: FloatArray, A: FloatArray) -> FloatArray:
        """Return G A (1 - A)."""
        return G * (A * (1.0 - A))

    def _inverse(self, P: FloatArray) -> FloatArray:
        values: FloatArray = logit(P)
        return values


@dataclass(frozen=True)
class Tanh(InvertibleActivation):
    """Hyperbolic tangent, with range (-1, 1)."""

    name = "tanh"
    low, high = -1.0, 1.0

    def __call__(self, Z: FloatArray) -> FloatArray:
        """Return tanh(Z)."""
        return np.tanh(Z)

    def backward(self, G: FloatArray, A: FloatArray) -> FloatArray:
        """Return G (1 - A²)."""
        return G * (1.0 - A * A)

    def _inverse(self, P: FloatArray) -> FloatArray:
        return np.arctanh(P)


@dataclass(frozen=True)
class Softplus(InvertibleActivation):
    r"""Softplus :math:`\log(1 + e^z)`, with range (0, inf)."""

    name = "softplus"
    low = 0.0

    def __call__(self, Z: FloatArray) -> FloatArray:
        """Return log(1 + exp(Z))."""
        return np.logaddexp(0.0, Z)

    def _inverse(self, P: FloatArray) -> FloatArray:
        # This is log(exp(p) - 1), without the overflow of exp.
        values: FloatArray = P + np.log(-np.expm1(-P))
        return values


@dataclass(frozen=True)
class ELU(InvertibleActivation):
    r"""ELU: :math:`z` for :math:`z > 0`, else :math:`\alpha (e^z - 1)`, with range :math:`(-\alpha, \infty)`.

    Parameters
    ----------
    alpha : float, default=1.0
    """

    alpha: float = 1.0
    name = "elu"

    def __post_init__(self) -> None:
        check_real("alpha", self.alpha, strict=True)

    @property
    def domain(self) -> tuple[float, float]:
        """Open interval of the values of the function."""
        return -self.alpha, math.inf

    def default_eps(self, width: int) -> float:
        """Return the base class's default, or a tenth of alpha if that is smaller."""
        return min(self.hidden_eps, 0.1 * self.alpha)

    def __call__(self, Z: FloatArray) -> FloatArray:
        """Return Z where it is positive, else alpha (exp(Z) - 1)."""
        return np.where(Z > 0.0, Z, self.alpha * np.expm1(np.minimum(Z, 0.0)))

    def _inverse(self, P: FloatArray) -> FloatArray:
        return np.where(P > 0.0, P, np.log1p(np.minimum(P, 0.0) / self.alpha))


@dataclass(frozen=True)
class LeakyReLU(InvertibleActivation):
    r"""Leaky ReLU: :math:`z` for :math:`z > 0`, else `slope` times z; its range is the real line, without clipping.

    Parameters
    ----------
    slope : float, default=0.1
        Slope for negative z, above 0. A slope of 0 would give ReLU, which has no inverse.
    """

    slope: float = 0.1
    name = "leaky_relu"

    def __post_init__(self) -> None:
        check_real("slope", self.slope, strict=True)

    def __call__(self, Z: FloatArray) -> FloatArray:
        """Return Z where it is positive, else slope Z."""
        return np.where(Z > 0.0, Z, self.slope * Z)

    def _inverse(self, P: FloatArray) -> FloatArray:
        return np.where(P > 0.0, P, P / self.slope)


@dataclass(frozen=True)
class Softmax(InvertibleActivation):
    r"""Softmax :math:`e^{z_k} / \sum_j e^{z_j}` of a row, which is injective only up to a constant per row.

    The inverse is the centred logarithm, :math:`\log p_k - \frac1C \sum_j \log p_j`. Values are clipped only
    from below, as desired values need not sum to one.
    """

    name = "softmax"
    low, high = 0.0, 1.0

    def __call__(self, Z: FloatArray) -> FloatArray:
        """Return the softmax of every row."""
        values: FloatArray = softmax(Z, axis=1)
        return values

    def default_eps(self, width: int) -> float:
        """Return a twentieth of the mean value, which is 1 / `width`."""
        return 0.05 / width

    def _cut(self, eps: float) -> tuple[float, float]:
        return eps, math.inf

    def _inverse(self, P: FloatArray) -> FloatArray:
        logarithms = np.log(P)
        centred: FloatArray = logarithms - logarithms.mean(axis=1, keepdims=True)
        return centred


#: Activations between layers trained by gradients, by name; they need not be invertible.
DIFFERENTIABLE: dict[str, Callable[[], Activation]] = {kind.name: kind for kind in (Sigmoid, Tanh, ReLU, Identity)}

#: Activations with an inverse, by name.
INVERTIBLE: dict[str, Callable[[], InvertibleActivation]] = {
    kind.name: kind for kind in (Identity, Sigmoid, Tanh, Softplus, ELU, LeakyReLU, Softmax)
}

_REFUSED = {
    "relu": "it maps all negative numbers to 0 and has no inverse",
    "relu6": "it is constant below 0 and above 6 and has no inverse",
    "hardtanh": "it is constant outside [-1, 1] and has no inverse",
    "hard_sigmoid": "it is constant at both ends and has no inverse",
    "sign": "it takes two values and has no inverse",
    "step": "it takes two values and has no inverse",
    "quadratic": "it takes every value twice and has no inverse",
    "gelu": "it falls and rises again and has no inverse",
    "silu": "it falls and rises again and has no inverse",
    "swish": "it falls and rises again and has no inverse",
    "mish": "it falls and rises again and has no inverse",
    "softminus": "the paper names it and defines it nowhere",
}


def get_differentiable(
    name: str, value: object, refused: Mapping[str, str], allowed: Collection[str] = DIFFERENTIABLE
) -> Activation:
    """Return the named activation for layers trained by gradients.

    Parameters
    ----------
    name : str
        Name of the argument, for error messages.
    value : str
    refused : dict of str
        Names that a method's derivation excludes, with the reasons.
    allowed : collection of str
        Names that the method supports, if not all.

    Raises
    ------
    InvalidInputError
        The name is unknown or excluded; if excluded, the message states the reason.
    """
    return DIFFERENTIABLE[check_choice(name, value, allowed, refused)]()


def get_invertible(name: str, value: object) -> InvertibleActivation:
    """Return the named activation, or an instance unchanged.

    Parameters
    ----------
    name : str
        Name of the argument, for error messages.
    value : str or InvertibleActivation

    Raises
    ------
    InvalidInputError
        The activation has no inverse, which is needed to turn desired outputs into desired pre-activations. The
        message gives the reason.
    """
    if isinstance(value, InvertibleActivation):
        return value
    if isinstance(value, str) and value.lower() in _REFUSED:
        raise InvalidInputError(
            f"{name} must be invertible, as desired outputs are turned into desired pre-activations; {value!r} is not "
            f"possible: {_REFUSED[value.lower()]}. Use {', '.join(map(repr, sorted(INVERTIBLE)))}"
        )
    if callable(value):
        raise InvalidTypeError(
            f"{name} must be a name or an InvertibleActivation, which has an inverse; got {_show(value)}"
        )
    return INVERTIBLE[check_choice(name, value, INVERTIBLE)]()
