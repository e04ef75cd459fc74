"""The method in factors of low rank: against a conic solver, at every kind of stop, and on degenerate data."""

import math
import warnings

import numpy as np
import pytest
from brute_force import global_optimum

import qsdp
from qsdp._utils import deadline
from qsdp.losses import LOSSES
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.scaled import Progress, RawSolution, ScaledProblem, Settings
from qsdp.relaxation.solution import Relaxation, finish
from qsdp.relaxation.solvers.lowrank import solve_low_rank
from qsdp.relaxation.solvers.lowrank.factor_objective import ObjectiveData

SMOOTH = ("squared", "huber", "logistic", "squared_hinge")


def data(n: int, d: int, loss: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    signal = X[:, 0] * X[:, 1] + 0.3 * X[:, -1] ** 2 - 0.3 + 0.3 * rng.standard_normal(n)
    if LOSSES[loss].coupled:
        return X, np.argsort(np.argsort(signal)) * 3 // n
    return X, np.where(signal > np.median(signal), 1.0, -1.0) if LOSSES[loss].labels else signal


def raw_solution(problem: qsdp.TrainingProblem, tol: float = 1e-6, start=None, **limits) -> tuple[RawSolution, list]:
    told: list[Progress] = []
    stop = limits.pop("callback", None)
    seconds = limits.pop("time_limit", math.inf)

    def callback(progress: Progress) -> object:
        told.append(progress)
        return stop(progress) if stop else None

    instance = Instance.from_problem(problem).normalised()[0]
    with deadline.within(seconds):
        return solve_low_rank(instance, Settings(tol, callback=callback, start=start, **limits)), told


def solved(problem: qsdp.TrainingProblem, tol: float = 1e-6) -> Relaxation:
    raw, _ = raw_solution(problem, tol)
    assert raw.status == "optimal"
    return finish(ScaledProblem.from_problem(problem), raw, solver="low rank", tol=tol, certified=True)


def reference(problem: qsdp.TrainingProblem) -> Relaxation:
    with warnings.catch_warnings():
        # The reference's own gap is judged below.
        warnings.simplefilter("ignore", qsdp.QSDPWarning)
        return qsdp.solve_relaxation(problem, solver="clarabel", tol=1e-9)


def assert_agrees(problem: qsdp.TrainingProblem, tol: float = 1e-6) -> None:
    ours, theirs = solved(problem, tol), reference(problem)
    assert ours.relative_gap <= 3.0 * tol
    assert ours.objective <= theirs.objective * (1.0 + 3.0 * tol)
    assert ours.lower_bound <= theirs.objective * (1.0 + 1e-12)
    assert theirs.lower_bound <= ours.objective * (1.0 + 1e-12)


def assert_certified(problem: qsdp.TrainingProblem, raw: RawSolution) -> Relaxation:
    """Whatever stopped it: a feasible point, and a bound that is one."""
    assert raw.V is not None
    assert raw.Z is not None
    for V, Z in zip(raw.V, raw.Z, strict=True):
        for block in (V + Z, V - Z):
            assert np.linalg.eigvalsh(block)[0] >= -1e-12 * max(1e-300, np.abs(V).max())
    relaxation = finish(ScaledProblem.from_problem(problem), raw, solver="low rank", tol=1e-6)
    theirs = reference(problem)
    assert relaxation.lower_bound <= theirs.objective * (1.0 + 1e-9)
    assert relaxation.objective >= theirs.lower_bound * (1.0 - 1e-9)
    return relaxation


@pytest.mark.parametrize("loss", [*SMOOTH, "cross_entropy"])
@pytest.mark.parametrize("activation", [None, "relu_like", (0.0, 1.0, 0.3)])
def test_agrees_with_a_conic_solver(loss, activation):
    X, y = data(40, 4, loss)
    assert_agrees(qsdp.TrainingProblem(X, y, beta=0.5, loss=loss, activation=activation))


@pytest.mark.parametrize("loss", SMOOTH)
def test_more_columns(loss):
    X, y = data(80, 9, loss)
    assert_agrees(qsdp.TrainingProblem(X, y, beta=2.0 if loss == "logistic" else 6.0, loss=loss))


def test_to_high_accuracy():
    X, y = data(150, 12, "squared")
    assert_agrees(qsdp.TrainingProblem(X, y, beta=20.0), 1e-8)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_outputs_are_solved_one_after_the_other(loss):
    X, y = data(40, 5, loss)
    Y = np.stack([y, -2.0 * y + X[:, 0], np.zeros_like(y)], axis=1)
    problem = qsdp.TrainingProblem(X, Y, beta=1.0, loss=loss)
    raw, told = raw_solution(problem)
    assert raw.status == "optimal"
    assert raw.Z is not None
    assert raw.Z.shape == (3, 5, 5)
    assert raw.nu is not None
    assert raw.nu.shape == Y.shape
    objective, theirs = (
        finish(ScaledProblem.from_problem(problem), raw, solver="low rank", tol=1e-6).objective,
        reference(problem).objective,
    )
    assert objective == pytest.approx(theirs, rel=1e-5)
    bounds = [progress.lower_bound for progress in told]
    assert bounds == sorted(bounds)


@pytest.fixture
def counted(monkeypatch):
    """Return a list that the data of solves are added to; they count operations."""
    taken = []

    class Counted(ObjectiveData):
        def __init__(self, *rest) -> None:
            super().__init__(*rest)
            taken.append(self)

    monkeypatch.setattr("qsdp.relaxation.solvers.lowrank.low_rank.ObjectiveData", Counted)
    return taken


def test_outputs_after_one_that_takes_too_many_operations_are_not_solved(counted):
    X, y = data(200, 20, "squared")
    problem = qsdp.TrainingProblem(X, np.stack([y, X[:, 0], -y], axis=1), beta=1e-3)
    raw = solve_low_rank(ScaledProblem.from_problem(problem).instance, Settings(tol=1e-6, effort=1e7))
    assert raw.status != "optimal"
    # The first output may use two thirds, and the others end at their first check.
    assert 0.6e7 < counted[0].operations < 0.8e7


@pytest.mark.parametrize(("elapsed", "share"), [(19.0, 1.0), (21.0, 0.5)])
def test_half_of_the_operations_end_an_attempt_after_a_quarter_of_the_time(monkeypatch, counted, elapsed, share):
    X, y = data(200, 20, "squared")
    instance = ScaledProblem.from_problem(qsdp.TrainingProblem(X, y, beta=1e-3)).instance
    with deadline.after(100.0):
        # All clocks stand still, so that 100 seconds minus these are left.
        monkeypatch.setattr(deadline.Deadline, "elapsed", property(lambda _: elapsed))
        raw = solve_low_rank(instance, Settings(tol=1e-9, effort=1e7))
    assert raw.status != "optimal"
    assert share * 1e7 <= counted[0].operations < share * 1.3e7


@pytest.mark.parametrize("activation", [None, "relu_like"])
def test_products_in_single_precision(monkeypatch, activation):
    monkeypatch.setattr("qsdp.relaxation.solvers.lowrank.factor_objective.WORK_FLOATS", 0)
    X, y = data(60, 5, "squared")
    problem = qsdp.TrainingProblem(X, y, beta=2.0, activation=activation)
    raw = solve_low_rank(Instance.from_problem(problem).normalised()[0], Settings(1e-5))
    assert raw.status == "optimal"
    assert_certified(problem, raw)


def test_a_coupled_output_that_hardly_counts():
    # Its best multiple is zero at first, and it has to come back.
    X, y = data(100, 4, "cross_entropy", seed=3)
    y = np.where(np.arange(100) < 3, 3, y)
    assert_agrees(qsdp.TrainingProblem(X, y, beta=3.0, loss="cross_entropy"), 1e-5)


def test_bound_is_below_the_enumerated_optimum():
    X, y = data(12, 4, "squared")
    for beta in (0.1, 1.0, 5.0):
        problem = qsdp.TrainingProblem(X, y, beta=beta)
        assert solved(problem).lower_bound <= global_optimum(problem).upper * (1.0 + 1e-9)


class TestStops:
    def problem(self, loss="squared") -> qsdp.TrainingProblem:
        X, y = data(60, 8, loss)
        return qsdp.TrainingProblem(X, y, beta=2.0, loss=loss)

    @pytest.mark.parametrize("loss", [*SMOOTH, "cross_entropy"])
    @pytest.mark.parametrize("steps", [0, 1, 3, 7])
    def test_iteration_limit(self, steps, loss):
        raw, _ = raw_solution(self.problem(loss), 1e-12, max_iter=steps)
        assert raw.status == "iteration limit"
        assert raw.iterations == steps
        assert_certified(self.problem(loss), raw)

    def test_time_limit(self):
        raw, _ = raw_solution(self.problem(), 1e-15, max_iter=10**6, time_limit=0.0)
        assert raw.status == "time limit"
        assert_certified(self.problem(), raw)

    def test_callback(self):
        raw, told = raw_solution(self.problem(), callback=lambda progress: progress.iteration >= 4)
        assert raw.status == "stopped by the callback"
        assert told[-1].iteration == 4
        assert_certified(self.problem(), raw)

    def test_interrupt(self):
        def interrupt(progress: Progress) -> None:
            if progress.iteration == 4:
                raise KeyboardInterrupt

        raw, _ = raw_solution(self.problem(), callback=interrupt)
        assert raw.status == "interrupted"
        assert_certified(self.problem(), raw)

    def test_impossible_accuracy(self):
        problem = qsdp.TrainingProblem(*data(30, 4, "squared"), beta=2.0)
        raw, _ = raw_solution(problem, 0.0, max_iter=10**6)
        assert raw.status == "stalled"
        assert assert_certified(problem, raw).relative_gap < 1e-6

    def test_report_improves(self):
        # To 1e-6, rounding decides whether it takes 60 iterations, 170, or stalls a little above.
        _, told = raw_solution(self.problem(), 1e-5)
        objectives = [progress.objective for progress in told]
        assert objectives == sorted(objectives, reverse=True)
        assert told[-1].relative_gap <= 1e-5

    def test_start(self):
        problem = self.problem()
        raw, cold = raw_solution(problem, 1e-4)
        again, warm = raw_solution(problem, 1e-3, start=raw)
        assert again.status == "optimal"
        assert warm[-1].iteration <= 2 < cold[-1].iteration

    def test_is_deterministic(self):
        first, second = (raw_solution(self.problem(), max_iter=6)[0] for _ in range(2))
        np.testing.assert_array_equal(first.Z, second.Z)


class TestDegenerateData:
    X, y = data(40, 5, "squared")

    @pytest.mark.parametrize(
        "X",
        [
            np.hstack([X, np.zeros((40, 2))]),
            np.vstack([X[:20], X[:20]]),
            np.hstack([X, X[:, :3]]),
            np.outer(X[:, 0], np.arange(1.0, 6.0)),
            np.repeat(X[:1], 40, axis=0),
            X * np.array([1.0, 1e-3, 3.0, 1.0, 1e-5]),
            X * (np.arange(40) == 3)[:, None],
        ],
        ids=["zero columns", "duplicate rows", "duplicate columns", "rank one", "one row", "scales", "a single sample"],
    )
    @pytest.mark.parametrize("loss", ["squared", "logistic"])
    def test_data(self, X, loss):
        y = np.where(self.y > 0.0, 1.0, -1.0) if loss == "logistic" else self.y
        assert_agrees(qsdp.TrainingProblem(X, y, beta=1.0, loss=loss), 1e-5)

    @pytest.mark.parametrize("activation", [None, "relu_like"])
    def test_zero_data(self, activation):
        problem = qsdp.TrainingProblem(np.zeros((6, 3)), np.arange(6.0), beta=0.5, activation=activation)
        raw, _ = raw_solution(problem)
        assert_certified(problem, raw)
        assert raw.status == "optimal"

    def test_zero_targets(self):
        raw, told = raw_solution(qsdp.TrainingProblem(self.X, np.zeros(40), beta=1.0))
        assert raw.status == "optimal"
        assert told[-1].objective == 0.0

    @pytest.mark.parametrize("beta", [1e3, 1e9])
    def test_huge_beta(self, beta):
        relaxation = solved(qsdp.TrainingProblem(self.X, self.y, beta=beta))
        assert relaxation.objective == pytest.approx(self.y @ self.y)

    def test_one_column_and_one_sample(self):
        assert_agrees(qsdp.TrainingProblem(self.X[:, :1], self.y, beta=0.5))
        assert_agrees(qsdp.TrainingProblem(self.X[:1], self.y[:1], beta=0.01))

    @pytest.mark.parametrize("size", [1e-40, 1e-5, 1e5, 1e40])
    def test_units_of_the_data(self, size):
        problem = qsdp.TrainingProblem(size**0.5 * self.X, size * self.y, beta=0.5 * size**2)
        assert solved(problem, 1e-5).relative_gap < 1e-4

    def test_with_hardly_a_price(self):
        raw, _ = raw_solution(qsdp.TrainingProblem(self.X, self.y, beta=1e-300), max_iter=30)
        assert raw.status in {"iteration limit", "stalled"}
        assert raw.Z is not None
        assert np.all(np.isfinite(raw.Z))
