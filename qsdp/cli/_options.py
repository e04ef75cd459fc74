"""Options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qsdp._utils.validation import check_choice, check_integer, check_real
from qsdp.activations import ACTIVATIONS, PolynomialActivation
from qsdp.exceptions import InvalidInputError
from qsdp.losses import LOSSES, get_loss
from qsdp.problem import check_levels
from qsdp.sampling import ALLOCATIONS

_BILINEAR = "bilinear"

Seed = Annotated[int, typer.Option(help="Of the held-out rows and the sampled neurons.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output file.")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `qsdp fit` saved.")]
LossName = Annotated[str, typer.Option(help=f"{' | '.join(LOSSES)}.")]
Levels = Annotated[int, typer.Option(help="Values of a first-layer weight, 2 (binary) to 128.")]
ActivationName = Annotated[
    str, typer.Option(help=f"{' | '.join([_BILINEAR, *ACTIVATIONS])} | a,b,c for a t^2 + b t + c.")
]
Allotment = Annotated[str, typer.Option(help=f"Of neurons among outputs: {' | '.join(ALLOCATIONS)}.")]
Jobs = Annotated[int, typer.Option(help="Processes that solve for several outputs.")]


def check_training_options(
    *, neurons: int, beta: float, seed: int, loss: str, levels: int, allocation: str, jobs: int
) -> None:
    check_integer("--neurons", neurons, minimum=1)
    check_real("--beta", beta)
    check_integer("--seed", seed, minimum=0)
    check_choice("--loss", loss, LOSSES)
    check_levels(levels)
    check_choice("--allocation", allocation, ALLOCATIONS)
    check_integer("--jobs", jobs, minimum=1)


def check_loss_of_numbers(loss: str, what: str) -> None:
    """Refuse a loss of classes for `what`, which is a number."""
    if _of_classes(loss):
        usable = ", ".join(name for name in LOSSES if not _of_classes(name))
        raise InvalidInputError(f"--loss {loss} is for classes, {what} is a number; use one of {usable}")


def _of_classes(loss: str) -> bool:
    return get_loss(loss).labels or get_loss(loss).coupled


def check_neurons(neurons: int, n_outputs: int) -> None:
    """Refuse fewer neurons than outputs."""
    if neurons < n_outputs:
        raise InvalidInputError(f"--neurons must be at least {n_outputs}, one for each class; got {neurons}")


def parse_activation(text: str) -> PolynomialActivation | None:
    """Return the activation of a name or of three numbers "a,b,c", None if bilinear."""
    if text == _BILINEAR:
        return None
    if "," not in text:
        return ACTIVATIONS[check_choice("--activation", text, [_BILINEAR, *ACTIVATIONS])]
    try:
        a, b, c = map(float, text.split(","))
    except ValueError:
        raise InvalidInputError(f"--activation must be a name or three numbers a,b,c; got {text!r:.60}") from None
    return PolynomialActivation(a, b, c)


def activation_name(activation: PolynomialActivation | None) -> str:
    """Return the name of an activation, or its numbers as `parse_activation` takes them."""
    if activation is None:
        return _BILINEAR
    polynomial = "polynomial " + ",".join(f"{value:g}" for value in activation.coefficients)
    return next((name for name, preset in ACTIVATIONS.items() if preset == activation), polynomial)
