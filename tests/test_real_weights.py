"""Blocks of columns with real weights, priced in the same objective as the neurons of the other blocks."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from block_problems import LOSSES, random_targets
from sklearn.linear_model import Lasso

import qsdp
from qsdp.exceptions import InvalidInputError, InvalidTypeError, QSDPWarning, SolverError

SIZES, KINDS, OMEGA = (2, 3, 3, 4), ("weights", "quadratic", "linear", "weights"), ([1.0, 2.0], 0.5, 2.0, 3.0)


def test_blocks_of_several_kinds_keep_their_order_and_their_rows() -> None:
    rows = np.random.default_rng(0).standard_normal((9, 2 + 6 + 3 + 4))
    blocks = qsdp.Blocks(rows, SIZES, KINDS, OMEGA)
    assert (blocks.sizes, blocks.kinds, blocks.omega) == (SIZES, KINDS, ((1.0, 2.0), 0.5, 2.0, 3.0))
    assert (blocks.n_blocks, blocks.shape) == (4, (9, 15))
    assert np.shares_memory(blocks.rows, rows)
    assert blocks == qsdp.Blocks(rows, blocks.sizes, blocks.kinds, blocks.omega)
    assert blocks != qsdp.Blocks(rows, SIZES, KINDS, ([2.0, 2.0], 0.5, 2.0, 3.0))
    assert blocks != qsdp.Blocks(rows, (4, 3, 3, 2), KINDS)


@pytest.mark.parametrize(
    ("omega", "message"),
    [
        ([1.0, [1.0, 2.0]], r"omega of a block of 4 weights must have the shape \(4,\); got \(2,\)"),
        ([1.0, [[1.0, 2.0, 3.0, 4.0]]], r"must have the shape \(4,\); got \(1, 4\)"),
        ([1.0, 0.0], "omega must be a finite number > 0; got 0"),
        ([1.0, [1.0, 2.0, -3.0, 4.0]], "omega must be a finite number > 0; got -3"),
        ([1.0, [1.0, 2.0, np.inf, 4.0]], "omega must be a numeric array"),
        ([1.0, 1e200], "omega must be within"),
        ([[1.0, 1.0], 1.0], "omega must be a finite number > 0"),
        ([1.0], "omega must have an entry for each of 2 blocks; got 1"),
    ],
)
def test_omega_is_checked(omega: Any, message: str) -> None:
    with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
        qsdp.Blocks(np.ones((3, 2 + 4)), [2, 4], ["linear", "weights"], omega)


def test_levels_and_activations_are_refused() -> None:
    blocks = qsdp.Blocks(np.ones((3, 4)), [4], ["weights"])
    for options in ({"levels": 3}, {"activation": "relu_like"}):
        with pytest.raises(InvalidInputError, match="levels must be 2 and activation None for blocks"):
            qsdp.TrainingProblem(blocks, [1.0, 2.0, 3.0], beta=1.0, **options)


LAYOUTS = [
    [("weights", 2), ("quadratic", 3), ("linear", 3), ("weights", 4)],
    [("quadratic", 3), ("weights", 30)],
    [("weights", 5)],
]


def random_problem(layout: list[tuple[str, int]], loss: str, seed: int = 0, n_outputs: int = 1) -> Any:
    """Return a problem at a tenth of the largest useful beta, with prices of every weight."""
    rng = np.random.default_rng(seed)
    kinds, sizes = [kind for kind, _ in layout], [size for _, size in layout]
    columns = sum(size * (size + 1) // 2 if kind == "quadratic" else size for kind, size in layout)
    omega = [rng.uniform(0.5, 2.0, size if kind == "weights" else None) for kind, size in layout]
    blocks = qsdp.Blocks(rng.standard_normal((20, columns)), sizes, kinds, omega)
    problem = qsdp.TrainingProblem(blocks, random_targets(rng, 20, loss, n_outputs), beta=1.0, loss=loss)
    return problem.with_beta(0.1 * qsdp.beta_max(problem))


def with_linear_blocks(problem: Any) -> Any:
    """Return the same program, with a linear block of side 1 in place of every weight."""
    blocks, sizes, kinds, omega = problem.X, [], [], []
    for size, kind, price in zip(blocks.sizes, blocks.kinds, blocks.omega, strict=True):
        columns = size if kind == "weights" else 1
        sizes += [1] * columns if kind == "weights" else [size]
        kinds += ["linear"] * columns if kind == "weights" else [kind]
        omega += np.broadcast_to(price, (columns,)).tolist()
    same = qsdp.Blocks(blocks.rows, sizes, kinds, omega)
    return qsdp.TrainingProblem(
        same, problem.y, beta=problem.beta, loss=problem.loss, sample_weight=problem.sample_weight
    )


@cache
def conic_solution(layout: tuple[tuple[str, int], ...], loss: str) -> qsdp.Relaxation:
    """Return Clarabel's solution of the problem with linear blocks in place of weights."""
    return qsdp.solve_relaxation(with_linear_blocks(random_problem(list(layout), loss)), solver="clarabel", tol=1e-8)


@pytest.mark.parametrize(
    ("loss", "solver", "layout"),
    [
        *((loss, solver, LAYOUTS[0]) for loss in LOSSES for solver in ("interior", "splitting")),
        *((loss, "interior", layout) for loss in ("squared", "cross_entropy") for layout in LAYOUTS[1:]),
        *(("hinge", "splitting", layout) for layout in LAYOUTS[1:]),
        ("logistic", "clarabel", LAYOUTS[0]),
    ],
    ids=str,
)
def test_weights_are_linear_blocks_of_side_one(loss: str, layout: list[tuple[str, int]], solver: str) -> None:
    problem = random_problem(layout, loss)
    same = with_linear_blocks(problem)
    assert qsdp.beta_max(problem) == pytest.approx(qsdp.beta_max(same), rel=1e-8)
    if solver == "interior" and layout == LAYOUTS[2]:
        with pytest.raises(SolverError, match="blocks of real weights without any neurons; use solver='splitting'"):
            qsdp.solve_relaxation(problem, solver=solver)
        return
    expected = conic_solution(tuple(layout), loss)
    relaxation = qsdp.solve_relaxation(problem, solver=solver)
    assert relaxation.status == "optimal"
    assert relaxation.lower_bound <= expected.objective
    assert relaxation.objective >= expected.lower_bound
    assert relaxation.objective == pytest.approx(expected.objective, rel=2e-6)
    assert relaxation.lower_bound == pytest.approx(expected.objective, rel=1e-4 if solver == "clarabel" else 2e-6)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_points_list_all_blocks_in_their_order(layout: list[tuple[str, int]]) -> None:
    problem = random_problem(layout, "squared", n_outputs=2)
    relaxation = qsdp.solve_relaxation(problem)
    shapes = [(2, size, size) if kind == "quadratic" else (2, size) for kind, size in layout]
    assert [part.shape for part in relaxation.Z] == [part.shape for part in relaxation.V] == shapes
    of_weights = [r for r, (kind, _) in enumerate(layout) if kind == "weights"]
    for r in of_weights:
        np.testing.assert_array_equal(relaxation.V[r], np.abs(relaxation.Z[r]))
    np.testing.assert_array_equal(np.concatenate([relaxation.Z[r] for r in of_weights], axis=1), relaxation.weights.T)
    assert problem.relaxed_objective(relaxation.Z, relaxation.rho) == pytest.approx(relaxation.objective, rel=1e-12)
    # The predictions, recomputed from the packed entries.
    rows, starts, total = problem.X.rows, 0, np.zeros((20, 2))
    for (kind, size), part in zip(layout, relaxation.Z, strict=True):
        first, second = np.triu_indices(size) if kind == "quadratic" else (np.arange(size),) * 2
        columns = rows[:, starts : starts + len(first)]
        entries = part[:, first, second] * np.where(first == second, 1.0, 2.0) if kind == "quadratic" else part
        total += columns @ ((1.0 if kind == "weights" else 2.0) * entries).T
        starts += len(first)
    np.testing.assert_allclose(relaxation.predict(problem.X), total, atol=1e-12)


@pytest.mark.parametrize("beta", [0.003, 0.1, 0.7])
@pytest.mark.parametrize("shape", [(60, 8), (15, 40)])
def test_weights_alone_are_the_lasso(shape: tuple[int, int], beta: float) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal(shape)
    y = X[:, :3] @ [1.0, -2.0, 0.5] + 0.1 * rng.standard_normal(len(X))
    omega = rng.uniform(0.5, 2.0, shape[1])
    problem = qsdp.TrainingProblem(qsdp.Blocks(X, [shape[1]], ["weights"], [omega]), y, beta=1.0)
    largest = qsdp.beta_max(problem)
    assert largest == pytest.approx(np.abs(2.0 * X.T @ y / omega).max(), rel=1e-8)
    problem = problem.with_beta(beta * largest)
    relaxation = qsdp.solve_relaxation(problem, tol=1e-9)
    lasso = Lasso(alpha=problem.beta / (2 * len(X)), fit_intercept=False, tol=1e-14, max_iter=1_000_000)
    weights = lasso.fit(X / omega, y).coef_ / omega
    objective = np.sum((X @ weights - y) ** 2) + problem.beta * omega @ np.abs(weights)
    assert relaxation.objective == pytest.approx(objective, rel=1e-6)
    np.testing.assert_allclose(relaxation.weights[:, 0], weights, atol=1e-4)
    assert relaxation.lower_bound <= objective * (1.0 + 1e-12)


@pytest.mark.parametrize("solver", ["interior", "splitting"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "cross_entropy"])
def test_a_warm_start_takes_fewer_iterations(loss: str, solver: str) -> None:
    problem = random_problem(LAYOUTS[0], loss)
    first = qsdp.solve_relaxation(problem, solver=solver)
    again = qsdp.solve_relaxation(problem.with_beta(0.98 * problem.beta), solver=solver, start=first)
    assert again.status == "optimal"
    assert again.iterations is not None
    assert first.iterations is not None
    assert again.iterations <= first.iterations


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_of_no_use_are_exactly_zero(loss: str) -> None:
    problem = random_problem(LAYOUTS[1], loss)
    interior, splitting = (qsdp.solve_relaxation(problem, solver=name).weights for name in ("interior", "splitting"))
    assert 0 < np.count_nonzero(interior) < interior.size
    np.testing.assert_array_equal(interior != 0.0, splitting != 0.0)


def test_low_rank_is_refused() -> None:
    with pytest.raises(SolverError, match=r"'low-rank' .*real weights; use solver='splitting'"):
        qsdp.solve_relaxation(random_problem(LAYOUTS[0], "squared"), solver="low-rank")


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_zero_is_proven_optimal_from_the_largest_beta_on(layout: list[tuple[str, int]]) -> None:
    problem = random_problem(layout, "logistic")
    largest = qsdp.beta_max(problem)
    with pytest.warns(QSDPWarning, match="the zero network is globally optimal"):
        above = qsdp.solve_relaxation(problem.with_beta(1.01 * largest))
    assert not np.any(above.weights)
    below = qsdp.solve_relaxation(problem.with_beta(0.99 * largest))
    assert any(np.any(part) for part in below.Z)


@pytest.mark.parametrize("layout", LAYOUTS[:2], ids=str)
def test_the_printed_program_has_weights(layout: list[tuple[str, int]]) -> None:
    problem = random_problem(layout, "squared", n_outputs=2)
    program = qsdp.paper.two_block_program(problem)
    value = program.problem.solve(solver="CLARABEL")
    assert program.variables["weights0"].shape == (problem.X.layout.n_weights,)
    relaxation = program.relaxation()
    assert relaxation.objective == pytest.approx(value, rel=1e-6)
    assert relaxation.lower_bound == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_automatic_beta_is_that_of_linear_blocks_of_side_one(layout: list[tuple[str, int]]) -> None:
    problem = random_problem(layout, "squared", n_outputs=2)
    same = with_linear_blocks(problem)
    options: dict[str, Any] = {"n_neurons": 2, "random_state": 0}
    betas = [qsdp.solve_and_sample(data, problem.y, **options).problem.beta for data in (problem.X, same.X)]
    assert betas[0] == pytest.approx(betas[1], rel=1e-5)
