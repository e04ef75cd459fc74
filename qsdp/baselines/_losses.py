"""The losses of `qsdp.losses` in PyTorch, for automatic gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qsdp.baselines._torch import require_torch
from qsdp.exceptions import InvalidInputError
from qsdp.losses import Absolute, CrossEntropy, Hinge, Huber, Logistic, Loss, Squared, SquaredHinge

__all__ = ["torch_loss"]

#: Margin from which on log(1 + exp(m)) is m in double precision.
_LINEAR = 40.0


def torch_loss(loss: Loss) -> Callable[[Any, Any], Any]:
    """Return ``loss.value`` as a function of tensors; its gradient is ``loss.gradient``, kinks included.

    Raises
    ------
    InvalidInputError
        The loss is of a class of the user's own, which automatic gradients cannot follow.
    """
    form = _FORMS.get(type(loss))
    if form is None:
        raise InvalidInputError(
            f"loss must be one of {', '.join(sorted(repr(kind.name) for kind in _FORMS))} for training by gradients; "
            f"got {loss!r}, of which PyTorch knows no gradient"
        )
    return lambda prediction, target: form(require_torch(), loss, prediction, target)


def _squared(torch: Any, loss: Any, t: Any, y: Any) -> Any:
    return (t - y).square().sum()


def _absolute(torch: Any, loss: Any, t: Any, y: Any) -> Any:
    return (t - y).abs().sum()


def _huber(torch: Any, loss: Any, t: Any, y: Any) -> Any:
    # Twice PyTorch's, as CVXPY has it.
    return 2.0 * torch.nn.functional.huber_loss(t, y, reduction="sum", delta=loss.delta)


def _logistic(torch: Any, loss: Any, t: Any, y: Any) -> Any:
    return torch.nn.functional.softplus(-y * t, threshold=_LINEAR).sum()


def _hinge(torch: Any, loss: Any, t: Any, y: Any) -> Any:
    return torch.relu(1.0 - y * t).sum()


def _squared_hinge(torch: Any, loss: Any, t: Any, y: Any) -> Any:
    return torch.relu(1.0 - y * t).square().sum()


def _cross_entropy(torch: Any, loss: Any, t: Any, y: Any) -> Any:
    return (torch.logsumexp(t, dim=1) - (t * y).sum(dim=1)).sum()


_FORMS: dict[type[Loss], Callable[[Any, Any, Any, Any], Any]] = {
    Squared: _squared,
    Absolute: _absolute,
    Huber: _huber,
    Logistic: _logistic,
    Hinge: _hinge,
    SquaredHinge: _squared_hinge,
    CrossEntropy: _cross_entropy,
}
