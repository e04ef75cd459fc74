"""The Nonlinear Cluster data: six Gaussian clusters by one layer of six neurons, read out by argmax and by sign code.

A case is a data set of its own; its starts are trained as one batched computation, and fewer epochs are read off on
the way. Training ends at 1,000 epochs, after an hour of a core; the paper's 10,000 would take ten.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from benchmarks.experiments._common import Records, by, experiment_in, grid, spread, where
from benchmarks.experiments.quadratic._starts import train_starts
from qsdp.baselines.quadratic import QuadraticNetwork, QuadraticNetworkClassifier
from qsdp.bench import REPETITIONS, Claim, compare, exact, judged
from qsdp.datasets import make_nonlinear_clusters
from qsdp.datasets._toys import CLUSTER_COVARIANCES, CLUSTER_MEANS
from qsdp.exceptions import InvalidInputError
from qsdp.quadratic_theory import classify_conics, ellipsoid_neurons

SOURCE = "Noel, Muthiah-Nakarajan, Oswal, section 6.1"
PRINTED = 99.97
NAMES = {"qnn": "quadratic", "linear": "linear"}

EPOCHS = (10, 100, 1000)


def cases(quick: bool) -> list[dict[str, Any]]:
    seeds, epochs, starts = (1, [10], 2) if quick else (REPETITIONS, list(EPOCHS), 5)
    trained = grid(seed=range(seeds), head=NAMES, epochs=[epochs], rate=1e-4, scale=0.1, n_starts=starts)
    return grid(head="constructed", seed=range(seeds)) + trained


def run(case: dict[str, Any]) -> dict[str, Any]:
    X, y = make_nonlinear_clusters(2000, random_state=2 * case["seed"])
    X_test, y_test = make_nonlinear_clusters(500, random_state=2 * case["seed"] + 1)
    if case["head"] == "constructed":
        try:
            layer = ellipsoid_neurons(X, y, CLUSTER_MEANS, np.linalg.inv(CLUSTER_COVARIANCES))
        except InvalidInputError as error:
            # Clusters are normal, and now and then one reaches into another.
            return {"argmax": None, "code": None, "why": str(error)}
        Z = QuadraticNetwork([layer]).decision(X_test)
        return {
            "argmax": float(np.mean(Z.argmax(axis=1) == y_test)),
            "code": float(np.mean(((Z > 0) == np.eye(6, dtype=bool)[y_test]).all(axis=1))),
        }
    model = QuadraticNetworkClassifier((), case["head"], learning_rate=case["rate"], init_scale=case["scale"])
    starts, measured = train_starts(model, case, case["seed"], (X, X_test, y, y_test))
    networks = [starts.start(number).network_ for number in range(case["n_starts"])]
    measured["n_parameters"] = networks[0].n_parameters
    if case["head"] == "qnn":
        measured["conics"] = [classify_conics(network.to_layers()[0].form) for network in networks]
        P = networks[0].layers[0].parameters
        measured["form"] = {name: value.tolist() for name, value in P.items()}
    return measured


def accuracies(records: Records, head: str, readout: str, epochs: int) -> dict[int, list[float]]:
    """Return percents of all starts by data set."""
    found = by(where(records, head=head), f"{readout}/{epochs}", "seed")
    return {seed: [100.0 * share for share in shares] for seed, shares in found.items() if shares}


def percents(shares: Iterable[float]) -> str:
    percents = np.array(list(shares))
    return f"{spread(percents, 2)} [{percents.min():.2f}, {percents.max():.2f}]" if percents.size else "-"


def claims(records: Records) -> list[Claim]:
    """Judge what is said of training, of the mean over starts, by data set; the paper has one data set."""
    last = EPOCHS[-1]

    def means(head: str, readout: str) -> dict[int, float]:
        return {seed: float(np.mean(own)) for seed, own in accuracies(records, head, readout, last).items()}

    best = list(itertools.chain(*accuracies(records, "qnn", "argmax", last).values()))
    kinds = {kind for r in where(records, head="qnn") for conics in r.measured["conics"] for kind in conics}
    linear = {
        "linear neurons, the largest output: below 99 %": compare(means("linear", "argmax"), 99.0, less=True),
        "linear neurons, sign code: below 80 %": compare(means("linear", "code"), 80.0, less=True),
        "quadratic neurons, sign code: above 80 %": compare(means("qnn", "code"), 80.0),
    }
    return [
        judged(
            SOURCE,
            f"One layer of six quadratic neurons reaches {PRINTED} % on the test set, less 0.1.",
            # Three points in 3000 are within what a sample of that size can tell.
            compare(means("qnn", "argmax"), PRINTED, margin=-0.1),
            f"{percents(best)} after {last} epochs",
        ),
        exact(
            SOURCE,
            "The boundaries are ellipses and hyperbolas.",
            {kind: kind in {"ellipse", "hyperbola"} for kind in kinds},
        ),
        judged(
            SOURCE,
            f"A single linear layer cannot learn these boundaries ({last} epochs).",
            linear,
        ),
    ]


EXPERIMENT = experiment_in(__name__, "Nonlinear Cluster data by one layer of neurons", SOURCE)
