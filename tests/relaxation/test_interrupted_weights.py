"""An interrupt in the midst of a bound's weights ends the method of which that is a part."""

from __future__ import annotations

import numpy as np
import pytest

import qsdp
from qsdp.inner_problem.ascent import Ascent


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
    with pytest.raises(KeyboardInterrupt):
        qsdp.relaxation_path(problem, 3, solver=solver)
