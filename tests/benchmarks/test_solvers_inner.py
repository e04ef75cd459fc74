"""Other solvers: the program as printed, bounds of forms over sign vectors against ours."""

from __future__ import annotations

import numpy as np
import pytest

import qsdp
from benchmarks.methods import peers


def laplacian(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    W = np.triu((rng.random((n, n)) < 0.3) * rng.integers(1, 5, (n, n)), 1).astype(float)
    W = W + W.T
    return (np.diag(W.sum(axis=1)) - W) / 4.0


@pytest.mark.parametrize("solver", ["mixing", "sdplr-like"])
def test_factors_of_low_rank_and_their_bounds(solver: str) -> None:
    M = laplacian(40)
    # A vertex without edges keeps its vector.
    M[7], M[:, 7] = 0.0, 0.0
    ours = qsdp.maxcut_bound(M, tol=1e-8)
    finest = {"mixing": 1e-12, "sdplr-like": 1e-7}[solver]
    found = peers.inner(M, solver, finest)
    assert found.value <= ours.upper_bound * (1.0 + 1e-12)
    assert ours.value * (1.0 - 1e-12) <= found.upper_bound
    assert found.relative_gap < 1e-5
    rough = peers.inner(M, solver, 1e-2)
    assert rough.value <= found.upper_bound
    assert ours.value <= rough.upper_bound
    assert rough.relative_gap > found.relative_gap


@pytest.mark.parametrize("solver", ["mixing", "sdplr-like"])
def test_factors_of_low_rank_look_at_their_limit(solver: str) -> None:
    found = peers.inner(laplacian(40), solver, 0.0, 1e-9)
    assert found.value <= found.upper_bound


@pytest.mark.parametrize("solver", ["clarabel", "cvxopt"])
def test_conic_solvers_on_the_dual_program(solver: str) -> None:
    if peers.missing(solver) is not None:
        pytest.skip(f"{solver} is not installed")
    M = laplacian(12, seed=1)
    ours = qsdp.maxcut_bound(M, tol=1e-8)
    found = peers.inner(M, solver, 1e-8)
    assert found.value <= ours.upper_bound * (1.0 + 1e-9)
    assert ours.value * (1.0 - 1e-9) <= found.upper_bound
    assert found.relative_gap < 1e-5


def test_a_wrong_point_of_the_literal_program_has_a_large_gap() -> None:
    data = qsdp.datasets.make_planted(40, 3, random_state=0)
    problem = qsdp.TrainingProblem(data.X, data.y, beta=0.5)
    program = peers.program_of(problem)
    program.problem.solve(solver="SCS")
    assert peers.repaired(problem, program, "scs", "optimal").relative_gap < 1e-3
    Q = program.variables["Q"]
    Q.value = np.diag(np.diag(Q.value))
    assert peers.repaired(problem, program, "scs", "optimal").relative_gap > 1e-2
