"""Column generation on blocks: proven optima against enumeration, pricing of stacks, and sums in place of samples."""

from __future__ import annotations

import itertools
import math
import sys
from typing import Any

import numpy as np
import pytest
from block_problems import LOSSES, all_neurons, enumerated_optimum, random_problem
from brute_force import sign_vectors

import qsdp
from qsdp._utils import deadline
from qsdp._utils.deadline import TimeOver
from qsdp.certificates.proof import tree_bound
from qsdp.column_generation import _packed_program, generator, train
from qsdp.column_generation._packed_program import suits_packed
from qsdp.column_generation.master import Master, SharedSums
from qsdp.column_generation.restricted import nonnegative_minimum
from qsdp.forms import FormMap
from qsdp.pricing import price_stack
from qsdp.relaxation.instance import Instance

TIGHT = {"tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "tol_feas": 1e-13}
#: Clarabel says so where it cannot reach these tolerances.
pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")

SMOOTH = ("squared", "logistic", "squared_hinge", "huber", "cross_entropy")


def check(problem: Any, **options: Any) -> qsdp.ColumnGenerationResult:
    """Check that the optimum is proven, and that the proof's parts hold by themselves."""
    result = qsdp.column_generation(problem, tol=1e-9, time_limit=None, **options)
    optimum = enumerated_optimum(problem, **TIGHT)
    assert (result.status, result.certificate.bound_type) == ("optimal", "exact")
    assert result.lower_bound <= optimum * (1.0 + 1e-9)
    assert result.objective == pytest.approx(optimum, rel=1e-9)
    assert result.objective == problem.objective(result.network)
    proof = result.certificate.proof
    matrices = problem.map.adjoints(proof.nu)
    assert len(proof.trees) == len(matrices)
    for matrix, tree in zip(matrices, proof.trees, strict=True):
        assert tree_bound(matrix, tree) <= problem.beta * (1.0 + 1e-9)
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


@pytest.mark.parametrize("loss", LOSSES)
def test_weighted_samples_beyond_the_number_of_entries(loss: str) -> None:
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 150)
    problem = random_problem(4, loss, n=150, sample_weight=weights)
    assert suits_packed(Instance.from_problem(problem)) == (loss in SMOOTH)
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


@pytest.mark.parametrize("unit", [1e-8, 1e8])
@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
@pytest.mark.parametrize("n", [12, 100])
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


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["cross_entropy", "logistic", "squared_hinge", "huber"])
def test_the_first_neurons_are_those_of_a_model_with_the_gradient_at_zero(loss: str, weighted: bool) -> None:
    weights = np.random.default_rng(4).uniform(0.5, 2.0, 200) if weighted else None
    problem = random_problem(4, loss=loss, n=200, n_outputs=3, sample_weight=weights)
    model = train._quadratic_model(problem)
    assert model.loss.quadratic
    assert model.beta == problem.beta
    np.testing.assert_allclose(model.data_fit.zero_dual, problem.data_fit.zero_dual, rtol=1e-14)


def test_a_relaxation_is_a_start_and_a_bound() -> None:
    problem = random_problem(7, n_outputs=2)
    check(problem, relaxation=qsdp.solve_relaxation(problem))


@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
def test_time_limits_leave_valid_bounds(loss: str) -> None:
    problem = random_problem(8, loss, n=200)
    result = qsdp.column_generation(problem, time_limit=1e-9)
    assert result.status == "time limit"
    assert 0.0 <= result.lower_bound <= enumerated_optimum(problem, **TIGHT) * (1.0 + 1e-9)
    assert result.objective == problem.data_fit.value_at_zero


# -- pricing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_prices_of_stacks_are_those_of_all_neurons(seed: int) -> None:
    """The value of a neuron counts entries off the diagonal twice: halved, bounds would exceed optima."""
    problem = random_problem(seed, n_outputs=2)
    rng, layout = np.random.default_rng(seed), problem.blocks
    nu = rng.standard_normal((problem.n_samples, 2))
    stack = problem.map.adjoints(nu)
    U, V, block = all_neurons(layout)
    values = np.abs(nu.T @ problem.map.products(U, V, block))
    priced = price_stack(stack, layout, 0.0, 5)
    for k, result in priced.items():
        output, r = divmod(k, layout.n_blocks)
        largest = values[output, block == r].max()
        assert result.value == pytest.approx(largest, rel=1e-12)
        assert largest <= result.upper <= largest * (1.0 + 1e-12)
        assert tree_bound(stack[k], result.trees[0]) == pytest.approx(largest, rel=1e-12)
        found = np.einsum("ji,ik,jk->j", result.U.astype(float), stack[k], result.V.astype(float))
        np.testing.assert_allclose(found, result.values, rtol=1e-12)
        assert 1 <= len(found) <= 5
        assert np.all(np.diff(found) <= 1e-12 * largest)
        pairs = {
            frozenset({(u * u[0]).tobytes(), (v * v[0]).tobytes()}) for u, v in zip(result.U, result.V, strict=True)
        }
        assert len(pairs) == len(found)
    assert sorted(priced) == list(range(len(stack)))


@pytest.mark.parametrize("unit", [1e-300, 1.0, 1e300])
def test_prices_in_any_units_and_of_zero_matrices(unit: float) -> None:
    layout = qsdp.Blocks(np.zeros((1, 19)), [3, 4, 3], ["quadratic", "quadratic", "linear"]).layout
    matrices = layout.matrices(unit * np.random.default_rng(0).standard_normal((2, layout.n_entries)))
    matrices[1] = 0.0
    table = sign_vectors(4)
    for k, result in price_stack(matrices, layout, 0.0, 3).items():
        M = matrices[k] / unit
        expected = np.abs(table @ M).sum(axis=1).max() if k % 3 < 2 else np.abs(M).sum()
        assert result.value / unit == pytest.approx(expected, rel=1e-12)
        assert len(result.U) == 0 if k == 1 else len(result.U) > 0


def test_large_sides_are_left_to_the_oracle_and_proven() -> None:
    rng = np.random.default_rng(2)
    patches = np.sign(rng.standard_normal((30, 2, 14)))
    first, second = np.triu_indices(14)
    blocks = qsdp.Blocks((patches[:, :, first] * patches[:, :, second]).reshape(30, -1), [14, 14])
    problem = qsdp.TrainingProblem(blocks, rng.standard_normal(30), beta=0.2)
    assert price_stack(problem.map.adjoints(rng.standard_normal((30, 1))), problem.blocks, 0.0, 3) == {}
    result = qsdp.column_generation(problem)
    assert (result.status, result.certificate.bound_type) == ("optimal", "exact")


# -- sums in place of samples -----------------------------------------------------------------------------------


def test_the_gram_matrix_is_computed_once_for_all_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    pair_sums = FormMap.pair_sums

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        return pair_sums(*arguments, **options)

    monkeypatch.setattr(FormMap, "pair_sums", counted)
    check(random_problem(3, n=100, n_outputs=3))
    assert len(calls) == 1


def test_columns_replace_sums_that_are_too_inaccurate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_packed_program, "HALF_DIGITS", -math.inf)
    check(random_problem(3, n=100))


def test_columns_are_tried_where_packed_entries_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    # Steps of a huge curvature move nothing.
    def huge(loss: Any, point: Any, columns: Any, images: Any) -> Any:
        return 1e30 * np.eye(len(images))

    monkeypatch.setattr(_packed_program._SampledLoss, "hessian", huge)
    check(random_problem(3, "cross_entropy", n=100))


def test_the_squared_loss_needs_no_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(self: SharedSums, normal: Instance) -> None:
        raise TimeOver

    monkeypatch.setattr(SharedSums, "gram", late)
    check(random_problem(3, n=100))


@pytest.mark.parametrize("loss", SMOOTH)
def test_points_have_the_loss_and_slopes_of_the_samples(loss: str) -> None:
    problem = random_problem(2, loss, n=80, sample_weight=np.random.default_rng(2).uniform(0.5, 2.0, 80))
    instance = Instance.from_problem(problem)
    master = Master(instance, SharedSums(problem.targets))
    master.program._loss.sharpen()
    x = 0.1 * np.random.default_rng(3).standard_normal((problem.n_outputs, problem.blocks.n_entries))
    point, step = master.program._loss.at(x), 1e-6 * np.random.default_rng(4).standard_normal(x.shape)
    normal, _ = instance.normalised()
    prediction = normal.map.values_of(x)
    assert point.loss == pytest.approx(normal.fit.value(prediction), rel=1e-12)
    change = master.program._loss.at(x + step).loss - master.program._loss.at(x - step).loss
    assert change == pytest.approx(2.0 * float(np.vdot(point.gradient, step)), rel=1e-5)


@pytest.mark.parametrize("loss", ["logistic", "cross_entropy"])
def test_passes_in_single_precision_are_close_and_end_with_a_fine_tolerance(loss: str) -> None:
    problem = random_problem(2, loss, n=80)
    instance = Instance.from_problem(problem)
    master = Master(instance, SharedSums(problem.targets))
    x = 0.1 * np.random.default_rng(3).standard_normal((problem.n_outputs, problem.blocks.n_entries))
    rough = master.program._loss.at(x)
    master.solve(1e-2)
    assert master.program._loss.at(x).loss == rough.loss
    master.solve(1e-9)
    exact = master.program._loss.at(x)
    assert master.program._loss.at(x).loss != rough.loss
    assert exact.loss == pytest.approx(rough.loss, rel=1e-5)
    assert exact.gradient == pytest.approx(rough.gradient, rel=1e-4, abs=1e-5 * np.abs(exact.gradient).max())


def test_rounds_without_proofs_reach_the_same_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where many sign vectors make exact pricing expensive, rounds search, and proofs follow at the end."""
    rng = np.random.default_rng(4)
    blocks = qsdp.Blocks(rng.standard_normal((200, 42)), [6, 6])
    problem = qsdp.TrainingProblem(blocks, rng.standard_normal((200, 2)), beta=1.0)
    problem = problem.with_beta(0.02 * qsdp.beta_max(problem))
    known = qsdp.column_generation(problem)
    calls: list[bool] = []
    prove = generator._BilinearPricing.prove

    def counted(self: Any, *arguments: Any, **options: Any) -> Any:
        calls.append(True)
        return prove(self, *arguments, **options)

    monkeypatch.setattr(generator._BilinearPricing, "prove", counted)
    monkeypatch.setattr(generator, "_CHEAP", generator._hardest(problem))
    found = qsdp.column_generation(problem)
    assert found.status == "optimal"
    assert found.certificate.objective == pytest.approx(known.certificate.objective)
    assert len(calls) < len(found.history)


def test_a_time_limit_is_not_spent_on_the_shared_sums_of_each_output(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    gram = SharedSums.gram

    def noted(self: Any, normal: Any) -> Any:
        limits.append(deadline.left())
        return gram(self, normal)

    monkeypatch.setattr(SharedSums, "gram", noted)
    qsdp.column_generation(random_problem(3, n=100, n_outputs=4), time_limit=1000.0)
    assert limits[0] > 900.0 > 300.0 > limits[1]


def test_rows_are_sampled_for_second_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_packed_program, "MANY_ROWS", 20)
    monkeypatch.setattr(_packed_program, "_PER_ATOM", 1)
    for loss in ("cross_entropy", "logistic"):
        check(random_problem(5, loss, n=200))


def test_pruning_keeps_what_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[Master.__module__], "MAX_SIDE", 40)
    rng = np.random.default_rng(9)
    blocks = qsdp.Blocks(rng.standard_normal((200, 30)), [4, 4, 4])
    problem = qsdp.TrainingProblem(blocks, rng.standard_normal(200), beta=1.0)
    check(problem.with_beta(0.05 * qsdp.beta_max(problem)))


@pytest.mark.parametrize("exchanges", [0, 100])
@pytest.mark.parametrize("seed", range(5))
def test_nonnegative_minima(seed: int, exchanges: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all sets of positive weights, one gives the minimum; some columns are equal."""
    monkeypatch.setattr(sys.modules[nonnegative_minimum.__module__], "MAX_STEPS", exchanges)
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((6, 8))
    F[:, 7] = F[:, 6]
    H, g = F.T @ F, rng.standard_normal(8)
    g[:4] -= 2.0
    g[7] = g[6] + 0.1
    a = nonnegative_minimum(H, g, rng.uniform(0.0, 1.0, 8) * rng.integers(0, 2, 8), 1e-12)
    assert np.all(a >= 0.0)
    best = 0.0
    for size in range(1, 7):
        for own in map(list, itertools.combinations(range(8), size)):
            solution = np.linalg.lstsq(H[np.ix_(own, own)], -g[own], rcond=None)[0]
            if np.all(solution >= 0.0):
                best = min(best, 0.5 * float(g[own] @ solution))
    assert 0.5 * a @ H @ a + g @ a == pytest.approx(best, rel=1e-9, abs=1e-12)
