"""`qsdp fit`: train on a file and save the model."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from qsdp._utils.memory import main_memory
from qsdp._utils.validation import check_choice, check_real
from qsdp.cli import _flags as flags
from qsdp.cli._fit_streamed import fit_streamed
from qsdp.cli._reports import first_names, print_facts, print_figures, time_figure
from qsdp.cli._scores import fit_figures
from qsdp.cli._streams import destination, interrupts, stage
from qsdp.encoding.fitting import AUTO
from qsdp.estimators import ClassifierOptions, EstimatorOptions, warn_of_gap
from qsdp.exceptions import InvalidInputError
from qsdp.losses import get_loss
from qsdp.pipeline import QSDPResult, run_pipeline
from qsdp.report.figures import Figure, certificate_figures, network_fact, size_figures
from qsdp.tabular import (
    MISSING,
    TASKS,
    Sampling,
    TabularModel,
    Training,
    choose_encoding,
    held_bytes,
    prepare,
    read_table,
)

#: Number of distinct values of a number up to which it may be a class.
_FEW_VALUES = 10

#: Bytes of memory assumed for a machine that does not report its own.
_UNKNOWN_MEMORY = 2**33


def fit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV file with a header line, or Parquet.")],
    target: Annotated[str, typer.Option(help="Column to predict.")],
    task: Annotated[str, typer.Option(help=f"{' | '.join(TASKS)}.")] = "auto",
    drop: Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")] = None,
    encoding: flags.EncodingName = EstimatorOptions.encoding,
    weights: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column with non-negative sample weights; excluded from the inputs."),
    ] = None,
    class_weight: Annotated[
        str | None,
        typer.Option(metavar="balanced", help=ClassifierOptions.declared()["class_weight"].summary),
    ] = None,
    neurons: flags.Neurons = EstimatorOptions.n_neurons,
    beta: flags.Beta = flags.BETA,
    loss: flags.LossName = flags.LOSS,
    levels: flags.Levels = EstimatorOptions.levels,
    activation: flags.ActivationName = flags.ACTIVATION,
    allocation: flags.Allocation = EstimatorOptions.allocation,
    solver: flags.Solver = EstimatorOptions.solver,
    shaping: flags.Shaping = EstimatorOptions.shaping,
    refine: flags.Refinement = EstimatorOptions.refine,
    tol: flags.Tolerance = EstimatorOptions.tol,
    time_limit: flags.TimeLimit = EstimatorOptions.time_limit,
    na_values: Annotated[
        str | None,
        typer.Option(metavar="TEXT,TEXT", help=f"Entries that count as missing; {', '.join(sorted(MISSING)[1:])}."),
    ] = None,
    test_size: Annotated[float, typer.Option(help="Share of the rows held out for testing, 0 to < 1.")] = 0.2,
    seed: flags.Seed = flags.SEED,
    jobs: flags.Jobs = flags.JOBS,
    device: flags.Device = EstimatorOptions.device,
    memory: Annotated[
        float, typer.Option(help="Share of the machine's memory that the rows may take; a larger file is streamed.")
    ] = 0.25,
    output: Annotated[
        Path | None,
        typer.Option(metavar="MODEL.qsdp", help="Where to save the model; FILE.qsdp here by default."),
    ] = None,
    force: flags.Force = False,
    keep_partial: Annotated[
        bool, typer.Option("--keep-partial", help="Also save the model of an interrupted training run.")
    ] = False,
) -> None:
    """Train a network on a CSV or Parquet file, certify it and save it.

    Numbers are standardised, text becomes 0/1 columns, and missing entries are handled. The target is a class or a
    number. --refine polish improves single bits of the sampled neurons, refit chooses their weights anew and drops
    most of them, and exact continues to a network that is proven globally optimal, if time allows. If interrupted
    during training, the command reports the best network so far, whose certificate holds, and exits with 130.

    A file that is larger than --memory is streamed: the command reads a sample of its rows and, with a squared loss,
    statistics of all rows. If it is killed, the same command continues from the statistics last saved. With other
    losses, the network is trained on the sample and certified on all rows.
    """
    sigma = flags.parse_activation(activation)
    options = flags.training_options({**locals(), "activation": sigma})
    if not 0.0 <= test_size < 1.0:
        raise InvalidInputError(f"--test-size must be at least 0 and below 1; got {test_size:g}")
    check_choice("--task", task, TASKS)
    if class_weight is not None:
        check_choice("--class-weight", class_weight, ["balanced"])
    if task == "regression":
        flags.check_loss_of_numbers(loss, f"target {target!r}")
    path = destination(output or Path(f"{file.stem}.qsdp"), force=force, inputs=[file])
    check_choice("--encoding", encoding, flags.ENCODING_NAMES)
    check_real("--memory", memory)
    columns: dict[str, Any] = {
        "task": task,
        "loss": loss,
        "activation": sigma,
        "drop": drop or (),
        "weights": weights,
        "class_weight": class_weight,
        "encoding": "standard" if encoding == AUTO else encoding,
    }
    markers = MISSING if na_values is None else frozenset({"", *na_values.split(",")})
    there = main_memory()
    if held_bytes(file) > memory * (there if math.isfinite(there) else _UNKNOWN_MEMORY):
        sampling = Sampling(target, weights, test_size, seed, markers)
        training, sample, model, result, figures = fit_streamed(file, sampling, columns, options, path)
        rows = f"streamed: {sample.n_train} training + {sample.n_test} test rows"
        report_fit(file, rows, training, drop or [], model, result, figures, str(path))
        return
    with stage(f"Reading {file}"):
        table = read_table(file, markers)
        training = prepare(table, target, **columns, test_size=test_size, seed=seed)
        flags.check_neurons(neurons, math.prod(training.target.output_shape(get_loss(loss))))
    began = time.perf_counter()
    with options.limit():
        if encoding == AUTO:
            with stage("Choosing thresholds"):
                training = choose_encoding(training, options)
        seconds = time.perf_counter() - began
        with stage(f"Training with {training.X.shape[1]} inputs"), interrupts() as received:
            result = run_pipeline(training.problem(options), replace(options, verbose=True))
            result = result.timed("encoding", seconds) if encoding == AUTO else result
            warn_of_gap(result)
    with stage("Scoring and saving"):
        model = training.model(result, options)
        figures = fit_figures(model, training, training.test)
        if saved := keep_partial or not received:
            model.save(path)
    rows = f"{len(training.X)} training + {len(training.test)} test rows"
    if training.n_unlabelled:
        texts = ", ".join(f"{text!r} {count}" for text, count in table.missing.get(target, {}).items() if text)
        rows += f"; {training.n_unlabelled} without {training.target.name!r} left out"
        rows += f" ({texts}; --na-values says what counts as missing)" if texts else ""
    if training.n_weightless:
        rows += f"; {training.n_weightless} of weight zero left out"
    where = str(path) if saved else "no: training was interrupted; --keep-partial saves what there is"
    report_fit(file, rows, training, drop or [], model, result, figures, where)
    if received:
        raise KeyboardInterrupt


def report_fit(
    file: Path,
    rows: str,
    training: Training,
    drop: Sequence[str],
    model: TabularModel,
    result: QSDPResult,
    scores: Sequence[Figure],
    where: str,
) -> None:
    """Print what was read, what was trained, how good it is, and where it was saved."""
    print_facts(
        [
            *_reading_facts(file, rows, training, drop),
            network_fact(model.network, model.beta, model.loss),
            *_refinement_facts(result),
            ("saved", where),
        ]
    )
    print_figures(
        [
            *certificate_figures(result.certificate, standardised=model.target.classes is None),
            *scores,
            *size_figures(model.network),
            time_figure(result),
        ]
    )


def _refinement_facts(result: QSDPResult) -> list[tuple[str, str]]:
    """Return the fact that says how the sampled neurons were refined."""
    if result.exact is not None:
        text = f"exact: {result.network.n_neurons} neurons after {result.exact.rounds} rounds"
        if result.exact.status != "optimal":
            text += f", not finished: {result.exact.status}"
    elif result.refine == "refit":
        text = f"refit: {result.network.n_neurons} of the sampled neurons kept"
    elif result.refine == "polish":
        text = "polish: single weights of the sampled neurons improved"
    else:
        return []
    return [("refined", text)]


def _weights_fact(training: Training) -> str:
    weighting, weights = training.weighting, training.weights
    if weights is None:
        return ""
    sources = [] if weighting.column is None else [f"column {weighting.column!r}"]
    if weighting.class_weight is not None:
        sources.append(f"{weighting.class_weight} classes")
    return f"{', '.join(sources)}: {weights.min():.6g} to {weights.max():.6g}, {weights.sum():.6g} in all"


def _reading_facts(file: Path, rows: str, training: Training, drop: Sequence[str]) -> list[tuple[str, str]]:
    """Return the facts that say how rows and columns were read."""
    encoder, target = training.encoder, training.target
    numeric = [repr(column.name) for column in encoder.columns if column.categories is None]
    categorical = [
        f"{column.name!r} ({len(column.categories)} values)"
        for column in encoder.columns
        if column.categories is not None
    ]
    dropped = [f"{name!r} (--drop)" for name in drop]
    dropped += [f"{name!r} ({reason})" for name, reason in encoder.dropped.items()]
    if target.classes is None:
        meaning = f"{target.name!r}, a number: mean {target.offset[0]:.6g}, standard deviation {target.scale:.6g}"
        if (distinct := len(np.unique(training.y))) <= _FEW_VALUES:
            meaning += f"; of {distinct} values: --task classification if they are classes"
    elif training.y.shape[1:]:
        meaning = f"{target.name!r}, {len(target.classes)} classes: {first_names([repr(c) for c in target.classes])}"
    else:
        meaning = f"{target.name!r}, classes {target.classes[0]!r} (-1) and {target.classes[1]!r} (+1)"
    facts = [
        ("data", f"{file}: {rows}, d = {encoder.width} encoded columns"),
        ("target", meaning),
        ("weights", _weights_fact(training)),
        ("numeric", first_names(numeric)),
        ("categorical", first_names(categorical)),
        ("dropped", first_names(dropped)),
    ]
    return [(label, text) for label, text in facts if text]
