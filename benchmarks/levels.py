"""Accuracy and bits for several numbers of levels from ONE solve for each data set.

    python benchmarks/levels.py [--seeds 5] [--neurons 2500] [--out benchmarks/results]

The relaxation is solved for binary weights (M = 1); networks with M = 2, 4, 8 are sampled from the same solution
(`result.resample(m, levels=M + 1)`). Squared loss, bilinear with a constant column, beta = 10, standardised, the
paper's splits. Test accuracy is mean and deviation over seeds of the sampling. Writes levels.json.
"""

from __future__ import annotations

import argparse

import numpy as np
from _cases import UCI
from _results import add_out, write
from rich.console import Console
from rich.table import Table

import qsdp
from qsdp.lifting import append_constant

FACTORS = (1, 2, 4, 8)
BETA = 10.0


def measure(name, neurons, seeds):
    """Return a row for each M."""
    dataset = qsdp.datasets.load_uci(name)
    X, X_test, y, y_test = dataset.split(random_state=0)
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    X, X_test = (append_constant((part - mean) / deviation) for part in (X, X_test))
    several = dataset.task == "multiclass"
    target = np.eye(int(y.max()) + 1)[y] if several else y
    result = qsdp.solve_and_sample(X, target, n_neurons=neurons, beta=BETA, random_state=0)
    rows = []
    for M in FACTORS:
        networks = [result.resample(neurons, seed, levels=M + 1).network for seed in range(seeds)]
        scores = []
        for network in networks:
            output = network.predict(X_test)
            scores.append(float(np.mean((output.argmax(axis=1) if several else np.sign(output)) == y_test)))
        used = sum(np.bincount((network.U + M).ravel() // 2, minlength=M + 1) for network in networks)
        rows.append(
            {
                "dataset": name,
                "M": M,
                "bits": networks[0].n_bits,
                "test": [float(np.mean(scores)), float(np.std(scores))],
                "outermost": float((used[0] + used[-1]) / used.sum()),
            }
        )
    return rows


def main():
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--neurons", type=int, default=2500)
    add_out(parser)
    options = parser.parse_args()
    rows = [row for name in UCI for row in measure(name, options.neurons, options.seeds)]
    write(options.out, "levels", {"beta": BETA, "neurons": options.neurons, "seeds": options.seeds, "rows": rows})
    table = Table(title=f"{options.neurons} neurons, beta = {BETA:g}, one solve a data set")
    for column in ("data", "M", "levels", "bits", "test accuracy", "weights at +-M"):
        table.add_column(column, justify="left" if column == "data" else "right")
    for row in rows:
        test = f"{row['test'][0]:.3f} ± {row['test'][1]:.3f}"
        first = row["M"] == FACTORS[0]
        table.add_row(
            row["dataset"] if first else "",
            str(row["M"]),
            str(row["M"] + 1),
            f"{row['bits']:,}",
            test,
            f"{row['outermost']:.2f}",
        )
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
