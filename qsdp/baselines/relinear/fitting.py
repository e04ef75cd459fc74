"""From checked settings to a trained network: data, starts, weight transfer, stages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.utils.data import TensorDataset

from qsdp._utils.validation import FloatArray
from qsdp.baselines._estimator import accuracy_of, hold_out, r2_of
from qsdp.baselines._history import Callback, History
from qsdp.baselines._torch import seeded
from qsdp.baselines.relinear.networks import ReLinearNetwork, start_conventional, start_random, transfer_weights
from qsdp.baselines.relinear.settings import ReLinearSettings
from qsdp.baselines.relinear.training import Plan, predict_blocks, train

__all__ = ["fit_network", "plan_after_transfer", "plan_of_stages", "predict"]


def fit_network(
    settings: ReLinearSettings,
    X: FloatArray,
    targets: FloatArray,
    history: History,
    rng: np.random.Generator,
    *,
    validation_fraction: float,
    callback: Callback | None = None,
    verbose: bool = False,
) -> tuple[ReLinearNetwork, History | None, int]:
    """Return a trained network, the history of the conventional one it started from, and the epoch it is of."""
    generator = seeded(rng)
    trained_on, held_out = hold_out(validation_fraction, len(X), rng)
    data = _data(X, targets, settings)
    training, held = TensorDataset(*data[trained_on]), TensorDataset(*data[held_out])
    options: dict[str, Any] = {
        "score": accuracy_of if settings.plan.loss == "cross_entropy" else _score_of(history),
        "generator": generator,
        "validation": held if len(held_out) else None,
        "callback": callback,
        "verbose": verbose,
    }
    network = _network(settings, settings.families)
    start_conventional(network, generator)
    plan, before = settings.plan, None
    if settings.pairs is not None:
        transfer_weights(settings.pairs, network)
    elif settings.stage is not None:
        conventional, before = _network(settings, ["linear"] * len(settings.families)), History(measure=history.measure)
        start_conventional(conventional, generator)
        first = plan_of_stages(plan, settings.stage)
        train(conventional, training, first, history=before, name="conventional", **options)
        transfer_weights(conventional, network)
        plan = plan_after_transfer(plan, settings.stage)
    if settings.start == "random":
        start_random(network, settings.start_scale, generator)
    best = train(network, training, plan, history=history, **options)
    return network, before, best


def plan_of_stages(plan: Plan, stage: int) -> Plan:
    """Return the training of a conventional network up to the end of a stage of constant rates."""
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
    """Return the training through stages `stage`, ...: it begins at the rates of the first of them."""
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
    outputs: FloatArray = predict_blocks(network, inputs).cpu().double().numpy()
    return outputs


def _network(settings: ReLinearSettings, families: Any) -> ReLinearNetwork:
    return ReLinearNetwork(
        settings.widths,
        families,
        settings.activation,
        rezero=settings.rezero,
        device=settings.device,
        dtype=getattr(torch, settings.dtype),
    )


def _data(X: FloatArray, targets: FloatArray, settings: ReLinearSettings) -> TensorDataset:
    kind = getattr(torch, settings.dtype)
    inputs = torch.as_tensor(X, dtype=kind, device=settings.device)
    if settings.plan.loss == "cross_entropy":
        return TensorDataset(inputs, torch.as_tensor(targets.argmax(axis=1), device=settings.device))
    columns = targets if targets.ndim == 2 else targets[:, None]
    return TensorDataset(inputs, torch.as_tensor(columns, dtype=kind, device=settings.device))


def _score_of(history: History) -> Any:
    if history.measure == "r2":
        return r2_of
    return lambda outputs, targets: accuracy_of(outputs, targets.argmax(axis=1))
