"""Rounding after training: which scale, and how many levels.

Planted data as in Figure 1 (100 samples of 20 Gaussian columns, ten planted neurons with binary weights), ten draws. A
bilinear network with the second layer at 1/m is trained by stochastic gradient descent with momentum (300 epochs,
learning rate 0.1 in its units, beta = 1e-4), then rounded: "printed" takes the one scale as section 5.1 prints it,
"shared" the one that is optimal for the criterion stated there. "folded" has a scale for every neuron and factor,
nearest to its weights alone, "neuron" the same times the factor that brings the sum nearest; "refitted" has the second
layer that is best on the training data. Errors are relative: of the network's matrix in the Frobenius norm, of the
outputs on the training samples and on 100 others.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import qsdp
from benchmarks.experiments import draw
from benchmarks.experiments._common import PAPER, experiment_in, grouped, per_cent
from qsdp.bench import Claim, Record, Table, exact, paired_claim

N, D, BETA = 100, 20, 1e-4
SIZES, SEEDS, EPOCHS = (30, 100, 300), 10, 300
LEVELS = (2, 3, 4, 8, 16, 64)
SCALES = ("printed", "shared", "folded", "neuron", "refitted")

#: Source and statement of every claim.
STATEMENTS = {
    "scale": (f"{PAPER}, section 5.1", "c = <Z_hat, Z> / <Z, Z> solves min ||c Z_hat - Z||_F."),
    "loss": (
        f"{PAPER}, section 5.2",
        "Post-training quantization to signs loses much of what backpropagation has learned (here: the error at least "
        "doubles, with the right scale).",
    ),
}


def cases(quick: bool) -> list[dict[str, Any]]:
    """Return a case for each size and draw."""
    if quick:
        return [{"m": 30, "seed": 0, "epochs": 60, "levels": [2, 4]}]
    return [{"m": m, "seed": seed, "epochs": EPOCHS, "levels": list(LEVELS)} for seed in range(SEEDS) for m in SIZES]


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Train once, round in every way."""
    from qsdp.baselines import BackpropRegressor

    planted = qsdp.datasets.make_planted(2 * N, D, n_neurons=10, random_state=case["seed"])
    X, X_test, y, y_test = planted.X[:N], planted.X[N:], planted.y[:N], planted.y[N:]
    model = BackpropRegressor(
        case["m"],
        second_layer="fixed",
        beta=BETA,
        constant_column=False,
        n_epochs=case["epochs"],
        random_state=case["seed"],
    ).fit(X, y)
    problem = model.training_problem(X, y)
    exact = model.float_network_.to_quadratic_form().S

    def figures(network: Any, levels: int, scale: str) -> dict[str, Any]:
        S = network.quadratic_form
        return {
            "levels": levels,
            "scale": scale,
            "bits": network.n_bits,
            "matrix": float(np.linalg.norm(S - exact) / np.linalg.norm(exact)),
            "train": relative(network, X, y),
            "test": relative(network, X_test, y_test),
        }

    found = []
    for levels in case["levels"]:
        # The printed ratio is off by the square of m and of the levels: signs show it.
        for scale in SCALES[levels > 2 :]:
            if scale == "refitted":
                network = model.quantized(levels, scale="neuron")
                network = qsdp.refit(network, problem.with_levels(levels))
            else:
                options = {"printed": {"scale": "paper"}, "folded": {"scale": "neuron", "corrected": False}}
                network = model.quantized(levels, **options.get(scale, {"scale": scale}))
            found.append(figures(network, levels, scale))
    return {
        "float_train": relative(model, X, y),
        "float_test": relative(model, X_test, y_test),
        "rounded": found,
    }


def relative(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Return the relative error of outputs."""
    return float(np.linalg.norm(model.predict(X) - y) / np.linalg.norm(y))


def entries(records: Sequence[Record], scale: str, levels: int, name: str) -> np.ndarray:
    """Return one figure over draws."""
    return np.array(
        [
            one[name]
            for record in records
            for one in record.measured["rounded"]
            if one["scale"] == scale and one["levels"] == levels
        ]
    )


def tables(records: Sequence[Record]) -> list[Table]:
    """Return errors by size, levels and scale."""
    made = []
    for (m,), group in grouped(records, "m").items():
        rows = []
        for levels in group[0].case["levels"]:
            for scale in SCALES[levels > 2 :]:
                bits = entries(group, scale, levels, "bits").mean()
                cells = [short(entries(group, scale, levels, name)) for name in ("matrix", "train", "test")]
                rows.append([f"{levels} levels", scale, f"{bits:,.0f}", *cells])
        floats = (short(np.array([record.measured[f"float_{part}"] for record in group])) for part in ("train", "test"))
        rows.append(["real weights", "", "", "0 %", *floats])
        headings = ["weights", "scale", "bits", "matrix error", "training error", "test error"]
        note = f"Medians and ranges over {len(group)} draws; errors relative to the trained network or the targets."
        made.append(Table(f"m = {m} neurons", headings, rows, note))
    return made


def short(numbers: np.ndarray) -> str:
    """Return median and range in percent."""
    return f"{100 * np.median(numbers):.3g} % ({100 * numbers.min():.3g} to {100 * numbers.max():.3g})"


def claims(records: Sequence[Record]) -> list[Claim]:
    """Check the printed scale, and what rounding loses."""
    printed, right = (entries(records, scale, 2, "matrix") for scale in ("printed", "shared"))
    figures = ""
    if len(printed):
        figures = (
            f"relative error {100 * np.median(printed):.3g} % at that c, {100 * np.median(right):.3g} % at "
            "<Z_hat, Z> / <Z_hat, Z_hat> (medians)"
        )
    lost = dict(enumerate(entries(records, "shared", 2, "train")))
    floats = {number: record.measured["float_train"] for number, record in enumerate(records)}
    return [
        exact(*STATEMENTS["scale"], printed <= right * (1.0 + 1e-9), figures),
        paired_claim(
            *STATEMENTS["loss"], lost, floats, names=("rounded", "float"), show=per_cent, log=True, margin=np.log(2.0)
        ),
    ]


def plot(records: Sequence[Record], path: Path) -> None:
    """Draw errors against levels."""
    groups = grouped(records, "m")
    figure, axes = draw.subplots(1, len(groups), figsize=(4 * len(groups), 3.6), sharey=True, squeeze=False)
    for ax, ((m,), group) in zip(axes[0], groups.items(), strict=True):
        levels = group[0].case["levels"]
        for scale in SCALES[1:]:
            curve = [np.median(entries(group, scale, count, "train")) for count in levels]
            ax.loglog(levels, curve, marker="o", ms=4, label=scale)
        ax.axhline(np.median([record.measured["float_train"] for record in group]), color="black", ls=":", label="real")
        ax.set(xlabel="levels", title=f"m = {m}")
        ax.set_xticks(levels, [str(count) for count in levels])
        ax.minorticks_off()
        ax.grid(alpha=0.3)
    axes[0][0].set_ylabel("relative training error")
    axes[0][-1].legend(fontsize="x-small")
    draw.save(figure, path, dpi=110)


EXPERIMENT = experiment_in(__name__, "Rounding after training: scales and levels", f"{PAPER}, section 5.1")
