"""Regularisation paths: what every solve gives alone, with less work."""

from __future__ import annotations

import copy
import pickle
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import qsdp
from qsdp import QSDPWarning, RelaxationPath, TrainingProblem, beta_max, relaxation_path, solve_relaxation
from qsdp._utils import deadline
from qsdp.exceptions import InvalidInputError, InvalidTypeError, SolverError
from qsdp.lifting import QuadraticMap
from qsdp.relaxation import largest_beta
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


@pytest.fixture(scope="module")
def path() -> RelaxationPath:
    return relaxation_path(problem_of(), 8)


@pytest.fixture
def grams(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the Gram matrices that are computed, by their numbers of samples."""
    calls: list[int] = []
    original = QuadraticMap.pair_sums

    def counted(self: QuadraticMap, *arguments: Any) -> Any:
        calls.append(self.n_rows)
        return original(self, *arguments)

    monkeypatch.setattr(QuadraticMap, "pair_sums", counted)
    return calls


# -- against single solves ---------------------------------------------------------------------------------


def assert_as_alone(problem: TrainingProblem, path: RelaxationPath, solver: str = "auto") -> None:
    for beta, relaxation in zip(path.betas, path, strict=True):
        alone = solve_relaxation(problem.with_beta(beta), solver=solver)
        assert relaxation.problem.beta == beta
        assert relaxation.status == "optimal"
        slack = 1e-5 * abs(alone.objective)
        assert relaxation.objective == pytest.approx(alone.objective, rel=2e-5)
        assert relaxation.lower_bound <= alone.objective + 1e-12 * slack
        assert alone.lower_bound <= relaxation.objective + 1e-12 * slack
        expected = relaxation.problem.relaxed_objective(relaxation.Z, relaxation.rho)
        assert relaxation.objective == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss(loss: str, vector: bool) -> None:
    problem = problem_of(loss, vector=vector)
    betas = beta_max(problem) * np.array([0.9, 0.3, 0.05])
    assert_as_alone(problem, relaxation_path(problem, betas))


@pytest.mark.parametrize("solver", ["interior", "splitting", "low-rank", "scs"])
def test_every_kind_of_solver(solver: str) -> None:
    problem = problem_of()
    assert_as_alone(problem, relaxation_path(problem, [10.0, 1.0, 3.0], solver=solver, tol=1e-7), solver)


@pytest.mark.parametrize(
    "options", [{"activation": "relu_like"}, {"levels": 4}, {"activation": "relu_like", "levels": 3}]
)
def test_activations_and_levels(options: dict[str, Any]) -> None:
    problem = problem_of(**options)
    assert_as_alone(problem, relaxation_path(problem, beta_max(problem) * np.array([0.5, 0.01])))


@pytest.mark.parametrize("solver", ["interior", "splitting", "low-rank"])
def test_warm_starts_are_used(solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[bool] = []
    backend = BACKENDS[solver]

    def solve(instance: Any, settings: Any) -> Any:
        starts.append(settings.start is not None)
        return backend.solve(instance, settings)

    monkeypatch.setitem(BACKENDS, solver, replace(backend, solve=solve))
    relaxation_path(problem_of(), [4.0, 2.0, 1.0], solver=solver)
    assert starts[0] is False
    assert starts[-1] is True
    assert sum(starts) >= 2


# -- theorems about the optimal value -----------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_the_value_is_nondecreasing_and_concave_in_beta(loss: str) -> None:
    problem = problem_of(loss)
    betas = np.linspace(0.05, 1.2, 8) * beta_max(problem)
    path = relaxation_path(problem, betas)
    upper, lower = path.objective, path.lower_bound
    assert np.all(lower <= upper)
    assert np.all(lower[:-1] <= upper[1:]), "nondecreasing"
    assert np.all(upper[1:-1] >= 0.5 * (lower[:-2] + lower[2:])), "concave"


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_largest_beta_separates_zero_from_the_rest(loss: str, vector: bool) -> None:
    problem = problem_of(loss, vector=vector)
    beta = beta_max(problem)
    at_zero = problem.loss.value(np.zeros_like(problem.y), problem.y)
    below, at, above = relaxation_path(problem, beta * np.array([0.99, 1.0, 1.01]))
    assert below.objective < at_zero
    assert np.any(below.Z_stack)
    for zero in (at, above):
        assert not np.any(zero.Z_stack)
        assert zero.objective == pytest.approx(at_zero, rel=1e-14)
        assert zero.relative_gap <= 1e-6
        assert zero.status == "optimal"


def test_the_largest_beta_of_one_feature() -> None:
    # u M v = |M| for signs u, v: nothing is lost in the relaxation.
    problem = TrainingProblem([[1.0], [2.0], [-1.0]], [1.0, -0.5, 2.0], beta=1.0)
    exact = abs(2.0 * (1.0 - 2.0 + 2.0))
    assert beta_max(problem) == pytest.approx(exact, rel=1e-8)
    assert beta_max(problem) >= exact


def test_the_largest_beta_does_not_depend_on_beta_and_scales() -> None:
    problem = problem_of()
    beta = beta_max(problem)
    assert beta_max(problem.with_beta(1e200)) == beta
    assert beta_max(problem.with_beta(1e-200)) == beta
    scaled = TrainingProblem(2.0**40 * X, 2.0**-30 * REAL, beta=1.0)
    assert beta_max(scaled) == pytest.approx(beta * 2.0**50, rel=1e-8)


def test_extreme_data() -> None:
    scaled = TrainingProblem(1e80 * X, 1e80 * REAL, beta=1.0)
    assert beta_max(scaled) == pytest.approx(beta_max(problem_of()) * 1e240, rel=1e-8)
    path = relaxation_path(scaled, 3)
    assert np.all(path.relative_gap <= 1e-6)


# -- grids ----------------------------------------------------------------------------------------------------


def test_a_number_of_betas(path: RelaxationPath) -> None:
    beta = beta_max(problem_of())
    np.testing.assert_allclose(path.betas, np.geomspace(beta, 1e-3 * beta, 8), rtol=1e-12)
    assert path.betas[0] == beta
    assert not np.any(path[0].Z)
    assert np.any(path[1].Z)
    shorter = relaxation_path(problem_of(), np.int64(2), fraction=0.5)
    np.testing.assert_allclose(shorter.betas, [beta, 0.5 * beta], rtol=1e-12)


@pytest.mark.parametrize("zero", ["X", "y"])
def test_data_of_zeros(zero: str) -> None:
    problem = TrainingProblem(0.0 * X if zero == "X" else X, 0.0 * REAL if zero == "y" else REAL, beta=1.0)
    assert beta_max(problem) == 0.0
    path = relaxation_path(problem, 3)
    np.testing.assert_allclose(path.betas, [1.0, 10**-1.5, 1e-3])
    assert not any(np.any(relaxation.Z) for relaxation in path)
    assert np.all(path.relative_gap <= 1e-13)


# -- the result -------------------------------------------------------------------------------------------------


def test_the_path_as_a_sequence(path: RelaxationPath) -> None:
    assert len(path) == 8
    assert path[-1] is path.relaxations[7]
    assert list(path) == list(path.relaxations)
    assert path[2] in path
    part = path[2:4]
    assert isinstance(part, RelaxationPath)
    np.testing.assert_array_equal(part.betas, path.betas[2:4])
    assert len(path[:0]) == 0
    assert repr(path[:0]) == "RelaxationPath(0 betas)"
    with pytest.raises(IndexError):
        path[8]
    with pytest.raises(ValueError, match="read-only"):
        path.betas[0] = 1.0
    assert repr(path).startswith(f"RelaxationPath(8 betas, {path.betas[0]:g} .. {path.betas[-1]:g}; largest relative")


def test_arrays_of_the_path(path: RelaxationPath) -> None:
    for name in ("objective", "lower_bound", "relative_gap"):
        np.testing.assert_array_equal(getattr(path, name), [getattr(relaxation, name) for relaxation in path])
    predictions = path.predict(X[:5])
    assert predictions.shape == (8, 5)
    np.testing.assert_array_equal(predictions[3], path[3].predict(X[:5]))
    assert relaxation_path(problem_of(vector=True), [2.0, 1.0]).predict(X).shape == (2, 40, 2)


@pytest.mark.parametrize("through", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))], ids=["copy", "pickle"])
def test_round_trips(path: RelaxationPath, through: Any) -> None:
    other = through(path)
    np.testing.assert_array_equal(other.betas, path.betas)
    np.testing.assert_array_equal(other.predict(X), path.predict(X))
    assert not other.betas.flags.writeable


def test_every_relaxation_serves_the_pipeline(path: RelaxationPath) -> None:
    network = qsdp.sample_network(qsdp.shape_covariance(path[-1]), 20, random_state=0)
    certificate = qsdp.certify(network, path[-1].problem, path[-1])
    assert certificate.lower_bound <= certificate.objective


# -- what is shared -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["interior", "splitting", "scs"])
@pytest.mark.parametrize("vector", [False, True])
def test_one_gram_matrix_serves_all_betas(solver: str, vector: bool, grams: list[int]) -> None:
    relaxation_path(problem_of(vector=vector), [8.0, 4.0, 2.0, 0.5], solver=solver, tol=1e-5)
    assert grams == [40]
    grams.clear()
    solve_relaxation(problem_of(vector=vector), solver=solver, tol=1e-5)
    assert grams == [40]


# -- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"betas": []}, InvalidInputError, r"betas must be .*shape \(0,\)"),
        ({"betas": [[1.0]]}, InvalidInputError, r"betas must be .*shape \(1, 1\)"),
        ({"betas": 0.5}, InvalidInputError, r"betas must be .*shape \(\)"),
        ({"betas": [1.0, np.nan]}, InvalidInputError, "betas must be .*NaN"),
        ({"betas": [1.0, np.inf]}, InvalidInputError, "betas must be .*inf"),
        ({"betas": [1.0, -2.0]}, InvalidInputError, "betas must be .*got -2"),
        ({"betas": [1.0, 0.0]}, InvalidInputError, "betas must be .*got 0, for which"),
        ({"betas": [1.0, 3.0, 3.0]}, InvalidInputError, "betas must be .*distinct.*got 3 2 times"),
        ({"betas": 1}, InvalidInputError, "betas must be an integer from 2"),
        ({"betas": 10**9}, InvalidInputError, "betas must be an integer from 2"),
        ({"betas": True}, InvalidTypeError, "betas must be .*got True"),
        ({"betas": None}, InvalidTypeError, "betas must be .*got None"),
        ({"betas": "12"}, InvalidTypeError, "betas must be .*got '12'"),
        ({"betas": ["a"]}, InvalidTypeError, "betas must be"),
        ({"fraction": 1.0}, InvalidInputError, "fraction must be > 0 and < 1; got 1"),
        ({"fraction": 0.0}, InvalidInputError, "fraction must be"),
        ({"tol": 0.0}, InvalidInputError, "tol must be"),
        ({"solver": "none"}, InvalidInputError, "solver must be"),
        ({"time_limit": -1.0}, InvalidInputError, "time_limit must be"),
        ({"callback": 3}, InvalidTypeError, "callback must be"),
        ({"n_jobs": 0}, InvalidInputError, "n_jobs must be"),
        (
            {"solver": "scs", "callback": lambda progress: None, "betas": [1.0]},
            SolverError,
            "does not support callback",
        ),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        relaxation_path(problem_of(), **arguments)


def test_what_is_no_problem() -> None:
    for call in (relaxation_path, beta_max):
        with pytest.raises(InvalidTypeError, match="problem must be a TrainingProblem"):
            call(X)  # type: ignore[operator]


def test_betas_are_not_shared_with_the_caller() -> None:
    betas = np.array([2.0, 1.0])
    path = relaxation_path(problem_of(), betas)
    betas[0] = 5.0
    assert path.betas.tolist() == [2.0, 1.0]


# -- stops ------------------------------------------------------------------------------------------------------------


def counted_solves(monkeypatch: pytest.MonkeyPatch, at: int, error: BaseException) -> None:
    """Raise the error in the solve of that number."""
    backend, count = BACKENDS["interior"], [0]

    def solve(instance: Any, settings: Any) -> Any:
        count[0] += 1
        if count[0] == at:
            raise error
        return backend.solve(instance, settings)

    monkeypatch.setitem(BACKENDS, "interior", replace(backend, solve=solve))


def test_an_interrupt_keeps_what_is_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    counted_solves(monkeypatch, 3, KeyboardInterrupt())
    with pytest.warns(QSDPWarning, match=r"stopped \(interrupted\) after 2 of 4 betas, at beta=2"):
        path = relaxation_path(problem_of(), [1.0, 4.0, 2.0, 0.5], solver="interior")
    assert path.betas.tolist() == [4.0, 2.0]
    assert np.all(path.relative_gap <= 1e-6)


def test_an_interrupt_before_anything_is_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    counted_solves(monkeypatch, 1, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        relaxation_path(problem_of(), [1.0, 4.0], solver="interior")


@pytest.mark.parametrize("solver", ["interior", "splitting"])
def test_an_interrupt_in_a_solver(solver: str) -> None:
    seen: list[float] = []

    def callback(progress: Any) -> None:
        if seen and progress.iteration < seen[-1]:
            raise KeyboardInterrupt
        seen.append(progress.iteration)

    with pytest.warns(QSDPWarning, match="interrupted"):
        path = relaxation_path(problem_of(), [4.0, 2.0, 1.0], solver=solver, callback=callback, tol=1e-8)
    assert path.betas.tolist() == [4.0]


def test_the_callback_stops_the_path() -> None:
    reports: list[Any] = []

    def callback(progress: Any) -> bool:
        reports.append(progress)
        return True

    with warnings.catch_warnings():
        # The user's callback did what it was for.
        warnings.simplefilter("error")
        path = relaxation_path(problem_of(), [2.0, 1.0], callback=callback)
    assert path.betas.tolist() == [2.0], "the first is kept, whatever its gap"
    assert len(reports) == 1
    assert path[0].lower_bound <= path[0].objective
    assert path[0].solver_status == "stopped by the callback"


@pytest.mark.filterwarnings("ignore:1 of 1 betas have a certified relative gap")
def test_the_time_limit_is_for_the_whole_path() -> None:
    with pytest.warns(QSDPWarning, match=r"time limit\) after 1 of 50 betas.*; allow more time with time_limit"):
        path = relaxation_path(problem_of("logistic"), np.geomspace(5.0, 0.01, 50), time_limit=1e-9)
    assert len(path) == 1
    assert path[0].lower_bound <= path[0].objective
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(relaxation_path(problem_of(), [2.0, 1.0], time_limit=100.0)) == 2


def test_large_gaps_are_told_once() -> None:
    with pytest.warns(QSDPWarning, match=r"2 of 2 betas have a certified relative gap above tol=1e-17") as caught:
        path = relaxation_path(problem_of(), [2.0, 1.0], tol=1e-17)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert [relaxation.status for relaxation in path] == ["inaccurate"] * 2


def test_zero_is_no_reason_to_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = relaxation_path(problem_of(), [1e9, 1e6, 1.0])
    assert [relaxation.solver for relaxation in path][:2] == ["none", "none"]


def test_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    relaxation_path(problem_of(), [2.0, 1.0], verbose=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "path" in err
    assert "2 of 2" in err


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_largest_beta_is_valid_and_finite_where_time_is_over(outputs: int) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((12, 80))
    y = rng.standard_normal((12, outputs)) if outputs > 1 else X[:, 0] * X[:, 1]
    problem = TrainingProblem(X, y, beta=1.0)
    proven = beta_max(problem)
    assert largest_beta.useful_beta_max(problem) == proven
    with deadline.within(1e6):
        assert largest_beta.useful_beta_max(problem) == proven
    with deadline.within(0.0):
        assert proven <= largest_beta.useful_beta_max(problem) < 2.0 * proven
        assert largest_beta.useful_beta_max(TrainingProblem(X, np.zeros_like(y), beta=1.0)) == 0.0
