"""Fifty polished neurons against 2500 sampled ones, and against the global optimum.

    python benchmarks/polish.py [--seeds 5] [--quick] [--out benchmarks/results]

Squared loss, bilinear with a constant column, beta = 10, standardised; vehicle has four outputs. A seed is a split as
in the paper (random_state = seed) and the seed of the sampling. Means and deviations over the seeds of the objective on
the training part, accuracies and bits (64 a float); "gap" is what the objective exceeds the best proven bound by, as a
share of itself. All rows of a seed start from one relaxation: "polished" is 50 neurons sampled from the adaptive
covariance, then coordinate descent over single weights, alpha shared; "best of size" searches such networks from many
starts for ten seconds; "exact" is column generation. Seconds are those of the row's own step, of the CPU, one thread.
Writes polish.json.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from _results import add_out, write
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import qsdp
from qsdp.lifting import append_constant
from qsdp.refinement.column_generation import column_generation
from qsdp.refinement.fixed_size import best_of_size
from qsdp.refinement.polish import polish
from qsdp.refinement.refit import refit

NAMES = ("breast-cancer", "ionosphere", "credit-approval", "vehicle")
BETA, MANY, FEW = 10.0, 2500, 50
SEARCH_SECONDS, EXACT_SECONDS = 10.0, 300.0


def networks_of(problem, seed, quick):
    """Yield label, network and seconds; the relaxation's own quadratic form comes first."""
    clock = time.process_time()

    def lap():
        nonlocal clock
        start, clock = clock, time.process_time()
        return clock - start

    relaxation = qsdp.solve_relaxation(problem)
    yield "relaxation", relaxation, lap()
    krivine = qsdp.sample_network(qsdp.shape_covariance(relaxation), MANY, seed)
    yield f"sampled {MANY} (krivine)", krivine, lap()
    covariance = qsdp.shape_covariance(relaxation, method="adaptive")
    adaptive = qsdp.sample_network(covariance, MANY, seed)
    yield f"sampled {MANY} (adaptive)", adaptive, lap()
    yield "  + shared refit", refit(adaptive, problem, second_layer="shared"), lap()
    yield "  + free refit", refit(adaptive, problem), lap()
    sampled = qsdp.sample_network(covariance, FEW, seed)
    yield f"sampled {FEW} (adaptive)", sampled, lap()
    polished = polish(sampled, problem, random_state=seed)
    yield f"polished {FEW}", polished, lap()
    yield "  + free refit", refit(polished, problem), lap()
    if quick:
        return
    best = best_of_size(
        problem, FEW, time_limit=SEARCH_SECONDS, starts=[sampled], relaxation=relaxation, random_state=seed
    )
    yield f"best of size {FEW}", best.network, lap()
    yield "exact", column_generation(problem, relaxation=relaxation, time_limit=EXACT_SECONDS), lap()


def measure(name, seeds, quick):
    """Return a row for each kind of network."""
    dataset = qsdp.datasets.load_uci(name)
    several = dataset.task == "multiclass"
    measured = {}
    for seed in range(seeds):
        X, X_test, y, y_test = dataset.split(random_state=seed)
        mean, deviation = X.mean(axis=0), X.std(axis=0)
        X, X_test = (append_constant((part - mean) / deviation) for part in (X, X_test))
        target = np.eye(int(dataset.y.max()) + 1)[y] if several else y
        problem = qsdp.TrainingProblem(X, target, beta=BETA)
        runs, bounds = {}, []
        for label, model, seconds in networks_of(problem, seed, quick):
            network = getattr(model, "network", model)
            relaxed = isinstance(model, qsdp.Relaxation)
            bounds.append(getattr(model, "lower_bound", 0.0))
            accuracy = []
            for part, truth in ((X, y), (X_test, y_test)):
                output = network.predict(part)
                guess = output.argmax(axis=1) if several else np.where(output < 0.0, -1.0, 1.0)
                accuracy.append(float(np.mean(guess == truth)))
            runs[len(runs), label] = {
                "objective": model.objective if relaxed else problem.objective(network),
                "train": accuracy[0],
                "test": accuracy[1],
                "neurons": None if relaxed else network.n_neurons,
                "bits": None if relaxed else network.n_bits,
                "seconds": seconds,
            }
        for key, run in runs.items():
            run["gap"] = 1.0 - (bounds[0] if key[0] == 0 else max(bounds)) / run["objective"]
            measured.setdefault(key, []).append(run)
    rows = []
    for (_, label), runs in measured.items():
        row = {"dataset": name, "network": label, "runs": len(runs)}
        for key, first in runs[0].items():
            values = [run[key] for run in runs]
            row[key] = None if first is None else [float(np.mean(values)), float(np.std(values))]
        rows.append(row)
    return rows


def spread(pair, form, unit=""):
    """Return mean and deviation as text."""
    return "" if pair is None else f"{pair[0]:{form}} ± {pair[1]:{form}}{unit}"


def main():
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two data sets, one seed, no search and no exact method")
    add_out(parser)
    options = parser.parse_args()
    seeds = 1 if options.quick else options.seeds
    names = ("breast-cancer", "vehicle") if options.quick else NAMES
    with threadpool_limits(limits=1):
        rows = [row for name in names for row in measure(name, seeds, options.quick)]
    write(options.out, "polish", {"beta": BETA, "seeds": seeds, "search_seconds": SEARCH_SECONDS, "rows": rows})
    table = Table(title=f"Squared loss, beta = {BETA:g}, {seeds} splits: mean ± deviation")
    for column in ("data", "network", "objective", "gap", "train", "test", "neurons", "bits", "seconds"):
        table.add_column(column, justify="left" if column in {"data", "network"} else "right")
    shown = set()
    for row in rows:
        table.add_row(
            "" if row["dataset"] in shown else row["dataset"],
            row["network"],
            spread(row["objective"], ".2f"),
            f"{row['gap'][0]:.1%}" if row["gap"][0] > 1e-3 else f"{row['gap'][0]:.0e}",
            spread(row["train"], ".3f"),
            spread(row["test"], ".3f"),
            "" if row["neurons"] is None else f"{row['neurons'][0]:.0f}",
            "" if row["bits"] is None else f"{row['bits'][0]:,.0f}",
            f"{row['seconds'][0]:.3f}",
        )
        shown.add(row["dataset"])
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
