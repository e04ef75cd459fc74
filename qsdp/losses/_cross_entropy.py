"""The cross-entropy of several classes, whose outputs are coupled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import logsumexp, softmax, xlogy

from qsdp._utils.numeric import EPS
from qsdp._utils.validation import FloatArray, check_real
from qsdp.exceptions import InvalidInputError
from qsdp.losses._base import Loss

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["CrossEntropy"]

#: Far more than the five to ten that the prox takes.
_NEWTON_STEPS = 60


@dataclass(frozen=True)
class CrossEntropy(Loss):
    r"""Cross-entropy :math:`\log \sum_k e^{t_k} - t_y` of the outputs t of a sample of class y.

    Targets are one-hot rows, predictions and duals have their shape (n, C). The conjugate is the negative
    entropy :math:`\sum_k p_k \log p_k` of :math:`p = u + y` on the probability simplex, elsewhere infinite.
    """

    name: ClassVar[str] = "cross_entropy"
    smooth: ClassVar[bool] = True
    bounded_dual: ClassVar[bool] = True
    cones: ClassVar[frozenset[str]] = frozenset({"exponential"})
    coupled: ClassVar[bool] = True

    @property
    def lipschitz(self) -> float:
        """Two, the largest 1-norm of a gradient: the constant of a sample in the infinity norm."""
        return 2.0

    def value(self, prediction: FloatArray, target: FloatArray) -> float:
        """Return ``sum_i log(sum_k exp t_ik) - t_i . y_i``."""
        return float(np.sum(logsumexp(prediction, axis=1) - np.sum(prediction * target, axis=1)))

    def gradient(self, prediction: FloatArray, target: FloatArray) -> FloatArray:
        """Return ``softmax(t) - y``."""
        gradient: FloatArray = softmax(prediction, axis=1) - target
        return gradient

    def conjugate(self, dual: FloatArray, target: FloatArray) -> float:
        """Return the negative entropy of ``p = u + y``; rows may miss the sum one by rounding only."""
        p = dual + target
        rounding = 8.0 * p.shape[1] * EPS
        if not (np.all(p >= -rounding) and np.all(np.abs(p.sum(axis=1) - 1.0) <= rounding)):
            return math.inf
        p = np.maximum(p, 0.0)
        return float(np.sum(xlogy(p, p)))

    def project_dual(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """Move ``u + y`` to the nearest point of the simplex, row by row."""
        return _project_simplex(dual + target) - target

    def prox(self, point: FloatArray, target: FloatArray, step: float) -> FloatArray:
        r"""Solve :math:`t + \mathrm{step}\,(\mathrm{softmax}(t) - y) = \mathrm{point}`, row by row.

        Notes
        -----
        With q = point + step y, every :math:`t_k` solves :math:`t_k + e^{t_k + \lambda} = q_k`, where
        :math:`\lambda = \log \mathrm{step} - \log \sum e^{t}`, so that
        :math:`t_k = q_k - \omega(q_k + \lambda)` with Wright's omega function, and the sum of the omegas is
        step. That sum is increasing and convex in :math:`\lambda` (:math:`\omega' = \omega / (1 + \omega)`), so
        Newton's method descends to the root from any point above it.
        """
        from scipy.special import wrightomega

        q = point + step * target
        # omega(x) <= step for every entry and equality for the largest alone: the root is below.
        shift = step + math.log(step) - q.max(axis=1, keepdims=True)
        omega = wrightomega(q + shift)
        for _ in range(_NEWTON_STEPS):
            excess = omega.sum(axis=1, keepdims=True) - step
            shift = shift - excess / (omega / (1.0 + omega)).sum(axis=1, keepdims=True)
            omega = wrightomega(q + shift)
            if np.all(excess <= 1e-14 * step):
                break
        solution: FloatArray = q - omega * (step / omega.sum(axis=1, keepdims=True))
        return solution

    def expression(self, prediction: cp.Expression, target: FloatArray) -> cp.Expression:
        """Return the sum of CVXPY's ``log_sum_exp`` atoms less the outputs of the true classes."""
        import cvxpy as cp

        return cp.sum(cp.log_sum_exp(prediction, axis=1)) - cp.sum(cp.multiply(prediction, target))

    def rescaled(self, scale: float) -> tuple[Loss, float]:
        """Return ``(self, 1.0)`` for ``scale = 1``; other scales are refused, labels are never scaled."""
        if check_real("scale", scale, strict=True) != 1.0:
            raise InvalidInputError(f"scale must be 1 for the {self.name} loss; got {scale!r}")
        return self, 1.0

    def encode_target(self, target: FloatArray) -> FloatArray:
        """Return one-hot rows from class numbers 0 .. C - 1 of shape (n,); one-hot rows stay."""
        if target.ndim == 2:
            return target
        classes = np.unique(target)
        if not np.array_equal(classes, np.arange(len(classes))):
            shown = ", ".join(f"{value:g}" for value in classes[:5])
            raise InvalidInputError(
                "y must hold class numbers 0, 1, ..., C - 1, each of them present, or one-hot rows of shape "
                f"(n, C), for the cross_entropy loss; found {shown}{', ...' if len(classes) > 5 else ''}"
            )
        one_hot: FloatArray = np.eye(len(classes))[target.astype(np.intp)]
        return one_hot

    def check_target(self, target: FloatArray) -> None:
        """Raise `InvalidInputError` unless rows are one-hot, of two classes or more, each present."""
        if target.ndim != 2 or not np.all((target == 0) | (target == 1)) or not np.all(target.sum(axis=1) == 1):
            raise InvalidInputError(
                "y must have one-hot rows (one 1, the rest 0) of shape (n, C) for the cross_entropy loss, "
                "or class numbers of shape (n,)"
            )
        if target.shape[1] < 2:
            raise InvalidInputError("y must have two classes or more for the cross_entropy loss; got one")
        if not np.all(target.any(axis=0)):
            absent = np.flatnonzero(~target.any(axis=0)).tolist()
            raise InvalidInputError(f"y must have every class present in training; without a sample: {absent}")


def _project_simplex(points: FloatArray) -> FloatArray:
    """Return the nearest point of the probability simplex to each row."""
    # Adding a constant to a row moves nothing; huge ones would leave no digits for the differences.
    points = points - points.max(axis=1, keepdims=True)
    descending = -np.sort(-points, axis=1)
    excess = (np.cumsum(descending, axis=1) - 1.0) / np.arange(1, points.shape[1] + 1)
    last = np.sum(descending > excess, axis=1, keepdims=True) - 1
    projected: FloatArray = np.maximum(points - np.take_along_axis(excess, last, axis=1), 0.0)
    # Rows far from the simplex lose digits in the subtraction; dividing makes the sum one again.
    on_simplex: FloatArray = projected / projected.sum(axis=1, keepdims=True)
    return on_simplex
