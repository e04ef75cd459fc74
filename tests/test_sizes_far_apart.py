"""Data whose rows and columns span many magnitudes: no bound is above an objective, no proof is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from brute_force import global_optimum

import qsdp
import qsdp_check


def spread_problem(*seed: int) -> qsdp.TrainingProblem:
    """Return a problem whose columns and rows are scaled by 10^-4 .. 10^4 each."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 5))
    n = int(rng.integers(d * (d + 1) // 2 + 2, 31))
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-4, 4, d) * 10.0 ** rng.uniform(-4, 4, n)[:, None]
    if rng.random() < 0.5:
        X[:, -1] = 1.0
    y = rng.standard_normal(n)
    if rng.random() < 0.7:
        S = rng.choice([-1, 1], (3, d))
        Z = X / np.abs(X).max(0)
        y = y * 10.0 ** rng.uniform(-3, 0) + (Z @ S[0]) * (Z @ S[1])
    beta = 10.0 ** rng.uniform(-7, -0.5) * (np.abs(X).sum(1) ** 2).max() * np.abs(y).max()
    return qsdp.TrainingProblem(X, y, beta=beta)


def accepted(certificate: qsdp.Certificate, path: Path) -> bool:
    certificate.save(path)
    return qsdp_check.main([str(path)]) == 0


def test_a_reduction_that_loses_data_proves_nothing(tmp_path: Path) -> None:
    # The Gram matrix of these data lost small eigenvalues: a bound of its rows was 6e-7 above the objective.
    problem = spread_problem(77, 112)
    result = qsdp.column_generation(problem)
    assert result.status == "optimal"
    assert 0.0 <= result.relative_gap <= 1e-6
    assert min(one.relative_gap for one in result.history) >= 0.0
    assert accepted(result.certificate, tmp_path / "proof.npz")


@pytest.mark.filterwarnings("ignore:solver 'interior' .its status. stalled")
@pytest.mark.parametrize("seed", range(12))
def test_bounds_stay_below_objectives_and_proofs_are_accepted(seed: int, tmp_path: Path) -> None:
    problem = spread_problem(78, seed)
    result = qsdp.column_generation(problem)
    relaxation = qsdp.solve_relaxation(problem)
    certificates = [
        result.certificate,
        qsdp.certify(result.network, problem, relaxation),
        qsdp.certify(result.network, problem, relaxation, bound_type="exact"),
        qsdp.certify(result.network, problem, relaxation, bound_type="exact"),
    ]
    for number, certificate in enumerate(certificates):
        assert certificate.lower_bound <= result.objective
        assert accepted(certificate, tmp_path / f"{number}.npz")
    assert relaxation.lower_bound <= relaxation.objective
    assert min(one.relative_gap for one in result.history) >= 0.0
    optimum = global_optimum(problem)
    assert result.lower_bound <= optimum.upper
    assert result.objective >= optimum.lower
