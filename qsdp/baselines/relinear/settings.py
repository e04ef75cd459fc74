"""Checks of the estimators' parameters, all of them before any work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from qsdp._utils.validation import FloatArray, check_choice, check_flag, check_integer, check_real
from qsdp.baselines._estimator import check_hidden
from qsdp.baselines._torch import check_device
from qsdp.baselines.relinear.networks import check_activation, check_families, check_pairs, residual_layers
from qsdp.baselines.relinear.rules import check_rates, check_shrinkage
from qsdp.baselines.relinear.training import Plan
from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = ["ReLinearSettings", "check_loss", "check_settings"]

#: Losses that gradient training of these networks does not cover, and why.
_EXCLUDED_LOSSES = {
    **dict.fromkeys(
        ("absolute", "hinge", "epsilon_insensitive"),
        "ReLinear's convergence is derived for losses with Lipschitz gradients (assumption H1 of the paper); its "
        "gradient jumps",
    ),
    **dict.fromkeys(("logistic", "log_loss"), "of two classes it is 'cross_entropy'"),
}


@dataclass(frozen=True)
class ReLinearSettings:
    """What an estimator was asked for, checked; names as there."""

    widths: tuple[int, ...]
    families: tuple[str, ...]
    activation: str
    rezero: bool
    plan: Plan
    start: str
    start_scale: float | None
    stage: int | None
    pairs: list[tuple[FloatArray, FloatArray]] | None
    dtype: str
    device: Any


def check_loss(loss: object, allowed: Sequence[str]) -> str:
    """Return the name of a loss; the first of the allowed ones for None."""
    if loss is None:
        return allowed[0]
    if isinstance(loss, str) and loss not in allowed:
        if loss in _EXCLUDED_LOSSES:
            raise InvalidInputError(f"loss cannot be {loss!r}: {_EXCLUDED_LOSSES[loss]}")
        if loss == "cross_entropy":
            raise InvalidInputError("loss cannot be 'cross_entropy': it is of classes, ReLinearClassifier has it")
    return check_choice("loss", loss, allowed)


def check_settings(given: Any, n_inputs: int, n_outputs: int, losses: Sequence[str]) -> ReLinearSettings:
    """Return the parameters of an estimator, checked."""
    widths = (n_inputs, *check_hidden(given.hidden), n_outputs)
    families = tuple(check_families(given.family, len(widths) - 1))
    rezero = check_flag("rezero", given.rezero)
    if rezero:
        residual_layers(widths)
    plan = _check_plan(given, losses)
    start = check_choice("start", given.start, ["relinear", "random"])
    stage, pairs = _check_transfer(given.transfer, len(plan.milestones) + 1)
    if "square_act" in families:
        _check_square(start, plan.variant, given.transfer)
    return ReLinearSettings(
        widths=widths,
        families=families,
        activation=check_activation(given.activation).name,
        rezero=rezero,
        plan=plan,
        start=start,
        start_scale=None if given.start_scale is None else check_real("start_scale", given.start_scale),
        stage=stage,
        pairs=pairs,
        dtype=check_choice("dtype", given.dtype, ["float32", "float64"]),
        device=check_device(given.device),
    )


def _check_plan(given: Any, losses: Sequence[str]) -> Plan:
    amounts = {name: getattr(given, name) for name in ("alpha_g", "alpha_b", "beta_g", "beta_b")}
    variant, _ = check_shrinkage(given.variant, **amounts)
    n_epochs = check_integer("n_epochs", given.n_epochs, minimum=1)
    milestones = _integers("milestones", given.milestones)
    if list(milestones) != sorted(set(milestones)) or any(epoch >= n_epochs for epoch in milestones):
        raise InvalidInputError(
            f"milestones must be increasing numbers of epochs below n_epochs = {n_epochs}; got {given.milestones!r}"
        )
    return Plan(
        loss=check_loss(given.loss, losses),
        variant=variant,
        rates=check_rates(variant, given.gamma_r, given.gamma_g, given.gamma_b),
        n_epochs=n_epochs,
        optimizer=check_choice("optimizer", given.optimizer, ["adam", "sgd", "gd"]),
        shrinkage=amounts,
        shrink=check_choice("shrink", given.shrink, ["weights", "all"]),
        momentum=_below_one("momentum", given.momentum),
        weight_decay=check_real("weight_decay", given.weight_decay),
        decay=check_choice("decay", given.decay, ["linear", "all"]),
        batch_size=None if given.batch_size is None else check_integer("batch_size", given.batch_size, minimum=1),
        milestones=milestones,
        drop=check_real("drop", given.drop, strict=True),
    )


def _check_transfer(transfer: Any, n_stages: int) -> tuple[int | None, list[tuple[FloatArray, FloatArray]] | None]:
    if transfer is None:
        return None, None
    if isinstance(transfer, (Integral, bool)):
        return check_integer("transfer", transfer, minimum=1, maximum=n_stages), None
    return None, check_pairs(transfer)


def _check_square(start: str, variant: str, transfer: Any) -> None:
    """Raise unless a network of squared affine functions is trained as it can be."""
    reason = "family 'square_act': a squared affine function is never affine, so there is no conventional start"
    if start != "random":
        raise InvalidInputError(f"start must be 'random' with {reason}; got {start!r}")
    if transfer is not None:
        raise InvalidInputError(f"transfer must be None with {reason}; got {transfer!r:.60}")
    if variant != "none":
        raise InvalidInputError(
            f"variant must be 'none' with family 'square_act', which has no quadratic parameters of its own to shrink; "
            f"got {variant!r}"
        )


def _integers(name: str, values: Any) -> tuple[int, ...]:
    if isinstance(values, (str, Integral)) or not isinstance(values, Iterable):
        raise InvalidTypeError(f"{name} must be a sequence of integers >= 1; got {values!r}")
    return tuple(check_integer(name, value, minimum=1) for value in values)


def _below_one(name: str, value: Any) -> float:
    number = check_real(name, value)
    if number >= 1.0:
        raise InvalidInputError(f"{name} must be from 0 to below 1; got {value!r}")
    return number
