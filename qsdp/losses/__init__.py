"""Convex losses, each completely defined by one class, and their weighted sums over a data set.

Every objective is a SUM over samples, never a mean.
"""

from __future__ import annotations

from qsdp._utils.validation import check_choice
from qsdp.exceptions import InvalidTypeError
from qsdp.losses._checking import check_loss
from qsdp.losses._cross_entropy import CrossEntropy
from qsdp.losses._data_fit import DataFit
from qsdp.losses._logistic import Logistic
from qsdp.losses._loss import ClassLoss, Curvature, Linearization, Loss
from qsdp.losses._piecewise import Absolute, Hinge, Huber, PiecewiseQuadratic, Squared, SquaredHinge

__all__ = [
    "LOSSES",
    "SCALAR_LOSSES",
    "Absolute",
    "ClassLoss",
    "CrossEntropy",
    "Curvature",
    "DataFit",
    "Hinge",
    "Huber",
    "Linearization",
    "Logistic",
    "Loss",
    "PiecewiseQuadratic",
    "Squared",
    "SquaredHinge",
    "check_loss",
    "get_loss",
]

#: Scalar losses by name; on targets of shape (n, C) they add up over the outputs.
SCALAR_LOSSES: dict[str, type[Loss]] = {
    loss.name: loss for loss in (Squared, Absolute, Huber, Logistic, Hinge, SquaredHinge)
}

LOSSES: dict[str, type[Loss]] = {**SCALAR_LOSSES, CrossEntropy.name: CrossEntropy}


def get_loss(loss: str | Loss) -> Loss:
    """Return the named loss with its default parameters, or a `Loss` instance unchanged.

    Examples
    --------
    >>> get_loss("huber")
    Huber(delta=1.0)
    >>> get_loss(Huber(delta=0.5))
    Huber(delta=0.5)
    """
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str):
        raise InvalidTypeError(
            f"loss must be one of {', '.join(map(repr, sorted(LOSSES)))}, or an instance of a subclass of "
            f"qsdp.losses.Loss, such as Huber(delta=0.5); got {loss!r:.60}"
        )
    return LOSSES[check_choice("loss", loss, LOSSES)]()
