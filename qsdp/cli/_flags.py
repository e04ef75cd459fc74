"""Flags that commands share, and checks of their values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from qsdp._utils.validation import check_choice
from qsdp.activations import ACTIVATIONS, BILINEAR, PolynomialActivation, get_activation
from qsdp.choosing.options import TrainingOptions
from qsdp.encoding.fitting import ADDITIVE, AUTO, ENCODINGS
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.losses import LOSSES, get_loss
from qsdp.tables import check_format

#: Arguments of commands whose names differ from those of the training options.
ARGUMENTS = {"n_neurons": "neurons", "n_jobs": "jobs", "random_state": "seed"}

#: Summaries of the parameters of the estimators that are no training options.
_SUMMARIES = {
    "encoding": f"Encoding of numbers: {' | '.join([AUTO, ADDITIVE, *ENCODINGS])}; auto is additive if it can be.",
    "max_categories": "Largest number of categories of a column that get a bit each; the most frequent ones do.",
    "class_weight": "balanced gives all classes the same total weight.",
}


def flag(name: str, **settings: Any) -> Any:
    """Return the command-line flag of a parameter of the estimators, with its summary as help."""
    declared = TrainingOptions.declared()
    return typer.Option(help=declared[name].summary if name in declared else _SUMMARIES[name], **settings)


#: Encodings that commands accept by name.
ENCODING_NAMES = (AUTO, ADDITIVE, *ENCODINGS)

Refinement = Annotated[str, flag("refine")]
Seed = Annotated[int, flag("random_state")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output file.")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `qsdp fit` saved.")]

Decimal = Annotated[str | None, typer.Option(metavar=". | ,", help="Decimal separator of numbers in a text file.")]
Thousands = Annotated[
    str | None, typer.Option(metavar="SEPARATOR", help="Separator of thousands in a text file, such as ',' or '.'.")
]
Missing = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT,TEXT",
        help="Entries of a text file that are missing, instead of NA, nan, None, -, ? and the like.",
    ),
]

#: The same rows are held out and the same neurons drawn every time, unless --seed says otherwise.
SEED = 0


def load_model(path: Path) -> Any:
    """Load an estimator that `qsdp fit` saved; for another file, raise an error that names its contents."""
    from qsdp.estimators import load

    try:
        model = load(path)
    except StorageError as error:
        if path.suffix == ".qsdp":
            raise
        hint = "the first argument must be a model saved by qsdp fit, such as model.qsdp"
        raise StorageError(f"{error}; {hint}") from None
    if not hasattr(model, "table_"):
        what = "an estimator that was saved in Python" if hasattr(model, "fit") else "a network"
        raise InvalidInputError(
            f"{str(path)!r} holds {what}, without the columns of a table; in Python, qsdp.load({str(path)!r}) reads it"
        )
    return model


def text_format(decimal: str | None, thousands: str | None, missing: str | None) -> dict[str, Any]:
    """Return the arguments of `read_table` that the flags name, checked."""
    # Empty fields are missing whatever else is.
    texts = None if missing is None else ("", *missing.split(","))
    check_format(decimal or ".", thousands, texts or ())
    named = {"decimal": decimal, "thousands": thousands, "missing": texts}
    return {name: value for name, value in named.items() if value is not None}


def training_options(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked training options among the arguments of a command; errors name the flags."""
    values: dict[str, Any] = {}
    for name, declared in TrainingOptions.declared().items():
        argument = ARGUMENTS.get(name, name)
        if argument in arguments:
            value = arguments[argument]
            values[name] = _number(value) if name == "beta" else value
            declared.check(f"--{argument.replace('_', '-')}", values[name])
    return values


def _number(text: str) -> float | str:
    """Convert text to a number if possible, else return the text."""
    try:
        return float(text)
    except ValueError:
        return text


def check_loss_of_numbers(loss: str, what: str) -> None:
    """Raise an error if the loss is for classes although the target, named `what`, is numeric."""
    if get_loss(loss).for_classes:
        usable = ", ".join(name for name in LOSSES if not get_loss(name).for_classes)
        raise InvalidInputError(f"--loss {loss} is for classes, but {what} is a number; use one of {usable}")


def check_enough_neurons(neurons: int | None, n_outputs: int) -> None:
    """Raise an error if there are fewer neurons than outputs."""
    if neurons is not None and neurons < n_outputs:
        raise InvalidInputError(f"--neurons must be at least {n_outputs}, one for each class; got {neurons}")


def parse_activation(text: str) -> PolynomialActivation | None:
    """Parse an activation, a name or three coefficients "a,b,c"; None means bilinear."""
    if "," not in text:
        return get_activation(check_choice("--activation", text, [BILINEAR, *ACTIVATIONS]))
    try:
        a, b, c = map(float, text.split(","))
    except ValueError:
        raise InvalidInputError(f"--activation must be a name or three numbers a,b,c; got {text!r:.60}") from None
    return PolynomialActivation(a, b, c)
