"""Column generation on blocks: proven optima against enumeration, pricing of stacks, and sums in place of samples."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest
from block_problems import LOSSES, all_neurons, enumerated_optimum, random_problem

import qsdp

TIGHT = {"tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "tol_feas": 1e-13}
#: Clarabel says so where it cannot reach these tolerances.
pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")

SMOOTH = ("squared", "logistic", "squared_hinge", "huber", "cross_entropy")


def check(problem: Any, **options: Any) -> qsdp.ColumnGenerationResult:
    """Check that the optimum is proven, and that the proof's parts hold by themselves."""
    result = qsdp.column_generation(problem, tol=1e-9, **options)
    optimum = enumerated_optimum(problem, **TIGHT)
    assert (result.status, result.certificate.bound_type) == ("optimal", "exact")
    assert result.lower_bound <= optimum * (1.0 + 1e-9)
    assert result.objective == pytest.approx(optimum, rel=1e-9)
    assert result.objective == problem.objective(result.network)
    proof = result.certificate.proof
    # No neuron is worth more than its price at the dual vector, whose value is the bound.
    U, V, block = all_neurons(problem.blocks)
    values = np.abs(proof.nu.T @ problem.map.products(U, V, block))
    assert np.all(values <= problem.beta * problem.blocks.prices[block] * (1.0 + 1e-9))
    assert result.lower_bound <= problem.data_fit.dual_value(proof.nu) * (1.0 + 1e-12)
    return result


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_proven_optima_are_those_of_enumeration(loss: str, seed: int) -> None:
    check(random_problem(seed, loss))


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("scale", [1e-42, 1e-20, 1e20, 1e42])
def test_rows_beyond_the_range_of_single_precision(scale: float) -> None:
    problem = random_problem(1, "logistic", n=60)
    moved = qsdp.TrainingProblem(
        qsdp.Blocks(scale * problem.X.rows, problem.X.sizes, problem.X.kinds, problem.X.omega),
        problem.y,
        beta=scale * problem.beta,
        loss="logistic",
    )
    one, other = (qsdp.column_generation(each, tol=1e-9) for each in (problem, moved))
    assert (one.status, other.status) == ("optimal", "optimal")
    assert other.objective == pytest.approx(one.objective, rel=2e-9)


@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
def test_weighted_samples_beyond_the_number_of_entries(loss: str) -> None:
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 80)
    problem = random_problem(4, loss, n=80, sample_weight=weights)
    check(problem)


@pytest.mark.parametrize("n", [12, 100])
@pytest.mark.parametrize("loss", ["squared", "logistic", "absolute"])
def test_several_outputs_share_one_beta(loss: str, n: int) -> None:
    result = check(random_problem(3, loss, n, n_outputs=2))
    assert result.network.output_shape == (2,)


@pytest.mark.parametrize("kinds", [["linear"], ["linear", "linear"], ["quadratic", "linear"], ["quadratic"]])
@pytest.mark.parametrize("n", [8, 60])
def test_kinds(kinds: list[str], n: int) -> None:
    rng = np.random.default_rng(0)
    blocks = qsdp.Blocks(
        rng.standard_normal((n, sum(4 if k == "linear" else 10 for k in kinds))), [4] * len(kinds), kinds
    )
    problem = qsdp.TrainingProblem(blocks, rng.standard_normal(n), beta=1.0)
    check(problem.with_beta(0.2 * qsdp.beta_max(problem)))


@pytest.mark.parametrize("dtype", ["f4", "i2", "u1"])
def test_types_of_rows(dtype: str) -> None:
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 50, size=(40, 9)).astype(dtype)
    problem = qsdp.TrainingProblem(qsdp.Blocks(rows, [3, 2]), rng.standard_normal(40), beta=10.0)
    check(problem)


@pytest.mark.parametrize(
    ("unit", "loss", "n"), [(1e-8, "squared", 100), (1e8, "squared", 12), (1e-8, "cross_entropy", 12)]
)
def test_units_of_the_data(unit: float, loss: str, n: int) -> None:
    problem = random_problem(5, loss, n)
    rows = problem.X.rows * unit
    rows[:, 0] = rows[:, -1] = 0.0
    blocks = qsdp.Blocks(rows, problem.X.sizes, problem.X.kinds, problem.X.omega)
    own, scaled = (
        qsdp.TrainingProblem(blocks_, problem.y, beta=beta, loss=loss)
        for blocks_, beta in (
            (qsdp.Blocks.from_layout(rows / unit, blocks.layout), problem.beta),
            (blocks, problem.beta * unit),
        )
    )
    optimum = check(own).objective
    assert qsdp.column_generation(scaled, tol=1e-9).objective == pytest.approx(optimum, rel=1e-8)


def test_large_beta_leaves_the_zero_network() -> None:
    problem = random_problem(0)
    result = qsdp.column_generation(problem.with_beta(1.001 * qsdp.beta_max(problem)))
    assert result.status == "optimal"
    assert not np.any(result.network.alpha)
    assert result.objective == problem.data_fit.value_at_zero


@pytest.mark.parametrize("n", [12, 100])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_the_neurons_of_an_optimal_start_are_enough(n: int, n_outputs: int) -> None:
    problem = random_problem(6, n=n, n_outputs=n_outputs)
    first = check(problem)
    again = check(problem, start=first.network)
    assert again.rounds < first.rounds


def test_a_relaxation_is_a_start_and_a_bound() -> None:
    problem = random_problem(7, n_outputs=2)
    check(problem, relaxation=qsdp.solve_relaxation(problem))


@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
def test_time_limits_leave_valid_bounds(loss: str) -> None:
    problem = random_problem(8, loss, n=40)
    result = qsdp.column_generation(problem, time_limit=1e-9)
    assert result.status == "time limit"
    assert 0.0 <= result.lower_bound <= enumerated_optimum(problem, **TIGHT) * (1.0 + 1e-9)
    assert result.objective == problem.data_fit.value_at_zero


# -- large sides -----------------------------------------------------------------------------------------------


def test_large_sides_are_left_to_the_oracle_and_proven() -> None:
    rng = np.random.default_rng(2)
    patches = np.sign(rng.standard_normal((30, 2, 14)))
    first, second = np.triu_indices(14)
    blocks = qsdp.Blocks((patches[:, :, first] * patches[:, :, second]).reshape(30, -1), [14, 14])
    problem = qsdp.TrainingProblem(blocks, rng.standard_normal(30), beta=0.2)
    result = qsdp.column_generation(problem)
    assert (result.status, result.certificate.bound_type) == ("optimal", "exact")


# -- sums in place of samples -----------------------------------------------------------------------------------


def test_columns_replace_sums_that_are_too_inaccurate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["qsdp.column_generation._packed_program"], "HALF_DIGITS", -math.inf)
    check(random_problem(3, n=100))


def test_columns_are_tried_where_packed_entries_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    # Steps of a huge curvature move nothing.
    def huge(loss: Any, point: Any, columns: Any) -> Any:
        return 1e30 * np.eye(len(columns.outputs))

    monkeypatch.setattr(sys.modules["qsdp.column_generation._packed_program"]._SampledLoss, "hessian", huge)
    check(random_problem(3, "cross_entropy", n=100))


def test_the_squared_loss_needs_no_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: Any) -> None:
        raise sys.modules["qsdp._utils.deadline"].TimeOver

    monkeypatch.setattr(sys.modules["qsdp.column_generation.master"].SharedSums, "gram", late)
    check(random_problem(3, n=100))


def test_rounds_without_proofs_reach_the_same_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where many sign vectors make exact pricing expensive, rounds search, and proofs follow at the end."""
    rng = np.random.default_rng(4)
    blocks = qsdp.Blocks(rng.standard_normal((200, 42)), [6, 6])
    problem = qsdp.TrainingProblem(blocks, rng.standard_normal((200, 2)), beta=1.0)
    problem = problem.with_beta(0.02 * qsdp.beta_max(problem))
    known = qsdp.column_generation(problem)
    monkeypatch.setattr(sys.modules["qsdp.column_generation.generator"], "_CHEAP", 0)
    found = qsdp.column_generation(problem)
    assert found.status == "optimal"
    assert found.certificate.objective == pytest.approx(known.certificate.objective)


def test_rows_are_sampled_for_second_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["qsdp.column_generation._packed_program"], "MANY_ROWS", 20)
    monkeypatch.setattr(sys.modules["qsdp.column_generation._packed_program"], "_PER_ATOM", 1)
    check(random_problem(5, "logistic", n=200))


def test_pruning_keeps_what_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["qsdp.column_generation.master"], "MAX_SIDE", 40)
    rng = np.random.default_rng(9)
    blocks = qsdp.Blocks(rng.standard_normal((200, 30)), [4, 4, 4])
    problem = qsdp.TrainingProblem(blocks, rng.standard_normal(200), beta=1.0)
    check(problem.with_beta(0.05 * qsdp.beta_max(problem)))
