"""Training of a network by ReLinear: parameter checks, initial weights, weight transfer, and the loop over epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from benchmarks.methods.layers import check_hidden
from benchmarks.methods.torch_training import mean_loss, state_of
from benchmarks.papers.fan.networks import (
    ReLinearNetwork,
    check_families,
    check_pairs,
    start_conventional,
    start_random,
    transfer_weights,
)
from benchmarks.papers.fan.rules import ReLinear, check_rates, check_shrinkage, parameter_groups, quadratic_parameters
from qsdp._utils.validation import FloatArray, check_choice, check_integer, check_real
from qsdp.baselines._estimator import accuracy_of, checked, hold_out
from qsdp.baselines._history import Callback, History, train_epochs
from qsdp.baselines._torch import check_device, evaluate, minibatches, seeded, training_epoch
from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = ["Plan", "fit_network", "plan_after_transfer", "plan_of_stages", "predict"]


def fit_network(
    given: Any, X: FloatArray, targets: FloatArray, history: History, rng: np.random.Generator
) -> tuple[ReLinearNetwork, History | None, int]:
    """Check an estimator's parameters, then train.

    Return the network, the history of the conventional network it started from, and the epoch of its parameters.
    """
    classes = given._loss_name() == "cross_entropy"
    plan = plan_of(given)
    widths = [X.shape[1], *check_hidden(given.hidden), 1 if targets.ndim == 1 else targets.shape[1]]
    families = check_families(given.family, len(widths) - 1)
    start = check_choice("start", given.start, ["relinear", "random"])
    scale = None if given.start_scale is None else check_real("start_scale", given.start_scale)
    if "square_act" in families:
        _check_square(start, plan.variant, given.transfer)
    kind = getattr(torch, checked(given, "dtype")["dtype"])
    device = check_device(given.device)

    def new(families: list[str]) -> ReLinearNetwork:
        return ReLinearNetwork(widths, families, given.activation, rezero=given.rezero, device=device, dtype=kind)

    network = new(families)
    stage = None
    if isinstance(given.transfer, (Integral, bool)):
        stage = check_integer("transfer", given.transfer, minimum=1, maximum=len(plan.milestones) + 1)

    generator = seeded(rng)
    trained_on, held_out = hold_out(given.validation_fraction, len(X), rng)
    wanted = torch.as_tensor(targets).argmax(dim=1) if classes else torch.as_tensor(targets, dtype=kind)
    data = TensorDataset(
        torch.as_tensor(X, dtype=kind, device=device),
        (wanted if classes or targets.ndim == 2 else wanted[:, None]).to(device),
    )
    training, held = TensorDataset(*data[trained_on]), TensorDataset(*data[held_out])
    options: dict[str, Any] = {
        "score": accuracy_of if classes else given._score,
        "generator": generator,
        "validation": held if len(held_out) else None,
        "callback": given.callback,
        "verbose": given.verbose,
    }
    start_conventional(network, generator)
    before = None
    if stage is None and given.transfer is not None:
        transfer_weights(check_pairs(given.transfer), network)
    elif stage is not None:
        before, conventional = History(measure=history.measure), new(["linear"] * len(families))
        start_conventional(conventional, generator)
        train(conventional, training, plan_of_stages(plan, stage), history=before, name="conventional", **options)
        transfer_weights(conventional, network)
        plan = plan_after_transfer(plan, stage)
    if start == "random":
        start_random(network, scale, generator)
    return network, before, train(network, training, plan, history=history, **options)


def plan_of(given: Any) -> Plan:
    """Return the checked settings of a training run from an estimator's parameters."""
    amounts = {name: getattr(given, name) for name in ("alpha_g", "alpha_b", "beta_g", "beta_b")}
    variant, _ = check_shrinkage(given.variant, **amounts)
    numbers = checked(given, "n_epochs", "momentum") | {
        "weight_decay": check_real("weight_decay", given.weight_decay),
        "drop": check_real("drop", given.drop, strict=True),
    }
    milestones = given.milestones
    if isinstance(milestones, (str, Integral)) or not isinstance(milestones, Iterable):
        raise InvalidTypeError(f"milestones must be a sequence of integers >= 1; got {milestones!r}")
    milestones = tuple(check_integer("milestones", epoch, minimum=1) for epoch in milestones)
    if list(milestones) != sorted(set(milestones)) or any(epoch >= numbers["n_epochs"] for epoch in milestones):
        raise InvalidInputError(
            f"milestones must be increasing numbers of epochs below n_epochs = {numbers['n_epochs']}; "
            f"got {given.milestones!r}"
        )
    return Plan(
        loss=given._loss_name(),
        variant=variant,
        rates=check_rates(variant, given.gamma_r, given.gamma_g, given.gamma_b),
        optimizer=check_choice("optimizer", given.optimizer, ["adam", "sgd", "gd"]),
        shrinkage=amounts,
        shrink=check_choice("shrink", given.shrink, ["weights", "all"]),
        decay=check_choice("decay", given.decay, ["linear", "all"]),
        batch_size=None if given.batch_size is None else checked(given, "batch_size")["batch_size"],
        milestones=milestones,
        **numbers,
    )


def _check_square(start: str, variant: str, transfer: Any) -> None:
    """Raise an error unless the settings allow training a network of squared affine functions."""
    reason = "family 'square_act': a squared affine function is never affine, so there is no conventional start"
    if start != "random":
        raise InvalidInputError(f"start must be 'random' with {reason}; got {start!r}")
    if transfer is not None:
        raise InvalidInputError(f"transfer must be None with {reason}; got {transfer!r:.60}")
    if variant != "none":
        raise InvalidInputError(
            f"variant must be 'none' with family 'square_act', which has no quadratic parameters to shrink; "
            f"got {variant!r}"
        )


def plan_of_stages(plan: Plan, stage: int) -> Plan:
    """Return the settings for training a conventional network up to the end of a stage of constant learning rates."""
    ends = (*plan.milestones, plan.n_epochs)
    rate = plan.rates[0]
    return replace(
        plan,
        variant="none",
        rates=(rate, rate, rate),
        shrinkage={},
        n_epochs=ends[stage - 1],
        milestones=plan.milestones[: stage - 1],
    )


def plan_after_transfer(plan: Plan, stage: int) -> Plan:
    """Return the settings for training from `stage` to the end, beginning at the learning rates of that stage."""
    begin = (0, *plan.milestones)[stage - 1]
    first, second, third = (rate * plan.drop ** (stage - 1) for rate in plan.rates)
    return replace(
        plan,
        rates=(first, second, third),
        n_epochs=plan.n_epochs - begin,
        milestones=tuple(epoch - begin for epoch in plan.milestones[stage - 1 :]),
    )


def predict(network: ReLinearNetwork, X: FloatArray) -> FloatArray:
    """Return the outputs of a network, (n, C), as float64."""
    like = next(network.parameters())
    inputs = torch.as_tensor(X, dtype=like.dtype, device=like.device)
    outputs: FloatArray = evaluate(network, inputs, _BLOCK).cpu().double().numpy()
    return outputs


#: Suggestions after a divergence, by variant; the other variants share one.
_SUGGESTIONS = {
    "none": "start='relinear' with variant='sg', or a smaller gamma_r",
    "sg": "smaller gamma_g and gamma_b, or a smaller gamma_r",
}

#: Number of rows that a pass takes at a time.
_BLOCK = 8192


@dataclass(frozen=True)
class Plan:
    """Checked settings of a training run, with names as in the estimators."""

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
        """Return the optimiser of a network's parameters, with the update rule of the variant."""
        groups = parameter_groups(network, *self.rates, weight_decay=self.weight_decay, decay=self.decay)
        optimizer: torch.optim.Optimizer
        if self.optimizer == "adam":
            optimizer = torch.optim.Adam(groups, lr=self.rates[0], foreach=True)
        else:
            momentum = self.momentum if self.optimizer == "sgd" else 0.0
            optimizer = torch.optim.SGD(groups, lr=self.rates[0], momentum=momentum, foreach=True)
        return ReLinear(optimizer, self.variant, shrink=self.shrink, **self.shrinkage)

    def error(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss, averaged over samples (and over outputs for the squared loss)."""
        mean: Tensor = mean_loss(self.loss)(outputs, targets)
        return mean if self.loss == "cross_entropy" else mean / outputs.shape[1]

    def batches(self, n: int, generator: torch.Generator) -> Iterable[Tensor | None]:
        """Return the samples of every step of an epoch; None means all samples."""
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
    verbose: bool | int = False,
    name: str = "ReLinear",
) -> int:
    """Train in place, and return the number, from 1, of the epoch whose parameters were kept.

    `data` has inputs (n, d) and targets (n, C), or class numbers (n,) for the cross-entropy. With validation data, it
    is the epoch with the highest score on them, else the last one.
    """
    inputs, targets = data.tensors
    rule = plan.rule(network)
    schedule = torch.optim.lr_scheduler.MultiStepLR(rule.optimizer, list(plan.milestones), plan.drop)

    def backward(chosen: Tensor | None) -> None:
        batch = data.tensors if chosen is None else data[chosen]
        # Gradients of large batches are summed over blocks, so that a block bounds the memory.
        for block, wanted in zip(*(torch.split(part, _BLOCK) for part in batch), strict=True):
            torch.autograd.backward(len(block) / len(batch[0]) * plan.error(network(block), wanted))

    def measure() -> dict[str, float]:
        outputs = evaluate(network, inputs, _BLOCK)
        rate = next(group["lr"] for group in rule.optimizer.param_groups if group["role"] == "r")
        measured = {"loss": float(plan.error(outputs, targets)), "gamma_r": float(rate)}
        finite = np.isfinite(measured["loss"])
        measured["score"] = score(outputs.cpu().double().numpy(), targets.cpu().numpy()) if finite else np.nan
        measured["quadratic_norm"] = _quadratic_norm(network)
        if validation is not None and finite:
            held = evaluate(network, validation.tensors[0], _BLOCK)
            valid = torch.isfinite(held).all()
            reached = score(held.cpu().double().numpy(), validation.tensors[1].cpu().numpy()) if valid else -np.inf
            measured["validation_score"] = reached
        return measured

    train_epochs(
        training_epoch(rule, backward, lambda: plan.batches(len(data), generator), schedule=schedule),
        measure,
        plan.n_epochs,
        get_state=lambda: state_of(network),
        set_state=network.load_state_dict,
        history=history,
        suggestion=_SUGGESTIONS.get(plan.variant, "variant='sg', or a smaller gamma_r"),
        callback=callback,
        verbose=verbose,
        name=name,
        best=None if validation is None else "validation_score",
    )
    return history.n_epochs if history.best_epoch is None else history.best_epoch


@torch.no_grad()
def _quadratic_norm(network: nn.Module) -> float:
    """Return the Frobenius norm of the quadratic parameters minus their conventional values."""
    away = [float((tensor - reference).square().sum()) for _, _, tensor, reference in quadratic_parameters(network)]
    return float(np.sqrt(sum(away)))
