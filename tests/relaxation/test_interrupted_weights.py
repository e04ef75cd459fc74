"""An interrupt of a bound's weights, or of an attempt that is not the best, ends the call of which it is a part."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import qsdp
from qsdp.inner_problem.search import Ascent
from qsdp.relaxation import solve


@pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning")
@pytest.mark.parametrize("solver", ["splitting", "low-rank"])
def test_path(solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 30))
    problem = qsdp.TrainingProblem(X, X[:, 0] * X[:, 1] + rng.standard_normal(60), beta=1.0, loss="huber")
    interrupts = 0

    def step(ascent: Ascent) -> bool:
        nonlocal interrupts
        interrupts += 1
        raise KeyboardInterrupt

    largest = qsdp.beta_max(problem)
    monkeypatch.setattr(Ascent, "step", step)
    relaxation = qsdp.solve_relaxation(problem.with_beta(0.05 * largest), solver=solver, tol=1e-9, max_iter=400)
    assert interrupts == 1
    assert relaxation.solver_status == "interrupted"
    assert relaxation.lower_bound <= relaxation.objective


@pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning")
def test_an_interrupt_of_an_attempt_that_is_not_the_best_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = qsdp.datasets.make_planted(n=20, d=4, n_neurons=3, random_state=0)
    problem = qsdp.TrainingProblem(X, y, beta=0.1)
    rough = qsdp.solve_relaxation(problem, tol=0.5, solver="interior")
    stalled = replace(rough, status="inaccurate", solver_status="stalled")
    interrupted = replace(stalled, solver="splitting", solver_status="interrupted", lower_bound=0.0)
    assert 1e-3 < stalled.relative_gap < interrupted.relative_gap
    attempts = {"interior": stalled, "splitting": interrupted}
    monkeypatch.setattr(solve, "_solve_once", lambda scaled, backend, settings: attempts[backend.name])
    relaxation = qsdp.solve_relaxation(problem)
    assert (relaxation.interrupted, relaxation.relative_gap) == (True, stalled.relative_gap)
