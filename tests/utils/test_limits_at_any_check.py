"""Whichever check of the clock finds the limit over, every function ends with a valid result."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qsdp
import qsdp_check

#: The clock advances by a second whenever it is read, so that these limits end at different checks.
LIMITS = [1.0, 6.0, 40.0]

Call = Callable[[qsdp.TrainingProblem, float], Any]

SOLVES: dict[str, Call] = {
    **{
        solver: lambda problem, limit, solver=solver: qsdp.solve_relaxation(problem, solver=solver, time_limit=limit)
        for solver in ("auto", "splitting")
    },
    "column generation": lambda problem, limit: qsdp.column_generation(problem, time_limit=limit),
    "polished": lambda problem, limit: _polished(problem, limit),
    "certify": lambda problem, limit: qsdp.certify(_network(problem), problem, bound_type="exact", time_limit=limit),
}


@pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning")
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("loss", ["hinge", "cross_entropy"])
@pytest.mark.parametrize("name", SOLVES)
def test_valid_all_the_same(
    name: str, loss: str, limit: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = _problem(loss)
    seconds = itertools.count(1.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(seconds))
    with np.errstate(all="ignore"):
        found = SOLVES[name](problem, limit)
    monkeypatch.undo()
    optimum = _optimum(loss)
    assert 0.0 <= found.lower_bound <= optimum * (1.0 + 1e-9)
    assert found.objective >= found.lower_bound
    if isinstance(certificate := getattr(found, "certificate", found), qsdp.Certificate):
        certificate.save(tmp_path / "certificate")
        assert qsdp_check.main([str(tmp_path / "certificate")]) == 0


def _polished(problem: qsdp.TrainingProblem, limit: float) -> Any:
    options = {"n_neurons": 8, "beta": problem.beta, "loss": problem.loss, "refine": "polish", "random_state": 0}
    return qsdp.solve_and_sample(problem.X, problem.y, time_limit=limit, **options).certificate


@cache
def _optimum(loss: str) -> float:
    return qsdp.column_generation(_problem(loss)).objective


def _problem(loss: str) -> qsdp.TrainingProblem:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 5))
    y = X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(30)
    labels = {"hinge": np.sign(y), "logistic": np.sign(y), "cross_entropy": (y > 0.0) + (y > 1.0) * 1.0}
    problem = qsdp.TrainingProblem(X, labels.get(loss, y), beta=1.0, loss=loss)
    return problem.with_beta(0.1 * float(np.max(qsdp.beta_max(problem))))


def _network(problem: qsdp.TrainingProblem) -> qsdp.BilinearNetwork:
    rng = np.random.default_rng(1)
    U, V = rng.choice([-1, 1], size=(2, 3, problem.size))
    alpha = np.full((3, problem.n_outputs), 0.01) if (not problem.scalar) else np.full(3, 0.01)
    return qsdp.BilinearNetwork(U, V, alpha)
