"""Figures 2 to 6 of the paper: accuracy against time on a UCI set, how it is measured.

Ten splits of the paper's shares, standardised, with a constant column. Every network, a rounded one for itself, chooses
its beta, and gradient methods their learning rate, by its own accuracy on a fourth of the training part that it is not
fitted to, and is then fitted to the whole; test rows are only predicted. All grids begin with three values a parameter
and extend themselves until the choice has tried neighbours (`qsdp.bench._grid`: beta from 1e-4 to 1e4, twelve more
candidates at most); the beta that the paper prints for backpropagation, and for the ReLU network, is a candidate
besides. Of equal candidates the largest beta of the first three is taken. Gradient methods train for as
many epochs as samples held out of the fit improve, 300 at most. Seconds are those of the processor, of the fit at the
chosen parameters; the search is timed apart, and one search of a gradient method serves all its roundings.

"paper" is the program (25) as printed, one block of twice the size, solved by SCS, the covariance by (27), m sampled
neurons. "qsdp" is the tight program by our own solver with the covariance in closed form; "refitted" and "polished"
follow it. "column generation" goes on towards the global optimum over all widths for at most 10 seconds, 1 for each
beta tried: its own bound says how far it came, and how many splits it proved. "backprop" trains real weights with the
second layer fixed; "backprop, signs" rounds them with one scale (section 5.1); "backprop, SDP" matches the trained
network's outputs on the training rows by one from the relaxation (`qsdp.distill`); "straight-through" trains signs,
from trained real weights.
"ReLU" is a two-layer network of 2 m neurons, the same number of first-layer weights, "ReLU, signs" the same with that
layer rounded, a scale a neuron. Gradients are 32-bit, batches of 64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import qsdp
from benchmarks.experiments._common import accuracy, timed
from benchmarks.experiments._data import standardised, targets_of, with_constant
from benchmarks.experiments._methods import Predict, fits, fourth
from qsdp.bench._grid import BUDGET, chosen_by
from qsdp.model_selection import Choice

BETAS = [100.0, 10.0, 1.0]
RATES = [0.1, 0.03, 0.01]
#: Weight decay of real ReLU weights is no price of binary ones; the last is printed at Figure 6.
RELU_BETAS, RELU_RATES, RELU_PRINTED = [10.0, 1.0, 0.1], [0.5, 0.15, 0.05], 1e-7
BATCH = 64
#: Seconds of column generation, and for each beta that is tried.
LIMIT, SEARCH_LIMIT = 10.0, 1.0
#: Epochs at which the course of a training is measured, by trainings of so many epochs.
CHECKPOINTS = (1, 3, 10, 30)
CONVEX = ("paper", "qsdp", "refitted", "polished", "column generation")
TRAINED = ("backprop", "straight-through", "ReLU")
METHODS = (*CONVEX, *TRAINED)
QUICK = ("paper", "polished", "backprop")


def cases_of(
    dataset: str,
    sizes: Sequence[int],
    *,
    printed: float | None = None,
    methods: Sequence[str] = METHODS,
    quick: bool = False,
) -> list[dict[str, Any]]:
    """Return a case for each split, method and number of neurons; column generation has none.

    `printed` is the beta of backpropagation in the paper.
    """
    found = []
    for split in range(1 if quick else 10):
        for method in methods:
            if quick and method not in QUICK:
                continue
            for m in (None,) if method == "column generation" else (min(sizes[0], 300),) if quick else sizes:
                case: dict[str, Any] = {"set": dataset, "method": method, "m": m, "split": split}
                if method in TRAINED:
                    case |= {"epochs": 3 if quick else BUDGET.n_epochs}
                    case |= {"printed": RELU_PRINTED if method == "ReLU" else printed}
                found.append(case)
    return found


def run(case: dict[str, Any]) -> dict[str, Any]:
    X, X_test, y, y_test = standardised(case["set"], case["split"])

    def accuracies(predict: Predict) -> dict[str, float]:
        return {"train": accuracy(predict(X), y), "test": accuracy(predict(X_test), y_test)}

    figures, networks, course = (convex if case["method"] in CONVEX else trained)(case, X, y)
    return {
        **figures,
        "variants": {name: {**accuracies(predict), **found} for name, (predict, found) in networks.items()},
        "course": [{"seconds": seconds, **accuracies(predict)} for seconds, predict in course],
    }


def convex(case: dict[str, Any], X: np.ndarray, y: np.ndarray) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
    """Choose beta on held-out rows, then solve on all."""
    # CVXPY and its solver are loaded with the first problem.
    network_of({**case, "m": 2}, np.eye(3), np.array([1.0, -1.0, 1.0]), 0.1, 0.1)
    (X,) = with_constant(X)
    ((part, held),) = fourth(y, case["split"])

    def score(values: dict[str, float]) -> float:
        network, _ = network_of(case, X[part], y[part], values["beta"], SEARCH_LIMIT)
        return accuracy(network.predict(X[held]), y[held])

    choice, searching = timed(lambda: BUDGET.choose({"beta": BETAS}, score))
    (network, certificate), seconds = timed(lambda: network_of(case, X, y, choice.best["beta"], LIMIT))
    gap = certificate().relative_gap
    figures = {"search_seconds": searching, "candidates": len(choice.scores), "gap": gap}
    # Proven: to the tolerance of column generation.
    found = {"bits": network.n_bits, "neurons": network.n_neurons, "seconds": seconds, "proven": bool(gap <= 1e-6)}
    found |= {"parameters": choice.best, "undecided": choice.undecided}
    return figures, {case["method"]: (lambda rows: network.predict(constant(rows, X)), found)}, []


def constant(rows: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Return rows with the column of ones, unless they have it."""
    return with_constant(rows)[0] if rows.shape[1] < X.shape[1] else rows


def network_of(
    case: dict[str, Any], X: np.ndarray, y: np.ndarray, beta: float, limit: float
) -> tuple[Any, Callable[[], qsdp.Certificate]]:
    """Return a network by way of the relaxation, and what certifies it."""
    method, m, seed = case["method"], case["m"], case["split"]
    problem = qsdp.TrainingProblem(X, targets_of(y), beta=beta)
    if method == "paper":
        relaxation = qsdp.solve_relaxation(problem, solver="scs", form="full", regularization="paper")
        covariance = qsdp.shape_covariance(relaxation, method="sdp")
    else:
        relaxation = qsdp.solve_relaxation(problem)
        if method == "column generation":
            found = qsdp.column_generation(problem, relaxation=relaxation, time_limit=limit, random_state=seed)
            return found.network, lambda: found.certificate
        covariance = qsdp.shape_covariance(relaxation)
    network = qsdp.sample_network(covariance, m, random_state=seed)
    if method == "refitted":
        network = qsdp.refit(network, problem)
    if method == "polished":
        network = qsdp.polish(network, problem, random_state=seed)
    return network, lambda: qsdp.certify(network, problem, relaxation)


def model_of(case: dict[str, Any]) -> Any:
    from qsdp.baselines import BackpropClassifier, ReLUNetworkClassifier, StraightThroughClassifier

    epochs = case["epochs"]
    common = {**BUDGET.training, "n_epochs": epochs, "random_state": case["split"]}
    common |= {"batch_size": BATCH, "dtype": "float32"}
    if case["method"] == "backprop":
        return BackpropClassifier(case["m"], second_layer="fixed", **common)
    if case["method"] == "ReLU":
        return ReLUNetworkClassifier(2 * case["m"], **common)
    return StraightThroughClassifier(case["m"], start="float", start_epochs=min(50, epochs), **common)


def roundings(case: dict[str, Any], X: np.ndarray) -> dict[str, Callable[[Any], tuple[Predict, Any]]]:
    """Return what is made of a trained network, its predictions and a network; X are training rows, without labels."""

    def signs(model: Any) -> tuple[Predict, Any]:
        network = model.quantized(scale="shared")
        return lambda rows: network.predict(model.network_inputs(rows)), network

    def match(model: Any) -> tuple[Predict, Any]:
        found = qsdp.distill(model, X, case["m"], random_state=case["split"])
        return found.predict, found.network

    def relu(model: Any) -> tuple[Predict, Any]:
        network = model.quantized()
        return network.predict, network

    return {
        "backprop": {"backprop, signs": signs, "backprop, SDP": match},
        "ReLU": {"ReLU, signs": relu},
        "straight-through": {},
    }[case["method"]]


def or_printed(
    choices: Mapping[str, Choice],
    measures: Mapping[str, Callable[[Any, np.ndarray, np.ndarray], float]],
    case: dict[str, Any],
    rates: Sequence[float],
    X: np.ndarray,
    y: np.ndarray,
) -> dict[str, Choice]:
    """Return choices, or where it is better on the held-out rows the printed beta with the best of some rates."""
    ((part, held),) = fourth(y, case["split"])
    fitted = fits(model_of(case), X[part], y[part])
    candidates = [{"beta": case["printed"], "learning_rate": rate} for rate in rates]

    def better(choice: Choice, measure: Callable[[Any, np.ndarray, np.ndarray], float]) -> Choice:
        scores = [(values, measure(fitted(values)[0], X[held], y[held])) for values in candidates]
        values, score = max(scores, key=lambda one: one[1])
        choice = replace(choice, scores=[*choice.scores, *scores])
        return replace(choice, best=values, score=score, undecided={}) if score > choice.score else choice

    return {name: better(choice, measures[name]) for name, choice in choices.items()}


def trained(case: dict[str, Any], X: np.ndarray, y: np.ndarray) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
    """Choose learning rate and beta on held-out rows for every network, train on all, round what was trained."""
    method = case["method"]
    makes = roundings(case, X)
    # PyTorch loads parts of itself with the first optimiser.
    model_of({**case, "epochs": 1, "m": 8}).fit(X, y)

    def scorer(make: Callable[[Any], tuple[Predict, Any]]) -> Callable[[Any, np.ndarray, np.ndarray], float]:
        return lambda model, rows, labels: accuracy(make(model)[0](rows), labels)

    betas, rates = (RELU_BETAS, RELU_RATES) if method == "ReLU" else (BETAS, RATES)
    grid = {"beta": betas, "learning_rate": rates}
    measures = {method: scorer(lambda model: (model.decision_function, None))}
    measures |= {name: scorer(make) for name, make in makes.items()}
    folds = fourth(y, case["split"])

    def search() -> dict[str, Choice]:
        found = chosen_by(measures, model_of(case), grid, X, y, folds)
        return found if case["printed"] is None else or_printed(found, measures, case, rates, X, y)

    choices, searching = timed(search)
    fitted = fits(model_of(case), X, y)
    neurons = 2 * case["m"] if method == "ReLU" else case["m"]

    def figures_of(name: str, network: Any, seconds: float) -> dict[str, Any]:
        """Return what is told of a network besides its accuracies."""
        choice, bits = choices[name], getattr(network, "n_bits", None)
        found = {"bits": bits, "neurons": neurons, "seconds": seconds}
        return {**found, "parameters": choice.best, "undecided": choice.undecided}

    model, seconds = fitted(choices[method].best)
    network = getattr(model, "network_", None)
    networks: dict[str, Any] = {method: (model.decision_function, figures_of(method, network, seconds))}
    for name, make in makes.items():
        source, fitting = fitted(choices[name].best)
        (predict, network), making = timed(lambda make=make, source=source: make(source))
        networks[name] = predict, figures_of(name, network, fitting + making)
    course = []
    for epochs in (one for one in CHECKPOINTS if one < case["epochs"]):
        early, spent = fits(model_of({**case, "epochs": epochs}), X, y)(choices[method].best)
        course.append((spent, early.decision_function))
    figures = {
        "search_seconds": searching,
        "candidates": max(len(choice.scores) for choice in choices.values()),
        "diverged": model.history_.diverged is not None,
    }
    return figures, networks, [*course, (seconds, model.decision_function)]
