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

from typing import Any

import numpy as np

import qsdp
from benchmarks.experiments._common import (
    PAPER,
    Records,
    experiment_in,
    grid,
    per_cent,
    unfolded,
    values,
    where,
)
from benchmarks.experiments._data import planted
from qsdp.bench import Claim, Record, exact, paired_claim

N, D, BETA = 100, 20, 1e-4
SIZES, SEEDS, EPOCHS = (30, 100, 300), 10, 300
KEYS = ("levels",)
LEVELS = (2, 3, 4, 8, 16, 64)
SCALES = ("printed", "shared", "folded", "neuron", "refitted")


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        return [{"m": 30, "seed": 0, "epochs": 60, "levels": [2, 4]}]
    return grid(seed=range(SEEDS), m=SIZES, epochs=EPOCHS, levels=[list(LEVELS)])


def run(case: dict[str, Any]) -> dict[str, Any]:
    from qsdp.baselines import BackpropRegressor

    X, X_test, y, y_test = planted(N, D, case["seed"])
    model = BackpropRegressor(
        case["m"],
        second_layer="fixed",
        beta=BETA,
        constant_column=False,
        n_epochs=case["epochs"],
        random_state=case["seed"],
    ).fit(X, y)
    problem = model.training_problem(X, y)
    exact = model.network_.to_quadratic_form().S

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
        for scale in scales(levels):
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


def scales(levels: int) -> tuple[str, ...]:
    """Return the scales of so many levels: signs show what the printed ratio is off by, squares of m and levels."""
    return SCALES[levels > 2 :]


def relative(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.linalg.norm(model.predict(X) - y) / np.linalg.norm(y))


def entries(records: Records, scale: str, levels: int) -> list[Record]:
    return where(unfolded(records, "rounded", "scale", "levels"), scale=scale, levels=levels)


def claims(records: Records) -> list[Claim]:
    source = f"{PAPER}, section 5"
    printed, right = (values(entries(records, scale, 2), "matrix") for scale in ("printed", "shared"))
    figures = ""
    if len(printed):
        figures = (
            f"relative error {100 * np.median(printed):.3g} % at that c, {100 * np.median(right):.3g} % at "
            "<Z_hat, Z> / <Z_hat, Z_hat> (medians)"
        )
    optimal = "c = <Z_hat, Z> / <Z, Z> solves min ||c Z_hat - Z||_F."
    loses = (
        "Post-training quantization to signs loses much of what backpropagation has learned (here: the error at least "
        "doubles, with the right scale)."
    )
    lost, real = (
        dict(enumerate(values(group, what)))
        for group, what in ((entries(records, "shared", 2), "train"), (records, "float_train"))
    )
    how: dict[str, Any] = {"names": ("rounded", "float"), "show": per_cent, "log": True, "margin": np.log(2.0)}
    return [
        exact(f"{source}.1", optimal, printed <= right * (1.0 + 1e-9), figures),
        paired_claim(f"{source}.2", loses, lost, real, **how),
    ]


EXPERIMENT = experiment_in(__name__, "Rounding after training: scales and levels", f"{PAPER}, section 5.1")
