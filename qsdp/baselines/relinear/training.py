"""Training of a network by ReLinear: losses, optimisers, batches, schedules, the best epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from qsdp._utils.validation import FloatArray
from qsdp.baselines._history import Callback, History, train_epochs
from qsdp.baselines._losses import mean_loss
from qsdp.baselines._torch import minibatches, training_epoch
from qsdp.baselines.relinear.rules import ReLinear, parameter_groups, quadratic_parameters

__all__ = ["Plan", "predict_blocks", "train"]

#: Rows a pass takes at a time.
_BLOCK = 8192


@dataclass(frozen=True)
class Plan:
    """Checked settings of a training; names as in the estimators."""

    loss: str
    variant: str
    rates: tuple[float, float, float]
    n_epochs: int
    optimizer: str = "adam"
    shrinkage: Mapping[str, float | None] = field(default_factory=dict)
    shrink: str = "weights"
    momentum: float = 0.0
    weight_decay: float = 0.0
    decay: str = "linear"
    batch_size: int | None = None
    milestones: tuple[int, ...] = ()
    drop: float = 0.1

    def rule(self, network: nn.Module) -> ReLinear:
        """Return optimiser and variant for a network's parameters."""
        groups = parameter_groups(network, *self.rates, weight_decay=self.weight_decay, decay=self.decay)
        optimizer: torch.optim.Optimizer
        if self.optimizer == "adam":
            optimizer = torch.optim.Adam(groups, lr=self.rates[0], foreach=True)
        else:
            momentum = self.momentum if self.optimizer == "sgd" else 0.0
            optimizer = torch.optim.SGD(groups, lr=self.rates[0], momentum=momentum, foreach=True)
        return ReLinear(optimizer, self.variant, shrink=self.shrink, **self.shrinkage)

    def error(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss, a mean over samples (and outputs, of squares)."""
        mean: Tensor = mean_loss(self.loss)(outputs, targets)
        return mean if self.loss == "cross_entropy" else mean / outputs.shape[1]

    def batches(self, n: int, generator: torch.Generator) -> Iterable[Tensor | None]:
        """Return the samples of every step of an epoch; None is all of them."""
        if self.optimizer == "gd" or self.batch_size is None or self.batch_size >= n:
            return [None]
        return minibatches(n, self.batch_size, generator)


def train(
    network: nn.Module,
    data: TensorDataset,
    plan: Plan,
    score: Callable[[FloatArray, Any], float],
    history: History,
    generator: torch.Generator,
    *,
    validation: TensorDataset | None = None,
    callback: Callback | None = None,
    verbose: bool = False,
    name: str = "ReLinear",
) -> int:
    """Train in place, and return the number of the epoch, from 1, whose parameters the network has.

    Data are inputs and targets, (n, d) and (n, C), or class numbers (n,) for the cross-entropy. With validation data
    the epoch is that of the highest score on them, else the last one.
    """
    inputs, targets = data.tensors
    rule = plan.rule(network)
    schedule = torch.optim.lr_scheduler.MultiStepLR(rule.optimizer, list(plan.milestones), plan.drop)

    def backward(chosen: Tensor | None) -> None:
        batch = data.tensors if chosen is None else data[chosen]
        # Gradients of large batches add up, so that memory stays that of a block.
        for block, wanted in zip(*(torch.split(part, _BLOCK) for part in batch), strict=True):
            torch.autograd.backward(len(block) / len(batch[0]) * plan.error(network(block), wanted))

    def measure() -> dict[str, float]:
        outputs = predict_blocks(network, inputs)
        measured = {"loss": float(plan.error(outputs, targets)), "gamma_r": _rate(rule)}
        finite = np.isfinite(measured["loss"])
        measured["score"] = score(outputs.cpu().double().numpy(), targets.cpu().numpy()) if finite else np.nan
        measured["quadratic_norm"] = _quadratic_norm(network)
        if validation is not None and finite:
            held = predict_blocks(network, validation.tensors[0])
            valid = torch.isfinite(held).all()
            reached = score(held.cpu().double().numpy(), validation.tensors[1].cpu().numpy()) if valid else -np.inf
            measured["validation_score"] = reached
        return measured

    train_epochs(
        training_epoch(rule, backward, lambda: plan.batches(len(data), generator), schedule=schedule),
        measure,
        plan.n_epochs,
        get_state=lambda: _state_of(network),
        set_state=network.load_state_dict,
        history=history,
        suggestion=_suggestion(plan),
        callback=callback,
        verbose=verbose,
        name=name,
        best=None if validation is None else "validation_score",
    )
    return history.n_epochs if history.best_epoch is None else history.best_epoch


@torch.no_grad()
def predict_blocks(network: nn.Module, inputs: Tensor) -> Tensor:
    """Return outputs for all rows, a block at a time."""
    return torch.cat([network(block) for block in torch.split(inputs, _BLOCK)])


def _state_of(network: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in network.state_dict().items()}


def _rate(rule: ReLinear) -> float:
    return float(next(group["lr"] for group in rule.optimizer.param_groups if group["role"] == "r"))


@torch.no_grad()
def _quadratic_norm(network: nn.Module) -> float:
    """Return the Frobenius norm of all that a conventional network does not have."""
    away = [float((tensor - reference).square().sum()) for _, _, tensor, reference in quadratic_parameters(network)]
    return float(np.sqrt(sum(away)))


def _suggestion(plan: Plan) -> str:
    if plan.variant == "none":
        return "start='relinear' with variant='sg', or a smaller gamma_r"
    if plan.variant == "sg":
        return "smaller gamma_g and gamma_b, or a smaller gamma_r"
    return "variant='sg', or a smaller gamma_r"
