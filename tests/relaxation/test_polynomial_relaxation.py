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
from qsdp import paper
from qsdp.exceptions import InvalidInputError, InvalidTypeError
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


@st.composite
def vector_problems(draw: st.DrawFn) -> qsdp.TrainingProblem:
    return random_vector_problem(
        draw(st.integers(0, 2**32 - 1)),
        draw(st.integers(1, 3)),
        draw(st.integers(3, 10)),
        draw(st.integers(2, 3)),
        loss=draw(st.sampled_from(["squared", "absolute", "logistic", "cross_entropy"])),
        beta=draw(st.sampled_from([1e-3, 1e-2, 0.1, 1.0])),
        activation=draw(st.sampled_from(KINDS)),
        levels=draw(st.integers(2, 3)),
    )


def assert_feasible(relaxation: qsdp.PolynomialRelaxation) -> None:
    problem = relaxation.problem
    d, n, N, C = problem.n_features, problem.n_samples, problem.size, problem.n_outputs
    a, b, c = problem.activation.coefficients if problem.activation else (1.0, 0.0, 0.0)
    X = (problem.levels - 1) * problem.X
    exact = np.ones(N, dtype=bool) if problem.levels == 2 else np.arange(N) >= d
    matrices = [np.reshape(Z, (C, N, N)) for Z in (relaxation.Z1, relaxation.Z2)]
    radii = [np.reshape(rho, C) for rho in (relaxation.rho1, relaxation.rho2)]
    for one, rhos in zip(matrices, radii, strict=True):
        for Z, rho in zip(one, rhos, strict=True):
            np.testing.assert_array_equal(Z, Z.T)
            assert np.linalg.eigvalsh(Z)[0] >= -1e-12 * max(rho, 1e-300)
            np.testing.assert_array_equal(Z.diagonal()[exact], rho)
            assert np.all(Z.diagonal() <= rho)
    prediction = np.empty((n, C))
    for k in range(C):
        S = matrices[0][k] - matrices[1][k]
        prediction[:, k] = a * np.einsum("ij,jk,ik->i", X, S[:d, :d], X)
        if problem.lifted:
            prediction[:, k] += b * (X @ S[:d, d]) + c * S[d, d]
    direct = problem.data_fit.value(prediction) + price(problem) * float(sum(rhos.sum() for rhos in radii))
    assert relaxation.objective == pytest.approx(direct, rel=1e-9, abs=1e-12)
    found = relaxation.predict(problem.X)
    assert found.shape == (n, *problem.output_shape)
    np.testing.assert_allclose(found.reshape(n, C), prediction, rtol=1e-9, atol=1e-11)


def assert_bounded(relaxation: qsdp.PolynomialRelaxation) -> None:
    problem = relaxation.problem
    assert 0.0 <= relaxation.lower_bound <= optimum_of(problem).upper
    assert relaxation.lower_bound <= relaxation.objective
    assert_feasible(relaxation)
    # The dual vector proves it: no neuron is worth more than its price, and -l*(-nu) is the bound.
    nu = np.reshape(relaxation.nu, (problem.n_samples, problem.n_outputs))
    assert np.abs(polynomial_features(problem).T @ nu).max() <= price(problem) * (1 + 1e-12)
    assert relaxation.lower_bound <= max(0.0, problem.data_fit.dual_value(nu))


@settings(max_examples=30, deadline=None)
@given(problem=problems(), solver=st.sampled_from(["scs", "clarabel"]))
def test_the_bound_holds_for_every_network(problem: qsdp.TrainingProblem, solver: str) -> None:
    assert_bounded(qsdp.solve_polynomial_relaxation(problem, solver=solver))


@settings(max_examples=30, deadline=None)
@given(problem=vector_problems(), solver=st.sampled_from(["scs", "clarabel"]))
def test_the_bound_holds_for_every_network_of_several_outputs(problem: qsdp.TrainingProblem, solver: str) -> None:
    assert_bounded(qsdp.solve_polynomial_relaxation(problem, solver=solver))


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
    value = paper.polynomial_program(problem).problem.solve(**ACCURATE)
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
    built = paper.polynomial_program(problem)
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
    value = problem.loss.value(problem.map.forward(S), problem.y) + price(problem) * sum(rho)
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


# -- several outputs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared", "absolute", "logistic", "cross_entropy"])
@pytest.mark.parametrize(("levels", "activation"), [(2, None), (2, "relu_like"), (3, (-0.5, 1.0, 0.25))], ids=str)
def test_the_program_of_several_outputs_written_out(levels: int, activation: Any, loss: str) -> None:
    problem = random_vector_problem(3, 2, 8, 3, loss=loss, beta=0.05, activation=activation, levels=levels)
    d, N, M, C = 2, problem.size, levels - 1, 3
    a, b, c = problem.activation.coefficients if problem.activation else (1.0, 0.0, 0.0)
    Z = cp.Variable((2 * C * N, N))
    rho = cp.Variable(2 * C)
    blocks = [Z[N * k : N * (k + 1)] for k in range(2 * C)]
    constraints = [constraint for block in blocks for constraint in (block == block.T, 0.5 * (block + block.T) >> 0)]
    for block, radius in zip(blocks, rho, strict=True):
        for j in range(N):
            binary = levels == 2 or j >= d
            constraints.append(block[j, j] == radius if binary else block[j, j] <= radius)
    outputs = []
    for k in range(C):
        S = blocks[2 * k] - blocks[2 * k + 1]
        for x in M * problem.X:
            value = a * (x @ S[:d, :d] @ x)
            outputs.append(value + b * (x @ S[:d, d]) + c * S[d, d] if problem.lifted else value)
    outputs = cp.reshape(cp.hstack(outputs), (C, 8), order="C").T
    y = problem.y
    losses = {
        "squared": lambda: cp.sum_squares(outputs - y),
        "absolute": lambda: cp.sum(cp.abs(outputs - y)),
        "logistic": lambda: cp.sum(cp.logistic(-cp.multiply(y, outputs))),
        # Targets are rows of an identity matrix.
        "cross_entropy": lambda: cp.sum(cp.log_sum_exp(outputs, axis=1)) - cp.sum(cp.multiply(y, outputs)),
    }
    objective = losses[loss]() + problem.beta * d * M * cp.sum(rho)
    coarse = {name: 1e-8 if isinstance(value, float) else value for name, value in ACCURATE.items()}
    expected = cp.Problem(cp.Minimize(objective), constraints).solve(**coarse)
    built = paper.polynomial_program(problem)
    assert set(built.variables) == {"yhat", "rho1", "rho2", *(f"Z{s}_{k}" for s in (1, 2) for k in range(C))}
    assert built.problem.solve(**coarse) == pytest.approx(expected, rel=1e-6, abs=1e-7)
    relaxation = qsdp.solve_polynomial_relaxation(problem, "clarabel", 1e-9)
    assert relaxation.objective == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert relaxation.lower_bound == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert relaxation.lower_bound <= optimum_of(problem).upper


@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize("activation", [None, "relu_like"])
def test_outputs_that_the_loss_does_not_couple_are_solved_one_by_one(loss: str, activation: Any) -> None:
    problem = random_vector_problem(0, 2, 8, 3, loss=loss, activation=activation)
    together = qsdp.solve_polynomial_relaxation(problem, "clarabel", 1e-9)
    alone = [qsdp.solve_polynomial_relaxation(problem.output(k), "clarabel", 1e-9) for k in range(3)]
    assert together.objective == pytest.approx(sum(one.objective for one in alone), rel=1e-6)
    assert together.lower_bound == pytest.approx(sum(one.lower_bound for one in alone), rel=1e-6)
    assert "rho1=[" in repr(together)


@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
def test_one_column_of_targets_and_one_sample_keep_their_shapes(loss: str) -> None:
    X = np.array([[1.0, -2.0]] if loss == "squared" else [[1.0, -2.0], [0.5, 1.0]])
    y = np.array([[5.0]]) if loss == "squared" else np.array([0, 1])
    relaxation = qsdp.solve_polynomial_relaxation(qsdp.TrainingProblem(X, y, beta=0.05, loss=loss), "clarabel", 1e-9)
    assert_bounded(relaxation)
    assert relaxation.relative_gap < 1e-3
    problem = relaxation.problem
    assert np.shape(relaxation.rho1) == problem.output_shape
    assert relaxation.Z1.shape == (*problem.output_shape, 2, 2)
    assert relaxation.nu.shape == (problem.n_samples, *problem.output_shape)
    assert "rho1=[" in repr(relaxation)
    assert "rho" in str(relaxation)


@pytest.mark.parametrize("what", ["values", "multipliers", "both"])
@pytest.mark.parametrize("kind", SPOIL)
def test_garbage_of_a_solver_does_no_harm_to_coupled_outputs(
    kind: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = random_vector_problem(4, 2, 9, 3, loss="cross_entropy", beta=0.05, activation="relu_like", levels=3)
    with monkeypatch.context() as patch:
        spoiled(patch, kind, what != "multipliers", what != "values")
        relaxation = qsdp.solve_polynomial_relaxation(problem)
    assert_bounded(relaxation)


# -- certificates ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
@pytest.mark.parametrize(("levels", "activation"), [(2, None), (3, "relu_like")])
def test_networks_of_12_are_certified_by_23(levels: int, activation: Any, loss: str) -> None:
    problem = random_vector_problem(6, 2, 9, 3, loss=loss, beta=0.02, activation=activation, levels=levels)
    relaxation = qsdp.solve_polynomial_relaxation(problem, "clarabel", 1e-9)
    best = optimum_of(problem)
    network = qsdp.PolynomialNetwork(level_vectors(2, levels), best.alpha, activation or "quadratic")
    certificate = qsdp.certify(network, problem, relaxation)
    direct = problem.data_fit.value(polynomial_features(problem) @ best.alpha) + price(problem) * abs(best.alpha).sum()
    assert certificate.objective == pytest.approx(direct, rel=1e-12)
    assert certificate.lower_bound == relaxation.lower_bound <= best.upper <= certificate.objective * (1 + 1e-9)
    assert (certificate.bound_type, certificate.arithmetic) == ("sdp", "float")
    assert qsdp.certify(network, problem).lower_bound == pytest.approx(relaxation.lower_bound, rel=1e-3)
    if activation is not None:
        # A bilinear network may be better, so its bound is no larger.
        assert qsdp.certify(qsdp.from_polynomial(network), problem).lower_bound <= certificate.lower_bound * (1 + 1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"Q": [[1, 1, 1]]}, "network must have n_inputs 2"),
        ({"Q": [[1, 0]]}, "first-layer weights among -1, 1, the levels of the problem"),
        ({"Q": [[3, 1]]}, "first-layer weights among -1, 1"),
        ({"activation": "relu_like"}, "network must have activation"),
        ({"alpha": [[1.0, 2.0]]}, r"network must have outputs of shape \(\), as the problem has; got \(2,\)"),
        ({"bias": 0.5}, "network must have no bias"),
    ],
)
def test_networks_that_are_not_of_the_problem_are_refused(changes: dict[str, Any], message: str) -> None:
    problem = random_problem(0, 2, 6)
    network = qsdp.PolynomialNetwork(**{"Q": [[1, -1]], "alpha": [1.0], "activation": "quadratic", **changes})
    with pytest.raises(InvalidInputError, match=message):
        qsdp.certify(network, problem)


def test_certificates_that_23_does_not_give_are_refused() -> None:
    problem = random_problem(0, 2, 6)
    network = qsdp.PolynomialNetwork([[1, -1]], [1.0])
    for options in ({"bound_type": "exact"}, {"arithmetic": "verified"}):
        with pytest.raises(InvalidInputError, match=r"is not for polynomial networks: .* neurons='polynomial'"):
            qsdp.certify(network, problem, **options)
    with pytest.raises(InvalidTypeError, match="relaxation must be a PolynomialRelaxation; got Relaxation"):
        qsdp.certify(network, problem, qsdp.solve_relaxation(problem))
    other = qsdp.solve_polynomial_relaxation(random_problem(1, 2, 6))
    with pytest.raises(InvalidInputError, match="relaxation must belong to the same problem"):
        qsdp.certify(network, problem, other)
    blocks = qsdp.TrainingProblem(qsdp.Blocks(np.ones((3, 3)), sizes=[2]), [1.0, 2.0, 3.0], beta=1.0)
    with pytest.raises(InvalidInputError, match="columns for a PolynomialNetwork; got blocks"):
        qsdp.certify(network, blocks)


# -- refusals ----------------------------------------------------------------------------------------------


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
