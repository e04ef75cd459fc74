"""Figure 4 of the paper: accuracy on vehicle (four classes) against the number of sampled neurons.

    python benchmarks/vehicle.py [--seeds 10] [--out benchmarks/results]

One-hot targets, squared loss, bilinear activation, binary weights, beta = 1, the paper's 676/170 split, standardised,
with a constant column. ONE semidefinite solve; every network is sampled from it. Mean and deviation over seeds.
Writes vehicle.json and vehicle.png.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table

import qsdp
from qsdp.lifting import append_constant

SIZES = (4, 10, 30, 100, 300, 1000, 3000, 10_000)
BETA = 1.0


def data():
    """Return standardised training and test parts with a constant column, and class numbers."""
    X, X_test, y, y_test = qsdp.datasets.load_uci("vehicle").split(random_state=0)
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    return append_constant((X - mean) / deviation), append_constant((X_test - mean) / deviation), y, y_test


def accuracy(output, labels):
    """Return the share of rows whose largest output is the label's."""
    return float(np.mean(output.argmax(axis=1) == labels))


def measure(seeds):
    """Solve once, sample all sizes and both allotments."""
    X, X_test, y, y_test = data()
    result = qsdp.solve_and_sample(X, np.eye(4)[y], n_neurons=4, beta=BETA, random_state=0)
    relaxation = result.relaxation
    rows = []
    for allotment in ("equal", "proportional"):
        for m in SIZES:
            networks = [result.resample(m, seed, allotment=allotment).network for seed in range(seeds)]
            train = [accuracy(network.predict(X), y) for network in networks]
            test = [accuracy(network.predict(X_test), y_test) for network in networks]
            rows.append(
                {
                    "allotment": allotment,
                    "neurons": m,
                    "bits": networks[0].n_bits,
                    "train": [float(np.mean(train)), float(np.std(train))],
                    "test": [float(np.mean(test)), float(np.std(test))],
                }
            )
    return {
        "beta": BETA,
        "seeds": seeds,
        "relative_gap": relaxation.relative_gap,
        "sdp": {"train": accuracy(relaxation.predict(X), y), "test": accuracy(relaxation.predict(X_test), y_test)},
        "rows": rows,
        "solve_seconds": relaxation.compile_time + relaxation.solve_time,
    }


def plot(report, path):
    """Draw accuracy against the number of neurons, with the relaxation's as lines."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for ax, part in zip(axes, ("train", "test"), strict=True):
        ax.axhline(report["sdp"][part], color="black", label="relaxation (no quantization)")
        for allotment, colour in (("equal", "tab:green"), ("proportional", "tab:blue")):
            rows = [row for row in report["rows"] if row["allotment"] == allotment]
            means, deviations = np.array([row[part] for row in rows]).T
            sizes = [row["neurons"] for row in rows]
            ax.errorbar(
                sizes, means, deviations, marker="o", ms=4, capsize=2, color=colour, label=f"{allotment} shares"
            )
        ax.set(xscale="log", xlabel="neurons m", title=f"vehicle, {part}")
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("accuracy")
    axes[0].legend(loc="upper left", bbox_to_anchor=(0.0, 0.93), fontsize="small")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main():
    """Measure, print, draw, save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    report = measure(options.seeds)
    (options.out / "vehicle.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    plot(report, options.out / "vehicle.png")
    sdp = report["sdp"]
    table = Table(title=f"vehicle, beta = {BETA:g}: relaxation {sdp['train']:.3f} train, {sdp['test']:.3f} test")
    for column in ("allotment", "neurons", "bits", "train", "test"):
        table.add_column(column, justify="left" if column == "allotment" else "right")
    for row in report["rows"]:
        parts = [f"{row[part][0]:.3f} ± {row[part][1]:.3f}" for part in ("train", "test")]
        table.add_row(row["allotment"], str(row["neurons"]), f"{row['bits']:,}", *parts)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
