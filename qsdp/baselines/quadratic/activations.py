"""Elementwise activations whose derivative is a function of their value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from qsdp._utils.validation import FloatArray, check_choice
from qsdp.baselines._layers import relu
from qsdp.exceptions import InvalidInputError

__all__ = ["ACTIVATIONS", "Activation", "check_activation"]


@dataclass(frozen=True)
class Activation:
    """A function g and its derivative as a function of the value a = g(z); None for the identity.

    Attributes
    ----------
    name : str
    function : callable or None
    slope : callable or None
    """

    name: str
    function: Callable[[FloatArray], FloatArray] | None
    slope: Callable[[FloatArray], FloatArray] | None


def _relu_slope(a: FloatArray) -> FloatArray:
    return (a > 0.0).astype(np.float64)


def _sigmoid_slope(a: FloatArray) -> FloatArray:
    return a * (1.0 - a)


def _tanh_slope(a: FloatArray) -> FloatArray:
    return 1.0 - a * a


ACTIVATIONS = {
    activation.name: activation
    for activation in (
        Activation("sigmoid", expit, _sigmoid_slope),
        Activation("tanh", np.tanh, _tanh_slope),
        Activation("relu", relu, _relu_slope),
        Activation("identity", None, None),
    )
}

_FLAT = "its derivative g' is 0 wherever it exists, and every delta of the layers before is a multiple of g'"

#: What the derivation excludes, and why.
_EXCLUDED = {
    "sign": _FLAT,
    "step": _FLAT,
    "heaviside": _FLAT,
    "softmax": "the deltas A(46), A(70) are products with an elementwise g'; softmax mixes the neurons of a layer",
    "maxout": "the deltas A(46), A(70) are products with an elementwise g'; maxout mixes the neurons of a layer",
}


def check_activation(name: str, value: object) -> Activation:
    """Return an activation by name.

    Raises
    ------
    InvalidInputError
        It is none that back-propagation can train, with the reason, or an unknown one.
    """
    if isinstance(value, str) and value in _EXCLUDED:
        listing = ", ".join(repr(choice) for choice in ACTIVATIONS)
        raise InvalidInputError(f"{name} must be one of {listing}; {value!r} is excluded: {_EXCLUDED[value]}")
    return ACTIVATIONS[check_choice(name, value, ACTIVATIONS)]
