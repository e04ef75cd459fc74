"""The stages of `qsdp.solve_and_sample`, each with its processor seconds, and targets that are limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import qsdp
from benchmarks.experiments._common import medians
from qsdp.bench import Claim, exact

STAGES = ("solve", "shape", "sample", "certify")


@dataclass(frozen=True)
class Staged:
    """What the stages gave, and the processor seconds of each."""

    seconds: dict[str, float]
    relaxation: qsdp.Relaxation
    network: qsdp.BilinearNetwork
    certificate: qsdp.Certificate


def staged(
    X: np.ndarray, y: np.ndarray, neurons: int, seed: int, callback: Callable[[Any], object] | None = None, **own: Any
) -> Staged:
    """Do what `qsdp.solve_and_sample` does, for a problem of its own loss, beta, activation and levels."""
    clock = [time.process_time()]
    problem = qsdp.TrainingProblem(X, y, **own)
    relaxation = qsdp.solve_relaxation(problem, callback=callback)
    clock.append(time.process_time())
    covariance = qsdp.shape_covariance(relaxation)
    clock.append(time.process_time())
    network = qsdp.sample_network(covariance, neurons, seed)
    clock.append(time.process_time())
    certificate = qsdp.certify(network, problem, relaxation)
    clock.append(time.process_time())
    return Staged(dict(zip(STAGES, np.diff(clock).tolist(), strict=True)), relaxation, network, certificate)


def limit_claim(
    source: str,
    statement: str,
    measured: Sequence[float] | np.ndarray,
    limit: float,
    *,
    needed: int,
    what: str,
    show: Callable[[Any], str] = medians,
) -> Claim:
    """Return whether all measurements are at most a limit, once there are enough."""
    numbers = np.asarray(measured, dtype=float)
    return exact(source, statement, numbers <= limit, f"{what} {show(numbers)}", needed=needed)
