"""Figure 4 of the paper: accuracy on vehicle, four classes, against the number of sampled neurons.

One-hot targets, squared loss, bilinear activation, binary weights, beta = 1, 676/170 samples, standardised, with a
constant column. One solve a split; every network is sampled from it. "printed" is the relaxation with the regulariser
as printed, equal shares of the neurons for the classes and the covariance of (27): the paper's method. "equal" and
"proportional" take the tight regulariser and the covariance in closed form; neurons are shared out equally or by the
classes' rho. "polished" starts from "proportional".
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import qsdp
from benchmarks.experiments._common import PAPER, accuracy, grouped, percent, standardised, values, with_constant
from qsdp.bench import Claim, Experiment, Record, Table

SIZES = (10, 30, 100, 300, 1000, 3000, 10_000)
POLISHED = (10, 30, 100, 300)
METHODS = ("printed", "equal", "proportional", "polished")
BETA, DRAWS = 1.0, 5
LINES = {"printed": "relaxation, as printed", "proportional": "relaxation, tight"}


def cases(quick: bool) -> list[dict[str, Any]]:
    """Return a case for each method and split."""
    if quick:
        return [{"method": method, "split": 0, "sizes": [30, 300]} for method in METHODS[1:]]
    return [
        {"method": method, "split": split, "sizes": list(POLISHED if method == "polished" else SIZES)}
        for method in METHODS
        for split in range(10)
    ]


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Solve once, then sample every size a few times."""
    X, X_test, y, y_test = standardised("vehicle", case["split"])
    X, X_test = with_constant(X, X_test)
    printed = case["method"] == "printed"
    problem = qsdp.TrainingProblem(X, np.eye(4)[y], beta=BETA)
    relaxation = qsdp.solve_relaxation(problem, regularization="paper" if printed else "tight")
    covariance = qsdp.shape_covariance(relaxation, method="sdp" if printed else "krivine")
    shares = "equal" if case["method"] in {"printed", "equal"} else "proportional"
    curve = []
    for m in case["sizes"]:
        train, test = [], []
        for draw in range(DRAWS):
            network = qsdp.sample_network(covariance, m, random_state=draw, allotment=shares)
            if case["method"] == "polished":
                network = qsdp.polish(network, problem, random_state=draw)
            train.append(accuracy(network.predict(X), y))
            test.append(accuracy(network.predict(X_test), y_test))
        curve.append({"m": m, "bits": network.n_bits, "train": float(np.mean(train)), "test": float(np.mean(test))})
    return {
        "curve": curve,
        "sdp_train": accuracy(relaxation.predict(X), y),
        "sdp_test": accuracy(relaxation.predict(X_test), y_test),
        "relative_gap": relaxation.relative_gap,
        "solve_seconds": relaxation.compile_time + relaxation.solve_time,
    }


def points(records: Sequence[Record], part: str) -> dict[int, list[float]]:
    """Return accuracies over splits by size."""
    found: dict[int, list[float]] = {}
    for record in records:
        for point in record.measured["curve"]:
            found.setdefault(point["m"], []).append(point[part])
    return found


def tables(records: Sequence[Record]) -> list[Table]:
    """Return accuracies by method and size."""
    rows = []
    for (method,), group in grouped(records, "method").items():
        train, test = points(group, "train"), points(group, "test")
        bits = {point["m"]: point["bits"] for record in group for point in record.measured["curve"]}
        rows += [[method, str(m), f"{bits[m]:,}", percent(train[m]), percent(test[m])] for m in train]
        parts = (percent(values(group, f"sdp_{part}")) for part in ("train", "test"))
        rows.append([method, "relaxation", "", *parts])
    splits = len({record.case["split"] for record in records})
    note = f"Mean and deviation over {splits} splits, each the mean of {DRAWS} drawn networks; beta = {BETA:g}."
    return [Table("vehicle: accuracy (%)", ["method", "m", "bits", "train", "test"], rows, note)]


def claims(records: Sequence[Record]) -> list[Claim]:
    """Say whether sampled networks approach the relaxation's accuracy."""
    group = [record for record in records if record.case["method"] == "printed"]
    if not group:
        return []
    train = points(group, "train")
    sizes = sorted(train)
    means = [float(np.mean(train[m])) for m in sizes]
    target = float(np.mean(values(group, "sdp_train")))
    rising = all(b >= a - 0.005 for a, b in itertools.pairwise(means))
    # Approaching: nine tenths of the distance from the smallest network are gone.
    near, far = target - means[-1], target - means[0]
    verdict = "reproduced" if rising and near < 0.1 * far else "partly" if rising else "not"
    return [
        Claim(
            f"{PAPER}, Figure 4",
            "The accuracy of sampled networks approaches that of the relaxation as m grows.",
            verdict,
            f"training accuracy {100 * means[0]:.1f} % at m = {sizes[0]}, {100 * means[-1]:.1f} % at m = {sizes[-1]}; "
            f"relaxation {100 * target:.1f} %; {len(group)} splits",
            "" if verdict == "reproduced" else f"{100 * near:.1f} points are left at m = {sizes[-1]}",
        )
    ]


def plot(records: Sequence[Record], path: Path) -> None:
    """Draw accuracy against the number of neurons, with the relaxation's as lines."""
    import matplotlib.pyplot as plt

    colours = dict(zip(METHODS, ("tab:orange", "tab:green", "tab:blue", "tab:purple"), strict=True))
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for ax, part in zip(axes, ("train", "test"), strict=True):
        for (method,), group in grouped(records, "method").items():
            found = points(group, part)
            means, deviations = zip(*((np.mean(found[m]), np.std(found[m])) for m in found), strict=True)
            ax.errorbar(
                list(found), means, deviations, marker="o", ms=4, capsize=2, color=colours[method], label=method
            )
            if method in LINES:
                level = float(np.mean(values(group, f"sdp_{part}")))
                ax.axhline(level, color=colours[method], ls="--", lw=1, label=LINES[method])
        ax.set(xscale="log", xlabel="neurons m", title=f"vehicle, {part}")
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("accuracy")
    axes[1].legend(loc="lower right", fontsize="x-small")
    figure.savefig(path, dpi=110)
    plt.close(figure)


EXPERIMENT = Experiment(
    name="fig4",
    title="Figure 4: several classes, accuracy against the number of neurons",
    source=f"{PAPER}, Figure 4",
    cases=cases,
    run=run,
    tables=tables,
    claims=claims,
    plot=plot,
)
