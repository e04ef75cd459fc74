"""The estimators' network in PyTorch: the same steps as `NumpyRLS`, on any device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from qsdp.baselines.rls._settings import Settings
from qsdp.baselines.rls.optimizer import RLS
from qsdp.baselines.rls.torch_losses import TORCH_LOSSES

__all__ = ["TorchRLS"]

Array = npt.NDArray[Any]

_MODULES = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "identity": nn.Identity}


class TorchRLS:
    """Trains a fully connected network by minibatches, from given first parameters (n_in + 1, n_out).

    It has the face of `NumpyRLS`.
    """

    def __init__(
        self,
        thetas: Sequence[Array],
        activation: str,
        settings: Settings,
        learning_rates: Sequence[float],
        *,
        clip: float | None,
        adam_learning_rate: float | None,
        device: Any,
    ) -> None:
        self.dtype, self.device = torch.from_numpy(thetas[0]).dtype, device
        parts: list[nn.Module] = []
        for theta in thetas:
            linear = nn.Linear(len(theta) - 1, theta.shape[1], dtype=self.dtype, device=device)
            parts += [linear, _MODULES[activation]()]
        self.model = nn.Sequential(*parts[:-1])
        self.linears = [part for part in parts if isinstance(part, nn.Linear)]
        self.set_parameters(thetas)
        names = [str(2 * number) for number in range(len(thetas))]
        excluded = [] if adam_learning_rate is None else names[-1:]
        self.optimizer = RLS(
            self.model,
            dict(zip(names[: len(names) - len(excluded)], learning_rates, strict=True)),
            **vars(settings),
            clip=clip,
            exclude=excluded,
            rest=None if adam_learning_rate is None else partial(torch.optim.Adam, lr=adam_learning_rate),
        )

    @property
    def n_clipped(self) -> int:
        """Number of steps whose gradient was clipped."""
        return self.optimizer.n_clipped

    @property
    def n_steps(self) -> int:
        """Number of steps."""
        return self.optimizer.n_steps

    def step(self, X: Array, targets: Array, loss: str = "squared") -> float:
        """Make one step on a minibatch, and return its loss before it."""
        value = TORCH_LOSSES[loss](self.model(self._tensor(X)), self._tensor(targets))
        self.optimizer.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return float(value.detach())

    def parameters(self) -> list[Array]:
        """Return a copy of the parameters, weights over bias."""
        return [
            np.vstack([linear.weight.detach().T.cpu().numpy(), linear.bias.detach().cpu().numpy()])
            for linear in self.linears
        ]

    @torch.no_grad()
    def set_parameters(self, thetas: Sequence[Array]) -> None:
        """Set the parameters, weights over bias."""
        for linear, theta in zip(self.linears, thetas, strict=True):
            linear.weight.copy_(torch.from_numpy(np.ascontiguousarray(theta[:-1].T)))
            linear.bias.copy_(torch.from_numpy(theta[-1]))

    def _tensor(self, values: Array) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device, self.dtype)
