"""On a machine so slow that no time limit holds any heavy work, every function ends with a valid result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import qsdp
from qsdp._utils import deadline as deadlines
from qsdp.certificates.verification import verified_bound
from qsdp.column_generation import bilinear
from qsdp.refinement.fixed_width import train_fixed_width

LIMIT = 50.0

Call = Callable[[qsdp.TrainingProblem], Any]

SOLVES: dict[str, Call] = {
    **{
        solver: lambda problem, solver=solver: qsdp.solve_relaxation(problem, solver=solver, time_limit=LIMIT)
        for solver in ("auto", "splitting")
    },
    "path": lambda problem: qsdp.relaxation_path(problem, 3, time_limit=LIMIT)[-1],
    "column generation": lambda problem: qsdp.column_generation(problem, time_limit=LIMIT),
    "wide column generation": lambda problem: qsdp.column_generation(problem, time_limit=LIMIT),
    "certify": lambda problem: qsdp.certify(_network(problem), problem, bound_type="exact", time_limit=LIMIT),
    "fixed width": lambda problem: train_fixed_width(problem, 3, time_limit=LIMIT, random_state=0),
}


@pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning")
@pytest.mark.parametrize("loss", ["squared", "hinge", "logistic", "cross_entropy"])
@pytest.mark.parametrize("name", SOLVES)
def test_valid_all_the_same(name: str, loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = _problem(loss)
    optimum = qsdp.column_generation(problem, time_limit=None).objective
    # A floating-point operation a second.
    monkeypatch.setattr(deadlines, "_operations_per_second", lambda: 1.0)
    if name.startswith("wide"):
        monkeypatch.setattr(bilinear, "_CHEAP", 1)
    with np.errstate(all="ignore"):
        found = SOLVES[name](problem)
    assert 0.0 <= found.lower_bound <= optimum * (1.0 + 1e-9)
    assert found.objective >= found.lower_bound
    proof = getattr(getattr(found, "certificate", found), "proof", None)
    if proof is not None:
        assert verified_bound(problem, proof.nu, proof.trees) <= optimum * (1.0 + 1e-9)


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
    alpha = np.full((3, problem.n_outputs), 0.01) if problem.vector else np.full(3, 0.01)
    return qsdp.BilinearNetwork(U, V, alpha)
