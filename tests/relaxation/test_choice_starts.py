"""What the solves of the choice of beta start from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qsdp
from qsdp.relaxation import selection
from qsdp.relaxation.selection import _Fold


def test_the_choice_of_beta_starts_from_the_nearest_beta(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = qsdp.datasets.make_planted(n=60, d=4, n_neurons=2, noise=0.3, random_state=0)
    training, held_out = (qsdp.TrainingProblem(X[rows], y[rows], beta=1.0) for rows in (slice(40), slice(40, None)))
    fold = _Fold(training, held_out, np.ones(20), 0.5)
    solve, starts = selection.solve_with, []

    def noted(problem: Any, *arguments: Any, start: Any, **options: Any) -> Any:
        starts.append(None if start is None else round(2.0 * start.problem.beta, 9))
        return solve(problem, *arguments, start=start, **options)

    monkeypatch.setattr(selection, "solve_with", noted)
    for beta in (2.0, 1.0, 0.5, 4.0, 1e9, 8.0, 0.2):
        fold.predict(beta)
    # The zero network, which is optimal for the largest beta, is no start.
    assert starts == [None, 2.0, 1.0, 2.0, 4.0, 4.0, 0.5]
