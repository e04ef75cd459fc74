"""(23), the relaxation of polynomial networks: against enumeration, and against solvers that misbehave."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from brute_force import (
    ACTIVATIONS,
    global_optimum,
    level_vectors,
    polynomial_features,
    random_problem,
    random_vector_problem,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import qsdp
from qsdp.exceptions import InvalidInputError
from qsdp.losses import SCALAR_LOSSES

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")

ACCURATE = {"solver": "CLARABEL", "tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
KINDS = [None, *ACTIVATIONS]


def price(problem: qsdp.TrainingProblem) -> float:
    """beta d M, without the constant coordinate of a lift."""
    return problem.beta * problem.n_features * (problem.levels - 1)


def optimum_of(problem: qsdp.TrainingProblem) -> Any:
    return global_optimum(problem, polynomial_features(problem), price(problem))


@st.composite
def problems(draw: st.DrawFn) -> qsdp.TrainingProblem:
    return random_problem(
        draw(st.integers(0, 2**32 - 1)),
        draw(st.integers(1, 4)),
        draw(st.integers(2, 12)),
        loss=draw(st.sampled_from(sorted(SCALAR_LOSSES))),
        beta=draw(st.sampled_from([1e-3, 1e-2, 0.1, 1.0])),
        coarse=draw(st.booleans()),
        activation=draw(st.sampled_from(KINDS)),
        levels=draw(st.integers(2, 4)),
    )


def assert_feasible(relaxation: qsdp.PolynomialRelaxation) -> None:
    problem = relaxation.problem
    d = problem.n_features
    for Z, rho in ((relaxation.Z1, relaxation.rho1), (relaxation.Z2, relaxation.rho2)):
        assert Z.shape == (problem.size, problem.size)
        np.testing.assert_array_equal(Z, Z.T)
        assert np.linalg.eigvalsh(Z)[0] >= -1e-12 * max(rho, 1e-300)
        exact = np.ones(problem.size, dtype=bool) if problem.levels == 2 else np.arange(problem.size) >= d
        np.testing.assert_array_equal(Z.diagonal()[exact], rho)
        assert np.all(Z.diagonal() <= rho)
    S = relaxation.Z1 - relaxation.Z2
    a, b, c = problem.activation.coefficients if problem.activation else (1.0, 0.0, 0.0)
    X = (problem.levels - 1) * problem.X
    prediction = a * np.einsum("ij,jk,ik->i", X, S[:d, :d], X)
    if problem.lifted:
        prediction += b * (X @ S[:d, d]) + c * S[d, d]
    direct = problem.loss.value(prediction, problem.y) + price(problem) * (relaxation.rho1 + relaxation.rho2)
    assert relaxation.objective == pytest.approx(direct, rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(relaxation.predict(problem.X), prediction, rtol=1e-9, atol=1e-11)


@settings(max_examples=30, deadline=None)
@given(problem=problems(), solver=st.sampled_from(["scs", "clarabel"]))
def test_the_bound_holds_for_every_network(problem: qsdp.TrainingProblem, solver: str) -> None:
    relaxation = qsdp.solve_polynomial_relaxation(problem, solver=solver)
    assert 0.0 <= relaxation.lower_bound <= optimum_of(problem).upper
    assert relaxation.lower_bound <= relaxation.objective
    assert_feasible(relaxation)
    # The dual vector proves it: no neuron is worth more than its price, and -l*(-nu) is the bound.
    nu = relaxation.nu
    assert np.abs(polynomial_features(problem).T @ nu).max() <= price(problem) * (1 + 1e-12)
    assert relaxation.lower_bound <= max(0.0, -problem.loss.conjugate(-nu, problem.y))


@pytest.mark.parametrize("loss", sorted(SCALAR_LOSSES))
@pytest.mark.parametrize(
    ("levels", "activation"),
    [
        (2, None),
        (2, "relu_like"),
        (2, (-0.5, 1.0, 0.25)),
        (3, "quadratic"),
        (3, "linear_quadratic"),
        (4, (0.0, 1.0, 0.0)),
    ],
    ids=str,
)
def test_the_bound_is_near_the_value_of_the_program(levels: int, activation: Any, loss: str) -> None:
    problem = random_problem(13, 3, 12, loss=loss, beta=0.02, activation=activation, levels=levels)
    value = qsdp.build_polynomial(problem).problem.solve(**ACCURATE)
    relaxation = qsdp.solve_polynomial_relaxation(problem, solver="clarabel", tol=1e-9)
    assert relaxation.solver == "clarabel"
    assert value <= optimum_of(problem).upper * (1 + 1e-6) + 1e-8
    assert relaxation.objective == pytest.approx(value, rel=1e-4, abs=1e-6)
    assert relaxation.lower_bound == pytest.approx(value, rel=1e-4, abs=1e-6)
    assert relaxation.gap == relaxation.objective - relaxation.lower_bound
    assert relaxation.relative_gap == pytest.approx(relaxation.gap / relaxation.objective)
    assert "rho1=" in repr(relaxation)


@pytest.mark.parametrize("loss", sorted(SCALAR_LOSSES))
@pytest.mark.parametrize(("levels", "activation"), [(2, None), (4, None), (2, "relu_like"), (3, (-0.5, 1.0, 0.25))])
def test_the_program_equals_the_paper_written_out_entry_by_entry(levels: int, activation: Any, loss: str) -> None:
    problem = random_problem(7, 2, 7, loss=loss, beta=0.05, activation=activation, levels=levels)
    d, N, M = 2, problem.size, levels - 1
    a, b, c = problem.activation.coefficients if problem.activation else (1.0, 0.0, 0.0)
    Z = [cp.Variable((N, N), symmetric=True) for _ in range(2)]
    rho = [cp.Variable() for _ in range(2)]
    predictions = []
    for x in M * problem.X:
        S = Z[0] - Z[1]
        value = a * sum(x[j] * x[k] * S[j, k] for j in range(d) for k in range(d))
        if problem.lifted:
            value = value + b * sum(x[j] * S[j, d] for j in range(d)) + c * S[d, d]
        predictions.append(value)
    objective = problem.loss.expression(cp.hstack(predictions), problem.y) + problem.beta * d * M * (rho[0] + rho[1])
    constraints = [block >> 0 for block in Z]
    for block, number in zip(Z, rho, strict=True):
        for j in range(N):
            binary = levels == 2 or j >= d
            constraints.append(block[j, j] == number if binary else block[j, j] <= number)
    expected = cp.Problem(cp.Minimize(objective), constraints).solve(**ACCURATE)
    built = qsdp.build_polynomial(problem)
    assert set(built.variables) == {"Z1", "Z2", "rho1", "rho2", "yhat"}
    assert built.problem.solve(**ACCURATE) == pytest.approx(expected, rel=1e-6, abs=1e-8)


def test_networks_are_points_of_the_program() -> None:
    # alpha of each sign and q in Q_M: Z = |alpha| (q/M, 1)(q/M, 1)', so the value is at most the objective.
    problem = random_problem(5, 2, 9, beta=0.01, activation="relu_like", levels=4)
    best = optimum_of(problem)
    q = level_vectors(2, 4)
    rho = [np.maximum(sign * best.alpha, 0.0).sum() for sign in (1, -1)]
    points = np.hstack([q / 3, np.ones((len(q), 1))])
    S = (points.T * best.alpha) @ points
    value = problem.loss.value(problem.forward(S), problem.y) + price(problem) * sum(rho)
    assert value == pytest.approx(best.upper, rel=1e-9)
    assert qsdp.solve_polynomial_relaxation(problem).lower_bound <= value


def test_one_sample_is_bounded_as_well_as_many() -> None:
    # CVXPY hands the multiplier of one row over as a number.
    for loss in ("absolute", "squared", "huber"):
        problem = qsdp.TrainingProblem([[1.0, -2.0]], [5.0], beta=0.05, loss=loss, activation="relu_like")
        relaxation = qsdp.solve_polynomial_relaxation(problem, solver="clarabel", tol=1e-9)
        assert relaxation.lower_bound <= optimum_of(problem).upper
        assert relaxation.relative_gap < 1e-3


@pytest.mark.parametrize("loss", ["squared", "hinge"])
@pytest.mark.parametrize("beta", [0.0, 1e-9, 1e9])
def test_extreme_betas(beta: float, loss: str, capfd: pytest.CaptureFixture[str]) -> None:
    problem = random_problem(3, 2, 9, loss=loss, beta=beta, activation="relu_like", levels=3)
    relaxation = qsdp.solve_polynomial_relaxation(problem)
    assert relaxation.lower_bound <= relaxation.objective
    assert_feasible(relaxation)
    if beta == 1e9:
        assert relaxation.lower_bound == pytest.approx(problem.loss.value(np.zeros(9), problem.y), rel=1e-6)
    assert capfd.readouterr() == ("", "")


def test_nothing_is_printed_at_the_largest_beta(capfd: pytest.CaptureFixture[str]) -> None:
    problem = random_problem(3, 2, 9, beta=1e300, activation="relu_like")
    relaxation = qsdp.solve_polynomial_relaxation(problem)
    assert relaxation.lower_bound == pytest.approx(np.sum(problem.y**2), rel=1e-6)
    assert capfd.readouterr() == ("", "")


# -- solvers that misbehave ------------------------------------------------------------------------------

SPOIL: dict[str, Any] = {
    "random": lambda array, rng: rng.standard_normal(np.shape(array)),
    "large": lambda array, rng: 1e6 * rng.standard_normal(np.shape(array)),
    "zero": lambda array, rng: np.zeros(np.shape(array)),
    "negative": lambda array, rng: -np.abs(array),
    "infinite": lambda array, rng: np.full(np.shape(array), np.inf),
    "not a number": lambda array, rng: np.full(np.shape(array), np.nan),
    "absent": lambda array, rng: None,
    "huge": lambda array, rng: np.full(np.shape(array), 1e20),
    "minus huge": lambda array, rng: np.full(np.shape(array), -1e20),
}


def spoiled(monkeypatch: pytest.MonkeyPatch, kind: str, values: bool, multipliers: bool) -> None:
    """Let CVXPY's solve leave garbage in variables, multipliers or both."""
    original = cp.Problem.solve
    rng = np.random.default_rng(0)

    def solve(self: cp.Problem, *arguments: Any, **options: Any) -> Any:
        result = original(self, *arguments, **options)
        if values:
            for variable in self.variables():
                # save_value: not even the checks of the variable's attributes.
                variable.save_value(SPOIL[kind](variable.value, rng))
        if multipliers:
            for constraint in self.constraints:
                constraint.dual_variables[0].save_value(SPOIL[kind](constraint.dual_value, rng))
        return result

    monkeypatch.setattr(cp.Problem, "solve", solve)


@pytest.mark.parametrize("what", ["values", "multipliers", "both"])
@pytest.mark.parametrize("kind", SPOIL)
@pytest.mark.parametrize(("levels", "activation"), [(2, None), (2, "relu_like"), (3, "relu_like")])
def test_garbage_of_a_solver_does_no_harm(
    levels: int, activation: Any, kind: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = random_problem(4, 3, 12, loss="huber", beta=0.05, activation=activation, levels=levels)
    optimum = optimum_of(problem)
    with monkeypatch.context() as patch:
        spoiled(patch, kind, what != "multipliers", what != "values")
        relaxation = qsdp.solve_polynomial_relaxation(problem)
    assert 0.0 <= relaxation.lower_bound <= optimum.upper
    assert_feasible(relaxation)


def test_a_solver_that_gives_up_leaves_the_zero_point(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: cp.Problem, *arguments: Any, **options: Any) -> None:
        raise cp.SolverError("numbers ran out\nsecond line")

    problem = random_problem(4, 3, 12, beta=0.05, activation="relu_like")
    monkeypatch.setattr(cp.Problem, "solve", fail)
    relaxation = qsdp.solve_polynomial_relaxation(problem)
    assert relaxation.solver_status == "failed: numbers ran out"
    assert relaxation.rho1 == relaxation.rho2 == 0.0
    assert relaxation.objective == pytest.approx(np.sum(problem.y**2))
    assert 0.0 < relaxation.lower_bound <= relaxation.objective


# -- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize("activation", [None, "relu_like"])
def test_outputs_that_the_loss_does_not_couple_are_solved_one_by_one(loss: str, activation: Any) -> None:
    problem = random_vector_problem(0, 2, 8, 3, loss=loss, activation=activation)
    together = qsdp.solve_polynomial_relaxation(problem, "clarabel", 1e-9)
    alone = [qsdp.solve_polynomial_relaxation(problem.output(k), "clarabel", 1e-9) for k in range(3)]
    assert together.objective == pytest.approx(sum(one.objective for one in alone), rel=1e-6)
    assert together.lower_bound == pytest.approx(sum(one.lower_bound for one in alone), rel=1e-6)
    assert together.predict(problem.X).shape == problem.y.shape
    assert together.lower_bound <= optimum_of(problem).upper


def test_bad_arguments_are_refused() -> None:
    problem = random_problem(0, 2, 6)
    with pytest.raises(InvalidInputError, match="solver must be one of 'clarabel', 'scs'"):
        qsdp.solve_polynomial_relaxation(problem, solver="mosek")
    for tol in (0.0, -1.0, np.nan, "1"):
        with pytest.raises(InvalidInputError, match="tol must be"):
            qsdp.solve_polynomial_relaxation(problem, tol=tol)
    relaxation = qsdp.solve_polynomial_relaxation(problem)
    with pytest.raises(InvalidInputError, match="X must have 2 columns"):
        relaxation.predict(np.ones((2, 3)))
