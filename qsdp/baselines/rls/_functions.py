"""Output activations, and losses of the linear outputs."""

from __future__ import annotations

import math
from typing import Any

import numpy.typing as npt

from qsdp._utils.validation import check_choice
from qsdp.activations import Identity, InvertibleActivation, Softmax, get_invertible
from qsdp.exceptions import InvalidInputError
from qsdp.losses import LOSSES

__all__ = [
    "CLASSIFIER_LOSSES",
    "REGRESSOR_LOSSES",
    "check_loss",
    "check_output",
    "loss_and_gradient",
]

Array = npt.NDArray[Any]

CLASSIFIER_LOSSES = ("squared", "cross_entropy")
REGRESSOR_LOSSES = ("squared", "absolute", "huber")


def check_output(activation: object, eps: object, n_outputs: int) -> tuple[InvertibleActivation, float]:
    """Return the output activation and the margin of its targets; what has no inverse is refused with the reason."""
    checked = get_invertible("output_activation", activation)
    if isinstance(checked, Softmax) and n_outputs < 2:
        raise InvalidInputError("output_activation 'softmax' needs two outputs at least; it is constant for one")
    return checked, checked.check_eps("eps_target", eps)


def check_loss(loss: object, allowed: tuple[str, ...], *, hybrid: bool, output: InvertibleActivation) -> str:
    """Return the name of a loss, and refuse what the derivation excludes with the reason."""
    name = check_choice("loss", loss, allowed)
    if name != "squared" and not hybrid:
        raise InvalidInputError(
            f"loss {name!r} is excluded by the derivation of recursive least squares for the output layer, which "
            "solves a least-squares problem in the linear outputs: take loss='squared', or hybrid=True, which "
            "trains the output layer by Adam"
        )
    if name != "squared" and not isinstance(output, Identity):
        raise InvalidInputError(
            f"output_activation must be 'identity' with loss {name!r}, which takes the linear outputs; got "
            f"{output.name!r}"
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
