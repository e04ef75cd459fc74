"""The interior-point method at every stop, and on data that degenerate."""

import math
from dataclasses import replace

import numpy as np
import pytest
from test_interior import data, raw_solution

import qsdp
from qsdp._utils import deadline
from qsdp.losses import LOSSES
from qsdp.relaxation.incumbent import Incumbent
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.scaled import RawSolution, ScaledProblem, Settings
from qsdp.relaxation.solution import finish
from qsdp.relaxation.solvers.interior import solve_interior

STATUSES = {"optimal", "iteration limit", "time limit", "stopped by the callback", "stalled", "interrupted"}


def problem_of(loss: str, n: int = 15, d: int = 3, **options) -> qsdp.TrainingProblem:
    X, y = data(n, d, loss)
    return qsdp.TrainingProblem(X, y, **{"beta": 0.3, "loss": loss, **options})


def assert_certified(problem, raw) -> qsdp.Relaxation:
    assert raw.status in STATUSES
    relaxation = finish(ScaledProblem.from_problem(problem), raw, solver="interior", tol=1e-6, stretch=False)
    instance = Instance.from_problem(problem).normalised()[0]
    for Z, V in zip(np.atleast_3d(raw.Z), np.atleast_3d(raw.V), strict=True):
        size = max(1e-300, np.abs(V).max())
        assert np.linalg.eigvalsh(V + Z)[0] >= -1e-12 * size
        assert np.linalg.eigvalsh(V - Z)[0] >= -1e-12 * size
    zero = instance.loss.value(np.zeros_like(instance.target), instance.target)
    rhos = np.diagonal(raw.V, axis1=1, axis2=2).max(axis=1)
    objective = instance.fit.value(instance.predictions(raw.Z)) + instance.penalty * float(rhos.sum())
    assert objective <= zero * (1.0 + 1e-9)
    assert relaxation.lower_bound <= relaxation.objective * (1.0 + 1e-12)
    return relaxation


# -- stops ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_every_stop_leaves_a_valid_pair(loss):
    problem = problem_of(loss)
    optimum = finish(ScaledProblem.from_problem(problem), raw_solution(problem, 1e-7)[0], solver="interior", tol=1e-7)
    for k in range(optimum.iterations):
        raw, told = raw_solution(problem, 1e-7, callback=lambda progress, k=k: progress.iteration == k)
        assert raw.status == "stopped by the callback"
        assert raw.iterations == k == told[-1].iteration
        relaxation = assert_certified(problem, raw)
        assert relaxation.lower_bound <= optimum.objective * (1.0 + 1e-12)
        assert relaxation.objective >= optimum.lower_bound * (1.0 - 1e-12)


def test_progress_only_gets_better():
    for loss in LOSSES:
        _, told = raw_solution(problem_of(loss), 1e-7)
        assert [p.iteration for p in told] == list(range(len(told)))
        assert np.all(np.diff([p.objective for p in told]) <= 0.0)
        assert np.all(np.diff([p.lower_bound for p in told]) >= 0.0)


def test_iteration_and_time_limits():
    problem = problem_of("squared")
    raw, _ = raw_solution(problem, 1e-9, max_iter=3)
    assert (raw.status, raw.iterations) == ("iteration limit", 3)
    assert_certified(problem, raw)
    raw, _ = raw_solution(problem, 1e-9, time_limit=1e-9)
    assert (raw.status, raw.iterations) == ("time limit", 0)
    assert_certified(problem, raw)


def test_iterates_are_certified_where_someone_may_see_them(monkeypatch):
    problem, offered = problem_of("squared"), []
    offer = Incumbent.offer_dual
    monkeypatch.setattr(Incumbent, "offer_dual", lambda *args: offered.append(1) or offer(*args))
    counts = []
    for seconds, callback in ((math.inf, None), (1e6, None), (math.inf, lambda progress: None)):
        with deadline.within(seconds):
            raw = solve_interior(Instance.from_problem(problem).normalised()[0], Settings(1e-6, callback=callback))
        assert_certified(problem, raw)
        counts.append((raw.iterations, len(offered)))
        offered.clear()
    iterations, few = counts[0]
    assert counts[1] == counts[0]
    assert counts[2] == (iterations, iterations + 1)
    assert few < iterations


def test_interrupt_returns_the_best_pair():
    def interrupt(progress):
        if progress.iteration == 4:
            raise KeyboardInterrupt

    problem = problem_of("squared")
    raw, _ = raw_solution(problem, 1e-9, callback=interrupt)
    assert raw.status == "interrupted"
    assert assert_certified(problem, raw).relative_gap < 0.9


def test_limits_are_those_of_all_outputs():
    X, y = data(12, 3, "squared")
    problem = qsdp.TrainingProblem(X, np.stack([y, 2.0 * y, y**2], axis=1), beta=0.3)
    whole, told = raw_solution(problem, 1e-8)
    assert whole.status == "optimal"
    assert [p.iteration for p in told] == sorted(p.iteration for p in told)
    assert told[-1].objective == pytest.approx(
        finish(ScaledProblem.from_problem(problem), whole, solver="", tol=1.0).objective
        / Instance.from_problem(problem).normalised()[1].value,
        rel=1e-9,
    )
    raw, _ = raw_solution(problem, 1e-8, callback=lambda progress: progress.iteration == whole.iterations // 2)
    assert raw.status == "stopped by the callback"
    assert_certified(problem, raw)


# -- degenerate data ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("beta", [1e-300, 1e-12, 1e6, 1e300])
def test_extreme_prices(loss, beta):
    problem = problem_of(loss, beta=beta)
    raw, _ = raw_solution(problem, 1e-6)
    assert_certified(problem, raw)
    if beta >= 1e6:
        assert raw.status == "optimal"
        assert not np.any(raw.Z)


@pytest.mark.parametrize("loss", ["squared", "huber", "absolute"])
def test_zero_targets(loss):
    X, y = data(9, 3, loss)
    problem = qsdp.TrainingProblem(X, 0.0 * y, beta=0.1, loss=loss)
    raw, told = raw_solution(problem)
    assert raw.status == "optimal"
    assert told[-1].objective == 0.0


@pytest.mark.parametrize("coefficients", [(0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0)])
@pytest.mark.parametrize("n", [5, 30])
def test_activations_that_ignore_parts_of_the_data(coefficients, n):
    X, y = data(n, 3, "squared")
    problem = qsdp.TrainingProblem(X, y + 1.0, beta=0.1, activation=coefficients)
    raw, told = raw_solution(problem, 1e-7)
    assert_certified(problem, raw)
    assert told[-1].relative_gap <= 1e-7
    assert raw.Z.shape == (1, problem.size, problem.size)


# -- warm starts -------------------------------------------------------------------------------------------


def in_units_of(problem: qsdp.TrainingProblem, other: qsdp.TrainingProblem, raw: RawSolution) -> RawSolution:
    """Return a solution of the other problem's normalised instance in the units of this one's."""
    ours, theirs = (Instance.from_problem(p).normalised()[1] for p in (problem, other))
    weight = theirs.weight / ours.weight
    dual = (theirs.value / theirs.prediction) / (ours.value / ours.prediction)
    return replace(raw, Z=weight * raw.Z, V=weight * raw.V, W=weight * raw.V, nu=dual * raw.nu)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("n", "d"), [(30, 6), (60, 4)])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.2])
def test_warm_start_from_a_neighbouring_price(loss, n, d, ratio):
    problem, other = (problem_of(loss, n, d, beta=beta) for beta in (0.5, 0.5 * ratio))
    instance = Instance.from_problem(problem).normalised()[0]
    given = in_units_of(problem, other, raw_solution(other, 1e-6)[0])
    cold = solve_interior(instance, Settings(1e-6))
    warm = solve_interior(instance, Settings(1e-6, start=given))
    assert warm.status == "optimal"
    assert warm.iterations <= cold.iterations + 10
    assert_certified(problem, warm)
    if ratio == 1.0:
        assert warm.iterations <= 1


def test_warm_start_of_several_outputs_with_a_zero_column():
    X, y = data(30, 4, "squared")
    X[:, 2] = 0.0
    problem = qsdp.TrainingProblem(X, np.stack([y, y**2], axis=1), beta=0.5)
    instance = Instance.from_problem(problem).normalised()[0]
    given = solve_interior(instance, Settings(1e-8))
    warm = solve_interior(instance, Settings(1e-6, start=given))
    assert warm.status == "optimal"
    assert warm.iterations == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"Z": None},
        {"nu": None},
        {"z": None},
        {"nu": np.full(15, np.nan)},
        {"nu": np.ones(3)},
        {"V": np.zeros((1, 3, 3))},
        {"Z": np.zeros((1, 2, 2))},
        {"z": -np.ones((1, 3))},
        {"nu": 1e9 * np.ones(15)},
    ],
)
def test_useless_starts_do_no_harm(changes):
    problem = problem_of("squared")
    instance = Instance.from_problem(problem).normalised()[0]
    given = replace(solve_interior(instance, Settings(1e-2)), **changes)
    raw = solve_interior(instance, Settings(1e-6, start=given))
    assert raw.status == "optimal"
    assert_certified(problem, raw)
