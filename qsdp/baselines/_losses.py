"""The losses of `qsdp.losses` in PyTorch: the one registry of all systems trained by automatic gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qsdp.baselines._torch import require_torch
from qsdp.exceptions import InvalidInputError
from qsdp.losses import Absolute, CrossEntropy, Hinge, Huber, Logistic, Loss, Squared, SquaredHinge, get_loss

__all__ = ["mean_loss", "torch_loss"]

#: Margin from which on log(1 + exp(m)) is m in double precision.
_LINEAR = 40.0


def torch_loss(loss: Loss) -> Callable[[Any, Any], Any]:
    """Return ``loss.value`` as a function of tensors; its gradient is ``loss.gradient``, kinks included.

    The cross-entropy takes class numbers as well as one-hot rows.

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


def mean_loss(name: str) -> Callable[[Any, Any], Any]:
    """Return the mean over samples of a loss by name."""
    total = torch_loss(get_loss(name))
    return lambda prediction, target: total(prediction, target) / len(prediction)


def _cross_entropy(torch: Any, loss: Any, t: Any, y: Any) -> Any:
    if y.is_floating_point():
        return (torch.logsumexp(t, dim=1) - (t * y).sum(dim=1)).sum()
    return torch.nn.functional.cross_entropy(t, y, reduction="sum")


_FORMS: dict[type[Loss], Callable[[Any, Any, Any, Any], Any]] = {
    Squared: lambda torch, loss, t, y: (t - y).square().sum(),
    Absolute: lambda torch, loss, t, y: (t - y).abs().sum(),
    # Twice PyTorch's, as CVXPY has it.
    Huber: lambda torch, loss, t, y: 2.0 * torch.nn.functional.huber_loss(t, y, reduction="sum", delta=loss.delta),
    Logistic: lambda torch, loss, t, y: torch.nn.functional.softplus(-y * t, threshold=_LINEAR).sum(),
    Hinge: lambda torch, loss, t, y: torch.relu(1.0 - y * t).sum(),
    SquaredHinge: lambda torch, loss, t, y: torch.relu(1.0 - y * t).square().sum(),
    CrossEntropy: _cross_entropy,
}
