"""The largest useful beta, the optimal value as a function of beta, and warm starts from one beta to the next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from qsdp import Relaxation, TrainingProblem, beta_max, solve_relaxation
from qsdp.relaxation.backends import BACKENDS

LOSSES = ["squared", "absolute", "huber", "logistic", "hinge", "squared_hinge", "cross_entropy"]
RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 4))
REAL = X[:, 0] * X[:, 1] + 0.5 * X[:, 2] ** 2 + 0.1 * RNG.standard_normal(40)
SIGNS = np.where(REAL > 0.2, 1.0, -1.0)


def problem_of(loss: str = "squared", *, vector: bool = False, **options: Any) -> TrainingProblem:
    if loss == "cross_entropy":
        y = (SIGNS > 0).astype(float)
    else:
        y = SIGNS if loss in {"logistic", "hinge", "squared_hinge"} else REAL
        y = np.stack([y, -y[::-1]], axis=1) if vector else y
    return TrainingProblem(X, y, beta=1.0, loss=loss, **options)


def along(problem: TrainingProblem, betas: Any, solver: str = "auto", **options: Any) -> list[Relaxation]:
    """Solve for the betas in turn, each from the solution before."""
    path: list[Relaxation] = []
    for beta in betas:
        path.append(solve_relaxation(problem.with_beta(beta), solver, start=path[-1] if path else None, **options))
    return path


# -- warm starts -------------------------------------------------------------------------------------------


def assert_as_alone(path: list[Relaxation], solver: str = "auto") -> None:
    for relaxation in path:
        alone = solve_relaxation(relaxation.problem, solver=solver)
        assert relaxation.status == "optimal"
        slack = 1e-5 * abs(alone.objective)
        assert relaxation.objective == pytest.approx(alone.objective, rel=2e-5)
        assert relaxation.lower_bound <= alone.objective + 1e-12 * slack
        assert alone.lower_bound <= relaxation.objective + 1e-12 * slack
        expected = relaxation.problem.relaxed_objective(relaxation.Z, relaxation.rho)
        assert relaxation.objective == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("loss", "vector"), [*((loss, False) for loss in LOSSES), ("squared", True), ("cross_entropy", True)]
)
def test_every_loss(loss: str, vector: bool) -> None:
    problem = problem_of(loss, vector=vector)
    assert_as_alone(along(problem, beta_max(problem) * np.array([0.9, 0.3, 0.05])))


@pytest.mark.parametrize("solver", ["interior", "splitting", "low-rank"])
def test_every_solver_of_the_package(solver: str) -> None:
    assert_as_alone(along(problem_of(), [10.0, 3.0, 1.0], solver, tol=1e-7), solver)


@pytest.mark.parametrize(
    "options", [{"activation": "relu_like"}, {"levels": 4}, {"activation": "relu_like", "levels": 3}]
)
def test_activations_and_levels(options: dict[str, Any]) -> None:
    problem = problem_of(**options)
    assert_as_alone(along(problem, beta_max(problem) * np.array([0.5, 0.01])))


@pytest.mark.filterwarnings("ignore:with beta=")
@pytest.mark.parametrize("solver", ["interior", "splitting", "low-rank"])
def test_solutions_are_starts_unless_they_are_zero(solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of()
    zero = solve_relaxation(problem.with_beta(2.0 * beta_max(problem)))
    cold = solve_relaxation(problem.with_beta(4.0), solver)
    starts: list[bool] = []
    backend = BACKENDS[solver]

    def solve(instance: Any, settings: Any) -> Any:
        starts.append(settings.start is not None)
        return backend.solve(instance, settings)

    monkeypatch.setitem(BACKENDS, solver, replace(backend, solve=solve))
    from_zero = solve_relaxation(problem.with_beta(4.0), solver, start=zero)
    assert (from_zero.iterations, from_zero.objective) == (cold.iterations, cold.objective)
    assert starts == [False]
    solve_relaxation(problem.with_beta(2.0), solver, start=from_zero)
    assert starts[1] is True


# -- theorems about the optimal value -----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:with beta=")
@pytest.mark.parametrize("loss", LOSSES)
def test_the_value_is_nondecreasing_and_concave_in_beta(loss: str) -> None:
    problem = problem_of(loss)
    path = along(problem, np.linspace(1.2, 0.05, 8) * beta_max(problem))
    upper, lower = (np.array([getattr(one, name) for one in path[::-1]]) for name in ("objective", "lower_bound"))
    assert np.all(lower <= upper)
    assert np.all(lower[:-1] <= upper[1:]), "nondecreasing"
    assert np.all(upper[1:-1] >= 0.5 * (lower[:-2] + lower[2:])), "concave"


@pytest.mark.filterwarnings("ignore:with beta=")
@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_largest_beta_separates_zero_from_the_rest(loss: str, vector: bool) -> None:
    problem = problem_of(loss, vector=vector)
    beta = beta_max(problem)
    at_zero = problem.loss.value(np.zeros_like(problem.y), problem.y)
    below, above = along(problem, beta * np.array([0.99, 1.01]))
    assert below.objective < at_zero
    assert np.any(below.Z_stack)
    assert not np.any(above.Z_stack)
    assert above.objective == pytest.approx(at_zero, rel=1e-14)
    assert above.relative_gap <= 1e-6
    assert above.status == "optimal"
    at = solve_relaxation(problem.with_beta(beta))
    assert at.objective == pytest.approx(at_zero, rel=1e-6)


def test_the_largest_beta_does_not_depend_on_beta_and_scales() -> None:
    problem = problem_of()
    beta = beta_max(problem)
    assert beta_max(problem.with_beta(1e200)) == beta
    assert beta_max(problem.with_beta(1e-200)) == beta
    scaled = TrainingProblem(2.0**40 * X, 2.0**-30 * REAL, beta=1.0)
    assert beta_max(scaled) == pytest.approx(beta * 2.0**50, rel=1e-8)


def test_extreme_data() -> None:
    scaled = TrainingProblem(1e80 * X, 1e80 * REAL, beta=1.0)
    beta = beta_max(scaled)
    assert beta == pytest.approx(beta_max(problem_of()) * 1e240, rel=1e-8)
    assert all(one.relative_gap <= 1e-6 for one in along(scaled, beta * np.array([0.5, 0.02])))


@pytest.mark.parametrize("zero", ["X", "y"])
def test_data_of_zeros(zero: str) -> None:
    problem = TrainingProblem(0.0 * X if zero == "X" else X, 0.0 * REAL if zero == "y" else REAL, beta=1.0)
    assert beta_max(problem) == 0.0
