"""`qsdp resample`: a saved model with another number of neurons."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qsdp._validation import check_integer
from qsdp.cli._options import Force, ModelFile
from qsdp.cli._reports import (
    bound_figure,
    certificate_figures,
    network_fact,
    print_facts,
    print_figures,
    size_figure,
)
from qsdp.cli._streams import destination, stage
from qsdp.tabular import load_model, read_table


def resample(
    model_file: ModelFile,
    neurons: Annotated[int, typer.Option(help="Neurons of the new network.")],
    seed: Annotated[int, typer.Option(help="Of the sampled neurons.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option(metavar="NEW.qsdp", help="Where to save; MODEL-NEURONS.qsdp here by default."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="TRAIN.csv", help="The file given to `qsdp fit`, for objective and gap."),
    ] = None,
    force: Force = False,
) -> None:
    """Change the size of a model without solving again.

    The lower bound stays what it was: it holds for networks of any width. The objective of the new network
    is known only with --data, which must be the file the model was trained on.
    """
    check_integer("--neurons", neurons, minimum=1)
    check_integer("--seed", seed, minimum=0)
    default = Path(f"{model_file.stem}-{neurons}.qsdp")
    path = destination(output or default, force=force, inputs=[] if data is None else [data])
    with stage(f"Sampling {neurons} neurons"):
        model = load_model(model_file).resample(neurons, seed)
        if data is not None:
            model = model.evaluated(read_table(data))
        model.save(path)
    print_facts([network_fact(model.network, model.beta, model.loss), ("saved", str(path))])
    if model.objective is None:
        figures = [
            bound_figure(model.lower_bound),
            ("objective", "not known", "give the training file with --data"),
        ]
    else:
        figures = certificate_figures(model.lower_bound, model.objective, model.target)
    print_figures([*figures, size_figure(model.network)])
