"""`qsdp demo`: training on a bundled data set."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from qsdp._utils.summary import format_percent
from qsdp._utils.validation import FloatArray, check_choice
from qsdp.certificates import Certificate
from qsdp.choosing.neurons import MAX_NEURONS
from qsdp.cli import _flags as flags
from qsdp.cli._reports import print_facts, print_figures, time_figure
from qsdp.cli._streams import stage
from qsdp.datasets import load_bundled
from qsdp.datasets._bundled import SPECS
from qsdp.networks import BilinearNetwork
from qsdp.networks.weights import FLOAT_BITS
from qsdp.report.figures import (
    Figure,
    certificate_figures,
    network_fact,
    show_score,
    size_figures,
)
from qsdp.report.rivals import mean_and_error
from qsdp.report.sizes import LINEAR_BITS, rounded_linear


def demo(
    dataset: Annotated[str, typer.Option(help="A set of `qsdp datasets`.")] = "iris",
    refine: flags.Refinement = "polish",
    seed: flags.Seed = flags.SEED,
) -> None:
    """Train a network and a linear model on a bundled data set, and show the gap of the network to the global optimum.

    80 % of the rows are for training. Nothing is downloaded or written.
    """
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from qsdp.estimators import QuantizedNetworkClassifier, QuantizedNetworkRegressor

    check_choice("--dataset", dataset, SPECS)
    settings = {"encoding": "standard", **flags.training_options({"refine": refine, "seed": seed})}
    numbers = SPECS[dataset].task == "regression"
    with stage(f"Loading {dataset}"):
        X, X_test, y, y_test = load_bundled(dataset).split(seed)
    with stage(f"Training with {X.shape[1]} columns"):
        estimator = QuantizedNetworkRegressor if numbers else QuantizedNetworkClassifier
        # Thresholds would be inputs that the linear model does not have.
        model = estimator(**settings, verbose=True).fit(X, y)
    with stage(f"Baseline: {'ridge' if numbers else 'logistic'} regression"):
        linear = RidgeCV(np.logspace(-3, 4, 15)) if numbers else LogisticRegression(max_iter=2000)
        rival = make_pipeline(StandardScaler(), linear).fit(X, y)
        eight_bits, rounded_bits = rounded_linear(linear)
        rounded = make_pipeline(rival[0], eight_bits)
    kind = "ridge" if numbers else "logistic"
    sizes = f"{len(X)} training + {len(X_test)} test rows, {X.shape[1]} columns"
    print_facts([("data", f"{dataset}: {sizes}"), network_fact(model)])
    print_figures(
        [
            *certificate_figures(model.certificate_, standardised=numbers),
            _score("network", model, (X, y), (X_test, y_test), numbers=numbers),
            _score(kind, rival, (X, y), (X_test, y_test), numbers=numbers),
            _score(f"in {LINEAR_BITS} bits", rounded, (X, y), (X_test, y_test), numbers=numbers),
            *size_figures(model.network_),
            ("", f"{FLOAT_BITS * (linear.coef_.size + np.size(linear.intercept_)):,} bits", f"of {kind} regression"),
            ("", f"{rounded_bits:,} bits", f"of {kind} regression in {LINEAR_BITS} bits"),
            time_figure(model.result_),
        ]
    )
    typer.echo()
    changed = {name: value for name, value in settings.items() if value != getattr(estimator(), name)}
    arguments = ", ".join(f"{name}={value!r}" for name, value in changed.items())
    gains = _gains(y_test, model.predict(X_test), rounded.predict(X_test), numbers=numbers)
    print_facts(
        [
            ("why these", _reason(model.network_, refine)),
            ("proof", _use_of_bound(model.certificate_)),
            ("choose", _choice(f"{kind} regression in {LINEAR_BITS} bits", gains)),
            ("your file", "qsdp fit FILE.csv --target COLUMN"),
            ("in Python", f"qsdp.{type(model).__name__}({arguments}).fit(X, y)"),
        ]
    )


def _score(name: str, model: Any, train: Any, test: Any, *, numbers: bool) -> Figure:
    fitted, tested = (show_score(model.score(*rows), number=numbers) for rows in (train, test))
    return name, tested, f"{'R²' if numbers else 'accuracy'} on test rows, {fitted} on training rows"


def _reason(network: BilinearNetwork, refine: str) -> str:
    """Return why a network has as many neurons as it has."""
    if refine == "exact":
        return f"column generation ended with {network.n_neurons} neurons"
    each = "neurons per output" if network.output_shape else "neurons"
    per_output = network.n_neurons // network.n_outputs
    if per_output < MAX_NEURONS:
        return f"{per_output} {each} match the relaxation; more add little"
    return f"{per_output} {each}, the largest number tried by default"


def _use_of_bound(certificate: Certificate) -> str:
    if certificate.proven_optimal:
        return "neither more neurons nor longer training can lower the objective"
    gap = format_percent(certificate.relative_gap)
    return f"more neurons or training can lower the objective by at most {gap}"


def _gains(y: Any, ours: Any, theirs: Any, *, numbers: bool) -> FloatArray:
    """Return for each test row what the network gains: in hits, or in squared error."""
    if numbers:
        return np.asarray((theirs - y) ** 2 - (ours - y) ** 2, dtype=np.float64)
    return np.asarray((ours == y).astype(np.float64) - (theirs == y))


def _choice(linear: str, gains: FloatArray) -> str:
    """Return the model whose predictions of the test rows are better by more than chance explains."""
    gain, error = mean_and_error(gains)
    if abs(gain) <= 2.0 * error:
        return f"either: within two standard errors on the {len(gains)} test rows"
    return f"{'this network' if gain > 0.0 else linear}: better by {abs(gain) / error:.1f} standard errors"
