"""The interior-point method: against a conic solver, reference values and the enumerated optimum."""

import math
import warnings

import numpy as np
import pytest
from brute_force import global_optimum
from hypothesis import given, settings
from hypothesis import strategies as st

import qsdp
from benchmarks.data.uci_sets import load_uci
from qsdp._utils import deadline
from qsdp.lifting import append_constant
from qsdp.losses import LOSSES
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.scaled import Progress, RawSolution, ScaledProblem, Settings
from qsdp.relaxation.solution import Relaxation, finish
from qsdp.relaxation.solvers.interior import solve_interior

KINKED = ("absolute", "hinge")


def data(n: int, d: int, loss: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    signal = X[:, 0] * X[:, 1] + 0.3 * X[:, -1] ** 2 - 0.3 + 0.3 * rng.standard_normal(n)
    if LOSSES[loss].coupled:
        return X, np.argsort(np.argsort(signal)) * 3 // n
    return X, np.where(signal > np.median(signal), 1.0, -1.0) if LOSSES[loss].labels else signal


def raw_solution(problem: qsdp.TrainingProblem, tol: float = 1e-8, **limits) -> tuple[RawSolution, list[Progress]]:
    told: list[Progress] = []
    given_callback = limits.pop("callback", None)
    seconds = limits.pop("time_limit", math.inf)

    def callback(progress: Progress) -> object:
        told.append(progress)
        return given_callback(progress) if given_callback else None

    instance = Instance.from_problem(problem).normalised()[0]
    with deadline.within(seconds):
        return solve_interior(instance, Settings(tol, max_iter=limits.pop("max_iter", None), callback=callback)), told


def solved(problem: qsdp.TrainingProblem, tol: float = 1e-8) -> Relaxation:
    """Solve to the certified gap; the final bound allows for more rounding than that."""
    raw, told = raw_solution(problem, tol)
    assert raw.status == "optimal"
    assert told[-1].relative_gap <= tol * max(1, problem.n_outputs)
    return finish(ScaledProblem.from_problem(problem), raw, solver="interior", tol=tol)


def reference(problem: qsdp.TrainingProblem) -> Relaxation:
    with warnings.catch_warnings():
        # The reference's own gap is judged below.
        warnings.simplefilter("ignore", qsdp.QSDPWarning)
        return qsdp.solve_relaxation(problem, solver="clarabel", tol=1e-9)


def assert_agrees(problem: qsdp.TrainingProblem, tol: float = 1e-8) -> None:
    ours, theirs = solved(problem, tol), reference(problem)
    assert ours.relative_gap < 5e-6
    assert ours.objective <= theirs.objective * (1.0 + 1e-6)
    assert ours.lower_bound <= theirs.objective * (1.0 + 1e-12)
    assert theirs.lower_bound <= ours.objective * (1.0 + 1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("activation", [None, "relu_like", (0.0, 1.0, 0.3)])
@pytest.mark.parametrize("n", [8, 40])
def test_agrees_with_a_conic_solver(loss, activation, n):
    X, y = data(n, 4, loss)
    problem = qsdp.TrainingProblem(X, y, beta=0.2, loss=loss, activation=activation)
    assert_agrees(problem, 1e-7 if loss in KINKED else 1e-8)


@pytest.mark.parametrize("loss", ["absolute", "huber", "hinge", "squared_hinge", "logistic"])
def test_many_samples_go_through_the_matrix(loss):
    X, y = data(400, 4, loss)
    assert_agrees(qsdp.TrainingProblem(X, y, beta=1.0, loss=loss, activation="relu_like"), 1e-7)


@pytest.mark.parametrize("n", [8, 40])
@pytest.mark.parametrize("beta", [0.01, 1.0, 30.0])
def test_vector_outputs_of_the_squared_loss(n, beta):
    X, y = data(n, 4, "squared")
    problem = qsdp.TrainingProblem(X, np.stack([y, y**2, -2.0 * X[:, 2]], axis=1), beta=beta)
    assert_agrees(problem)


def test_vector_outputs_of_a_piecewise_loss():
    X, y = data(20, 3, "absolute")
    assert_agrees(qsdp.TrainingProblem(X, np.stack([y, y**2], axis=1), beta=0.3, loss="absolute"), 1e-7)


def test_more_levels():
    X, y = data(20, 3, "squared")
    assert_agrees(qsdp.TrainingProblem(X, y, beta=0.3, levels=4, activation="relu_like"))


# -- reference values ------------------------------------------------------------------------------------


def standardised(name: str) -> tuple[np.ndarray, np.ndarray]:
    X, _, y, _ = load_uci(name).split(0)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@pytest.mark.usefixtures("uci_available")
@pytest.mark.parametrize(
    ("name", "constant", "optimum"), [("ionosphere", False, 56.2728), ("breast-cancer", True, 136.975)]
)
def test_reference_values_of_the_relaxation(name, constant, optimum):
    X, y = standardised(name)
    relaxation = solved(qsdp.TrainingProblem(append_constant(X) if constant else X, y, beta=10.0))
    assert relaxation.objective == pytest.approx(optimum, abs=5e-4)
    assert relaxation.relative_gap < 5e-6


@pytest.mark.usefixtures("uci_available")
@pytest.mark.parametrize("name", ["breast-cancer", "ionosphere", "credit-approval", "vehicle"])
@pytest.mark.parametrize("beta", [0.01, 1.0, 100.0, 1000.0])
def test_data_with_binary_columns_to_high_accuracy(name, beta):
    X, y = standardised(name)
    y = np.where(y == y[0], 1.0, -1.0)
    raw, told = raw_solution(qsdp.TrainingProblem(append_constant(X), y, beta=beta))
    assert raw.status == "optimal"
    assert told[-1].relative_gap <= 1e-8
    assert raw.iterations <= 20


# -- the true optimum over all neurons -----------------------------------------------------------------------


@pytest.mark.parametrize("loss", [name for name in LOSSES if not LOSSES[name].coupled])
@pytest.mark.parametrize("activation", [None, "relu_like"])
def test_bound_is_below_the_enumerated_optimum(loss, activation):
    X, y = data(12, 3 if activation is None else 2, loss, seed=3)
    problem = qsdp.TrainingProblem(X, y, beta=0.5, loss=loss, activation=activation)
    relaxation = solved(problem, 1e-7)
    optimum = global_optimum(problem)
    assert relaxation.lower_bound <= optimum.upper * (1.0 + 1e-12)
    # Within Grothendieck's constant the optimum for a larger beta is above it.
    assert optimum.lower <= 1.783 * relaxation.objective


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 12),
    d=st.integers(1, 4),
    log_beta=st.floats(-3.0, 2.0),
    loss=st.sampled_from(["squared", "absolute", "huber"]),
    size=st.sampled_from([1e-2, 1.0, 1e2]),
)
def test_bounds_and_points_of_random_problems(seed, n, d, log_beta, loss, size):
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n, d)), 1) * size
    problem = qsdp.TrainingProblem(X, rng.standard_normal(n), beta=10.0**log_beta, loss=loss)
    raw, told = raw_solution(problem, 1e-6)
    relaxation = finish(ScaledProblem.from_problem(problem), raw, solver="interior", tol=1e-6)
    # Optima far below the value at zero are small differences.
    assert told[-1].gap <= 1e-4 * told[-1].objective + 1e-9 * told[0].objective
    assert relaxation.lower_bound <= relaxation.objective * (1.0 + 1e-12)
    if d <= 3:
        assert relaxation.lower_bound <= global_optimum(problem).upper * (1.0 + 1e-12)
