"""Checks of the estimators' parameters, before any work."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import _show, check_choice, check_flag, check_integer, check_real
from qsdp.activations import Identity, InvertibleActivation, Softmax, get_differentiable, get_invertible
from qsdp.baselines._estimator import check_hidden
from qsdp.baselines.rls._settings import RLSSettings
from qsdp.exceptions import InvalidInputError
from qsdp.losses import LOSSES

__all__ = [
    "CLASSIFIER_LOSSES",
    "REGRESSOR_LOSSES",
    "Checked",
    "check_loss",
    "check_output",
    "checked",
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


@dataclass(frozen=True)
class Checked:
    """Parameters in the form that training takes.

    Attributes
    ----------
    widths : list of int
        Of the hidden layers.
    settings : RLSSettings
    rates : list of float
        A learning rate for each layer that recursive least squares trains.
    clip : float or None
    adam : float or None
        Learning rate of the output layer in the hybrid.
    output : InvertibleActivation
    eps : float
        Margin of the targets.
    """

    widths: list[int]
    settings: RLSSettings
    rates: list[float]
    clip: float | None
    adam: float | None
    output: InvertibleActivation
    eps: float


def checked(given: Any, losses: tuple[str, ...], n_outputs: int) -> Checked:
    """Return an estimator's parameters, checked."""
    widths = check_hidden(given.hidden)
    get_differentiable("activation", given.activation, {})
    check_flag("hybrid", given.hybrid)
    output, eps = check_output(given.output_activation, given.eps_target, n_outputs)
    check_loss(given.loss, losses, hybrid=given.hybrid, output=output)
    if given.hybrid and not widths:
        raise InvalidInputError("hybrid=True trains hidden layers by RLS and needs one at least; hidden is empty")
    settings = RLSSettings.of(given)
    rates = _rates(given.learning_rate, len(widths), given.hybrid)
    clip = None if given.clip is None else check_real("clip", given.clip, strict=True)
    adam = check_real("adam_learning_rate", given.adam_learning_rate, strict=True)
    check_integer("n_epochs", given.n_epochs, minimum=1)
    check_integer("batch_size", given.batch_size, minimum=1)
    check_choice("dtype", given.dtype, ("float32", "float64"))
    check_flag("verbose", given.verbose)
    return Checked(widths, settings, rates, clip, adam if given.hybrid else None, output, eps)


def _rates(given: Any, n_hidden: int, hybrid: bool) -> list[float]:
    """Return a learning rate a layer; one number is that of the hidden ones, the output layer having 1."""
    n_layers = n_hidden + (not hybrid)
    if not isinstance(given, (list, tuple, np.ndarray)):
        rate = check_real("learning_rate", given, strict=True)
        return [rate] * n_hidden + [1.0 if n_hidden else rate] * (not hybrid)
    if len(given) != n_layers:
        raise InvalidInputError(
            f"learning_rate must be one number, of the hidden layers, or {n_layers}, one a layer that RLS trains; "
            f"got {_show(given)}"
        )
    return [check_real("learning_rate", rate, strict=True) for rate in given]
