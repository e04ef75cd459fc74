"""`qsdp resample`: sample a network with another number of neurons or levels from a saved solution."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qsdp._utils.validation import check_integer
from qsdp.cli._flags import Force, ModelFile, check_enough_neurons, load_model
from qsdp.cli._reports import print_facts, print_figures
from qsdp.cli._streams import destination, stage
from qsdp.report.figures import bound_figure, certificate_figures, network_fact, size_figures
from qsdp.tables import read_table
from qsdp.tables.training import evaluate, problem_on
from qsdp.training_data import check_levels


def resample(
    model_file: ModelFile,
    neurons: Annotated[int, typer.Option(help="Neurons of the new network.")],
    levels: Annotated[
        int | None, typer.Option(help="Number of values of a first-layer weight; that of MODEL by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sampled neurons.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="NEW.qsdp", help="Output file; MODEL-NEURONS[-LEVELSlevels].qsdp in the current folder by default."
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="TRAIN.csv", help="Training file of `qsdp fit`, for objective and gap."),
    ] = None,
    force: Force = False,
) -> None:
    """Sample another number of neurons or levels from a saved solution, without solving again.

    The lower bound holds for networks of any width. For another number of levels it is weaker, less so with --data.
    The objective of the new network is computed only with --data, which must be the file the model was trained on.
    The new network is sampled without the refinement of `qsdp fit --refine`.
    """
    check_integer("--neurons", neurons, minimum=1)
    check_integer("--seed", seed, minimum=0)
    if levels is not None:
        check_levels(levels)
    default = Path(f"{model_file.stem}-{neurons}{'' if levels is None else f'-{levels}levels'}.qsdp")
    path = destination(output or default, force=force, inputs=[] if data is None else [data])
    with stage(f"Sampling {neurons} neurons"):
        model = load_model(model_file)
        solution = model._solution_of_relaxation()
        check_enough_neurons(neurons, solution.n_outputs)
        model.resample(neurons, seed, levels=levels)
        if data is not None:
            evaluate(model, problem_on(model, read_table(data, model.table_.missing)))
        model.save(path)
    certificate = model.certificate_
    print_facts([network_fact(model), ("saved", str(path))])
    if data is None:
        note = f"carried over from {solution.levels} levels; --data may raise it"
        carried = model.network_.levels != solution.levels
        figures = [
            bound_figure(certificate.lower_bound, note) if carried else bound_figure(certificate.lower_bound),
            ("objective", "not known", "give the training file with --data"),
        ]
    else:
        figures = certificate_figures(certificate, standardised=model.table_.notation is not None)
    print_figures([*figures, *size_figures(model.network_)])
