"""Activations with derivatives, inverses of output activations, and losses per sample."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax

from qsdp._validation import FloatArray, check_choice
from qsdp.exceptions import InvalidInputError
from qsdp.losses import LOSSES

__all__ = [
    "ACTIVATIONS",
    "CLASSIFIER_LOSSES",
    "OUTPUTS",
    "REGRESSOR_LOSSES",
    "Activation",
    "check_loss",
    "check_output",
    "linear_targets",
    "loss_and_gradient",
]

Array = npt.NDArray[Any]

#: Distance that targets keep from the ends of the range of a bounded output activation.
TARGET_MARGIN = 1e-3

CLASSIFIER_LOSSES = ("squared", "cross_entropy")
REGRESSOR_LOSSES = ("squared", "absolute", "huber")


@dataclass(frozen=True)
class Activation:
    """Elementwise function and its derivative, written in the function's value y: both are cheap where y is known."""

    function: Callable[[Array], Array]
    derivative: Callable[[Array], Array]


#: Of hidden layers; none has to be invertible.
ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation(lambda z: np.maximum(z, 0.0), lambda y: (y > 0.0).astype(y.dtype)),
    "tanh": Activation(np.tanh, lambda y: 1.0 - y * y),
    "sigmoid": Activation(expit, lambda y: y * (1.0 - y)),
    "identity": Activation(lambda z: z, np.ones_like),
}


def _logit(y: FloatArray) -> FloatArray:
    y = np.clip(y, TARGET_MARGIN, 1.0 - TARGET_MARGIN)
    values: FloatArray = np.log(y / (1.0 - y))
    return values


def _artanh(y: FloatArray) -> FloatArray:
    values: FloatArray = np.arctanh(np.clip(y, -1.0 + TARGET_MARGIN, 1.0 - TARGET_MARGIN))
    return values


def _softplus_inverse(y: FloatArray) -> FloatArray:
    y = np.maximum(y, TARGET_MARGIN)
    values: FloatArray = y + np.log(-np.expm1(-y))
    return values


def _centred_logarithm(y: FloatArray) -> FloatArray:
    # The softmax forgets a constant a row; the one that makes the row's mean zero is chosen.
    logarithms = np.log(np.maximum(y, TARGET_MARGIN))
    values: FloatArray = logarithms - logarithms.mean(axis=-1, keepdims=True)
    return values


#: Output activations: the function, and its inverse on targets, with a margin at the ends of its range.
OUTPUTS: dict[str, tuple[Callable[[FloatArray], FloatArray] | None, Callable[[FloatArray], FloatArray]]] = {
    "identity": (None, lambda y: y),
    "sigmoid": (expit, _logit),
    "tanh": (np.tanh, _artanh),
    "softplus": (lambda z: np.logaddexp(0.0, z), _softplus_inverse),
    "softmax": (lambda z: softmax(z, axis=-1), _centred_logarithm),
}

#: Known activations that no least-squares problem in the linear outputs can stand for.
_NOT_INVERTIBLE = ("relu", "relu6", "hardtanh", "gelu", "silu", "sign", "step")


def check_output(activation: object, n_outputs: int) -> str:
    """Return the name of an output activation that has an inverse, and refuse others with the reason."""
    if isinstance(activation, str) and activation in _NOT_INVERTIBLE:
        raise InvalidInputError(
            f"output_activation {activation!r} has no inverse: least squares of the output layer needs the desired "
            f"linear outputs f^-1(y); take one of {', '.join(map(repr, OUTPUTS))}, or hybrid=True with another loss"
        )
    name = check_choice("output_activation", activation, OUTPUTS)
    if name == "softmax" and n_outputs < 2:
        raise InvalidInputError("output_activation 'softmax' needs two outputs at least; it is constant for one")
    return name


def linear_targets(targets: FloatArray, activation: str) -> FloatArray:
    r"""Return the desired linear outputs :math:`Z^* = f^{-1}(Y^*)`.

    Targets at the ends of a bounded range, such as one-hot rows, are drawn inside by `TARGET_MARGIN` first.

    Parameters
    ----------
    targets : ndarray of shape (n, C) or (n, T, C)
    activation : {"identity", "sigmoid", "tanh", "softplus", "softmax"}
    """
    return OUTPUTS[activation][1](targets)


def check_loss(loss: object, allowed: tuple[str, ...], *, hybrid: bool, output_activation: str) -> str:
    """Return the name of a loss, and refuse what the derivation excludes with the reason."""
    name = check_choice("loss", loss, allowed)
    if name != "squared" and not hybrid:
        raise InvalidInputError(
            f"loss {name!r} is excluded by the derivation of recursive least squares for the output layer, which "
            "solves a least-squares problem in the linear outputs: take loss='squared', or hybrid=True, which "
            "trains the output layer by Adam"
        )
    if name != "squared" and output_activation != "identity":
        raise InvalidInputError(
            f"output_activation must be 'identity' with loss {name!r}, which takes the linear outputs; got "
            f"{output_activation!r}"
        )
    return name


def loss_and_gradient(loss: str, outputs: Array, targets: Array) -> tuple[float, Array]:
    r"""Return a loss per sample and its gradient in the linear outputs.

    The squared loss is :math:`\frac{1}{2M} \|Z - Z^*\|_F^2`: halved, summed over outputs, mean over samples; all
    others are sums over outputs and means over samples.
    """
    share = (0.5 if loss == "squared" else 1.0) / len(outputs)
    function = LOSSES[loss]()
    value, gradient = function.value(outputs, targets), function.gradient(outputs, targets)
    return (share * value if math.isfinite(value) else math.nan), share * gradient
