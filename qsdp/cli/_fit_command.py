"""`qsdp fit`: train on a file and save the model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from qsdp._utils.summary import first_few
from qsdp._utils.validation import check_choice, check_integer
from qsdp.activations import ACTIVATIONS, BILINEAR
from qsdp.choosing.options import TrainingOptions
from qsdp.cli import _flags as flags
from qsdp.cli._reports import print_facts, print_figures, time_figure
from qsdp.cli._rows import TrainingRows, read_rows
from qsdp.cli._scores import fit_figures
from qsdp.cli._streams import destination, interrupts, stage
from qsdp.encoding.fitting import AUTO, EncodingRule
from qsdp.encoding.reading_rule import NUMBER
from qsdp.encoding.scales import NO_GAIN
from qsdp.estimators.classes import class_shape
from qsdp.exceptions import InvalidInputError
from qsdp.losses import get_loss
from qsdp.pipeline import QSDPResult
from qsdp.report.figures import Figure, certificate_figures, network_fact, size_figures
from qsdp.tables import MISSING
from qsdp.tables.training_tables import TASKS, inputs_in

#: Number of distinct values of a number up to which it may be a class.
_FEW_VALUES = 10


def fit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV file with a header line, or Parquet.")],
    target: Annotated[str, typer.Option(metavar="COLUMN", help="Column to predict.")],
    task: Annotated[str, typer.Option(help=f"{' | '.join(TASKS)}.")] = "auto",
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Column to leave out; may be repeated.")
    ] = None,
    encoding: Annotated[str, flags.flag("encoding")] = AUTO,
    max_categories: Annotated[int, flags.flag("max_categories")] = EncodingRule.max_categories,
    weights: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column with non-negative sample weights; excluded from the inputs."),
    ] = None,
    class_weight: Annotated[str | None, flags.flag("class_weight", metavar="balanced")] = None,
    neurons: Annotated[int | None, flags.flag("n_neurons")] = None,
    beta: Annotated[str, flags.flag("beta", metavar="NUMBER | SHARE% | auto")] = AUTO,
    loss: Annotated[str, flags.flag("loss")] = AUTO,
    levels: Annotated[int, flags.flag("levels")] = TrainingOptions.levels,
    activation: Annotated[
        str, typer.Option(help=f"{' | '.join([AUTO, BILINEAR, *ACTIVATIONS])} | a,b,c for a t^2 + b t + c.")
    ] = AUTO,
    refine: flags.Refinement = "polish",
    tol: Annotated[float, flags.flag("tol")] = 1e-3,
    time_limit: Annotated[float | None, flags.flag("time_limit", metavar="SECONDS")] = None,
    decimal: flags.Decimal = None,
    thousands: flags.Thousands = None,
    missing: flags.Missing = None,
    test_size: Annotated[float, typer.Option(help="Fraction of the rows held out for testing, 0 to < 1.")] = 0.2,
    seed: flags.Seed = flags.SEED,
    jobs: Annotated[int, flags.flag("n_jobs")] = 1,
    device: Annotated[str | None, flags.flag("device")] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="MODEL.qsdp", help="File of the model; FILE.qsdp in the current folder by default."),
    ] = None,
    force: flags.Force = False,
) -> None:
    """Train a network on a CSV or Parquet file, certify it and save it for `qsdp predict` and `qsdp.load`.

    Numbers are standardised or become bits, text becomes 0/1 columns, and missing entries are handled; the kind of
    every column is decided in training and stored. The target is a class or a number. Of sampled neurons, --refine
    polish improves single bits, and refit optimises the weights again and drops most neurons; exact continues to a
    network that is proven globally optimal, if time allows. If interrupted, the command writes nothing.
    --time-limit ends the training with the best network so far. For files that memory does not hold, Python trains on
    batches of rows or on Dask data frames.
    """
    sigma = None if activation == AUTO else flags.parse_activation(activation)
    # The estimators know what "auto" is.
    checked_loss = str(TrainingOptions.loss) if loss == AUTO else loss
    parameters = flags.training_options({**locals(), "activation": sigma, "loss": checked_loss})
    if not 0.0 <= test_size < 1.0:
        raise InvalidInputError(f"--test-size must be at least 0 and below 1; got {test_size:g}")
    check_choice("--task", task, TASKS)
    if class_weight is not None:
        check_choice("--class-weight", class_weight, ["balanced"])
    if task == "regression":
        flags.check_loss_of_numbers(checked_loss, f"target {target!r}")
    path = destination(output or Path(f"{file.stem}.qsdp"), force=force, inputs=[file])
    check_choice("--encoding", encoding, flags.ENCODING_NAMES)
    check_integer("--max-categories", max_categories, minimum=2)
    columns: dict[str, Any] = {
        "task": task,
        "weights": weights,
        "drop": drop or (),
        **{"decimal": ".", "thousands": None, "missing": MISSING},
        **flags.text_format(decimal, thousands, missing),
        "seed": seed,
        "test_size": test_size,
    }
    rows = read_rows(file, target, columns)
    if rows.source.kind is not None:
        flags.check_loss_of_numbers(checked_loss, f"target {target!r}")
        if class_weight is not None:
            raise InvalidInputError(f"--class-weight is for classes, but target {target!r} is a number")
    n_outputs = math.prod(class_shape(len(rows.classes), get_loss(checked_loss))) if rows.classes else 1
    flags.check_enough_neurons(neurons, n_outputs)
    from qsdp.estimators import QuantizedNetworkClassifier, QuantizedNetworkRegressor

    parameters |= {"loss": loss, "activation": AUTO if activation == AUTO else sigma}
    parameters |= {"encoding": encoding, "max_categories": max_categories, "verbose": True}
    model: Any = (
        QuantizedNetworkRegressor(**parameters)
        if rows.source.kind is not None
        else QuantizedNetworkClassifier(**parameters, class_weight=class_weight)
    )
    inputs = inputs_in(rows.source, rows.drop, rows.train)
    with stage(f"Training with {len(inputs.columns)} columns"), interrupts() as received:
        rows.fit(model)
    if received:
        # Training returns the best network so far.
        raise KeyboardInterrupt
    with stage("Scoring and saving"):
        figures = fit_figures(model, rows)
        model.save(path)
    report_fit(file, rows, drop or [], model, figures, path)


def report_fit(
    file: Path, rows: TrainingRows, drop: Sequence[str], model: Any, scores: Sequence[Figure], path: Path
) -> None:
    """Print a summary of a fit: the data, the network, its scores and certificate, and the file of the model."""
    print_facts(
        [
            *_reading_facts(file, rows, drop, model),
            network_fact(model),
            *_refinement_facts(model.result_),
            ("saved", str(path)),
        ]
    )
    print_figures(
        [
            *certificate_figures(model.certificate_, standardised=model.table_.kind is not None),
            *scores,
            *size_figures(model.network_),
            time_figure(model.result_),
        ]
    )


def _refinement_facts(result: QSDPResult) -> list[tuple[str, str]]:
    """Return the line of the summary about the refinement of the network."""
    if result.exact is not None:
        text = f"exact: column generation, {result.exact.rounds} rounds"
        if result.exact.status != "optimal":
            text += f", not finished: {result.exact.status}"
    elif result.refine != "none" and len(result.network.weights):
        text = "column generation: weights and neurons added, and rounded to 8 bits"
    elif result.refine == "refit":
        text = f"refit: {result.network.n_neurons} of the sampled neurons remain"
    elif result.refine == "polish":
        text = "polish: single weights of the sampled neurons improved"
    else:
        return []
    return [("refined", text)]


def _weights_fact(rows: TrainingRows, model: Any) -> str:
    weights = model.result_.rows.sample_weight
    sources = [] if rows.source.weights is None else [f"column {rows.source.weights!r}"]
    if getattr(model, "class_weight", None) is not None:
        sources.append(f"{model.class_weight} classes")
    if weights is None or not sources:
        return ""
    return f"{', '.join(sources)}: {weights.min():.6g} to {weights.max():.6g}, {weights.sum():.6g} in all"


def _kind(column: Any) -> str:
    """Say as what a column was read, unless as numbers."""
    if column.categories is not None:
        return f"{len(column.categories)} values"
    return "" if column.kind == NUMBER else f"{column.kind}s"


def _described(name: str, *facts: str) -> str:
    """Quote a column's name with what is known of it in brackets."""
    known = ", ".join(filter(None, facts))
    return f"{name!r} ({known})" if known else repr(name)


def _reading_facts(file: Path, rows: TrainingRows, drop: Sequence[str], model: Any) -> list[tuple[str, str]]:
    """Return the lines of the summary about how rows and columns were read."""
    encoder, name = model._columns_encoder, rows.source.target
    columns = encoder.encoding_.columns
    used = [columns[position] for position in encoder.encoding_.used]
    numeric = [_described(column.name, _kind(column)) for column in used if column.categories is None]
    categorical = [_described(column.name, _kind(column)) for column in used if column.categories is not None]
    dropped = [_described(name, "--drop" if name in drop else "numbers the rows") for name in rows.drop]
    # Of what was tried, the kind says as what it was read.
    kinds = {column.name: _kind(column) for column in columns if encoder.dropped_.get(column.name) == NO_GAIN}
    dropped += [_described(name, kinds.get(name, ""), reason) for name, reason in encoder.dropped_.items()]
    if rows.source.kind is not None:
        scaling = model.target_scaling_
        meaning = f"{name!r}, a number: mean {scaling.offset:.6g}, standard deviation {scaling.scale:.6g}"
        if (distinct := len(np.unique(rows.y))) <= _FEW_VALUES:
            meaning += f"; of {distinct} values: --task classification if they are classes"
    else:
        labels = [repr(str(label)) for label in model.classes_.tolist()]
        meaning = f"{name!r}, {len(labels)} classes: {first_few(labels)}"
        if model.network_.n_outputs == 1:
            meaning = f"{name!r}, classes {labels[0]} (-1) and {labels[1]} (+1)"
    facts = [
        ("data", f"{file}: {rows.counts}, {encoder.encoding_.width} inputs"),
        ("target", meaning),
        ("weights", _weights_fact(rows, model)),
        ("numeric", ", ".join(numeric)),
        ("categorical", ", ".join(categorical)),
        ("dropped", ", ".join(dropped)),
    ]
    return [(label, text) for label, text in facts if text]
