"""Small training problems drawn at random, over every axis that has ever made a bound wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

import qsdp
from qsdp.losses import Huber

LABELS = ("logistic", "hinge", "squared_hinge")
LOSSES = ("squared", "absolute", "huber", *LABELS, "cross_entropy")
ACTIVATIONS = ("bilinear", "bilinear", "quadratic", "relu_like", "linear_quadratic", "linear", "constant", "random")
LEVELS = (2, 2, 2, 3, 4, 6)
#: Largest number of columns for levels: neurons are enumerated.
_COLUMNS = {2: 5, 3: 3, 4: 3, 6: 2}
#: Kinds of data and so on, by how often they are drawn. Beta: a multiple of beta_max, absolute, or beyond anything
#: sensible.
KINDS = {
    "data": {"gaussian": 5, "integers": 3, "duplicates": 2, "zeros": 2, "subnormal": 1},
    "scales": {"none": 6, "columns": 2, "rows": 2, "both": 1, "whole": 1},
    "target": {"noise": 5, "planted": 3, "integers": 1, "few": 1},
    "weights": {"none": 6, "integers": 2, "many orders": 1, "some zero": 1},
    "beta": {"relative": 7, "absolute": 3, "extreme": 1},
}


def draw(rng: np.random.Generator) -> tuple[qsdp.TrainingProblem, dict[str, Any]]:
    """Return a random problem and how it was drawn; a `QSDPError` says that what was drawn is refused."""
    loss, levels = str(rng.choice(LOSSES)), int(rng.choice(LEVELS))
    d, n = int(rng.integers(1, _COLUMNS[levels] + 1)), int(rng.integers(2, 9))
    outputs = int(rng.integers(2, 4)) if loss == "cross_entropy" or rng.random() < 0.2 else 0
    facts: dict[str, Any] = {"loss": loss, "levels": levels, "outputs": outputs or 1}
    for kind, shares in KINDS.items():
        facts[kind] = str(rng.choice(list(shares), p=np.array(list(shares.values())) / sum(shares.values())))
    facts["activation"] = name = str(rng.choice(ACTIVATIONS))
    X = data(rng, n, d, facts["data"], facts["scales"])
    y = target(rng, X, outputs, facts)
    given = Huber(delta=10.0 ** rng.uniform(-3, 2)) if loss == "huber" else loss
    activation = {"bilinear": None, "linear": (0.0, 1.0, 0.0), "constant": (0.0, 0.0, 1.0)}.get(name, name)
    if name == "random":
        activation = tuple(np.round(rng.standard_normal(3), 2))
    weights = sample_weights(rng, n, facts["weights"])
    problem = qsdp.TrainingProblem(
        X, y, beta=1.0, loss=given, activation=activation, levels=levels, sample_weight=weights
    )
    return problem.with_beta(penalty(rng, problem, facts["beta"])), facts


def simple(
    loss: str, n: int = 7, d: int = 3, outputs: int = 0, share: float = 0.2, **options: Any
) -> qsdp.TrainingProblem:
    """Return a Gaussian problem, beta a share of the largest."""
    rng = np.random.default_rng([n, d, outputs])
    X, y = rng.standard_normal((n, d)), rng.standard_normal((n, outputs) if outputs else n)
    if loss in LABELS:
        y = np.where(y > np.median(y), 1.0, -1.0)
    y = np.arange(n) % 3.0 if loss == "cross_entropy" else y
    problem = qsdp.TrainingProblem(X, y, beta=1.0, loss=loss, **options)
    return problem.with_beta(share * float(np.max(qsdp.beta_max(problem))))


def random_network(rng: np.random.Generator, problem: qsdp.TrainingProblem, m: int) -> qsdp.BilinearNetwork:
    """Return m neurons of any levels, with second-layer weights over many orders."""
    U, V = rng.integers(0, problem.levels, size=(2, m, problem.size)) * 2 - (problem.levels - 1)
    for W in (U, V):
        W[:, problem.n_features :] = rng.choice([-1, 1], size=(m, problem.size - problem.n_features))
    alpha = rng.standard_normal((m, *problem.y.shape[1:])) * 10.0 ** rng.uniform(-6, 1)
    return qsdp.BilinearNetwork(U, V, alpha, levels=problem.levels, activation=problem.activation)


def data(rng: np.random.Generator, n: int, d: int, kind: str, scales: str) -> np.ndarray:
    X = rng.integers(-2, 3, size=(n, d)).astype(float) if kind == "integers" else rng.standard_normal((n, d))
    if kind == "duplicates":
        X = X[rng.integers(0, n, n)][:, rng.integers(0, d, d)]
    if kind == "zeros":
        X[rng.random(n) < 0.4] = 0.0
        X[:, rng.random(d) < 0.4] = 0.0
    if kind == "subnormal":
        X[rng.random(X.shape) < 0.3] = rng.choice([5e-324, -1e-310, 2.3e-308])
    if scales in ("columns", "both"):
        X = X * 10.0 ** rng.uniform(-8, 8, d)
    if scales in ("rows", "both"):
        X = X * 10.0 ** rng.uniform(-8, 8, n)[:, None]
    return X * 10.0 ** rng.uniform(-95, 95) if scales == "whole" else X


def target(rng: np.random.Generator, X: np.ndarray, outputs: int, facts: dict[str, Any]) -> np.ndarray:
    n, loss, kind = len(X), facts["loss"], facts["target"]
    shape = (n, outputs) if outputs else (n,)
    if loss == "cross_entropy":
        return np.asarray(rng.permutation(np.arange(n) % min(outputs, n)), dtype=float)
    if kind == "planted":
        S = np.sign(rng.standard_normal((outputs or 1, 2, X.shape[1])))
        y = np.stack([(X @ u) * (X @ v) for u, v in S], axis=1).reshape(shape)
        y = y + rng.choice([0.0, 0.1]) * np.abs(y).max(initial=0.0) * rng.standard_normal(shape)
    else:
        y = rng.integers(-2, 3, size=shape).astype(float) if kind == "integers" else rng.standard_normal(shape)
        y = np.where(rng.random(shape) < 0.6, 0.0, y) if kind == "few" else y
        y = y * 10.0 ** rng.integers(-3, 4)
        if facts["scales"] != "none" and rng.random() < 0.5:
            # As far apart as squares of the data are.
            y = (y.T * np.maximum(np.abs(X).max(axis=1) ** 2, 1e-100)).T
    if loss in LABELS:
        y = np.where(y > np.median(y), 1.0, -1.0)
        y[0], y[1] = -1.0, 1.0
    return y


def sample_weights(rng: np.random.Generator, n: int, kind: str) -> np.ndarray | None:
    if kind == "integers":
        return rng.integers(1, 4, n).astype(float)
    if kind == "many orders":
        return 10.0 ** rng.uniform(-8, 8, n)
    if kind == "some zero":
        return np.concatenate([np.ones(min(n, 3)), rng.integers(0, 3, n).astype(float)[3:]])
    return None


def penalty(rng: np.random.Generator, problem: qsdp.TrainingProblem, kind: str) -> float:
    if kind == "extreme":
        return float(10.0 ** rng.choice([rng.uniform(-305, -20), rng.uniform(20, 290)]))
    if kind == "absolute":
        return float(10.0 ** rng.uniform(-6, 3))
    largest = float(np.max(qsdp.beta_max(problem)))
    return float(largest * 10.0 ** rng.uniform(-6, 0.3)) if 0.0 < largest < np.inf else 1.0
