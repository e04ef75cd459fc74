"""`qsdp demo`: train on a set that is here already."""

from __future__ import annotations

from typing import Annotated

import typer

from qsdp._validation import FloatArray, check_choice
from qsdp.cli._options import Seed, check_training_options
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
from qsdp.exceptions import InvalidInputError
from qsdp.lifting import append_constant
from qsdp.pipeline import solve_and_sample
from qsdp.tabular import Target

#: Inputs beyond which a solve takes minutes.
_MANY_INPUTS = 100


def demo(
    dataset: Annotated[str, typer.Option(help="A set of `qsdp datasets`, binary or regression.")] = (
        "breast-cancer-wisconsin"
    ),
    neurons: Annotated[int, typer.Option(help="Neurons to sample.")] = 2500,
    beta: Annotated[float, typer.Option(help="Regularisation, >= 0.")] = 10.0,
    seed: Seed = 0,
) -> None:
    """Train a network on a bundled data set and show how far from optimal it can be, at most.

    80 % of the rows are for training; the columns are standardised and a constant one is appended. Nothing
    is downloaded unless you ask for a UCI set, and nothing is written.
    """
    _check_trainable(dataset)
    check_training_options(neurons, beta, seed)
    with stage(f"Loading {dataset}"):
        X_train, X_test, y_train, y_test, target = _standardised_split(dataset, seed)
    with stage(_solving(X_train.shape[1], neurons)):
        result = solve_and_sample(X_train, y_train, neurons, beta, random_state=seed)
    with stage("Scoring"):
        scores = [
            ("training rows", target.score(result.predict(X_train), y_train)),
            ("test rows", target.score(result.predict(X_test), y_test)),
        ]
    sizes = f"{len(X_train)} training + {len(X_test)} test rows, d = {X_train.shape[1] - 1}"
    certificate = result.certificate
    print_facts([("data", f"{dataset}: {sizes}"), network_fact(result.network, beta, "squared")])
    print_figures(
        [
            *certificate_figures(certificate.lower_bound, certificate.objective, target),
            *score_figures(target, scores),
            size_figure(result.network),
            time_figure(result),
        ]
    )
    estimator = "QuantizedNetworkClassifier" if target.classes else "QuantizedNetworkRegressor"
    _print_next("qsdp fit FILE.csv --target COLUMN", f"qsdp.{estimator}(beta={beta:g}).fit(X, y)")


def _solving(dimension: int, neurons: int) -> str:
    patience = "; this may take minutes" if dimension > _MANY_INPUTS else ""
    return f"Solving the semidefinite relaxation with {dimension} inputs, sampling {neurons} neurons{patience}"


def _print_next(shell: str, python: str) -> None:
    typer.echo()
    print_facts([("your file", shell), ("in Python", python)])


def _check_trainable(name: str) -> None:
    tasks = {info.name: info.task for info in list_datasets()}
    check_choice("--dataset", name, tasks)
    if tasks[name] == "multiclass":
        usable = ", ".join(other for other, task in tasks.items() if task != "multiclass")
        raise InvalidInputError(
            f"dataset {name!r} has more than two classes, this version trains on two; choose one of {usable}"
        )


def _standardised_split(name: str, seed: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, Target]:
    """Return data with the constant column, targets as trained on, and what these stand for."""
    data = load_dataset(name)
    X_train, X_test, y_train, y_test = data.split(seed)
    mean, scale = X_train.mean(axis=0), X_train.std(axis=0)
    scale[scale == 0.0] = 1.0
    X_train, X_test = (append_constant((X - mean) / scale) for X in (X_train, X_test))
    if data.task == "binary":
        return X_train, X_test, y_train, y_test, Target("class", (data.target_names[0], data.target_names[1]))
    target = Target(data.target_names[0], None, float(y_train.mean()), float(y_train.std()))
    y_train, y_test = ((y - target.mean) / target.scale for y in (y_train, y_test))
    return X_train, X_test, y_train, y_test, target
