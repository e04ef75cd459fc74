"""Time and stability of the default classifier beside boosting and logistic regression, on generated tables.

    python -m benchmarks.default_fit                # CPU seconds, and their ratios to boosting in the same run
    python -m benchmarks.default_fit --halves 10    # accuracy on random halves of one large table

Generated sets have the shapes of tables on which the default fit once took a minute: eleven classes of 742 x 13,
fifteen of 270 x 90, six of 4,800 x 36, and 16,000 x 25 with mixed columns; and letter, if QSDP_DATA has it. Seconds are
CPU time of one thread.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from qsdp import QuantizedNetworkClassifier
from qsdp._utils.parallel import blas_threads
from qsdp.datasets import load_uci
from qsdp.exceptions import DatasetError

#: Rows, columns and classes of generated sets of numbers.
SHAPES = ((742, 13, 11), (270, 90, 15), (4800, 36, 6))

#: Rows of a half of the table of mixed columns, and the numbers of categories of its columns.
HALF, CATEGORIES = 16_000, (2, 3, 4, 5, 6, 8, 10, 12, 15, 20)

#: A training set and a test set.
Split = tuple[Any, np.ndarray, Any, np.ndarray]


def numbers(n: int, d: int, n_classes: int) -> Split:
    """Return classes of several clusters each, in correlated columns, with as many rows to test."""
    X, y = make_classification(
        2 * n,
        d,
        n_informative=min(d, 10),
        n_redundant=d - min(d, 10),
        n_classes=n_classes,
        n_clusters_per_class=2,
        class_sep=1.5,
        random_state=0,
    )
    return X[:n], y[:n], X[n:], y[n:]


def mixed() -> tuple[pd.DataFrame, np.ndarray]:
    """Return 15 numbers and 10 columns of categories with interactions, noise columns and 14 % of positives."""
    rng, n = np.random.default_rng(0), 2 * HALF
    X = rng.standard_normal((n, 15))
    X[:, 5:10], X[:, 10:12] = np.exp(X[:, 5:10]), np.round(3.0 * X[:, 10:12])
    codes = [rng.integers(0, count, n) for count in CATEGORIES]
    score = 0.7 * X[:, 0] - 0.5 * np.log(X[:, 5]) + 0.6 * X[:, 1] * X[:, 2] + 0.5 * np.abs(X[:, 4]) + 0.1 * X[:, 10]
    score += 0.8 * ((X[:, 3] > 0.5) & (codes[0] == 1))
    for own, count in zip(codes[:4], CATEGORIES, strict=False):
        score += 0.5 * rng.standard_normal(count)[own]
    score += rng.logistic(size=n)
    table = {f"x{j}": X[:, j] for j in range(15)}
    table |= {f"c{j}": pd.Categorical([f"v{code}" for code in own]) for j, own in enumerate(codes)}
    return pd.DataFrame(table), (score > np.quantile(score, 0.86)).astype(int)


def half(table: pd.DataFrame, y: np.ndarray, seed: int) -> Split:
    """Return a random half to train and the other one to test."""
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:HALF], order[HALF:]
    return table.iloc[train], y[train], table.iloc[test], y[test]


def models() -> dict[str, Callable[[int], Any]]:
    """Return the models by name, each for a seed."""
    columns = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include=np.number)),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_include="category")),
    )
    return {
        "default": lambda seed: QuantizedNetworkClassifier(random_state=seed),
        "boosting": lambda seed: HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=seed),
        "logistic": lambda seed: make_pipeline(columns, LogisticRegression(max_iter=1000)),
    }


def fitted(model: Any, split: Split) -> tuple[Any, float]:
    """Return a fitted model and the CPU seconds of the fit."""
    start = time.process_time()
    return model.fit(split[0], split[1]), time.process_time() - start


def times() -> None:
    """Print accuracy, seconds and their ratio to boosting for each set."""
    sets = {f"{n} x {d}, {classes} classes": numbers(n, d, classes) for n, d, classes in SHAPES}
    sets[f"{HALF} x 25, mixed"] = half(*mixed(), 0)
    try:
        X, X_test, y, y_test = load_uci("letter").split(random_state=0)
        sets["letter"] = X, y, X_test, y_test
    except DatasetError as error:
        print(f"letter is left out: {error}")
    print(f"{'set':28} {'default':>9} {'boosting':>9} {'seconds':>9} {'ratio':>7} neurons inputs")
    for name, split in sets.items():
        (ours, seconds), (boosting, others) = (fitted(models()[model](0), split) for model in ("default", "boosting"))
        scores = (f"{100.0 * model.score(split[2], split[3]):8.1f}%" for model in (ours, boosting))
        sizes = f"{ours.network_.n_neurons:7} {ours.encoder_.encoding_.width:6}"
        print(f"{name:28} {' '.join(scores)} {seconds:9.1f} {seconds / others:7.1f} {sizes}", flush=True)


def stability(halves: int) -> None:
    """Print mean and deviation over random halves of accuracy and area under the curve, for each model."""
    table, y = mixed()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in models()}
    for seed in range(halves):
        split = half(table, y, seed)
        for name, build in models().items():
            model, _ = fitted(build(seed), split)
            chances = model.predict_proba(split[2])[:, 1]
            found[name].append((model.score(split[2], split[3]), roc_auc_score(split[3], chances)))
    for name, scores in found.items():
        means, deviations = 100.0 * np.mean(scores, axis=0), 100.0 * np.std(scores, axis=0, ddof=1)
        print(f"{name:9} accuracy {means[0]:.2f} +- {deviations[0]:.2f} %, AUC {means[1]:.2f} +- {deviations[1]:.2f} %")


def main() -> None:
    """Run what the command line requests, on one thread."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--halves", type=int, default=0, help="number of random halves, at least two; 0 prints times")
    halves = parser.parse_args().halves
    with blas_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if halves:
            stability(halves)
        else:
            times()


if __name__ == "__main__":
    main()
