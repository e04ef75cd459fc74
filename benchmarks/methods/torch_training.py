"""Helpers for systems of other papers that train by PyTorch, beside those of `qsdp.baselines`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qsdp.baselines._torch import require_torch, torch_loss
from qsdp.losses import get_loss


def mean_loss(name: str) -> Callable[[Any, Any], Any]:
    """Return the mean of a named loss over samples, as a function of tensors."""
    total = torch_loss(get_loss(name))
    return lambda prediction, target: total(prediction, target) / len(prediction)


def fill_normal(tensor: Any, deviation: float, generator: Any = None) -> None:
    """Fill a tensor with draws from N(0, deviation²); it and the generator may be on any devices."""
    _fill(tensor, "normal_", 0.0, deviation, generator)


def fill_uniform(tensor: Any, bound: float, generator: Any = None) -> None:
    """Fill a tensor with draws from [-bound, bound]; it and the generator may be on any devices."""
    _fill(tensor, "uniform_", -bound, bound, generator)


def _fill(tensor: Any, method: str, first: float, second: float, generator: Any) -> None:
    if generator is None or generator.device == tensor.device:
        getattr(tensor, method)(first, second, generator=generator)
        return
    # PyTorch draws only on the generator's device. Generators from `seeded` are on the CPU, so that initial weights do
    # not depend on the device.
    drawn = require_torch().empty(tensor.shape, dtype=tensor.dtype, device=generator.device)
    tensor.copy_(getattr(drawn, method)(first, second, generator=generator))


def state_of(network: Any) -> dict[str, Any]:
    """Return a copy of a module's parameters and buffers."""
    return {name: tensor.clone() for name, tensor in network.state_dict().items()}
