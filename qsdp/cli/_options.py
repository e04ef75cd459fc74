"""Options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qsdp._validation import check_integer, check_real

Seed = Annotated[int, typer.Option(help="Of the held-out rows and the sampled neurons.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output file.")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `qsdp fit` saved.")]


def check_training_options(neurons: int, beta: float, seed: int) -> None:
    check_integer("--neurons", neurons, minimum=1)
    check_real("--beta", beta)
    check_integer("--seed", seed, minimum=0)
