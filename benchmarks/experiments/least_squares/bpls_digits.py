"""Digits by back-propagating least squares: the specification's table row by row, and the paper's competitors.

Network 65-50-10 with softmax outputs, 1437 training and 360 test images of 8 x 8 pixels, one split, seeds of the
random weights. "best epoch" of a competitor is the best over epochs, in training and in test each, as the paper
counts it: a choice by the test data, which least squares does not make. Its last epoch is shown beside.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.experiments import draw, show
from benchmarks.experiments._common import Records, experiment_in, grid, grouped, where
from benchmarks.experiments._data import digits
from benchmarks.experiments.least_squares._bpls_classifiers import (
    accuracies,
    both,
    draw_courses,
    first_cut,
    gradient,
    least_squares,
    mean_epochs,
    per_epoch,
)
from benchmarks.experiments.least_squares._bpls_verdicts import (
    Pairs,
    match_claim,
    printed_claim,
    speed_claims,
)
from qsdp.baselines.bpls import BPLSClassifier
from qsdp.bench import Claim, Table

SOURCE = "Tomic, Matos-Carvalho, Beko 2024"
SPECIFICATION = "Specification of the least-squares baselines, A.12"

#: Options of `BPLSClassifier` by the rows of the specification, and what it prints: random hidden layer with fitted
#: readout, initial pass, final pass, each train / test, and epochs.
ROWS: dict[str, tuple[dict[str, Any], tuple[str, str, str, str]]] = {
    "sigmoid, relax": ({}, ("0.938 / 0.920", "0.944 / 0.933", "0.971 / 0.947", "7.1")),
    "sigmoid, damped": ({"hidden_target": "damped"}, ("0.938 / 0.920", "0.944 / 0.925", "0.970 / 0.941", "6.9")),
    "sigmoid, minnorm": ({"hidden_target": "minnorm"}, ("0.938 / 0.920", "0.943 / 0.933", "0.971 / 0.948", "6.4")),
    "softmax, relax": ({"activation": "softmax"}, ("0.682 / 0.665", "0.753 / 0.731", "0.944 / 0.913", "7.6")),
    "tanh, relax": ({"activation": "tanh"}, ("0.917 / 0.894", "0.936 / 0.923", "0.970 / 0.942", "6.8")),
    "leaky ReLU 0.1, damped": (
        {"activation": "leaky_relu", "hidden_target": "damped"},
        ("0.938 / 0.914", "0.941 / 0.918", "0.963 / 0.931", "5.3"),
    ),
    "identity, minnorm": (
        {"activation": "identity", "hidden_target": "minnorm"},
        ("0.948 / 0.934", "0.946 / 0.936", "0.973 / 0.940", "6.3"),
    ),
}

#: Final train / test of depth, width, and of what an option does; five seeds unless said.
VARIANTS: dict[str, tuple[dict[str, Any], str]] = {
    "depth 2: sigmoid, relax": ({"hidden": [50, 50]}, "0.965 / 0.934"),
    "depth 2: sigmoid, damped": ({"hidden": [50, 50], "hidden_target": "damped"}, "0.967 / 0.939"),
    "depth 2: tanh, relax": ({"hidden": [50, 50], "activation": "tanh"}, "0.960 / 0.933"),
    "depth 2: tanh, damped": ({"hidden": [50, 50], "activation": "tanh", "hidden_target": "damped"}, "- / 0.88"),
    "depth 2: identity, relax": ({"hidden": [50, 50], "activation": "identity"}, "0.968 / 0.936"),
    "depth 2: softmax, relax": ({"hidden": [50, 50], "activation": "softmax"}, "- / 0.22 to 0.61"),
    "depth 2: softmax, damped": (
        {"hidden": [50, 50], "activation": "softmax", "hidden_target": "damped"},
        "- / 0.22 to 0.61",
    ),
    "depth 2: softmax, minnorm": (
        {"hidden": [50, 50], "activation": "softmax", "hidden_target": "minnorm"},
        "- / 0.22 to 0.61",
    ),
    "depth 2: softmax, relax, ridge 1e-5": (
        {"hidden": [50, 50], "activation": "softmax", "ridge": 1e-5},
        "- / 0.22 to 0.61",
    ),
    "depth 2: sigmoid, minnorm": ({"hidden": [50, 50], "hidden_target": "minnorm"}, "- / 0.90"),
    "depth 2: tanh, minnorm": ({"hidden": [50, 50], "activation": "tanh", "hidden_target": "minnorm"}, "- / 0.88"),
    "depth 2: leaky ReLU, minnorm": (
        {"hidden": [50, 50], "activation": "leaky_relu", "hidden_target": "minnorm"},
        "- / 0.37",
    ),
    "width 10": ({"hidden": [10], "hidden_target": "damped"}, "- / 0.804"),
    "width 20": ({"hidden": [20], "hidden_target": "damped"}, "- / 0.891"),
    "width 50": ({"hidden": [50], "hidden_target": "damped"}, "- / 0.946"),
    "width 100": ({"hidden": [100], "hidden_target": "damped"}, "- / 0.959"),
    "width 200": ({"hidden": [200], "hidden_target": "damped"}, "- / 0.974"),
    "30 rounds, eps_H 1e-3": ({"stop": "none", "tau_max": 30, "eps_hidden": 1e-3}, "0.987 / 0.937"),
    "stopped, eps_H 1e-3": ({"eps_hidden": 1e-3}, "0.960 / 0.931"),
    "eps_H 1e-4": ({"eps_hidden": 1e-4}, "- / 0.913"),
    "eps_H 1e-6": ({"eps_hidden": 1e-6}, "- / 0.877"),
    "bias in every layer": ({"bias": "all"}, "0.970 / 0.945"),
    "misses from the random network, sigmoid, eps_H 1e-3": (
        {"miss_forward": "random", "eps_hidden": 1e-3},
        "- / 0.934",
    ),
    "misses from the random network, softmax": ({"miss_forward": "random", "activation": "softmax"}, "- / 0.840"),
    "sigmoid, ridge 1e-1": ({"ridge": 1e-1}, "-"),
    "softmax, ridge 1e-2": ({"activation": "softmax", "ridge": 1e-2}, "- / 0.67"),
    "softmax, ridge 1e-5": ({"activation": "softmax", "ridge": 1e-5}, "- / 0.904"),
    "softmax, eps_H 1e-12": ({"activation": "softmax", "eps_hidden": 1e-12}, "- / 0.53"),
    "rule first, sigmoid": ({"hidden_target": "first"}, "- / at most 0.55"),
    "rule mean, sigmoid": ({"hidden_target": "mean"}, "- / at most 0.94"),
    "rule first, tanh": ({"hidden_target": "first", "activation": "tanh"}, "- / at most 0.55"),
    "rule mean, tanh": ({"hidden_target": "mean", "activation": "tanh"}, "- / at most 0.94"),
    "rule first, softmax": ({"hidden_target": "first", "activation": "softmax"}, "- / at most 0.55"),
    "rule mean, softmax": ({"hidden_target": "mean", "activation": "softmax"}, "- / at most 0.94"),
    "rule ls, sigmoid": ({"hidden_target": "ls"}, "-"),
    "rule gauss-seidel, sigmoid": ({"hidden_target": "gauss-seidel"}, "-"),
    "as printed (literal), sigmoid": ({"literal": True}, "-"),
    "as printed (literal), softmax": ({"literal": True, "activation": "softmax"}, "-"),
}

#: Best epoch of 40, train / test with softmax and with sigmoid hidden layers, and seconds an epoch; one seed.
COMPETITORS: dict[tuple[str, float, int], tuple[str, str, str]] = {
    ("Adam", 1e-3, 1): ("0.998 / 0.975", "1.000 / 0.981", "0.20"),
    ("NAG", 1e-3, 1): ("0.724 / 0.714", "0.989 / 0.972", "0.15"),
    ("SGD", 1e-3, 1): ("0.433 / 0.417", "0.915 / 0.897", "0.10"),
    ("AdaGrad", 1e-3, 1): ("0.295 / 0.281", "0.386 / 0.364", "0.15"),
    ("Adam", 1e-3, 32): ("0.931 / 0.914", "0.969 / 0.958", "0.008"),
    ("Adam", 1e-2, 32): ("0.997 / 0.969", "1.000 / 0.983", "0.007"),
    ("NAG", 1e-3, 32): ("-", "-", "-"),
    ("SGD", 1e-3, 32): ("-", "-", "-"),
    ("AdaGrad", 1e-3, 32): ("-", "-", "-"),
}
PRINTED_LINEAR = "0.947 / 0.936"

#: Columns of the inputs, of which some pixels are constant, and their rank.
PRINTED_RANK = "61 of 65"

STAGES = ("random hidden layers", "initial", "final")

#: Largest difference from the specification's means that is taken for none: ten seeds, and five.
TOLERANCES = {"rows": 0.012, "variants": 0.02}
WORDS = {"rows": "Digits, activations and rules", "variants": "Digits, depth, width and options"}

BATCHES = sorted({batch for _, _, batch in COMPETITORS})


def cases(quick: bool) -> list[dict[str, Any]]:
    """Return a case for each row and seed."""
    if quick:
        found: list[dict[str, Any]] = [{"part": "rows", "name": name, "seed": 0} for name in ROWS]
        found += [{"part": "variants", "name": "depth 2: sigmoid, relax", "seed": 0}, {"part": "linear"}]
        return [*found, _competitor("Adam", 1e-2, 32, "sigmoid", 0, 3)]
    found = grid(part="rows", name=ROWS, seed=range(10)) + grid(part="variants", name=VARIANTS, seed=range(5))
    found += [
        _competitor(*method, activation, seed, 40)
        for method in COMPETITORS
        for activation in ("softmax", "sigmoid")
        for seed in range(3)
    ]
    return [*found, {"part": "linear"}]


def _competitor(optimizer: str, rate: float, batch: int, activation: str, seed: int, epochs: int) -> dict[str, Any]:
    own = {"optimizer": optimizer, "rate": rate, "batch": batch, "activation": activation}
    return {"part": "competitors", **own, "seed": seed, "epochs": epochs}


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Train once."""
    split, part = digits(), case["part"]
    if part == "linear":
        model = BPLSClassifier((), ridge=0.0, tau_max=0, random_state=0).fit(split[0], split[2])
        return {"final": accuracies(model.network_, split), "seconds": model.history_.seconds}
    if part == "competitors":
        options = {key: value for key, value in case.items() if key != "part"}
        return gradient(split, **options)
    options = (ROWS if part == "rows" else VARIANTS)[case["name"]][0]
    # That of the specification, also where the activation has another one by default.
    ridge = {} if options.get("literal") else {"ridge": 1e-3}
    return least_squares(split, ridge | options, case["seed"])


def tables(records: Records) -> list[Table]:
    """Return the table of A.12 row by row, variants, and competitors."""

    def printed(k: int) -> show.Cell:
        return lambda group: ROWS[group[0].case["name"]][1][k]

    def rival(group: Records) -> tuple[str, str, str]:
        return COMPETITORS[tuple(group[0].case[name] for name in ("optimizer", "rate", "batch"))]

    stages = [("readout", both(STAGES[0])), ("initial", both(STAGES[1])), ("final", both(STAGES[2]))]
    rows = [
        ("row", show.param("name")),
        *(
            column
            for k, (stage, cell) in enumerate([*stages, ("epochs", mean_epochs)])
            for column in ((f"{stage}, printed", printed(k)), (f"{stage}, measured", cell))
        ),
        ("cut", first_cut),
        ("CPU ms a pass", lambda group: f"{1e3 * per_epoch(group):.1f}"),
        ("seeds", show.count),
    ]
    variants = [
        ("variant", show.param("name")),
        ("printed train / test", lambda group: VARIANTS[group[0].case["name"]][1]),
        ("measured", both("final")),
        ("random hidden + readout", both("random hidden layers")),
        ("cut", first_cut),
        ("epochs", mean_epochs),
        ("seeds", show.count),
    ]
    competitors = [
        ("method", lambda group: f"{group[0].case['optimizer']} {group[0].case['rate']:g}"),
        ("batch", show.param("batch")),
        ("hidden", show.param("activation")),
        ("printed best", lambda group: rival(group)[group[0].case["activation"] == "sigmoid"]),
        ("best epoch", both("best")),
        ("last epoch", both("final")),
        ("printed s", lambda group: rival(group)[2]),
        ("CPU s an epoch", lambda group: f"{per_epoch(group):.3f}"),
        ("kB", show.first("bytes", ".0f", unit=1e-3)),
        ("seeds", show.count),
    ]
    own = where(records, part="rows")
    linear = [
        ["linear least squares, no ridge", PRINTED_LINEAR, both("final")([record]), "1"]
        for record in where(records, part="linear")
    ]
    ranks = sorted({f"{record.measured['rank']} of {record.measured['columns']}" for record in own})
    linear += [["rank of the inputs", PRINTED_RANK, ", ".join(ranks), str(len(own))]] if ranks else []
    note = (
        "Accuracies, mean over seeds, with the deviation in test. Cut: share of the desired hidden values that the "
        "first pass cuts to the activation's range. CPU: one thread, evaluation on the training data included."
    )
    rivals = grouped(where(records, part="competitors"), "optimizer", "rate", "batch", "activation")
    return [
        show.table("Digits: BPLS row by row", grouped(own, "name"), rows, note),
        show.table(
            "Digits: depth, width and options", grouped(where(records, part="variants"), "name"), variants, note
        ),
        Table("Digits: references", ["what", "printed train / test", "measured", "runs"], linear),
        show.table(
            "Digits: competitors on the same network",
            rivals,
            competitors,
            "40 epochs, cross-entropy; best over epochs in training and test each. kB: weights, gradients and state. "
            "CPU: one thread.",
        ),
    ]


def claims(records: Records) -> list[Claim]:
    """Compare with the specification's figures, and accuracy and seconds with the competitors."""
    found = [
        printed_claim(SPECIFICATION, what, printed_cells(part, where(records, part=part)), TOLERANCES[part])
        for part, what in WORDS.items()
    ]
    pairs, source = paired(records), f"{SOURCE}, in kind"
    return [*found, match_claim(source, "digits", pairs), *speed_claims(source, "digits", pairs, BATCHES)]


def printed_cells(part: str, records: Records) -> dict[str, tuple[str, float]]:
    """Return printed and measured means by row, stage and data."""
    cells = {}
    for (name,), group in grouped(records, "name").items():
        stages = zip(STAGES, ROWS[name][1], strict=False) if part == "rows" else [("final", VARIANTS[name][1])]
        for stage, printed in stages:
            means = np.mean([record.measured[stage] for record in group], axis=0)
            texts = printed.split(" / ") if "/" in printed else ["-", "-"]
            for data, text, mean in zip(("train", "test"), texts, means, strict=True):
                cells[f"{name}, {stage}, {data}"] = (text, float(mean))
    return cells


def paired(records: Records) -> Pairs:
    """Return trainings by the default rule beside the competitors' with the same hidden activation."""
    pairs = {}
    for activation in ("sigmoid", "softmax"):
        own = where(records, part="rows", name=f"{activation}, relax")
        others = where(records, part="competitors", activation=activation)
        if own and others:
            pairs[activation] = (own, others)
    return pairs


def plot(records: Records) -> Any:
    """Draw test accuracy against epochs and seconds, as the paper's Figures 7 to 9."""
    figure, axes = draw.subplots(1, 2, figsize=(11.5, 4.0), sharey=True)
    pairs = paired(records)
    draw_courses(axes, {f"BPLS, {name}": own for name, (own, _) in pairs.items()}, "*-", 6.0)
    others = pairs["sigmoid"][1] if "sigmoid" in pairs else []
    groups = grouped(others, "optimizer", "rate", "batch").items()
    draw_courses(axes, {f"{key[0]} {key[1]:g}, batch {key[2]}": group for key, group in groups}, ".-", 3.0)
    axes[0].set(xscale="log", xlabel="epochs", ylabel="test accuracy", title="digits, 65-50-10")
    axes[1].set(xscale="log", xlabel="processor seconds of training", title="competitors: sigmoid hidden layer")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", fontsize=8)
    return figure


EXPERIMENT = experiment_in(
    __name__, "Back-propagating least squares: digits", f"{SOURCE}, Tables I and II, Figures 7 to 9, in kind", version=2
)
