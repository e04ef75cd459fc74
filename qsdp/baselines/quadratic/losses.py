r"""The two losses whose derivative by the pre-activations is :math:`\hat y - y`, A(55)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logsumexp, softmax

from qsdp._utils.validation import FloatArray, check_choice

__all__ = ["LOSSES", "OutputLoss", "check_loss"]


@dataclass(frozen=True)
class OutputLoss:
    """A loss together with the output activation it belongs to, as functions of pre-activations (..., B, C).

    `outputs` returns the network's outputs; `values` takes targets, too, and returns each sample's loss, (..., B).
    """

    name: str
    outputs: Callable[[FloatArray], FloatArray]
    values: Callable[[FloatArray, FloatArray], FloatArray]

    def delta(self, Z: FloatArray, Y: FloatArray) -> FloatArray:
        """Return the derivative by Z: outputs minus targets."""
        return self.outputs(Z) - Y


def _binary_cross_entropy(Z: FloatArray, Y: FloatArray) -> FloatArray:
    r"""Return :math:`-\sum_k y_k \ln \hat y_k + (1 - y_k) \ln(1 - \hat y_k)`, A(27), so that nothing overflows."""
    losses: FloatArray = (np.logaddexp(0.0, Z) - Y * Z).sum(axis=-1)
    return losses


def _softmax(Z: FloatArray) -> FloatArray:
    shares: FloatArray = softmax(Z, axis=-1)
    return shares


def _cross_entropy(Z: FloatArray, Y: FloatArray) -> FloatArray:
    r"""Return :math:`-\sum_k y_k \ln \hat y_k` for rows of y that sum to one."""
    losses: FloatArray = logsumexp(Z, axis=-1) - (Y * Z).sum(axis=-1)
    return losses


#: Sigmoid outputs with the sum of their losses, and softmax outputs.
LOSSES = {
    loss.name: loss
    for loss in (
        OutputLoss("binary_cross_entropy", expit, _binary_cross_entropy),
        OutputLoss("cross_entropy", _softmax, _cross_entropy),
    )
}

#: Losses of this package and of other libraries that the algorithms do not minimise, and why.
_EXCLUDED = dict.fromkeys(
    ("squared", "absolute", "huber", "hinge", "squared_hinge", "logistic", "mse", "squared_error", "epsilon"),
    "the algorithms start from delta = yhat - y, A(55), which holds for sigmoid outputs with the summed binary "
    "cross-entropy and for softmax outputs with the cross-entropy only",
)


def check_loss(value: object) -> OutputLoss:
    """Return a loss by name.

    Raises
    ------
    InvalidInputError
        The algorithms are not derived for it, with the reason, or there is none of the name.
    """
    return LOSSES[check_choice("loss", value, LOSSES, _EXCLUDED)]
