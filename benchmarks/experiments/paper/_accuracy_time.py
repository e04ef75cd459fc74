"""Figures 2 to 6 of the paper: accuracy against wall-clock time on a UCI set, how it is measured.

Ten splits of the paper's shares, standardised, with a constant column. Every network, a rounded one for itself, chooses
its beta, and gradient methods their learning rate, by its own accuracy on a fourth of the training part that it is not
fitted to, and is then fitted to the whole; test rows are only predicted. Of equal candidates the largest beta is taken.
The grid of each figure holds the beta that the paper prints for it. Seconds are those of the fit at the chosen
parameters, on one thread; the search is timed apart, and one search of a gradient method serves all its roundings.

"paper" is the program (25) as printed, one block of twice the size, solved by SCS, the covariance by (27), m sampled
neurons. "qsdp" is the tight program by our own solver with the covariance in closed form; "refitted" and "polished"
follow it. "column generation" goes on towards the global optimum over all widths for at most 10 seconds, 1 for each
beta tried: its own bound says how far it came, and how many splits it proved. "backprop" trains real weights with the
second layer fixed; "backprop, signs" rounds them with one scale (section 5.1); "backprop, SDP" matches the trained
network's outputs on the training rows by one from the relaxation (`qsdp.distill`); "straight-through" trains signs.
"ReLU" is a two-layer network of 2 m neurons, the same number of first-layer weights, "ReLU, signs" the same with that
layer rounded, a scale a neuron. Gradients are 32-bit, batches of 64.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

import qsdp
from benchmarks.experiments._common import accuracy, timed
from benchmarks.experiments._data import standardised, targets_of, with_constant
from benchmarks.experiments._methods import Predict, fits

BETAS = (0.01, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
RATES = (0.03, 0.1, 0.01)
RELU_RATES = (0.15, 0.5, 0.05)
#: Weight decay of real ReLU weights is no price of binary ones; 1e-7 is printed at Figure 6.
RELU_DECAYS = (100.0, 10.0, 1.0, 1e-7)
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
    epochs: int,
    decays: Sequence[float],
    methods: Sequence[str] = METHODS,
    quick: bool = False,
) -> list[dict[str, Any]]:
    """Return a case for each split, method and number of neurons; column generation has none."""
    found = []
    for split in range(1 if quick else 10):
        for method in methods:
            if quick and method not in QUICK:
                continue
            for m in (None,) if method == "column generation" else (min(sizes[0], 300),) if quick else sizes:
                case: dict[str, Any] = {"set": dataset, "method": method, "m": m, "split": split}
                if method in TRAINED:
                    case |= {"epochs": 3 if quick else epochs}
                    case |= {"decays": list(RELU_DECAYS if method == "ReLU" else decays)}
                else:
                    case |= {"betas": list(BETAS[2::2] if quick else BETAS)}
                found.append(case)
    return found


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Return accuracies and seconds of a method, and of what is made of its network."""
    X, X_test, y, y_test = standardised(case["set"], case["split"])

    def accuracies(predict: Predict) -> dict[str, float]:
        return {"train": accuracy(predict(X), y), "test": accuracy(predict(X_test), y_test)}

    figures, networks, course = (convex if case["method"] in CONVEX else trained)(case, X, y)
    return {
        **figures,
        "variants": {name: {**accuracies(predict), **found} for name, (predict, found) in networks.items()},
        "course": [{"seconds": seconds, **accuracies(predict)} for seconds, predict in course],
    }


# -- by convex optimisation ------------------------------------------------------------------------------


def convex(case: dict[str, Any], X: np.ndarray, y: np.ndarray) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
    """Choose beta on held-out rows, then solve on all."""
    # CVXPY and its solver are loaded with the first problem.
    network_of({**case, "m": 2}, np.eye(3), np.array([1.0, -1.0, 1.0]), 0.1, 0.1)
    (X,) = with_constant(X)
    betas = case["betas"]
    start = time.perf_counter()
    part, held, y_part, y_held = train_test_split(X, y, test_size=0.25, stratify=y, random_state=case["split"])
    scores = [accuracy(network_of(case, part, y_part, b, SEARCH_LIMIT)[0].predict(held), y_held) for b in betas]
    beta = max(zip(scores, betas, strict=True))[1]
    searching = time.perf_counter() - start
    start = time.perf_counter()
    network, certificate = network_of(case, X, y, beta, LIMIT)
    seconds = time.perf_counter() - start
    certificate = certificate()
    gap = certificate.relative_gap
    figures = {"search_seconds": searching, "candidates": len(betas), "beta": beta, "gap": gap}
    # Proven: to the tolerance of column generation.
    found = {"bits": network.n_bits, "neurons": network.n_neurons, "seconds": seconds, "proven": bool(gap <= 1e-6)}
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


# -- by gradients ----------------------------------------------------------------------------------------


def model_of(case: dict[str, Any]) -> Any:
    """Return an untrained classifier."""
    from qsdp.baselines import BackpropClassifier, ReLUNetworkClassifier, StraightThroughClassifier

    common = {"n_epochs": case["epochs"], "random_state": case["split"], "batch_size": BATCH, "dtype": "float32"}
    if case["method"] == "backprop":
        return BackpropClassifier(case["m"], second_layer="fixed", **common)
    if case["method"] == "ReLU":
        return ReLUNetworkClassifier(2 * case["m"], **common)
    return StraightThroughClassifier(case["m"], **common)


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


def trained(case: dict[str, Any], X: np.ndarray, y: np.ndarray) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
    """Choose learning rate and beta on held-out rows for every network, train on all, round what was trained."""
    from qsdp.model_selection import search_on_validation

    method = case["method"]
    makes = roundings(case, X)
    # PyTorch loads parts of itself with the first optimiser.
    model_of({**case, "epochs": 1, "m": 8}).fit(X, y)

    def scorer(make: Callable[[Any], tuple[Predict, Any]]) -> Callable[[Any, np.ndarray, np.ndarray], float]:
        return lambda model, rows, labels: accuracy(make(model)[0](rows), labels)

    grid = {"beta": case["decays"], "learning_rate": list(RELU_RATES if method == "ReLU" else RATES)}
    scoring = {method: "accuracy", **{name: scorer(make) for name, make in makes.items()}}
    search = search_on_validation(model_of(case), X, y, grid, scoring=scoring, refit=False, random_state=case["split"])
    fitted = fits(model_of(case), X, y, time.perf_counter)
    best = search.best_for(method)
    model, seconds = fitted(best)
    network = getattr(model, "network_", None)
    neurons = 2 * case["m"] if method == "ReLU" else case["m"]
    found = {"bits": getattr(network, "n_bits", None), "neurons": neurons, "seconds": seconds, "parameters": best}
    networks: dict[str, Any] = {method: (model.decision_function, found)}
    for name, make in makes.items():
        parameters = search.best_for(name)
        source, fitting = fitted(parameters)
        (predict, network), making = timed(lambda make=make, source=source: make(source), time.perf_counter)
        found = {"bits": network.n_bits, "neurons": neurons, "seconds": fitting + making, "parameters": parameters}
        networks[name] = predict, found
    course = []
    for epochs in (one for one in CHECKPOINTS if one < case["epochs"]):
        early, spent = fits(model_of({**case, "epochs": epochs}), X, y, time.perf_counter)(best)
        course.append((spent, early.decision_function))
    figures = {
        "search_seconds": search.search_seconds_,
        "candidates": search.n_candidates_,
        "diverged": model.history_.diverged is not None,
    }
    return figures, networks, [*course, (seconds, model.decision_function)]
