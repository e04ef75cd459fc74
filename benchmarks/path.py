"""What a path saves: warm against cold starts, and a cross-validated estimator against a grid search.

    QSDP_DATA=folder python benchmarks/path.py [--betas 15] [--sets ionosphere credit-approval] [--losses squared huber]
                                               [--samples 20000] [--quick] [--out benchmarks/results]

Columns are standardised and one of ones is appended; betas are a geometric grid from 0.9 to 0.001 of the largest.
Iterations are those of the solvers, added over the betas; seconds are wall clock and include the Gram matrices, of
which the path computes one and the cold solves one each. The last row is a planted set of many samples.
Writes path.json.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from _cases import UCI
from _results import add_out, write
from rich.console import Console
from rich.table import Table
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

import qsdp
from qsdp.classes import encode_classes
from qsdp.losses import get_loss


def main():
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--betas", type=int, default=15)
    parser.add_argument("--sets", nargs="*", default=list(UCI))
    parser.add_argument("--losses", nargs="*", default=["squared", "huber", "squared_hinge"])
    parser.add_argument("--solvers", nargs="*", default=["interior", "splitting"])
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--quick", action="store_true", help="breast-cancer and few planted samples, four betas")
    add_out(parser)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.betas, arguments.samples = 4, 1000
        arguments.sets, arguments.losses = ["breast-cancer"], ["squared"]
    warnings.simplefilter("ignore")
    paths, folds = [], []
    for name in [*arguments.sets, "planted"]:
        X, y = data(name, arguments.samples)
        for loss in arguments.losses if name != "planted" else ["squared"]:
            for solver in arguments.solvers:
                known = {"data": name, "loss": loss, "solver": solver}
                paths.append({**known, **compared(X, y, loss, solver, arguments.betas)})
        folds.append({"data": name, **validated(X, y, arguments.betas)})
    sizes = {"quick": arguments.quick, "betas": arguments.betas, "samples": arguments.samples}
    write(arguments.out, "path", {**sizes, "paths": paths, "folds": folds})
    report(paths, folds)


def report(paths, folds):
    """Print the tables."""
    starts = Table("data", "loss", "solver", "cold iterations", "warm", "cold s", "path s", "unsolved", title="Paths")
    for row in paths:
        cold, path = row["cold"], row["path"]
        starts.add_row(
            *(row[name] for name in ("data", "loss", "solver")),
            *(str(one["iterations"]) for one in (cold, path)),
            *(f"{one['seconds']:.2f}" for one in (cold, path)),
            f"{cold['unsolved']} {path['unsolved']}",
        )
    searches = Table("data", "grid search s", "CV s", "same beta", title="Five folds, the chosen network included")
    for row in folds:
        searches.add_row(row["data"], f"{row['grid_search']:.2f}", f"{row['cv']:.2f}", str(row["same_beta"]))
    Console().print(starts, searches)


def data(name, samples):
    """Return standardised columns and labels."""
    if name == "planted":
        rng = np.random.default_rng(0)
        X = rng.standard_normal((samples, 20))
        return X, (X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3] + rng.standard_normal(samples) > 0).astype(int)
    X, y = qsdp.datasets.load_dataset(name)
    return StandardScaler().fit_transform(X), y


def compared(X, y, loss, solver, number):
    """Return iterations, seconds and failures of cold solves and of the path."""
    classes, codes = np.unique(y, return_inverse=True)
    inputs = np.column_stack([X, np.ones(len(X))])
    problem = qsdp.TrainingProblem(inputs, encode_classes(codes, len(classes), get_loss(loss)), beta=1.0, loss=loss)
    betas = qsdp.largest_beta(problem) * np.geomspace(0.9, 1e-3, number)
    start = time.perf_counter()
    cold = [qsdp.solve_relaxation(problem.with_beta(beta), solver=solver) for beta in betas]
    between = time.perf_counter()
    path = qsdp.relaxation_path(problem, betas, solver=solver)
    end = time.perf_counter()
    return {
        name: {
            "iterations": sum(relaxation.iterations or 0 for relaxation in solved),
            "seconds": seconds,
            "unsolved": sum(relaxation.status != "optimal" for relaxation in solved),
        }
        for name, solved, seconds in (("cold", cold, between - start), ("path", path, end - between))
    }


def validated(X, y, number):
    """Return seconds of a grid search and of the estimator of its own, on the same folds and betas."""
    model = qsdp.QuantizedNetworkClassifierCV(betas=number, random_state=0)
    start = time.perf_counter()
    model.fit(X, y)
    between = time.perf_counter()
    plain = qsdp.QuantizedNetworkClassifier(random_state=0)
    search = GridSearchCV(plain, {"beta": list(model.betas_)}, cv=5).fit(X, y)
    end = time.perf_counter()
    same = bool(search.best_params_["beta"] == model.beta_)
    return {"grid_search": end - between, "cv": between - start, "same_beta": same}


if __name__ == "__main__":
    main()
