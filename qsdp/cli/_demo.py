"""`qsdp demo`: training on a bundled data set."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import typer

from qsdp._utils.validation import check_choice
from qsdp.activations import PolynomialActivation
from qsdp.cli import _flags as flags
from qsdp.cli._reports import print_facts, print_figures, time_figure
from qsdp.cli._streams import stage
from qsdp.datasets import list_datasets, load_dataset
from qsdp.estimators import EstimatorOptions
from qsdp.estimators.classes import class_shape
from qsdp.losses import get_loss
from qsdp.options import TrainingOptions
from qsdp.report.figures import SINGLE, Figure, certificate_figures, network_fact, show_score, size_figures


def demo(
    dataset: Annotated[str, typer.Option(help="A set of `qsdp datasets`.")] = "iris",
    encoding: flags.EncodingName = "standard",
    neurons: flags.Neurons = EstimatorOptions.n_neurons,
    beta: flags.Beta = flags.BETA,
    loss: flags.LossName = flags.LOSS,
    levels: flags.Levels = EstimatorOptions.levels,
    activation: flags.ActivationName = flags.ACTIVATION,
    allocation: flags.Allocation = EstimatorOptions.allocation,
    refine: flags.Refinement = EstimatorOptions.refine,
    tol: flags.Tolerance = EstimatorOptions.tol,
    time_limit: flags.TimeLimit = EstimatorOptions.time_limit,
    seed: flags.Seed = flags.SEED,
    jobs: flags.Jobs = flags.JOBS,
) -> None:
    """Train a network and a linear model on a bundled data set, and show the gap of the network to the global optimum.

    80 % of the rows are for training. Only UCI and image sets are downloaded, and nothing else is written.
    """
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from qsdp.estimators import QuantizedNetworkClassifier, QuantizedNetworkRegressor

    tasks = {info.name: info.task for info in list_datasets()}
    check_choice("--dataset", dataset, tasks)
    check_choice("--encoding", encoding, flags.ENCODING_NAMES)
    options = flags.training_options({**locals(), "activation": flags.parse_activation(activation)})
    numbers = tasks[dataset] == "regression"
    if numbers:
        flags.check_loss_of_numbers(loss, f"the target of {dataset}")
    with stage(f"Loading {dataset}"):
        X, X_test, y, y_test = load_dataset(dataset).split(seed)
        flags.check_neurons(neurons, 1 if numbers else math.prod(class_shape(len(np.unique(y)), get_loss(loss))))
    given = {name: getattr(options, name) for name in TrainingOptions.declared()}
    given |= {"activation": options.activation if "," in activation else activation, "encoding": encoding}
    with stage(f"Training with {X.shape[1]} columns"):
        estimator = QuantizedNetworkRegressor if numbers else QuantizedNetworkClassifier
        model = estimator(**{**given, "verbose": True}).fit(X, y)
    with stage(f"Baseline: {'ridge' if numbers else 'logistic'} regression"):
        linear = RidgeCV(np.logspace(-3, 4, 15)) if numbers else LogisticRegression(max_iter=2000)
        rival = make_pipeline(StandardScaler(), linear).fit(X, y)
    kind = "ridge" if numbers else "logistic"
    network, problem = model.network_, model.result_.problem
    sizes = f"{len(X)} training + {len(X_test)} test rows, {X.shape[1]} columns"
    print_facts([("data", f"{dataset}: {sizes}"), network_fact(network, problem.beta, loss)])
    print_figures(
        [
            *certificate_figures(model.certificate_, standardised=numbers),
            _score("network", model, (X, y), (X_test, y_test), numbers=numbers),
            _score(kind, rival, (X, y), (X_test, y_test), numbers=numbers),
            *size_figures(network),
            ("", f"{SINGLE * (linear.coef_.size + np.size(linear.intercept_)):,} bits", f"of {kind} regression"),
            time_figure(model.result_),
        ]
    )
    typer.echo()
    print_facts([("your file", "qsdp fit FILE.csv --target COLUMN"), ("in Python", _call(model, given))])


def _score(name: str, model: Any, train: Any, test: Any, *, numbers: bool) -> Figure:
    fitted, tested = (show_score(model.score(*rows), number=numbers) for rows in (train, test))
    return name, tested, f"{'R^2' if numbers else 'accuracy'} on test rows, {fitted} on training rows"


def _call(model: Any, given: Mapping[str, Any]) -> str:
    """Return the Python call that creates the same estimator, with the options that differ from its defaults."""
    own = {"n_jobs", "random_state", "verbose"}
    changed = {
        name: value for name, value in given.items() if value != getattr(EstimatorOptions, name) and name not in own
    }
    arguments = ", ".join(f"{name}={_text(value)}" for name, value in changed.items())
    return f"qsdp.{type(model).__name__}({arguments}).fit(X, y)"


def _text(value: Any) -> str:
    if isinstance(value, PolynomialActivation):
        return str(value.coefficients)
    return f"{value:g}" if isinstance(value, float) else repr(value)
