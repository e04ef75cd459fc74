"""The built-in solvers: against a conic solver and enumeration, at every stop, from any start, on real data."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from brute_force import global_optimum
from hypothesis import example, given, settings
from hypothesis import strategies as st
from relaxation_proofs import assert_proven
from solver_problems import KINKED, data, problem_of, reference, solved_problem
from torch_devices import DEVICE, needs_torch

import qsdp
from benchmarks.data.uci_sets import load_uci
from qsdp.exceptions import SolverError
from qsdp.losses import LOSSES
from qsdp.relaxation.backends import BACKENDS

pytestmark = pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning")

SOLVERS = ("interior", "splitting", "low-rank")
#: Pairs of a solver and a loss that it supports.
PAIRS = [(solver, loss) for solver in SOLVERS for loss in LOSSES if solver != "low-rank" or loss not in KINKED]
every_solver = pytest.mark.parametrize("solver", SOLVERS)
every_pair = pytest.mark.parametrize(("solver", "loss"), PAIRS)


def tolerance(solver: str, loss: str) -> float:
    """Return what a solver reaches in a moment."""
    if solver == "interior":
        return 1e-7
    return 2e-3 if loss in KINKED else 1e-5


def assert_agrees(ours: qsdp.Relaxation, theirs: qsdp.Relaxation, tol: float) -> None:
    """Check that a relaxation reaches its gap, and the optimal value."""
    assert_proven(ours)
    assert ours.relative_gap <= 3.0 * tol
    assert ours.objective <= theirs.objective * (1.0 + max(1e-6, 1.1 * tol))
    assert ours.lower_bound <= theirs.objective * (1.0 + 1e-12)
    assert theirs.lower_bound <= ours.objective * (1.0 + 1e-12)


# -- against other solvers -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solver", "loss", "n", "activation"),
    [
        # Fewer and more samples than entries of a matrix.
        *((*pair, *case) for pair in PAIRS for case in ((8, None), (40, "relu_like"))),
        *(("interior", loss, 400, "relu_like") for loss in ("squared", "hinge")),
        *((solver, "squared", 8, (0.0, 1.0, 0.3)) for solver in SOLVERS),
    ],
)
def test_every_solver_agrees_with_a_conic_solver(solver: str, loss: str, n: int, activation: Any) -> None:
    problem, theirs = solved_problem(loss, n, activation)
    tol = tolerance(solver, loss)
    ours = qsdp.solve_relaxation(problem, solver=solver, tol=tol)
    assert ours.solver_status == "optimal"
    assert_agrees(ours, theirs, tol)


@pytest.mark.parametrize(
    ("n", "solver", "beta"),
    [(40, "interior", 0.01), (8, "interior", 30.0), (40, "interior", 1.0), *((8, solver, 1.0) for solver in SOLVERS)],
)
def test_several_outputs(n: int, solver: str, beta: float) -> None:
    X, y = data(n, 4, "squared")
    # Outputs of sizes that differ, and one that is zero.
    problem = qsdp.TrainingProblem(X, np.stack([y, 30.0 * y**2, -2.0 * X[:, 2], 0.0 * y], axis=1), beta=beta)
    tol = 1e-7 if solver == "interior" else 1e-5
    relaxation = qsdp.solve_relaxation(problem, solver=solver, tol=tol)
    assert_agrees(relaxation, reference(problem), tol)
    for k in range(4):
        alone = qsdp.solve_relaxation(problem.output(k), solver="interior", tol=1e-7)
        value = problem.output(k).relaxed_objective([relaxation.Z[0][[k]]], relaxation.rho[[k]])
        assert value == pytest.approx(alone.objective, rel=2e-5, abs=1e-12)


@pytest.mark.parametrize(("solver", "tol"), [("interior", 1e-7), ("splitting", 2e-3)])
def test_several_outputs_of_a_loss_with_kinks(solver: str, tol: float) -> None:
    X, y = data(20, 3, "absolute")
    problem = qsdp.TrainingProblem(X, np.stack([y, y**2], axis=1), beta=0.3, loss="absolute")
    assert_agrees(qsdp.solve_relaxation(problem, solver=solver, tol=tol), reference(problem), tol)


@every_solver
def test_more_levels(solver: str) -> None:
    problem = problem_of("squared", 30, levels=4, activation="relu_like")
    ours = qsdp.solve_relaxation(problem, solver=solver)
    assert ours.status == "optimal"
    assert_agrees(ours, reference(problem), 1e-6)


@pytest.mark.parametrize("solver", ["interior", "low-rank"])
def test_high_accuracy(solver: str) -> None:
    problem = problem_of("squared", 80, 8, beta=20.0)
    relaxation = qsdp.solve_relaxation(problem, solver=solver, tol=1e-8)
    assert relaxation.relative_gap <= 3e-8
    assert_proven(relaxation)


@pytest.mark.parametrize("solver", ["interior", "splitting", "scs", "low-rank"])
@pytest.mark.parametrize("size", [1e-40, 1e40])
def test_units_of_the_data_do_not_matter(solver: str, size: float) -> None:
    X, y = data(40, 5, "squared")
    one, other = (
        qsdp.solve_relaxation(qsdp.TrainingProblem(s**0.5 * X, s * y, beta=0.5 * s**2), solver=solver, tol=1e-5)
        for s in (1.0, size)
    )
    assert other.relative_gap < 1e-4
    assert other.objective == pytest.approx(one.objective * size**2, rel=2e-5)


def test_a_coupled_output_that_hardly_counts() -> None:
    # The best multiple of low-rank factors is zero at first, and the output has to come back.
    X, y = data(100, 4, "cross_entropy", seed=3)
    y = np.where(np.arange(100) < 3, 3, y)
    problem = qsdp.TrainingProblem(X, y, beta=3.0, loss="cross_entropy")
    assert_agrees(qsdp.solve_relaxation(problem, solver="low-rank", tol=1e-5), reference(problem), 1e-5)


# -- the true optimum over all neurons -----------------------------------------------------------------------


@pytest.mark.parametrize("loss", [name for name in LOSSES if not LOSSES[name].coupled])
@pytest.mark.parametrize(("d", "activation"), [(3, None), (2, "relu_like")])
def test_bounds_are_below_the_enumerated_optimum(loss: str, d: int, activation: Any) -> None:
    X, y = data(12, d, loss, seed=3)
    problem = qsdp.TrainingProblem(X, y, beta=0.5, loss=loss, activation=activation)
    optimum = global_optimum(problem)
    for solver in (solver for solver, other in PAIRS if other == loss):
        relaxation = qsdp.solve_relaxation(problem, solver=solver, tol=tolerance(solver, loss))
        assert relaxation.lower_bound <= optimum.upper * (1.0 + 1e-12)
        # Within Grothendieck's constant the optimum for a larger beta is above it.
        assert optimum.lower <= 1.783 * relaxation.objective


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 12),
    d=st.integers(1, 4),
    log_beta=st.floats(-2.0, 2.0),
    loss=st.sampled_from(["squared", "absolute", "huber", "hinge", "squared_hinge", "logistic"]),
    solver=st.sampled_from(["interior", "splitting"]),
)
# Thousands of iterations.
@example(seed=219, n=7, d=2, log_beta=-2.0, loss="hinge", solver="splitting")
def test_bounds_and_points_of_random_problems(
    seed: int, n: int, d: int, log_beta: float, loss: str, solver: str
) -> None:
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n + 1, d)), 1)
    y = np.r_[1.0, -np.ones(n)] if LOSSES[loss].labels else rng.standard_normal(n + 1)
    problem = qsdp.TrainingProblem(X, y, beta=10.0**log_beta, loss=loss)
    relaxation = qsdp.solve_relaxation(problem, solver=solver, tol=1e-4, max_iter=10_000)
    assert_proven(relaxation)
    # Optima far below the value at zero are small differences.
    assert relaxation.gap <= 2e-2 * relaxation.objective + 1e-6 * problem.data_fit.value_at_zero
    if d <= 3:
        optimum = global_optimum(problem)
        assert relaxation.lower_bound <= optimum.upper * (1.0 + 1e-12)
        assert optimum.lower <= 1.783 * relaxation.objective


# -- real data -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("uci_available")
@pytest.mark.parametrize("name", ["breast-cancer", "ionosphere", "credit-approval", "vehicle"])
@pytest.mark.parametrize("beta", [0.1, 1000.0])
@pytest.mark.parametrize(("solver", "tol", "max_iter"), [("interior", 1e-7, 20), ("splitting", 1e-6, 1000)])
def test_binary_columns_of_real_data(name: str, beta: float, solver: str, tol: float, max_iter: int) -> None:
    X, _, y, _ = load_uci(name).split(0)
    X = np.hstack([(X - X.mean(axis=0)) / X.std(axis=0), np.ones((len(X), 1))])
    problem = qsdp.TrainingProblem(X, np.where(y == y[0], 1.0, -1.0), beta=beta)
    relaxation = qsdp.solve_relaxation(problem, solver=solver, tol=tol)
    assert relaxation.status == "optimal"
    assert relaxation.relative_gap <= 2e-6
    assert relaxation.solver == "none" or relaxation.iterations <= max_iter


# -- stops -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solver", "loss"),
    [
        *((solver, "logistic") for solver in SOLVERS),
        *(("splitting", loss) for loss in ("squared", "hinge", "cross_entropy")),
    ],
)
def test_every_stop_leaves_a_valid_pair(solver: str, loss: str) -> None:
    problem = problem_of(loss)
    optimum = qsdp.solve_relaxation(problem, solver="interior", tol=1e-7)
    for k in range(optimum.iterations) if solver == "interior" else (0, 1, 2, 3, 5, 10, 20, 40):
        reports: list[Any] = []

        def callback(progress: Any, k: int = k, reports: list[Any] = reports) -> bool:
            reports.append(progress)
            return progress.iteration >= k

        relaxation = qsdp.solve_relaxation(problem, solver=solver, tol=1e-15, callback=callback)
        if relaxation.solver_status == "stalled":
            # Floating point ends the method before the callback does.
            break
        assert relaxation.solver_status == "stopped by the callback"
        assert relaxation.iterations == reports[-1].iteration
        assert_proven(relaxation)
        assert relaxation.lower_bound <= optimum.objective * (1.0 + 1e-12)
        assert relaxation.objective >= optimum.lower_bound * (1.0 - 1e-12)
        assert np.all(np.diff([report.objective for report in reports]) <= 0.0)
        assert np.all(np.diff([report.lower_bound for report in reports]) >= 0.0)


@every_solver
@pytest.mark.parametrize("outputs", [1, 3])
def test_limits_of_iterations_and_time(solver: str, outputs: int) -> None:
    X, y = data(60, 8, "squared")
    problem = qsdp.TrainingProblem(X, np.stack([y, X[:, 0], -y][:outputs], axis=1), beta=2.0)
    for options, status, iterations in (
        ({"max_iter": 3}, "iteration limit", 3),
        ({"time_limit": 1e-9}, "time limit", 0),
    ):
        relaxation = qsdp.solve_relaxation(problem, solver=solver, tol=1e-12, **options)
        assert relaxation.solver_status == status
        assert relaxation.iterations <= iterations * outputs
        assert_proven(relaxation)


@every_solver
def test_an_interrupt_returns_the_best_pair(solver: str) -> None:
    def interrupt(progress: Any) -> None:
        if progress.iteration >= 4:
            raise KeyboardInterrupt

    relaxation = qsdp.solve_relaxation(problem_of("squared"), solver=solver, tol=1e-12, callback=interrupt)
    assert relaxation.solver_status == "interrupted"
    assert relaxation.relative_gap < 0.95
    assert_proven(relaxation)


def test_impossible_accuracy_ends_where_floating_point_does() -> None:
    problem = problem_of("squared", 30, 4, beta=2.0)
    relaxation = qsdp.solve_relaxation(problem, solver="low-rank", tol=1e-300, max_iter=10**6)
    assert relaxation.solver_status == "stalled"
    assert relaxation.relative_gap < 1e-6
    assert_proven(relaxation)


# -- data that degenerate --------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:overflow encountered in dot:RuntimeWarning")
@every_pair
@pytest.mark.parametrize("beta", [1e-300, 1e300])
def test_extreme_prices(solver: str, loss: str, beta: float) -> None:
    relaxation = qsdp.solve_relaxation(problem_of(loss, beta=beta), solver=solver, max_iter=30)
    assert 0.0 <= relaxation.lower_bound <= relaxation.objective * (1.0 + 1e-12)
    if beta > 1.0:
        assert relaxation.relative_gap <= 1e-6
        assert not np.any(relaxation.Z_stack)


@every_solver
@pytest.mark.parametrize("coefficients", [(0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0)])
@pytest.mark.parametrize("n", [5, 30])
def test_activations_that_ignore_parts_of_the_data(solver: str, coefficients: Any, n: int) -> None:
    X, y = data(n, 3, "squared")
    problem = qsdp.TrainingProblem(X, y + 1.0, beta=0.1, activation=coefficients)
    relaxation = qsdp.solve_relaxation(problem, solver=solver, tol=1e-5)
    assert relaxation.status == "optimal"
    assert_proven(relaxation)


def test_auto_turns_to_splitting_where_the_other_method_stalls() -> None:
    X, y = data(12, 4, "squared")
    problem = qsdp.TrainingProblem(X * [1e-6, 1.0, 1e3, 1e6], y, beta=0.1)
    # Terms of 1e12 cancel in the dual matrix: the solver ends at a gap of 1.5 percent, and the allowance of the bound
    # for the rounding of these terms, there and where the bound is checked, adds 3.6.
    with pytest.warns(qsdp.QSDPWarning, match=r"bound is valid: the columns of X differ in scale by a factor of \d+"):
        relaxation = qsdp.solve_relaxation(problem, tol=1e-4)
    assert relaxation.solver == "splitting"
    assert relaxation.relative_gap < 6.4e-2
    assert qsdp.solve_relaxation(problem, solver="interior", tol=1.0).relative_gap > relaxation.relative_gap


# -- starts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solver", "loss"), [*((solver, "squared") for solver in SOLVERS), ("interior", "hinge"), ("splitting", "absolute")]
)
def test_a_start_saves_iterations_and_a_far_one_does_no_harm(solver: str, loss: str) -> None:
    problem, tol = problem_of(loss, 30, 5), 10.0 * tolerance(solver, loss)
    cold = qsdp.solve_relaxation(problem, solver=solver, tol=tol)
    again = qsdp.solve_relaxation(problem, solver=solver, tol=2.0 * tol, start=cold)
    assert again.iterations <= max(2, cold.iterations // 2)
    for ratio in (0.8, 1e-6):
        first = qsdp.solve_relaxation(problem.with_beta(ratio * problem.beta), solver=solver, tol=0.1, max_iter=100)
        warm = qsdp.solve_relaxation(problem, solver=solver, tol=tol, start=first)
        assert warm.solver_status == "optimal"
        assert_agrees(warm, cold, tol)


@every_solver
def test_a_start_of_several_outputs_with_a_zero_column(solver: str) -> None:
    X, y = data(30, 4, "squared")
    X[:, 2] = 0.0
    problem = qsdp.TrainingProblem(X, np.stack([y, y**2], axis=1), beta=0.5)
    start = qsdp.solve_relaxation(problem, solver=solver, tol=1e-6)
    warm = qsdp.solve_relaxation(problem, solver=solver, tol=1e-4, start=start)
    assert warm.status == "optimal"
    assert warm.iterations <= 1


# -- which losses, which memory ---------------------------------------------------------------------------


@pytest.mark.parametrize("loss", sorted(KINKED))
def test_low_rank_refuses_losses_with_kinks(loss: str) -> None:
    with pytest.raises(SolverError, match=f"'low-rank' does not support loss '{loss}'"):
        qsdp.solve_relaxation(problem_of(loss), solver="low-rank")


@pytest.mark.parametrize("loss", [name for name in LOSSES if name not in KINKED])
def test_auto_through_low_rank(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, operations in (("interior", math.inf), ("splitting", math.inf), ("low-rank", 0.0)):
        one = replace(BACKENDS[name], operations=lambda instance, tol, operations=operations: operations)
        monkeypatch.setitem(BACKENDS, name, one)
    problem = problem_of(loss, 80, 6, beta=3.0)
    cold = qsdp.solve_relaxation(problem, tol=1e-4)
    assert (cold.solver, cold.status) == ("low-rank", "optimal")
    expected = qsdp.solve_relaxation(problem, solver="interior")
    assert cold.objective == pytest.approx(expected.objective, rel=2e-4)


def test_memory_of_low_rank_is_that_of_the_data_and_the_images_of_the_factors() -> None:
    X, y = data(2000, 100, "squared")
    problem = qsdp.TrainingProblem(X, y, beta=100.0)
    tracemalloc.start()
    try:
        relaxation = qsdp.solve_relaxation(problem, solver="low-rank", max_iter=5)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert relaxation.iterations == 5
    # The Gram matrix of the map takes 204 MB here, and the kernel 32 MB.
    assert peak < 20e6


# -- devices and torch ------------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("solver", ["interior", "splitting", "scs"])
def test_the_gram_matrix_of_a_device(loss: str, solver: str) -> None:
    X, y = data(90, 4, loss)
    problem = qsdp.TrainingProblem(X, y, beta=0.3, loss=loss, sample_weight=np.linspace(0.5, 2.0, 90))
    here, there = (qsdp.solve_relaxation(problem, solver=solver, device=device) for device in (None, DEVICE))
    assert there.objective == pytest.approx(here.objective, rel=2e-6)


@needs_torch
def test_several_outputs_and_statistics_on_a_device() -> None:
    X, y = data(60, 4, "squared")
    several = qsdp.TrainingProblem(X, np.stack([y] * 3, axis=1), beta=0.5)
    statistics = qsdp.SufficientStatistics().partial_fit(X, y)
    for problem in (several, qsdp.TrainingProblem.from_statistics(statistics, beta=0.5)):
        here, there = (qsdp.solve_relaxation(problem, device=device) for device in (None, DEVICE))
        assert there.relative_gap <= 1e-6
        assert there.objective == pytest.approx(here.objective, rel=2e-6)
