"""Column generation with real weights beside neurons: proven optima against enumeration and against linear blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from real_weight_problems import LOSSES, as_linear_blocks, optimum, random_network, random_problem

import qsdp

#: Clarabel says so where it cannot reach its tolerances.
pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")


def twin_of(problem: Any) -> qsdp.TrainingProblem:
    blocks = as_linear_blocks(problem.X)
    options = {"loss": problem.loss, "sample_weight": problem.sample_weight}
    return qsdp.TrainingProblem(blocks, problem.y, beta=problem.beta, **options)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_the_enumerated_optimum_is_reached_and_proven(seed: int, loss: str) -> None:
    C = 3 if loss == "cross_entropy" else 1 + seed % 2
    # More samples than packed entries, and fewer, take different restricted problems.
    problem = random_problem(seed, loss, n=60 if seed % 2 else 12, n_outputs=C)
    result = qsdp.column_generation(problem, tol=1e-7)
    expected = optimum(problem)
    assert (result.status, result.certificate.bound_type) == ("optimal", "exact")
    assert result.objective == pytest.approx(expected, rel=1e-6)
    assert result.lower_bound <= expected * (1.0 + 1e-8)
    assert result.relative_gap <= 1e-7
    again = qsdp.certify(result.network, problem, bound_type="exact")
    assert again.lower_bound <= expected * (1.0 + 1e-8)


@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge", "cross_entropy"])
@pytest.mark.parametrize("seed", [1, 2])
def test_weights_are_linear_blocks_of_side_one(seed: int, loss: str) -> None:
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, 30)
    problem = random_problem(seed, loss, n=30, n_outputs=3 if loss == "cross_entropy" else 2, sample_weight=weights)
    twin = twin_of(problem)
    one, two = (qsdp.column_generation(each, tol=1e-8) for each in (problem, twin))
    assert one.objective == pytest.approx(two.objective, rel=1e-7)
    first, second = one.predict(problem.X), two.predict(twin.X)
    if loss == "cross_entropy":
        # A shift of the scores of all classes changes no loss.
        first, second = (scores - scores.mean(axis=1, keepdims=True) for scores in (first, second))
    np.testing.assert_allclose(first, second, atol=2e-3 * np.abs(second).max())


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_network_and_an_earlier_result_are_starts(loss: str) -> None:
    problem = random_problem(3, loss, n=40)
    start = random_network(np.random.default_rng(0), problem, 5)
    first = qsdp.column_generation(problem, start=start)
    assert first.status == "optimal"
    again = qsdp.column_generation(problem.with_beta(0.7 * problem.beta), start=first)
    assert again.status == "optimal"
    assert again.objective == pytest.approx(optimum(again.problem), rel=1e-6)


def test_a_relaxation_gives_weights_and_neurons_to_start_from() -> None:
    problem = random_problem(2, "squared", n=40, n_outputs=2)
    relaxation = qsdp.solve_relaxation(problem)
    result = qsdp.column_generation(problem, relaxation=relaxation)
    assert result.status == "optimal"
    assert relaxation.lower_bound <= result.objective <= relaxation.objective * 1.5


def test_zero_is_optimal_at_a_large_beta() -> None:
    problem = random_problem(1, "squared", n=20)
    problem = problem.with_beta(1.001 * qsdp.beta_max(problem))
    result = qsdp.column_generation(problem)
    assert result.status == "optimal"
    assert not np.any(result.network.alpha)
    assert not np.any(result.network.weights)
    assert result.objective == problem.data_fit.value_at_zero


def test_a_thousand_weights_and_side_twelve_are_proven() -> None:
    rng = np.random.default_rng(0)
    n, p, N = 400, 1000, 12
    z, columns = rng.standard_normal((n, N)), rng.standard_normal((n, p))
    first, second = np.triu_indices(N)
    y = columns[:, :4] @ [3.0, -2.0, 1.0, 1.0] + 2.0 * (z[:, 0] - z[:, 1]) * (z[:, 0] + z[:, 1])
    rows = np.hstack([columns, z[:, first] * z[:, second]])
    problem = qsdp.TrainingProblem(qsdp.Blocks(rows, [p, N], ["weights", "quadratic"]), y, beta=1.0)
    problem = problem.with_beta(0.2 * qsdp.beta_max(problem))
    result = qsdp.column_generation(problem, tol=1e-5)
    assert result.status == "optimal"
    assert set(range(2)) <= set(np.flatnonzero(result.network.weights).tolist())
    assert result.history[-1].n_columns < 1500
