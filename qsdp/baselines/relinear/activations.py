"""Activations between quadratic layers: allowed ones, and why others are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from qsdp._utils.validation import FloatArray, check_choice
from qsdp.baselines._layers import relu
from qsdp.exceptions import InvalidInputError

__all__ = ["ACTIVATIONS", "check_activation", "relu"]


#: Elementwise functions by name; None is the identity.
ACTIVATIONS: dict[str, Callable[[FloatArray], FloatArray] | None] = {"relu": relu, "identity": None, "tanh": np.tanh}

#: Names that are refused with a reason of their own.
_EXCLUDED = {
    **dict.fromkeys(
        ("square", "quadratic", "polynomial"),
        "a square after linear layers is the competitor of the quadratic neuron: family='square_act'",
    ),
    **dict.fromkeys(
        ("sign", "step", "heaviside"), "its derivative is 0 almost everywhere, so that nothing below it would learn"
    ),
    "softmax": "the loss 'cross_entropy' has it, the network's outputs are log odds",
}


def check_activation(activation: Any) -> str:
    """Return the name of an activation."""
    reason = _EXCLUDED.get(activation) if isinstance(activation, str) else None
    if reason is not None:
        raise InvalidInputError(f"activation cannot be {activation!r}: {reason}")
    return check_choice("activation", activation, ACTIVATIONS)
