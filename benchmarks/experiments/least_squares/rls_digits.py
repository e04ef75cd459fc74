"""Figures 2 and 3 of recursive least squares, first column, in kind: a fully connected network on digits.

64-128-10 with ReLU, pixels in [0, 1], minibatches of 128, gradients clipped to a norm of 5, 100 epochs; the same first
parameters and minibatches for all methods of a seed. "squared" is 1/(2M) times the sum over outputs, of linear outputs
and one-hot targets. The paper has MNIST; its figures have no numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.experiments import show
from benchmarks.experiments._common import Records, experiment_in
from benchmarks.experiments._data import digits
from benchmarks.experiments.least_squares import _rls
from qsdp.bench import Claim, Record, Table, exact

#: Label: method, loss, width, options, and the specification's test scores at 1, 5, 20, 100, best, training score at
#: 100, training loss at 5 and at 100.
METHODS: dict[str, tuple[str, str, int, dict[str, Any], tuple[float, ...] | None]] = {
    "Adam": ("adam", "squared", 128, {}, (0.499, 0.898, 0.967, 0.984, 0.985, 0.997, 0.185, 0.0243)),
    "SGD 1.0": ("sgd", "squared", 128, {"lr": 1.0}, (0.345, 0.767, 0.940, 0.960, 0.983, 0.985, 0.227, 0.0533)),
    "SGD 0.1": ("sgd", "squared", 128, {"lr": 0.1}, (0.469, 0.851, 0.935, 0.971, 0.977, 0.982, 0.246, 0.0594)),
    "NAG 0.1": ("nag", "squared", 128, {"lr": 0.1}, None),
    "AdaGrad 0.01": ("adagrad", "squared", 128, {}, None),
    "RLS": ("rls", "squared", 128, {}, (0.809, 0.956, 0.982, 0.989, 0.992, 1.000, 0.084, 0.0183)),
    "RLS+R": ("rls+r", "squared", 128, {}, (0.809, 0.956, 0.982, 0.986, 0.991, 1.000, 0.084, 0.0185)),
    "RLS+M": ("rls+m", "squared", 128, {}, (0.833, 0.970, 0.981, 0.988, 0.991, 1.000, 0.063, 0.0131)),
    "RLS+M+R": ("rls+m+r", "squared", 128, {}, (0.833, 0.969, 0.981, 0.988, 0.992, 1.000, 0.063, 0.0133)),
    "RLS, 512 wide": ("rls", "squared", 512, {}, (0.919, 0.972, 0.987, 0.993, 0.994, 1.000, 0.078, 0.0101)),
    "Adam, 512 wide": ("adam", "squared", 512, {}, (0.837, 0.953, 0.983, 0.989, 0.991, 1.000, 0.117, 0.0092)),
    "Adam, entropy": ("adam", "cross_entropy", 128, {}, (0.499, 0.853, 0.939, 0.977, 0.977, 0.997, 1.273, 0.0351)),
    "HRLS": ("hrls", "cross_entropy", 128, {}, (0.743, 0.894, 0.961, 0.976, 0.976, 1.000, 0.733, 0.0128)),
    "HRLS+R": ("hrls+r", "cross_entropy", 128, {}, None),
    "HRLS+M": ("hrls+m", "cross_entropy", 128, {}, None),
    "HRLS+M+R": ("hrls+m+r", "cross_entropy", 128, {}, (0.788, 0.917, 0.966, 0.975, 0.976, 1.000, 0.446, 0.0081)),
}
SEEDS, N_EPOCHS = 10, 100
#: The specification's quantiles of the eigenvalues of the first layer's P (B.3), at `_rls.QUANTILES`.
EIGENVALUES = (0.0007, 0.35, 0.80, 0.98, 1.0)


def cases(quick: bool) -> list[dict[str, Any]]:
    """Return a case for each method and seed."""
    labels = ("Adam", "RLS", "HRLS") if quick else METHODS
    seeds, epochs = (1, 5) if quick else (SEEDS, N_EPOCHS)
    return [{"method": label, "seed": seed, "epochs": epochs} for label in labels for seed in range(seeds)]


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Train once."""
    method, loss, width, options, _ = METHODS[case["method"]]
    data = _rls.data_of(*digits())
    return _rls.measure(
        _rls.perceptron(64, width, 10),
        data,
        method,
        loss=loss,
        n_epochs=case["epochs"],
        seed=case["seed"],
        **options,
    )


def tables(records: Records) -> list[Table]:
    curves: dict[str, tuple[str, int] | None] = {"test @1": ("test", 1), "@5": ("test", 5), "@20": ("test", 20)}
    curves |= {"@100": ("test", 100), "best": None, "train @100": ("train", 100), "loss @5": ("loss", 5)}
    curves |= {"loss @100": ("loss", 100)}

    def specified(group: Records) -> Sequence[float | None]:
        return METHODS[group[0].case["method"]][4] or (None,) * len(curves)

    accuracies = [
        ("method", show.param("method")),
        *_rls.compared(curves, specified, {"loss @100": 4}),
        ("repetitions", show.count),
    ]
    costs = [
        ("method", show.param("method")),
        ("ms an epoch", _rls.seconds_cell(".3g", 1e3)),
        ("parameters", show.first("parameters", ",")),
        ("numbers the optimiser keeps", show.first("state", ",")),
        ("repetitions", show.count),
    ]
    eigenvalues = [["specification, B.3", *(f"{value:g}" for value in EIGENVALUES), "-"]]
    spectra = spectra_of(records)
    if len(spectra):
        eigenvalues.append(["measured", *(f"{value:.2g}" for value in spectra.mean(axis=0)), str(len(spectra))])
    note = (
        f"Means over seeds; (spec): the {_rls.SPECIFICATION}, three seeds. Minibatches of 128. The paper's curves have "
        "no numbers."
    )
    groups = _rls.by(records, "method")
    return [
        show.table("Digits, 64-128-10: accuracy and loss", groups, accuracies, note),
        show.table(
            "Digits: time and memory",
            groups,
            costs,
            "Twelve steps of 128 samples, processor time of one thread; measuring scores is not counted.",
        ),
        Table(
            "Digits: eigenvalues of the first layer's P after the last epoch, RLS",
            ["", "least", "1 %", "10 %", "median", "largest", "repetitions"],
            eigenvalues,
            "Quantiles of 65 eigenvalues, which all start at 1. Means over seeds.",
        ),
    ]


def spectra_of(records: Sequence[Record]) -> np.ndarray:
    """Return the quantiles of P's eigenvalues of plain RLS, a row a seed."""
    found = [r.measured["eigenvalues"] for r in records if r.case["method"] == "RLS"]
    return np.array([one for one in found if one is not None]).reshape(-1, len(_rls.QUANTILES))


def plot(records: Records) -> Any:
    """Draw loss and accuracy against epochs, in the layout of figures 2 and 3."""
    groups = _rls.by(records, "method")
    sets = {
        "squared loss": ("Adam", "SGD 1.0", "RLS", "RLS+R", "RLS+M", "RLS+M+R"),
        "cross-entropy, output layer by Adam": ("Adam, entropy", "HRLS", "HRLS+R", "HRLS+M", "HRLS+M+R"),
    }
    panels = {title: {label: groups[label] for label in labels if label in groups} for title, labels in sets.items()}
    return _rls.draw_curves(panels)


def claims(records: Records) -> list[Claim]:
    """Return the claims of section VI-B for fully connected networks, in kind."""
    points = [("test", 5, 0.0), ("loss", 5, 0.0), ("loss", 100, 0.0), ("test", 100, -0.005)]
    ends, curves = (("test", 5), ("test", 100), ("loss", 100)), (("loss", 5), ("test", 100))
    statement = "{ours} converges faster and better than Adam ({loss} loss), here on digits."
    groups, signs = _rls.by(records, "method"), ("+M", "+R")
    made = _rls.method_claims(groups, "a", statement, points, curves, "digits", signs, ends)
    return [*_rls.in_one(made, "digits"), spectrum_claim(records)]


def spectrum_claim(records: Sequence[Record]) -> Claim:
    """Return the claim on P: its least eigenvalue falls below 0.01, nine of ten stay above 0.7, none grows."""
    spectra = spectra_of([record for record in records if record.case["epochs"] >= N_EPOCHS])
    holds = [one[0] < 0.01 and one[2] > 0.7 and one[-1] <= 1.0 + 1e-5 for one in spectra]
    figures = ""
    if len(spectra):
        least, _, tenth, median, largest = spectra.mean(axis=0)
        figures = f"least {least:.1g}, a tenth below {tenth:.2f}, median {median:.2f}, largest {largest:.2f}"
    statement = "P of the first layer shrinks, and practically along the mean input alone (100 epochs on digits)."
    return exact("specification, B.3", statement, holds, figures)


EXPERIMENT = experiment_in(
    __name__,
    "Recursive least squares: fully connected network on digits",
    f"{_rls.SOURCE}, Figures 2 and 3, in kind",
    version=2,
)
