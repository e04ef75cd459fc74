"""Classifiers trained by gradients, and networks made of them, each at hyper-parameters of its own choice.

Candidates are compared by accuracy, of what is rounded that of the rounded network, on a fourth of the rows that
nothing is fitted to; the choice is fitted to all of them. Grids extend themselves until neighbours of the chosen
values have been tried (`qsdp.bench._grid`: beta from 1e-4 to 1e4, twelve more candidates at most); of equal
candidates the first is taken, so those of a larger beta come first. Gradients are 32-bit, in batches of 64, for as
many epochs as samples held out of the fit improve, 300 at most; the last fit is to all rows, for as many. Straight-
through training begins with trained real weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import qsdp
from benchmarks.experiments._common import accuracy, timed
from benchmarks.experiments._data import Split
from benchmarks.experiments._methods import Predict, fits, fourth, outputs_of
from qsdp.bench._grid import BUDGET, chosen_by
from qsdp.bench.uci.bits import plain_bits
from qsdp.model_selection import Choice

#: What makes a network of a trained model: its predictions, and itself.
Make = Callable[[Any], tuple[Predict, Any]]
#: Predictions of networks and figures, by name.
Networks = dict[str, tuple[Predict, dict[str, Any]]]

EPOCHS = BUDGET.n_epochs
BETAS = [100.0, 10.0, 1.0]
#: Weight decay of real ReLU weights is no price of binary ones.
RELU_BETAS = [10.0, 1.0, 0.1]
RATES, RELU_RATES = (0.1, 0.03, 0.01, 0.3), (0.5, 0.15, 0.05, 1.5)
#: Scales of rounded weights: one in all, one a neuron, or one of the layer where a neuron has one weight vector.
SCALES = {"backprop": "shared", "backprop, free": "neuron", "polynomial": "layer", "ReLU": "neuron"}


def model_of(system: str, m: int, seed: int, epochs: int) -> Any:
    from qsdp.baselines import BackpropClassifier, ReLUNetworkClassifier, StraightThroughClassifier

    common = {**BUDGET.training, "n_epochs": epochs, "batch_size": 64, "random_state": seed, "dtype": "float32"}
    straight = partial(StraightThroughClassifier, start="float", start_epochs=min(50, epochs))
    kinds: dict[str, Callable[..., Any]] = {
        "backprop": partial(BackpropClassifier, second_layer="fixed"),
        "backprop, free": BackpropClassifier,
        "polynomial": partial(BackpropClassifier, activation="relu_like"),
        "straight-through": straight,
        "straight-through, one scale": partial(straight, second_layer="shared"),
        "ReLU": ReLUNetworkClassifier,
    }
    return kinds[system](m, **common)


def grid_of(system: str, n_rates: int) -> dict[str, list[float]]:
    betas, rates = (RELU_BETAS, RELU_RATES) if system == "ReLU" else (BETAS, RATES)
    return {"beta": betas, "learning_rate": list(rates[:n_rates])}


def itself(model: Any) -> tuple[Predict, Any]:
    return model.decision_function, model.network_


def rounded(system: str) -> dict[str, Make]:
    """Return what rounds a trained network to signs, if it is not of signs."""

    def make(model: Any) -> tuple[Predict, Any]:
        network = model.quantized(scale=SCALES[system])
        return outputs_of(model, network), network

    return {f"{system}, signs": make} if system in SCALES else {}


def matched(model: Any, *, X: np.ndarray, m: int, seed: int, refine: str) -> tuple[Predict, Any]:
    """Return a network of the relaxation that matches the outputs on training rows."""
    found = qsdp.distill(model, X, m, refine=refine, random_state=seed)
    return found.predict, found.network


def chosen(
    model: Any,
    grid: Mapping[str, Sequence[float]],
    makes: Mapping[str, Make],
    X: np.ndarray,
    y: np.ndarray,
    seed: int,
    *,
    more: Sequence[dict[str, float]] = (),
    later: Mapping[str, Make] | None = None,
) -> tuple[float, Networks]:
    """Return the seconds of the search, and networks of a model, with the seconds of fit and making.

    Each of `makes` has a choice of its own, from a grid or of `more` candidates, and those of `later` the choice of the
    first.
    """
    ((part, held),) = folds = fourth(y, seed)

    def measure_of(make: Make) -> Callable[[Any, np.ndarray, np.ndarray], float]:
        return lambda fitted, rows, labels: accuracy(make(fitted)[0](rows), labels)

    measures = {name: measure_of(make) for name, make in makes.items()}

    def search() -> dict[str, Choice]:
        found = chosen_by(measures, model, grid, X, y, folds)
        on_part = fits(model, X[part], y[part])
        for name, measure in measures.items():
            for values in more:
                score = measure(on_part(values)[0], X[held], y[held])
                if score > found[name].score:
                    found[name] = replace(found[name], best=values, score=score, undecided={})
        return found

    choices, searching = timed(search)
    fitted, networks = fits(model, X, y, fit=BUDGET.fit), {}
    for name, make in {**makes, **(later or {})}.items():
        choice = choices.get(name, next(iter(choices.values())))
        source, fitting = fitted(choice.best)
        (predict, network), making = timed(partial(make, source))
        figures = {"bits": plain_bits(network) if hasattr(network, "n_bits") else None, "seconds": fitting + making}
        networks[name] = predict, {**figures, "at an edge": bool(choice.undecided)}
    return searching, networks


def scored(networks: Networks, split: Split) -> dict[str, dict[str, Any]]:
    """Return accuracies and figures of networks."""
    X, X_test, y, y_test = split
    return {
        name: {"train": accuracy(predict(X), y), "test": accuracy(predict(X_test), y_test), **figures}
        for name, (predict, figures) in networks.items()
    }
