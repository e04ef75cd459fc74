"""Calls in threads, of different problems at once, and the same ones one after the other."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

import qsdp
from benchmarks.campaigns._processes import in_turn
from benchmarks.campaigns._record import Outcome
from qsdp import baselines

__all__ = ["CALLS", "threads"]


def _pipeline(problem: qsdp.TrainingProblem, seed: int) -> list[Any]:
    network = qsdp.solve_and_sample(
        problem.X, problem.y, n_neurons=12, beta=problem.beta, loss=problem.loss, refine="polish", random_state=seed
    ).network
    return [network.U, network.V, network.alpha]


def _generated(problem: qsdp.TrainingProblem, seed: int) -> list[Any]:
    result = qsdp.column_generation(problem, random_state=seed, time_limit=None)
    return [result.objective, result.lower_bound, result.network.U]


def _of_width(problem: qsdp.TrainingProblem, seed: int) -> list[Any]:
    result = qsdp.train_fixed_width(problem, 3, restarts=2, random_state=seed)
    return [result.objective, result.lower_bound, result.network.U, result.network.V]


def _path(problem: qsdp.TrainingProblem, seed: int) -> list[Any]:
    path = qsdp.relaxation_path(problem, 4, tol=1e-3)
    return [number for one in path for number in (one.objective, one.lower_bound)]


def _certified(problem: qsdp.TrainingProblem, seed: int) -> list[Any]:
    U, V = np.random.default_rng(seed).choice([-1, 1], size=(2, 3, problem.size))
    network = qsdp.BilinearNetwork(U, V, np.ones(3))
    certificate = qsdp.certify(network, problem, bound_type="exact", arithmetic="verified")
    return [certificate.objective, certificate.lower_bound]


def _estimated(problem: qsdp.TrainingProblem, seed: int) -> list[Any]:
    model = qsdp.QuantizedNetworkRegressor(n_neurons=10, tol=1e-2, random_state=seed).fit(problem.X, problem.y)
    return [model.predict(problem.X), model.certificate_.lower_bound]


def _validated(problem: qsdp.TrainingProblem, seed: int) -> list[Any]:
    model = qsdp.QuantizedNetworkRegressorCV(n_neurons=10, betas=3, cv=3, tol=1e-2, random_state=seed)
    return [model.fit(problem.X, problem.y).predict(problem.X)]


def _baseline(name: str) -> Callable[[qsdp.TrainingProblem, int], list[Any]]:
    def call(problem: qsdp.TrainingProblem, seed: int) -> list[Any]:
        model = getattr(baselines, name)(random_state=seed)
        return [model.fit(problem.X, problem.y).predict(problem.X)]

    return call


CALLS: dict[str, Callable[[qsdp.TrainingProblem, int], list[Any]]] = {
    "solve_and_sample": _pipeline,
    "column_generation": _generated,
    "train_fixed_width": _of_width,
    "relaxation_path": _path,
    "certify": _certified,
    "QuantizedNetworkRegressor": _estimated,
    "QuantizedNetworkRegressorCV": _validated,
    **{
        f"baselines.{name}": _baseline(name)
        for name in (
            "BackpropRegressor",
            "StraightThroughRegressor",
            "ReLUNetworkRegressor",
            "BPLSRegressor",
            "ReLinearRegressor",
            "RLSNetworkRegressor",
        )
    },
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
