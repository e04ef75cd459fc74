"""`qsdp demo`: training on a bundled data set."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import typer

from qsdp._utils.validation import FloatArray, check_choice
from qsdp.activations import ACTIVATIONS, PolynomialActivation
from qsdp.cli._options import (
    BILINEAR,
    JOBS,
    LOSS,
    SEED,
    ActivationName,
    Allocation,
    Beta,
    Jobs,
    Levels,
    LossName,
    Neurons,
    Seed,
    activation_name,
    check_loss_of_numbers,
    check_neurons,
    parse_activation,
    training_options,
)
from qsdp.cli._reports import (
    certificate_figures,
    network_fact,
    print_facts,
    print_figures,
    score_figures,
    size_figure,
    time_figure,
)
from qsdp.cli._streams import stage
from qsdp.datasets import list_datasets, load_dataset
from qsdp.losses import get_loss
from qsdp.options import TrainingOptions
from qsdp.pipeline import run_pipeline
from qsdp.tabular import Target, encode_classes, network_inputs

_Rows = tuple[FloatArray, Any]


def demo(
    dataset: Annotated[str, typer.Option(help="A set of `qsdp datasets`.")] = ("breast-cancer-wisconsin"),
    neurons: Neurons = 2500,
    beta: Beta = 10.0,
    loss: LossName = LOSS,
    levels: Levels = TrainingOptions.levels,
    activation: ActivationName = BILINEAR,
    allocation: Allocation = TrainingOptions.allocation,
    seed: Seed = SEED,
    jobs: Jobs = JOBS,
) -> None:
    """Train a network on a bundled data set and show its certified gap to the global optimum.

    80 % of the rows are for training; the columns are standardised and, if the activation has no constant part, a
    column of ones is appended. Only UCI and image sets are downloaded, and nothing else is written.
    """
    tasks = {info.name: info.task for info in list_datasets()}
    check_choice("--dataset", dataset, tasks)
    sigma = parse_activation(activation)
    options = training_options({**locals(), "activation": sigma})
    if tasks[dataset] == "regression":
        check_loss_of_numbers(loss, f"the target of {dataset}")
    with stage(f"Loading {dataset}"):
        train, test, target = _standardised_split(dataset, seed)
        n_columns = train[0].shape[1]
        (X_train, y_train), (X_test, y_test) = ((network_inputs(X, sigma), y) for X, y in (train, test))
        check_neurons(neurons, target.n_outputs(get_loss(loss)))
    with stage(f"Training with {X_train.shape[1]} inputs") as shown:
        coded = encode_classes(y_train, len(target.classes), get_loss(loss)) if target.classes else y_train
        result = run_pipeline(X_train, coded, replace(options, verbose=shown))
    with stage("Scoring"):
        scores = [
            ("training rows", target.score(result.predict(X_train), y_train)),
            ("test rows", target.score(result.predict(X_test), y_test)),
        ]
    sizes = f"{len(X_train)} training + {len(X_test)} test rows, d = {n_columns}"
    print_facts([("data", f"{dataset}: {sizes}"), network_fact(result.network, beta, loss)])
    print_figures(
        [
            *certificate_figures(result.certificate, target),
            *score_figures(target, scores),
            size_figure(result.network),
            time_figure(result),
        ]
    )
    _print_next(
        "qsdp fit FILE.csv --target COLUMN",
        _in_python(target, beta=beta, loss=loss, levels=levels, activation=sigma),
    )


def _in_python(target: Target, *, beta: float, loss: str, levels: int, activation: PolynomialActivation | None) -> str:
    """Return the call of an estimator with the options that differ from its defaults."""
    estimator = "QuantizedNetworkRegressor" if target.classes is None else "QuantizedNetworkClassifier"
    options = [f"beta={beta:g}"]
    if loss != "squared":
        options.append(f"loss={loss!r}")
    if levels != 2:
        options.append(f"levels={levels}")
    if activation is not None:
        name = activation_name(activation)
        options.append(f"activation={name!r}" if name in ACTIVATIONS else f"activation={activation.coefficients}")
    return f"qsdp.{estimator}({', '.join(options)}).fit(X, y)"


def _print_next(shell: str, python: str) -> None:
    typer.echo()
    print_facts([("your file", shell), ("in Python", python)])


def _standardised_split(name: str, seed: int) -> tuple[_Rows, _Rows, Target]:
    """Return training and test parts with standardised columns and encoded targets, and the target."""
    data = load_dataset(name)
    X_train, X_test, y_train, y_test = data.split(seed)
    mean, scale = X_train.mean(axis=0), X_train.std(axis=0)
    scale[scale == 0.0] = 1.0
    X_train, X_test = ((X - mean) / scale for X in (X_train, X_test))
    if data.task == "regression":
        target = Target(data.target_names[0], None, float(y_train.mean()), float(y_train.std()))
        y_train, y_test = ((y - target.mean) / target.scale for y in (y_train, y_test))
    else:
        target = Target("class", tuple(data.target_names))
        y_train, y_test = ((y > 0).astype(np.intp) if data.task == "binary" else y for y in (y_train, y_test))
    return (X_train, y_train), (X_test, y_test), target
