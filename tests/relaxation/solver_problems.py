"""Small problems of every loss, solved by a conic solver for comparison."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np

import qsdp
from qsdp.losses import LOSSES

#: Losses with kinks, for which splitting is slow and low rank is not meant.
KINKED = frozenset(name for name, loss in LOSSES.items() if not loss.smooth)


def data(n: int, d: int, loss: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw inputs, and targets of the loss that depend on products of inputs."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    signal = X[:, 0] * X[:, 1] + 0.3 * X[:, -1] ** 2 - 0.3 + 0.3 * rng.standard_normal(n)
    if LOSSES[loss].coupled:
        return X, np.argsort(np.argsort(signal)) * 3 // n
    return X, np.where(signal > np.median(signal), 1.0, -1.0) if LOSSES[loss].labels else signal


def problem_of(loss: str, n: int = 15, d: int = 3, **options: Any) -> qsdp.TrainingProblem:
    """Return a problem of drawn data."""
    X, y = data(n, d, loss)
    return qsdp.TrainingProblem(X, y, **{"beta": 0.3, "loss": loss, **options})


def reference(problem: qsdp.TrainingProblem) -> qsdp.Relaxation:
    """Solve as accurately as a conic solver can; its gap is judged where it matters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", qsdp.QSDPWarning)
        return qsdp.solve_relaxation(problem, solver="clarabel", tol=1e-9)


@functools.cache
def solved_problem(loss: str, n: int, activation: Any) -> tuple[qsdp.TrainingProblem, qsdp.Relaxation]:
    """Return a problem of four columns and its reference."""
    problem = problem_of(loss, n, 4, beta=0.5, activation=activation)
    return problem, reference(problem)
