"""Figures 2, 3, 5 and 6 of the paper as figures, at the betas, numbers of neurons and inputs that it prints.

The data are ten splits with the paper's proportions, standardised, once with the paper's number of inputs and once with
a constant column besides (for the ReLU network: without and with biases). Nothing is chosen but the learning rate,
which the paper tunes "offline": of 0.1, 0.03 and 0.01 (ReLU: 0.5, 0.15 and 0.05), the one with the smallest training
objective after 30 epochs. Where every network chooses its own beta, see the page of `accuracy_time`. Claims are about
the paper's number of inputs.

"backpropagation" is the network with real weights and the second layer fixed after 1, 3, 10, 30, 100 and 300 epochs,
each trained from the same start, in batches of 64; "rounded backpropagation" is the last of these with weights rounded
to signs and one scale. "program and sampling" is (25) as printed, solved by SCS, with the covariance of (27) and m
sampled neurons. "ReLU network" has 2 m neurons; "rounded ReLU network" has signs in the first layer and a scale per
neuron. Panels show accuracies on the rows of training and on those of testing against CPU time of one thread,
without the search of the learning rate: means over the splits, with deviations.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import qsdp
from benchmarks.data.sets import standardised, with_constant
from benchmarks.machinery import draw
from benchmarks.machinery.common import (
    PAPER,
    Records,
    accuracy,
    by,
    experiment_in,
    grid,
    grouped,
    seconds,
    timed,
    unfolded,
    where,
)
from benchmarks.machinery.verdicts import Claim, paired_claim
from benchmarks.methods.networks import outputs_of
from benchmarks.runner import Record

#: Figure, set, neurons, beta of the program, rival, and beta of the rival.
FIGURES: dict[str, tuple[str, int, float, str, float]] = {
    "2": ("breast-cancer", 250, 0.1, "backprop", 0.1),
    "3": ("ionosphere", 2500, 10.0, "backprop", 1e-6),
    "5 a, b": ("credit-approval", 500, 10.0, "backprop", 1e-3),
    "5 c, d": ("credit-approval", 2500, 10.0, "backprop", 1e-3),
    "6": ("ionosphere", 2500, 10.0, "ReLU", 1e-7),
}
EPOCHS = (1, 3, 10, 30, 100, 300)
#: Epochs after which the learning rate is chosen, and candidates.
CHOOSING = 30
RATES = {"backprop": (0.1, 0.03, 0.01), "ReLU": (0.5, 0.15, 0.05)}
PROGRAM = "program and sampling"
#: Names of a rival's curve and of its marker.
SERIES = {
    "backprop": ("backpropagation", "rounded backpropagation"),
    "ReLU": ("ReLU network", "rounded ReLU network"),
}
KEYS = ("series", "epochs")
#: What the figures show of the program beside the rounded network, by measurement; and their short names.
SHOWN = {
    "has the higher training accuracy": "train",
    "has the higher test accuracy": "test",
    "takes less time (the fit)": "seconds",
}
NAMES = ("program", "rounded")


def cases(quick: bool) -> list[dict[str, Any]]:
    found = []
    for split in range(1 if quick else 10):
        for figure, (name, m, beta, rival, rivals_beta) in list(FIGURES.items())[: 1 if quick else None]:
            common = {"figure": figure, "set": name, "constant": (False, True), "split": split}
            found += grid(method="program", m=m, beta=beta, **common) if figure != "6" else []
            epochs = [[1, 3]] if quick else [list(EPOCHS)]
            found += grid(method=rival, m=m, beta=rivals_beta, **common, epochs=epochs)
    return found


def run(case: dict[str, Any]) -> dict[str, Any]:
    X, X_test, y, y_test = standardised(case["set"], case["split"])
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", qsdp.QSDPWarning)
        made = program(case, X, y) if case["method"] == "program" else trained(case, X, y)
        points = [
            {
                "series": series,
                "epochs": epochs,
                "seconds": spent,
                "train": accuracy(predict(X), y),
                "test": accuracy(predict(X_test), y_test),
            }
            for series, epochs, spent, predict in made
        ]
    return {"n": len(y), "d": X.shape[1], "points": points}


#: Series, epochs, seconds and prediction function of a network.
Point = tuple[str, int, float, Any]


def program(case: dict[str, Any], X: np.ndarray, y: np.ndarray) -> Iterator[Point]:
    columns = (lambda rows: with_constant(rows)[0]) if case["constant"] else (lambda rows: rows)

    def network(X: np.ndarray, y: np.ndarray, m: int) -> qsdp.BilinearNetwork:
        problem = qsdp.TrainingProblem(X, y, beta=case["beta"])
        return qsdp.paper.algorithm_1(problem, m, random_state=case["split"]).network

    # The first problem loads CVXPY and its solver.
    network(np.eye(3), np.array([1.0, -1.0, 1.0]), 2)
    found, spent = timed(lambda: network(columns(X), y, case["m"]))
    yield PROGRAM, 0, spent, lambda rows: found.predict(columns(rows))


def trained(case: dict[str, Any], X: np.ndarray, y: np.ndarray) -> Iterator[Point]:
    """Yield the network after every number of epochs, each trained from the start, and the last one rounded."""
    fitted = functools.partial(fit, case, X, y)
    # The first optimiser loads parts of PyTorch.
    fit({**case, "m": 4}, X, y, 0.01, 1)
    choosing = min(CHOOSING, case["epochs"][-1])
    rate = min(RATES[case["method"]], key=lambda rate: fitted(rate, choosing)[0].history_.loss[-1])
    curve, marker = SERIES[case["method"]]
    for epochs in case["epochs"]:
        model, spent = fitted(rate, epochs)
        yield curve, epochs, spent, model.decision_function
    scale = "neuron" if case["method"] == "ReLU" else "shared"
    network, rounding = timed(lambda: model.quantized(scale=scale))
    yield marker, epochs, spent + rounding, outputs_of(model, network)


def fit(case: dict[str, Any], X: np.ndarray, y: np.ndarray, rate: float, epochs: int) -> tuple[Any, float]:
    """Return a trained rival and its CPU seconds."""
    from qsdp.baselines import BackpropClassifier, ReLUNetworkClassifier

    common = {"beta": case["beta"], "learning_rate": rate, "n_epochs": epochs, "batch_size": 64, "dtype": "float32"}
    common["random_state"] = case["split"]
    if case["method"] == "ReLU":
        model: Any = ReLUNetworkClassifier(2 * case["m"], fit_intercept=case["constant"], **common)
    else:
        model = BackpropClassifier(case["m"], second_layer="fixed", constant_column=case["constant"], **common)
    return timed(lambda: model.fit(X, y))


# -- report ----------------------------------------------------------------------------------------------


def claims(records: Records) -> list[Claim]:
    """Judge what the figures show, with the printed numbers of inputs, that is without a constant column."""
    made = []
    for figure in FIGURES:
        here = points(where(of_figure(records, figure), constant=False))
        rival = SERIES[FIGURES[figure][3]][1]
        for words, what in SHOWN.items():
            said = f"At the printed parameters, {PROGRAM} {words} than the {rival}"
            pair = (by(where(here, series=series), what, "split") for series in (PROGRAM, rival))
            how: dict[str, Any] = {"show": seconds, "less": True, "log": True} if what == "seconds" else {}
            claim = paired_claim(f"{PAPER}, Figure {figure}", f"{said}, Figure {figure}.", *pair, names=NAMES, **how)
            group = f"At the printed parameters, {PROGRAM} {words} than the rounded network"
            made.append(replace(claim, group=group, case=f"Figure {figure}"))
    return made


def of_figure(records: Records, figure: str) -> list[Record]:
    """Return the records of a figure; Figure 6 has the program of Figure 3."""
    own = where(records, figure=figure)
    return own + (where(records, figure="3", method="program") if figure == "6" else [])


def points(records: Records) -> list[Record]:
    return unfolded(records, "points", *KEYS, shared=("n", "d"))


def shown(records: Records) -> list[Record]:
    """Return the markers; the curves are in the figure."""
    wanted = (PROGRAM, *(marker for _, marker in SERIES.values()))
    markers = where(points(records), series=wanted)
    places = ("figure", "set", "m", "beta", "constant", "series", "split")
    return [
        replace(
            one,
            case={name: one.case[name] for name in places},
            measured={name: value for name, value in one.measured.items() if name not in KEYS},
        )
        for one in markers
    ]


def plot(records: Records) -> Any:
    """Draw a row of panels per figure: training and test rows, without and with a constant column."""
    panels: dict[str, dict[str, dict[float, Any]]] = {}
    for figure, (name, m, _, _, _) in FIGURES.items():
        own = of_figure(records, figure)
        for constant in (False, True):
            here = points(where(own, constant=constant))
            for part, words in (("train", "training"), ("test", "test")):
                lines = panels.setdefault(f"Figure {figure}, {words} rows, {name}\n{inputs_of(here, constant, m)}", {})
                for (series, _), group in grouped(here, *KEYS).items():
                    place = float(np.mean([r.measured["seconds"] for r in group]))
                    lines.setdefault(series, {})[place] = 100.0 * np.array([r.measured[part] for r in group])
    return draw.curves(panels, "CPU seconds", "accuracy, %", "x") if any(panels.values()) else None


def inputs_of(here: Sequence[Record], constant: bool, m: int) -> str:
    inputs = f"d = {here[0].measured['d']}" if here else ""
    return f"m = {m}, {inputs}{' and a constant' if constant else ''}"


def methods_of(case: dict[str, Any]) -> tuple[str, ...]:
    """Return the methods that a case depends on."""
    return ("algorithm_1",) if case["method"] == "program" else ("backprop",)


#: The answer on top of the page.
ANSWER = """\
At the printed betas, the program with sampling is more accurate than the rounded networks on
[training rows in all five figures]{printed: training accuracy = 5 supported}, and on
[test rows in two of them]{printed: test accuracy = 2 supported, 3 inconclusive}. It is
[faster in four]{printed: takes less time = 4 supported, 1 inconclusive}.
"""

#: Methods whose versions are stored with the records.
MEASURED = ("algorithm_1", "backprop")
EXPERIMENT = experiment_in(
    __name__, "Figures 2, 3, 5 and 6 as printed", f"{PAPER}, Figures 2, 3, 5 and 6, at the printed parameters"
)
