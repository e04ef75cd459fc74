"""MNIST and Fashion-MNIST by back-propagating least squares: the paper's Tables I and II, and its curves.

Network 784-50-10, softmax outputs, the first 40 000 training images (the paper's number; which ones is not known) or
all 60 000, pixels in [0, 1], a column of ones. Ridge and cut of one softmax variant were chosen on images 50 000 to
60 000 of MNIST's training set; the grid of such settings is measured on both sets, and a claim says whether the choice
is its best. Nothing is chosen by a test set, except, as the paper does, the best epoch of a competitor, beside which
its last epoch is shown. The paper has 100 runs of BPLS and 10 of its competitors, 40 epochs with batch 1; here are
fewer, and fewer epochs with batch 1, as the tables say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.experiments import draw
from benchmarks.experiments._common import Records, by, experiment_in, grouped, where
from benchmarks.experiments._data import images
from benchmarks.experiments.least_squares._bpls_classifiers import (
    courses,
    gradient,
    least_squares,
    peak_memory,
    per_epoch,
)
from qsdp.bench import Claim, Record, compare, exact, judged, not_measured, within

SOURCE = "Tomic, Matos-Carvalho, Beko 2024"
LOADERS = ("mnist", "fashion_mnist")

#: Accuracies that differ by less are taken for equal.
BAND = 0.025

#: Trainings by least squares, beside the competitors' with the same hidden activation.
Pairs = Mapping[str, tuple[Sequence[Record], Sequence[Record]]]

#: The choice of the grid, on MNIST.
CHOSEN = {"ridge": 1e-5, "eps_hidden": 1e-2}
DEFAULT, TUNED, PLAIN = "softmax", "softmax, ridge 1e-5, eps_H 1e-2", "softmax, no ridge"

#: Options of `BPLSClassifier`, and how many trainings.
VARIANTS: dict[str, tuple[dict[str, Any], int]] = {
    DEFAULT: ({"activation": "softmax", "ridge": 1e-3}, 10),
    TUNED: ({"activation": "softmax", **CHOSEN}, 10),
    # The paper has no ridge.
    PLAIN: ({"activation": "softmax", "ridge": 0.0}, 10),
    "sigmoid": ({}, 10),
    "softmax, ridge 1e-5": ({"activation": "softmax", "ridge": 1e-5}, 5),
    "as printed (literal), softmax, 10 rounds": ({"activation": "softmax", "literal": True, "tau_max": 10}, 1),
}
#: Variants that claims are judged by; the others take apart what ridge, cut and rule do.
JUDGED = (DEFAULT, TUNED, PLAIN, "sigmoid")
#: Variants that are trained on all images, too.
WHOLE = (TUNED, "sigmoid")
GRID = [{"ridge": ridge, "eps_hidden": eps} for ridge in (1e-3, 1e-4, 1e-5, 1e-6) for eps in (1e-3, 1e-2)]
GRID_SEEDS = 3

#: Best accuracies of Table I, training / test, and epochs of least squares.
PRINTED = {
    "mnist": {"BPLS": "0.900 / 0.877", "Adam": "0.922 / 0.902", "NAG": "0.910 / 0.888", "SGD": "0.916 / 0.904",
              "AdaGrad": "0.780 / 0.775"},
    "fashion_mnist": {"BPLS": "0.840 / 0.826", "Adam": "0.860 / 0.838", "NAG": "0.841 / 0.820",
                      "SGD": "0.848 / 0.836", "AdaGrad": "0.707 / 0.699"},
}  # fmt: skip
PRINTED_TEST = {"mnist": 0.8773, "fashion_mnist": 0.8257}
PRINTED_EPOCHS = {"mnist": 9, "fashion_mnist": 4}

#: Seconds an epoch of Table II, on Fashion-MNIST.
PRINTED_SECONDS = {"BPLS": "2.87", "Adam": "3578", "NAG": "3301", "SGD": "3267", "AdaGrad": "3310"}

#: Optimiser, rate, minibatch, epochs and trainings of softmax hidden layers; the rates of the paper, and one more.
COMPETITORS = (
    *((name, 1e-3, 32, 40, 10) for name in ("Adam", "NAG", "SGD", "AdaGrad")),
    ("Adam", 1e-2, 32, 40, 10),
    *((name, 1e-3, 1, 4, 1) for name in ("Adam", "NAG", "SGD", "AdaGrad")),
)
#: The same of sigmoid hidden layers.
SIGMOID_COMPETITORS = tuple((name, 1e-3, 32, 40, 10) for name in ("Adam", "SGD"))


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        found = [_training("mnist", 300, name, 0) for name in JUDGED]
        found += [_competitor("mnist", 300, ("Adam", 1e-3, 32, 2, 1), "softmax", 0)]
        found += [{"part": "memory", "data": "mnist", "n": 300, "variant": name} for name in JUDGED[:1]]
        return [*found, {"part": "validation", "data": "mnist", "n": 300, **CHOSEN, "seed": 0}]
    found = []
    # Rounds of one training each, so that an unfinished file compares what it has.
    for seed in range(max(runs for _, runs in VARIANTS.values())):
        for data in LOADERS:
            found += [_training(data, 40_000, name, seed) for name, (_, runs) in VARIANTS.items() if seed < runs]
            found += [_competitor(data, 40_000, each, "softmax", seed) for each in COMPETITORS if seed < each[4]]
            found += [
                _competitor(data, 40_000, each, "sigmoid", seed) for each in SIGMOID_COMPETITORS if seed < each[4]
            ]
            if seed < GRID_SEEDS:
                found += [{"part": "validation", "data": data, "n": 40_000, **each, "seed": seed} for each in GRID]
                found += [_training(data, 60_000, name, seed) for name in WHOLE]
            if seed == 0:
                sizes = [(name, 40_000) for name in VARIANTS] + [(name, 60_000) for name in WHOLE]
                found += [{"part": "memory", "data": data, "n": n, "variant": name} for name, n in sizes]
    return found


def _training(data: str, n: int, variant: str, seed: int) -> dict[str, Any]:
    return {"part": "bpls", "data": data, "n": n, "variant": variant, "seed": seed}


def _competitor(
    data: str, n: int, method: tuple[str, float, int, int, int], activation: str, seed: int
) -> dict[str, Any]:
    optimizer, rate, batch, epochs, _ = method
    own = {"optimizer": optimizer, "rate": rate, "batch": batch, "activation": activation}
    return {"part": "competitors", "data": data, "n": n, **own, "seed": seed, "epochs": epochs}


def run(case: dict[str, Any]) -> dict[str, Any]:
    part = case["part"]
    split = images(case["data"], case["n"], validation=part == "validation")
    if part == "validation":
        options = {"activation": "softmax", "ridge": case["ridge"], "eps_hidden": case["eps_hidden"]}
        return least_squares(split, options, case["seed"], stages=False)
    if part == "memory":
        return {"bytes": peak_memory(split, VARIANTS[case["variant"]][0], 0)}
    if part == "competitors":
        options = {key: case[key] for key in ("optimizer", "rate", "batch", "activation", "seed", "epochs")}
        return gradient(split, **options)
    return least_squares(split, VARIANTS[case["variant"]][0], case["seed"])


def shown(records: Records) -> list[Record]:
    """Return what tables show: accuracies in training and test apart, and what the paper prints."""
    found = []
    for record in records:
        measured, case = record.measured, {"kind": record.case["part"], **record.case}
        row = {
            f"{name}, {part}": measured[name][k]
            for name in ("initial", "random hidden layers", "linear least squares", "best", "final")
            if name in measured
            for k, part in enumerate(("training", "test"))
        }
        row |= {name: measured[name] for name in ("epochs", "cpu", "bytes") if name in measured}
        if "clipped" in measured:
            row["cut by the first pass"] = next(iter(measured["clipped"]), None)
        if case["part"] in ("bpls", "competitors"):
            name = case.get("optimizer", "BPLS")
            row |= {
                "printed training / test": PRINTED[case["data"]][name],
                "printed seconds, Fashion-MNIST": PRINTED_SECONDS[name],
            }
        found.append(replace(record, case={k: value for k, value in case.items() if k != "part"}, measured=row))
    return found


def claims(records: Records) -> list[Claim]:
    found = []
    batches = sorted({batch for _, _, batch, _, _ in COMPETITORS})
    for data in LOADERS:
        own, pairs = trainings(where(records, data=data)), paired(where(records, data=data))
        made = [_accuracy_claim(data, own), _linear_claim(data, own), _epochs_claim(data, own)]
        found += [replace(claim, group=group, case=data) for group, claim in made]
        found += [match_claim(data, pairs), *speed_claims(data, pairs, batches)]
    return [*found, _choice_claim(records)]


def trainings(records: Records) -> dict[str, list[Record]]:
    """Return those of `JUDGED` on the paper's number of images, or fewer in a quick run."""
    groups = grouped([record for record in where(records, part="bpls") if record.case["n"] <= 40_000], "variant")
    return {name: groups[name,] for name in JUDGED if (name,) in groups}


def paired(records: Records) -> Pairs:
    """Return trainings beside the competitors' with the same hidden activation."""
    pairs = {}
    for name, own in trainings(records).items():
        activation = VARIANTS[name][0].get("activation", "sigmoid")
        others = where(records, part="competitors", activation=activation)
        if others:
            pairs[name] = (own, others)
    return pairs


def _accuracy_claim(data: str, own: dict[str, list[Record]]) -> tuple[str, Claim]:
    printed = PRINTED_TEST[data]
    parts = {name: within(by_seed(group), printed, BAND, unit=100.0) for name, group in own.items()}
    statement = f"{data}: test accuracy of BPLS {100 * printed:.2f} % (within {100 * BAND:g} points)."
    group = f"Test accuracy of BPLS as printed (within {100 * BAND:g} points)"
    return group, judged(f"{SOURCE}, Table I", statement, parts)


def _linear_claim(data: str, own: dict[str, list[Record]]) -> tuple[str, Claim]:
    simple, group = "linear least squares", "BPLS is better in test than linear least squares"
    parts = {name: compare(by_seed(one), by_seed(one, simple), unit=100.0) for name, one in own.items()}
    return group, judged(f"{SOURCE}, Table I, beside the simplest model", f"{data}: {group}.", parts)


def _epochs_claim(data: str, own: dict[str, list[Record]]) -> tuple[str, Claim]:
    printed, epochs = PRINTED_EPOCHS[data], {name: by(group, "epochs", "seed") for name, group in own.items()}
    parts = {name: within(each, printed, 3.0) for name, each in epochs.items()}
    statement = f"{data}: BPLS needs {printed} epochs in total (within 3)."
    return "Epochs of BPLS as printed (within 3)", judged(f"{SOURCE}, Figures 7 and 8", statement, parts)


def mean_test(records: Sequence[Record], name: str = "final") -> float:
    return float(np.mean([record.measured[name][1] for record in records]))


def by_seed(records: Sequence[Record], name: str = "final") -> dict[int, float]:
    return {record.case["seed"]: record.measured[name][1] for record in records}


def match_claim(data: str, pairs: Pairs) -> Claim:
    """Compare every variant with the best competitor, the best epoch of each taken by the test data."""
    parts, figures = {}, []
    for name, (own, others) in pairs.items():
        groups = grouped(others, "optimizer", "rate", "batch", "epochs")
        key, rival = max(groups.items(), key=lambda item: mean_test(item[1], "best"))
        parts[name] = compare(by_seed(own), by_seed(rival, "best"), margin=-BAND, unit=100.0)
        figures.append(
            f"{name} {100 * mean_test(own):.1f} % ({len(own)} runs) against {100 * mean_test(rival, 'best'):.1f} % "
            f"({key[0]} {key[1]:g}, batch {key[2]}, best of {key[3]} epochs, {len(rival)} runs)"
        )
    statement = f"{data}: BPLS practically matches the best competitor in test (within {100 * BAND:g} points)."
    claim = judged(f"{SOURCE}, Table I", statement, parts, "; ".join(figures))
    return replace(claim, group="BPLS practically matches the best competitor in test", case=data)


def speed_claims(data: str, pairs: Pairs, batches: Sequence[int]) -> list[Claim]:
    """Compare the processor's seconds of an epoch, for every minibatch of the competitors."""
    found, group = [], "An epoch of BPLS is more than 1000 times faster than of its competitors"
    for batch in batches:
        holds, figures = {}, []
        for name, (own, others) in pairs.items():
            theirs = [record for record in others if record.case["batch"] == batch]
            if theirs:
                ratio = per_epoch(theirs) / per_epoch(own)
                holds[f"{name}: {ratio:.1f} times"] = ratio >= 1000.0
                figures.append(f"{name}: {per_epoch(own):.3g} s against {per_epoch(theirs):.3g} s, {ratio:.1f} times")
        statement = f"{data}: an epoch of BPLS is more than 1000 times faster than of its competitors (batch {batch})."
        claim = exact(f"{SOURCE}, Table II", statement, holds, "; ".join(figures))
        found.append(replace(claim, group=group, case=f"{data}, batch {batch}"))
    return found


def _choice_claim(records: Records) -> Claim:
    """Compare `CHOSEN` with every other setting of the grid on MNIST."""
    statement = f"{TUNED} is the best setting of the grid on MNIST's validation images (within 0.5 points)."
    groups = grouped(where(records, part="validation", data="mnist"), "ridge", "eps_hidden")
    chosen = groups.pop((CHOSEN["ridge"], CHOSEN["eps_hidden"]), [])
    if not groups or not chosen:
        return not_measured("This comparison", statement)
    parts = {
        f"ridge {ridge:g}, eps_H {eps:g}": compare(by_seed(chosen), by_seed(group), margin=-0.005, unit=100.0)
        for (ridge, eps), group in groups.items()
    }
    best = max(groups.values(), key=mean_test)
    figures = f"{100 * mean_test(chosen):.1f} % against {100 * mean_test(best):.1f} % of the best of the others"
    return judged("This comparison", statement, parts, figures)


def plot(records: Records) -> Any:
    """Draw test accuracy against epochs and against processor seconds, as the paper's Figures 7, 8 and 9."""
    panels: dict[str, Any] = {}
    for data in LOADERS:
        here = where(records, data=data)
        groups: dict[str, Records] = {f"BPLS, {name}": group for name, group in trainings(here).items()}
        softmax = where(here, part="competitors", activation="softmax")
        for (name, rate, batch), group in grouped(softmax, "optimizer", "rate", "batch").items():
            groups[f"{name} {rate:g}, batch {batch}"] = group
        for label, group in groups.items():
            for clock, points in zip(("epochs", "seconds"), courses(group), strict=True):
                panels.setdefault(f"{data}: {clock}", {})[label] = points
    return draw.curves(panels, "epochs, or seconds of training", "test accuracy", "x") if panels else None


EXPERIMENT = experiment_in(
    __name__,
    "Back-propagating least squares: MNIST and Fashion-MNIST",
    f"{SOURCE}, Tables I and II, Figures 7 to 9",
    version=2,
)
