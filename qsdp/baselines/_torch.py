"""Helpers for baselines that use PyTorch, which is imported only when they need it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from qsdp._utils.validation import _show
from qsdp.exceptions import InvalidInputError, MissingPackageError
from qsdp.losses import Absolute, CrossEntropy, Hinge, Huber, Logistic, Loss, Squared, SquaredHinge

#: Margin m above which log(1 + exp(m)) equals m in double precision.
_LINEAR = 40.0


def torch_loss(loss: Loss) -> Callable[[Any, Any], Any]:
    """Return ``loss.value`` as a function of tensors; its gradient is ``loss.gradient``, kinks included.

    The cross-entropy takes class numbers as well as one-hot rows.

    Raises
    ------
    InvalidInputError
        The loss is of a user-defined class, which automatic gradients cannot follow.
    """
    form = _FORMS.get(type(loss))
    if form is None:
        raise InvalidInputError(
            f"loss must be one of {', '.join(sorted(repr(kind.name) for kind in _FORMS))} for training by gradients; "
            f"got {loss!r}, for which PyTorch has no gradient"
        )
    return lambda prediction, target: form(require_torch(), loss, prediction, target)


def _cross_entropy(torch: Any, loss: Any, t: Any, y: Any) -> Any:
    if y.is_floating_point():
        return (torch.logsumexp(t, dim=1) - (t * y).sum(dim=1)).sum()
    return torch.nn.functional.cross_entropy(t, y, reduction="sum")


_FORMS: dict[type[Loss], Callable[[Any, Any, Any, Any], Any]] = {
    Squared: lambda torch, loss, t, y: (t - y).square().sum(),
    Absolute: lambda torch, loss, t, y: (t - y).abs().sum(),
    # Twice PyTorch's loss, as in CVXPY.
    Huber: lambda torch, loss, t, y: 2.0 * torch.nn.functional.huber_loss(t, y, reduction="sum", delta=loss.delta),
    Logistic: lambda torch, loss, t, y: torch.nn.functional.softplus(-y * t, threshold=_LINEAR).sum(),
    Hinge: lambda torch, loss, t, y: torch.relu(1.0 - y * t).sum(),
    SquaredHinge: lambda torch, loss, t, y: torch.relu(1.0 - y * t).square().sum(),
    CrossEntropy: _cross_entropy,
}


def require_torch() -> Any:
    """Import and return torch, or raise an error with installation instructions."""
    try:
        import torch
    except ImportError:
        raise MissingPackageError("this baseline needs PyTorch: pip install torch") from None
    return torch


def check_device(device: object) -> Any:
    """Return the torch device with a given name; None means the CPU."""
    torch = require_torch()
    try:
        chosen = torch.device("cpu" if device is None else device)
        torch.empty(0, device=chosen)
    except (RuntimeError, TypeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        raise InvalidInputError(
            f"device must be a torch device of this machine; got {_show(device)} ({first})"
        ) from None
    return chosen


def seeded(rng: np.random.Generator) -> Any:
    """Return a torch generator on the CPU with a seed drawn from `rng`."""
    return require_torch().Generator().manual_seed(int(rng.integers(2**63 - 1)))


def minibatches(n: int, size: int, generator: Any) -> Iterator[Any]:
    """Yield batches of `size` indices of n samples in a random order; the last batch may be smaller."""
    yield from require_torch().randperm(n, generator=generator).split(size)


def evaluate(network: Any, X: Any, block: int) -> Any:
    """Return a module's outputs for all rows in evaluation mode, `block` rows at a time."""
    torch = require_torch()
    training = network.training
    network.eval()
    with torch.no_grad():
        outputs = torch.cat([network(part) for part in torch.split(X, block)])
    network.train(training)
    return outputs


def training_epoch(
    optimizer: Any,
    backward: Callable[[Any], object],
    batches: Callable[[], Iterable[Any]],
    *,
    clipped: tuple[Any, float | None] = ((), None),
    project: Callable[[], None] | None = None,
    schedule: Any = None,
) -> Callable[[int], None]:
    """Return a function that trains for one epoch: the loop shared by all baselines that use automatic gradients.

    `backward` computes the gradients of a batch. `clipped` are parameters and the norm to which their gradients are
    clipped. `project` is called after every step, without gradients. The rate `schedule` advances between epochs.
    """
    torch = require_torch()
    tensors, clip = clipped

    def train(epoch: int) -> None:
        if schedule is not None and epoch:
            schedule.step()
        for batch in batches():
            optimizer.zero_grad()
            backward(batch)
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(tensors, clip)
            optimizer.step()
            if project is not None:
                with torch.no_grad():
                    project()

    return train
