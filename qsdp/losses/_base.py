"""What every loss knows."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.exceptions import InvalidInputError

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["Loss"]

_LABELS_SHOWN = 5


class Loss(abc.ABC):
    """A convex loss, summed over samples; instances are immutable and compare by value.

    Arrays are not checked: predictions, duals and targets are float64 arrays of one shape.

    Attributes
    ----------
    name : str
        The name `get_loss` knows the loss by.
    labels : bool
        True if targets are the labels -1 and +1.
    smooth : bool
        True if the loss is differentiable in the prediction everywhere.
    bounded_dual : bool
        True if the conjugate's domain is bounded, that is, if `lipschitz` is finite.
    coupled : bool
        True if the outputs of one sample enter together, so that targets have the shape (n, C).
    cones : frozenset of str
        What a conic solver needs besides linear inequalities: "quadratic", "exponential" or nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from qsdp.losses import get_loss
    >>> loss = get_loss("squared")
    >>> loss.value(np.array([1.0, 2.0]), np.array([0.0, 4.0]))
    5.0
    """

    name: ClassVar[str]
    labels: ClassVar[bool] = False
    smooth: ClassVar[bool]
    bounded_dual: ClassVar[bool]
    cones: ClassVar[frozenset[str]]
    coupled: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def lipschitz(self) -> float:
        """Least Lipschitz constant of the scalar loss in its prediction; ``math.inf`` if there is none."""

    @abc.abstractmethod
    def value(self, prediction: FloatArray, target: FloatArray) -> float:
        """Return ``sum_i loss(prediction_i, target_i)``."""

    @abc.abstractmethod
    def gradient(self, prediction: FloatArray, target: FloatArray) -> FloatArray:
        """Return the gradient in the prediction; at a kink, the subgradient zero."""

    @abc.abstractmethod
    def conjugate(self, dual: FloatArray, target: FloatArray) -> float:
        """Return ``sum_i sup_t (dual_i t - loss(t, target_i))``.

        The domain is tested without any tolerance: the result is ``math.inf`` one rounding error
        outside it, so apply `project_dual` first to a dual that was computed.
        """

    @abc.abstractmethod
    def project_dual(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """Return the point of the conjugate's domain that is nearest to `dual`."""

    @abc.abstractmethod
    def prox(self, point: FloatArray, target: FloatArray, step: float) -> FloatArray:
        """Return ``argmin_t step * loss(t, target) + (t - point)^2 / 2`` elementwise, for ``step > 0``."""

    @abc.abstractmethod
    def expression(self, prediction: cp.Expression, target: FloatArray) -> cp.Expression:
        """Return `value` as a convex CVXPY expression in `prediction`."""

    @abc.abstractmethod
    def rescaled(self, scale: float) -> tuple[Loss, float]:
        """Return ``(other, factor)`` with ``loss(scale t, scale y) = factor * other(t, y)``.

        The scale is positive, and 1 for label losses: labels name classes and are never scaled.
        """

    def encode_target(self, target: FloatArray) -> FloatArray:
        """Return the targets as the other methods expect them, from what a user passes as ``y``."""
        return target

    def check_target(self, target: FloatArray) -> None:
        """Raise `InvalidInputError` unless a label loss's targets are -1 and +1, with both present."""
        if not self.labels:
            return
        columns = target.T if target.ndim == 2 else [target]
        for column in columns:
            self._check_labels(column)

    def _check_labels(self, target: FloatArray) -> None:
        found = np.unique(target).tolist()
        if found != [-1, 1]:
            shown = ", ".join(repr(label) for label in found[:_LABELS_SHOWN])
            more = f", ... ({len(found)} distinct values)" if len(found) > _LABELS_SHOWN else ""
            raise InvalidInputError(
                f"y must hold the labels -1 and +1 only, and both of them, for the {self.name} loss; "
                f"found {shown or 'nothing'}{more}"
            )
