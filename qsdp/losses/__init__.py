"""Convex losses: value, subgradient, Fenchel conjugate, proximal operator and CVXPY form of each.

Every loss is a SUM over samples, never a mean.
"""

from __future__ import annotations

from qsdp._utils.validation import check_choice
from qsdp.losses._base import Loss
from qsdp.losses._cross_entropy import CrossEntropy
from qsdp.losses._scalar import Absolute, Hinge, Huber, Logistic, Squared, SquaredHinge

__all__ = [
    "LOSSES",
    "SCALAR_LOSSES",
    "Absolute",
    "CrossEntropy",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Squared",
    "SquaredHinge",
    "get_loss",
]

#: Losses of one output; on targets of shape (n, C) they add up over the outputs.
SCALAR_LOSSES: dict[str, type[Loss]] = {
    loss.name: loss for loss in (Squared, Absolute, Huber, Logistic, Hinge, SquaredHinge)
}

LOSSES: dict[str, type[Loss]] = {**SCALAR_LOSSES, CrossEntropy.name: CrossEntropy}


def get_loss(loss: str | Loss) -> Loss:
    """Return the loss of a name, with its default parameters; a `Loss` is returned as it is.

    Examples
    --------
    >>> get_loss("huber")
    Huber(delta=1.0)
    >>> get_loss(Huber(delta=0.5))
    Huber(delta=0.5)
    """
    if isinstance(loss, Loss):
        return loss
    return LOSSES[check_choice("loss", loss, LOSSES)]()
