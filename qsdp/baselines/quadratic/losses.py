r"""The two losses whose derivative by the pre-activations is :math:`\hat y - y`, A(55)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from scipy.special import expit, logsumexp, softmax

from qsdp._utils.validation import FloatArray, check_choice
from qsdp.exceptions import InvalidInputError

__all__ = ["LOSSES", "BinaryCrossEntropy", "CrossEntropy", "OutputLoss", "check_loss"]


class OutputLoss(ABC):
    """A loss together with the output activation it belongs to, as functions of pre-activations (..., B, C)."""

    name: ClassVar[str]

    @abstractmethod
    def outputs(self, Z: FloatArray) -> FloatArray:
        """Return the network's outputs."""

    @abstractmethod
    def values(self, Z: FloatArray, Y: FloatArray) -> FloatArray:
        """Return the loss of every sample, (..., B)."""

    def delta(self, Z: FloatArray, Y: FloatArray) -> FloatArray:
        """Return the derivative by Z: outputs minus targets."""
        return self.outputs(Z) - Y


class BinaryCrossEntropy(OutputLoss):
    r"""Sigmoid outputs, :math:`-\sum_k y_k \ln \hat y_k + (1 - y_k) \ln(1 - \hat y_k)`, A(27), summed over outputs.

    Computed as :math:`\sum_k \ln(1 + e^{z_k}) - y_k z_k`, which does not overflow.
    """

    name = "binary_cross_entropy"

    def outputs(self, Z: FloatArray) -> FloatArray:
        """Return sigmoids."""
        sigmoids: FloatArray = expit(Z)
        return sigmoids

    def values(self, Z: FloatArray, Y: FloatArray) -> FloatArray:
        """Return sums over outputs of ln(1 + exp(z)) - y z."""
        losses: FloatArray = (np.logaddexp(0.0, Z) - Y * Z).sum(axis=-1)
        return losses


class CrossEntropy(OutputLoss):
    r"""Softmax outputs, :math:`-\sum_k y_k \ln \hat y_k` for rows of y that sum to one."""

    name = "cross_entropy"

    def outputs(self, Z: FloatArray) -> FloatArray:
        """Return the softmax of every row."""
        shares: FloatArray = softmax(Z, axis=-1)
        return shares

    def values(self, Z: FloatArray, Y: FloatArray) -> FloatArray:
        """Return ln(sum exp(z)) - y z."""
        losses: FloatArray = logsumexp(Z, axis=-1) - (Y * Z).sum(axis=-1)
        return losses


LOSSES: dict[str, OutputLoss] = {loss.name: loss for loss in (BinaryCrossEntropy(), CrossEntropy())}

#: Losses of this package and of other libraries that the algorithms do not minimise.
_EXCLUDED = ("squared", "absolute", "huber", "hinge", "squared_hinge", "logistic", "mse", "squared_error", "epsilon")


def check_loss(value: object) -> OutputLoss:
    """Return a loss by name.

    Raises
    ------
    InvalidInputError
        The algorithms are not derived for it, with the reason, or there is none of the name.
    """
    if isinstance(value, str) and value in _EXCLUDED:
        reason = "the algorithms start from delta = yhat - y, A(55), which holds for sigmoid outputs with the summed "
        reason += "binary cross-entropy and for softmax outputs with the cross-entropy only"
        raise InvalidInputError(f"loss must be one of {', '.join(map(repr, LOSSES))}; {value!r} is excluded: {reason}")
    return LOSSES[check_choice("loss", value, LOSSES)]
