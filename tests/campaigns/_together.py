"""Calls in threads, of different problems at once, and the same ones one after the other."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

import qsdp
from campaigns._processes import in_turn
from campaigns._record import Outcome
from qsdp import baselines

__all__ = ["CALLS", "threads"]


Call = Callable[[qsdp.TrainingProblem, int], list[Any]]


def _of(result: Any) -> list[Any]:
    return [result.objective, result.lower_bound, result.network.U, result.network.V, result.network.alpha]


def _pipeline(problem: qsdp.TrainingProblem, seed: int) -> list[Any]:
    options = {"beta": problem.beta, "loss": problem.loss, "refine": "polish", "random_state": seed}
    network = qsdp.solve_and_sample(problem.X, problem.y, n_neurons=12, **options).network
    return [network.U, network.V, network.alpha]


def _path(problem: qsdp.TrainingProblem, seed: int) -> list[Any]:
    path = qsdp.relaxation_path(problem, 4, tol=1e-3)
    return [path.objective, path.lower_bound]


def _certified(problem: qsdp.TrainingProblem, seed: int) -> list[Any]:
    U, V = np.random.default_rng(seed).choice([-1, 1], size=(2, 3, problem.size))
    network = qsdp.BilinearNetwork(U, V, np.ones(3))
    certificate = qsdp.certify(network, problem, bound_type="exact", arithmetic="verified")
    return [certificate.objective, certificate.lower_bound]


def _fitted(estimator: Any, **options: Any) -> Call:
    def call(problem: qsdp.TrainingProblem, seed: int) -> list[Any]:
        model = estimator(random_state=seed, **options).fit(problem.X, problem.y)
        certificate = getattr(model, "certificate_", None)
        return [model.predict(problem.X), *([] if certificate is None else [certificate.lower_bound])]

    return call


_BASELINES = ("Backprop", "StraightThrough", "ReLUNetwork", "BPLS", "ReLinear", "RLSNetwork")
CALLS: dict[str, Call] = {
    "solve_and_sample": _pipeline,
    "column_generation": lambda problem, seed: _of(qsdp.column_generation(problem, random_state=seed, time_limit=None)),
    "train_fixed_width": lambda problem, seed: _of(qsdp.train_fixed_width(problem, 3, restarts=2, random_state=seed)),
    "relaxation_path": _path,
    "certify": _certified,
    "QuantizedNetworkRegressor": _fitted(qsdp.QuantizedNetworkRegressor, n_neurons=10, tol=1e-2),
    "QuantizedNetworkRegressorCV": _fitted(qsdp.QuantizedNetworkRegressorCV, n_neurons=10, betas=3, cv=3, tol=1e-2),
    **{f"baselines.{name}Regressor": _fitted(getattr(baselines, f"{name}Regressor")) for name in _BASELINES},
}


def threads(rng: np.random.Generator, outcome: Outcome, turn: int) -> None:
    """Compare calls in threads with the same ones alone."""
    name, seed = in_turn(CALLS, turn), int(rng.integers(1000))
    outcome.count("together", name)
    chosen = [_problems()[k] for k in rng.permutation(len(_problems()))]

    def run(problem: qsdp.TrainingProblem) -> list[bytes]:
        return [np.asarray(found).tobytes() for found in CALLS[name](problem, seed)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = [run(problem) for problem in chosen]
        with ThreadPoolExecutor(len(chosen)) as pool:
            together = list(pool.map(run, chosen))
    if alone != together:
        outcome.wrong("threads differ", of=name, seed_of_calls=seed)


@cache
def _problems() -> list[qsdp.TrainingProblem]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6))
    targets = {"squared": X[:, 0] * X[:, 1], "logistic": np.sign(X[:, 0] * X[:, 1] + 0.1), "absolute": X[:, 2]}
    return [qsdp.TrainingProblem(X, y, beta=0.5, loss=loss) for loss, y in targets.items()]
