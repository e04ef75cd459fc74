"""Values, gradients and curvatures of the losses, those with kinks rounded off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from qsdp._validation import FloatArray
from qsdp.losses import Loss

__all__ = ["Curvature", "Fit"]


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
    r"""A loss for given targets, or its Moreau envelope, which lies at most :math:`n \mu L^2 / 2` below it.

    Parameters
    ----------
    loss : Loss
    target : ndarray of shape (n, C)
    mu : float
        Of the envelope; used for losses with kinks only. Gradients are in the conjugate's domain for every mu.
    """

    def __init__(self, loss: Loss, target: FloatArray, mu: float = 0.0) -> None:
        self.loss, self.target, self.mu = loss, target, mu if not loss.smooth else 0.0

    def value(self, prediction: FloatArray) -> float:
        """Return the value."""
        if not self.mu:
            return self.loss.value(prediction, self.target)
        nearest = self.loss.prox(prediction, self.target, self.mu)
        return self.loss.value(nearest, self.target) + float(np.sum((prediction - nearest) ** 2)) / (2.0 * self.mu)

    def envelope_error(self, prediction: FloatArray) -> float:
        """Return by how much the value is below that of the loss."""
        return self.loss.value(prediction, self.target) - self.value(prediction) if self.mu else 0.0

    def gradient(self, prediction: FloatArray) -> FloatArray:
        """Return the gradient in the prediction."""
        if not self.mu:
            return self.loss.gradient(prediction, self.target)
        return (prediction - self.loss.prox(prediction, self.target, self.mu)) / self.mu

    def curvature(self, prediction: FloatArray) -> Curvature:
        """Return the second derivative, where it jumps that of one side."""
        if self.loss.coupled:
            # The gradient of the cross-entropy, the only coupled loss, is p - y.
            p = self.loss.gradient(prediction, self.target) + self.target
            return Curvature(p, p)
        if self.mu:
            # The prox rests on a kink exactly where the envelope is curved.
            slope = np.abs(self.gradient(prediction))
            inside = (slope > 0.0) & (slope < self.loss.lipschitz)
            return Curvature(np.where(inside, 1.0 / self.mu, 0.0))
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
