"""Values, gradients and curvatures of the losses without kinks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from qsdp._utils.validation import FloatArray
from qsdp.losses import Loss

__all__ = ["LOSSES", "Curvature", "Fit"]


@dataclass(frozen=True, eq=False)
class Curvature:
    r"""Second derivatives of a loss at n samples: Diag(h), less :math:`p p^T` where the outputs are coupled.

    Attributes
    ----------
    diagonal : ndarray of shape (n, C)
    coupling : ndarray of shape (n, C) or None
    """

    diagonal: FloatArray
    coupling: FloatArray | None = None

    def times(self, change: FloatArray) -> FloatArray:
        """Return the change of the gradient for a change of the predictions."""
        product = self.diagonal * change
        if self.coupling is not None:
            product -= self.coupling * np.sum(self.coupling * change, axis=1, keepdims=True)
        return product


class Fit:
    """A loss without kinks, for given targets.

    Parameters
    ----------
    loss : Loss
    target : ndarray of shape (n, C)
    """

    def __init__(self, loss: Loss, target: FloatArray) -> None:
        self.loss, self.target = loss, target

    def value(self, prediction: FloatArray) -> float:
        """Return the value."""
        return self.loss.value(prediction, self.target)

    def gradient(self, prediction: FloatArray) -> FloatArray:
        """Return the gradient in the prediction."""
        return self.loss.gradient(prediction, self.target)

    def curvature(self, prediction: FloatArray) -> Curvature:
        """Return the second derivative, where it jumps that of one side."""
        if self.loss.coupled:
            # The gradient of the cross-entropy, the only coupled loss, is p - y.
            p = self.gradient(prediction) + self.target
            return Curvature(p, p)
        return Curvature(_SECOND[self.loss.name](self.loss, prediction, self.target))


def _huber(loss: Loss, t: FloatArray, y: FloatArray) -> FloatArray:
    return np.where(2.0 * np.abs(t - y) <= loss.lipschitz, 2.0, 0.0)


def _logistic(loss: Loss, t: FloatArray, y: FloatArray) -> FloatArray:
    curvature: FloatArray = expit(t) * expit(-t)
    return curvature


_SECOND: dict[str, Callable[[Loss, FloatArray, FloatArray], FloatArray]] = {
    "squared": lambda loss, t, y: np.full_like(t, 2.0),
    "huber": _huber,
    "squared_hinge": lambda loss, t, y: np.where(y * t < 1.0, 2.0, 0.0),
    "logistic": _logistic,
}

#: Names of the losses with a curvature; those with kinks have none at an optimum, where predictions rest on them.
LOSSES = frozenset({*_SECOND, "cross_entropy"})
