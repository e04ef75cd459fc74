"""Recursive least squares on scikit-learn's small sets, and what quantization makes of the networks.

20 ReLU units, 50 epochs, minibatches of 32; a quarter for the test, stratified where there are classes; standardised
with training statistics, the regression's targets too. Adam trains the same network from the same first parameters on
the same minibatches and loss. "quantized" is `distill` of the trained network on its training rows: binary weights,
5000 neurons a layer.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split

from benchmarks.experiments._common import experiment_in
from benchmarks.experiments.least_squares import _rls
from qsdp.bench import Claim, Evidence, Record, Table, compare, judged

LOADERS = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer, "diabetes": load_diabetes}
#: The specification's train and test scores; its least squares of diabetes are in B.12.
SPECIFIED = {
    ("iris", "Adam"): (0.907, 0.868),
    ("iris", "RLS"): (0.970, 0.984),
    ("wine", "Adam"): (0.979, 0.982),
    ("wine", "RLS"): (1.000, 0.978),
    ("breast cancer", "Adam"): (0.992, 0.958),
    ("breast cancer", "RLS"): (0.997, 0.941),
    ("diabetes", "Adam"): (0.605, 0.350),
    ("diabetes", "RLS"): (0.645, 0.125),
    ("diabetes", "least squares"): (0.555, 0.359),
}
HIDDEN, N_EPOCHS, BATCH, SEEDS, NEURONS = 20, 50, 32, 10, 5000


def cases(quick: bool) -> list[dict[str, Any]]:
    """Return a case for each set, method and seed."""
    sets, seeds = (("iris",), 1) if quick else (tuple(LOADERS), SEEDS)
    return [
        {"set": name, "method": method, "seed": seed}
        for name in sets
        for method in ("Adam", "RLS", "least squares", "RLS, quantized")
        for seed in range(seeds if method != "least squares" else 1)
    ]


def split(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return standardised ``X, X_test, y, y_test``; classes as numbers."""
    X, y = LOADERS[name](return_X_y=True)
    classes = name != "diabetes"
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, stratify=y if classes else None, random_state=0)
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    if not classes:
        centre, spread = y.mean(), y.std()
        y, y_test = (y - centre) / spread, (y_test - centre) / spread
    return (X - mean) / deviation, (X_test - mean) / deviation, y, y_test


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Train once."""
    X, X_test, y, y_test = split(case["set"])
    classes = case["set"] != "diabetes"
    n_outputs = int(y.max()) + 1 if classes else 1
    if case["method"] == "least squares":
        model = LinearRegression().fit(X, np.eye(n_outputs)[y] if classes else y)
        scores = []
        for data, target in ((X, y), (X_test, y_test)):
            outputs = model.predict(data)
            scores.append(np.mean(outputs.argmax(axis=1) == target) if classes else r2_score(target, outputs))
        return {"train": float(scores[0]), "test": float(scores[1])}
    if case["method"] == "RLS, quantized":
        return quantized(X, X_test, y, y_test, classes, case["seed"])
    parts = (X, X_test, y, y_test)
    data = _rls.data_of(*parts, n_classes=n_outputs) if classes else regression(*parts)
    found = _rls.measure(
        _rls.perceptron(X.shape[1], HIDDEN, n_outputs),
        data,
        case["method"].lower(),
        n_epochs=N_EPOCHS,
        batch_size=BATCH,
        seed=case["seed"],
    )
    last = str(N_EPOCHS)
    return {
        "train": found["train"][last],
        "test": found["test"][last],
        "loss": found["loss"][last],
        **{name: found[name] for name in ("cpu_seconds_per_epoch", "parameters", "state")},
    }


def regression(X: Any, X_test: Any, y: Any, y_test: Any) -> Any:
    """Return a regression's data for `train_network`, scored by R²."""
    import torch

    from qsdp.baselines.rls.harness import Data

    parts = [torch.tensor(part, dtype=torch.float32) for part in (X, y[:, None], X_test, y_test[:, None])]
    return Data(*parts, score=lambda outputs, targets: float(r2_score(targets.numpy(), outputs.numpy())))


def quantized(X: Any, X_test: Any, y: Any, y_test: Any, classes: bool, seed: int) -> dict[str, Any]:
    """Train the estimator, without PyTorch, and match it by binary weights."""
    from qsdp.baselines.rls import RLSNetworkClassifier, RLSNetworkRegressor

    estimator = RLSNetworkClassifier if classes else RLSNetworkRegressor
    model = estimator(HIDDEN, n_epochs=N_EPOCHS, batch_size=BATCH, random_state=seed).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chain = model.distill(X, NEURONS, random_state=seed, tol=1e-4)
    scores = {}
    for name, data, target in (("train", X, y), ("test", X_test, y_test)):
        outputs = chain.predict(data)
        scores[name] = float(np.mean(outputs.argmax(axis=1) == target) if classes else r2_score(target, outputs))
    before = {
        f"{name}_before": float(model.score(*part)) for name, part in (("train", (X, y)), ("test", (X_test, y_test)))
    }
    return {**scores, **before, "bits": chain.n_bits}


def tables(records: Sequence[Record]) -> list[Table]:
    """Return the specification's numbers beside ours."""
    rows, matched = [], []
    for (name, method), group in _rls.by(records, "set", "method").items():
        scores = [np.array([record.measured[part] for record in group]) for part in ("train", "test")]
        if method == "RLS, quantized":
            before = [np.array([record.measured[f"{part}_before"] for record in group]) for part in ("train", "test")]
            bits = f"{np.mean([record.measured['bits'] for record in group]):,.0f}"
            numbers = [_rls.shown(part) for pair in zip(before, scores, strict=True) for part in pair]
            matched.append([name, *numbers, bits, _rls.repetitions(group)])
            continue
        specified = SPECIFIED.get((name, method), (None, None))
        timed = method != "least squares"
        costs = [f"{1e3 * _rls.epoch_seconds(group):.3g}", f"{group[0].measured['state']:,}"] if timed else ["-", "-"]
        rows.append([f"{name}, {method}", *_rls.pairs(specified, scores), *costs, _rls.repetitions(group)])
    note = (
        f"Accuracy, for diabetes R². Means over seeds; (spec): the {_rls.SPECIFICATION}, five seeds. Minibatches of "
        "32. ms: processor time of one thread."
    )
    return [
        Table(
            "Small sets",
            ["set, method", *_rls.headings(("train", "test")), "ms an epoch", "numbers kept", "repet."],
            rows,
            note,
        ),
        Table(
            "Small sets: RLS networks matched by binary weights",
            ["set", "train", "train, quantized", "test", "test, quantized", "bits", "repet."],
            matched,
            "The estimator's NumPy network; each of both layers by 5000 neurons, on the training rows.",
        ),
    ]


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return what the specification found, on these sets."""
    groups = _rls.by(records, "set", "method")
    scores = {
        (name, method, part): {record.case["seed"]: record.measured[part] for record in groups[(name, method)]}
        for name in LOADERS
        for method in ("RLS", "Adam")
        for part in ("train", "test")
    }

    def ahead(name: str, part: str, *, less: bool = False) -> Evidence:
        return compare(scores[(name, "RLS", part)], scores[(name, "Adam", part)], less=less, unit=100.0)

    parts = {f"{name}: RLS fits the training data better": ahead(name, "train") for name in LOADERS}
    parts["diabetes: its test R² is below Adam's"] = ahead("diabetes", "test", less=True)
    figures = "; ".join(f"{' '.join(key)} {np.mean(list(own.values())):.3f}" for key, own in scores.items() if own)
    statement = "On small sets RLS fits faster than Adam, and has no protection from overfitting."
    return [judged("specification, B.12 and B.13", statement, parts, figures)]


EXPERIMENT = experiment_in(
    __name__, "Recursive least squares: small sets of scikit-learn", "specification, B.13", version=2
)
