"""The programs of the paper: written out entry by entry, against the core's bound, their duals, and Algorithm 1."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.linalg
from brute_force import global_optimum, quadratic_features, random_problem, random_vector_problem
from hypothesis import given, settings
from hypothesis import strategies as st

import qsdp
from qsdp import paper
from qsdp.exceptions import InvalidInputError, InvalidTypeError, SolverError, UnavailableSolverError
from qsdp.losses import LOSSES, SCALAR_LOSSES, CrossEntropy, Huber, Squared, get_loss

cp = pytest.importorskip("cvxpy")
pytest.importorskip("clarabel")

# The tolerance asked for is at the edge of what the solver reaches; the comparisons allow much more.
pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")

ACCURATE = {"solver": "CLARABEL", "tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
#: Clarabel loses its way in exponential cones when it is asked for more.
COARSER = {"solver": "CLARABEL", "tol_gap_abs": 1e-8, "tol_gap_rel": 1e-8, "tol_feas": 1e-8}
X, Y = qsdp.datasets.make_planted(n=30, d=4, n_neurons=3, random_state=0)
TWO = np.column_stack([Y, X[:, 0] * X[:, 1]])
RNG = np.random.default_rng(0)

#: Solvers, with the relative accuracy to which their values are compared.
SOLVERS = {
    "SCS": ({"eps_abs": 1e-8, "eps_rel": 1e-8, "max_iters": 200_000}, 1e-5),
    "CLARABEL": ({"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9}, 1e-6),
    "MOSEK": ({}, 1e-5),
}


def solved_by(program: paper.Program, solver: str) -> tuple[float, float]:
    """Return the value of a program and the accuracy of the solver; skip the test without a licence for MOSEK."""
    if (reason := qsdp.available_solvers()[solver.lower()]) is not None:
        pytest.skip(reason)
    options, accuracy = SOLVERS[solver]
    return program.problem.solve(solver=solver, **options), accuracy


def printed(problem: qsdp.TrainingProblem) -> paper.Program:
    return (paper.full_program if problem.scalar else paper.vector_output_program)(problem)


# -- values of the programs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("solver", "seed"), [(solver, number % 2) for number, solver in enumerate(SOLVERS)])
def test_programs_have_the_bound_of_the_core(solver: str, loss: str, seed: int) -> None:
    problem = (
        random_vector_problem(seed, 3, 12, 3, loss, beta=0.1)
        if loss == "cross_entropy" or (seed == 1 and not get_loss(loss).labels)
        else random_problem(seed, 4, 12, loss=loss, beta=0.1)
    )
    value, accuracy = solved_by(printed(problem), solver)
    half = qsdp.solve_relaxation(problem.with_beta(0.5 * problem.beta), tol=1e-7)
    assert value == pytest.approx(half.objective, rel=accuracy, abs=1e-6)
    assert value >= half.lower_bound - accuracy * max(1.0, value)
    value, _ = solved_by(paper.two_block_program(problem), solver)
    assert value == pytest.approx(qsdp.solve_relaxation(problem, tol=1e-7).objective, rel=accuracy, abs=1e-6)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 5),
    n=st.integers(2, 15),
    loss=st.sampled_from(sorted(SCALAR_LOSSES)),
    beta=st.sampled_from([0.01, 0.1, 1.0]),
)
def test_two_blocks_have_the_value_of_the_printed_program_for_twice_the_beta(
    seed: int, d: int, n: int, loss: str, beta: float
) -> None:
    problem = random_problem(seed, d, n, loss=loss, beta=beta)
    expected = paper.full_program(problem.with_beta(2.0 * beta)).problem.solve(**ACCURATE)
    assert paper.two_block_program(problem).problem.solve(**ACCURATE) == pytest.approx(expected, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize(("build", "factor"), [(paper.full_program, 1.0), (paper.two_block_program, 2.0)])
def test_programs_equal_the_paper_written_out_entry_by_entry(
    build: Callable[..., paper.Program], factor: float
) -> None:
    problem = random_problem(7, 4, 9, loss="huber", beta=0.3)
    d = problem.dimension
    V, W = cp.Variable((d, d)), cp.Variable((d, d))
    Z, rho = cp.Variable((d, d)), cp.Variable()
    predictions = cp.hstack([2 * x @ Z @ x for x in problem.X])
    objective = cp.sum(cp.huber(predictions - problem.y)) + factor * problem.beta * d * rho
    constraints = [cp.bmat([[V, Z], [Z.T, W]]) >> 0, V == V.T, W == W.T]
    constraints += [M[j, j] == rho for M in (V, W) for j in range(d)]
    expected = cp.Problem(cp.Minimize(objective), constraints).solve(**ACCURATE)
    assert build(problem).problem.solve(**ACCURATE) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(("build", "share"), [(paper.full_program, 0.5), (paper.two_block_program, 1.0)])
def test_values_and_multipliers_come_back_in_the_same_meaning(
    build: Callable[..., paper.Program], share: float
) -> None:
    problem = random_problem(1, 4, 12, beta=0.4)
    program = build(problem)
    value = program.problem.solve(**ACCURATE)
    Z, V, W = (block[0] for block in program.matrices())
    nu, (z,) = program.duals()
    nu, prediction = nu[:, 0], program.variables["yhat"].value
    np.testing.assert_allclose(prediction, 2 * np.einsum("ij,jk,ik->i", problem.X, Z, problem.X), atol=1e-6)
    rho = float(program.variables["rho"].value)
    assert value == pytest.approx(
        problem.with_beta(share * problem.beta).relaxed_objective([Z[None]], [[rho]]), rel=1e-6
    )
    # nu is minus the gradient of the loss, and Diag(z) +- X' diag(nu) X is positive semidefinite (up to
    # the scale of z, which the bound does not use).
    np.testing.assert_allclose(nu, -problem.loss.gradient(prediction, problem.y), atol=1e-5)
    M = problem.map.adjoint(nu)
    z = z * share * problem.beta * problem.dimension / z.sum()
    assert np.linalg.eigvalsh(np.diag(z) - M)[0] >= -1e-6
    assert np.linalg.eigvalsh(np.diag(z) + M)[0] >= -1e-6
    assert np.linalg.eigvalsh(np.block([[V, Z], [Z.T, W]]))[0] >= -1e-8


BUILDERS = [paper.full_program, paper.two_block_program, paper.polynomial_program, paper.dual_program]


# -- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [*BUILDERS, paper.vector_output_program, paper.polynomial_dual_program, paper.algorithm_1],
)
def test_what_is_not_a_problem_is_refused(build: Callable[..., object]) -> None:
    with pytest.raises(InvalidTypeError, match="problem must be a TrainingProblem; got ndarray"):
        build(np.ones((3, 2)))


def test_numbers_of_outputs_and_blocks_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"y must have shape \(n,\) for \(25\).*use vector_output_program"):
        paper.full_program(qsdp.TrainingProblem(X, TWO, beta=0.5))
    with pytest.raises(InvalidInputError, match=r"y must have shape \(n, C\) for \(67\).*use full_program"):
        paper.vector_output_program(qsdp.TrainingProblem(X, Y, beta=0.5))
    blocks = qsdp.TrainingProblem(qsdp.Blocks(np.ones((4, 3)), [2]), np.ones(4), beta=1.0)
    for build in (paper.full_program, paper.polynomial_program, paper.dual_program, paper.polynomial_dual_program):
        with pytest.raises(InvalidInputError, match="must have data of columns for a program of the paper; got blocks"):
            build(blocks)
    statistics = qsdp.SufficientStatistics().partial_fit(X, Y)
    for build in (paper.dual_program, paper.polynomial_dual_program):
        with pytest.raises(InvalidInputError, match="a dual program needs the rows of the data"):
            build(qsdp.TrainingProblem.from_statistics(statistics, beta=0.5))


# -- changed programs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("y", [Y, TWO], ids=["one output", "two outputs"])
def test_the_program_as_it_is_gives_what_solve_relaxation_gives(y: np.ndarray) -> None:
    problem = qsdp.TrainingProblem(X, y, beta=0.5)
    program = paper.two_block_program(problem)
    value = program.problem.solve(**ACCURATE)
    found, expected = program.relaxation(), qsdp.solve_relaxation(problem, tol=1e-8)
    assert (found.status, found.solver_status) == ("optimal", "point of a CVXPY problem")
    assert "changed" not in repr(found)
    assert found.objective == pytest.approx(value, rel=1e-7)
    assert found.objective == pytest.approx(expected.objective, rel=1e-6)
    assert found.lower_bound == pytest.approx(expected.lower_bound, rel=1e-5)
    np.testing.assert_allclose(found.predict(X), expected.predict(X), atol=1e-3)


@pytest.mark.parametrize("y", [Y, TWO], ids=["one output", "two outputs"])
def test_the_printed_program_gives_the_point_of_half_the_beta_and_a_valid_bound(y: np.ndarray) -> None:
    problem = qsdp.TrainingProblem(X, y, beta=0.5)
    program = printed(problem)
    program.problem.solve(**ACCURATE)
    found, tight = program.relaxation(), qsdp.solve_relaxation(problem, tol=1e-8)
    half = qsdp.solve_relaxation(problem.with_beta(0.25), tol=1e-8)
    assert found.status == "optimal"
    assert found.solver_status.startswith("from the program with half the regulariser")
    assert found.solver_status in repr(found)
    np.testing.assert_allclose(found.predict(X), half.predict(X), atol=1e-3)
    np.testing.assert_allclose(found.rho, half.rho, rtol=1e-4)
    assert found.objective == pytest.approx(problem.relaxed_objective(found.Z, found.rho), rel=1e-12)
    assert 0.0 < found.lower_bound <= tight.objective < found.objective


@pytest.mark.parametrize("build", [paper.full_program, paper.two_block_program])
@pytest.mark.parametrize("levels", [2, 4])
def test_added_constraints_hold_and_the_point_is_feasible_and_certified(
    build: Callable[..., paper.Program], levels: int
) -> None:
    problem = qsdp.TrainingProblem(X, Y, beta=0.5, activation="relu_like", levels=levels)
    program = build(problem)
    Z, yhat = program.parts[0][0], program.variables["yhat"]
    changed = cp.Problem(program.problem.objective, [*program.problem.constraints, Z[0, 1] + Z[1, 0] == 0, yhat >= -1])
    value = changed.solve(**ACCURATE)
    relaxation = program.relaxation()
    assert relaxation.status == "optimal"
    note = "from a changed program; the bound is that of the program without the change"
    assert relaxation.solver_status == note
    assert repr(relaxation).endswith(f"; {note})")
    assert note in relaxation._summary().text()
    assert abs(relaxation.Z[0][0][0, 1]) < 1e-7 * relaxation.rho[0, 0]
    assert relaxation.predict(X).min() >= -1.0 - 1e-5
    share = 0.5 if build is paper.full_program else 1.0
    own = problem.with_beta(share * problem.beta).relaxed_objective(relaxation.Z, relaxation.rho)
    assert own == pytest.approx(value, rel=1e-6)
    K = np.block([[relaxation.V[0][0], relaxation.Z[0][0]], [relaxation.Z[0][0].T, relaxation.W[0][0]]])
    assert np.linalg.eigvalsh(K)[0] >= -1e-12 * relaxation.rho[0, 0]
    np.testing.assert_allclose(K.diagonal(), relaxation.rho[0, 0], rtol=1e-12)
    # The bound is one for all networks, whatever the constraints do to the multipliers.
    free = qsdp.solve_relaxation(problem, tol=1e-8)
    assert 0.0 < relaxation.lower_bound <= free.objective < relaxation.objective
    network = qsdp.sample_network(qsdp.shape_covariance(relaxation), 2000, random_state=0)
    certificate = qsdp.certify(network, problem, relaxation)
    assert certificate.lower_bound <= free.objective <= certificate.objective


def test_another_objective_moves_the_point() -> None:
    problem = qsdp.TrainingProblem(X, Y, beta=0.5)
    program = paper.full_program(problem)
    Z, V, W = program.parts[0]
    other = cp.Minimize(cp.sum_squares(Z - np.eye(4)) + cp.trace(V) + cp.trace(W))
    cp.Problem(other, program.problem.constraints).solve(**ACCURATE)
    relaxation = program.relaxation()
    assert relaxation.objective == pytest.approx(problem.relaxed_objective(relaxation.Z, relaxation.rho), rel=1e-12)
    assert "the bound is that of the program without the change" in repr(relaxation)
    assert relaxation.lower_bound <= qsdp.solve_relaxation(problem).objective


@pytest.mark.parametrize("build", [paper.full_program, paper.two_block_program])
def test_the_last_solve_decides_whether_the_program_was_changed(build: Callable[..., paper.Program]) -> None:
    program = build(qsdp.TrainingProblem(X, Y, beta=0.5))
    changed = cp.Problem(program.problem.objective, [*program.problem.constraints, program.variables["yhat"] >= -1.0])
    for solved, said in ((program.problem, False), (changed, True), (program.problem, False)):
        solved.solve(**ACCURATE)
        assert ("changed program" in repr(program.relaxation())) is said
    changed.solve(**ACCURATE)
    # A point that the solver left far from feasible is not called optimal.
    program.variables["rho"].value = 0.5 * program.variables["rho"].value
    matrix = program.variables["Q" if build is paper.full_program else "V"]
    matrix.project_and_assign(matrix.value + np.diag(np.arange(len(matrix.value))))
    assert program.relaxation().status == "inaccurate"


def test_blocks_have_a_program_of_two_blocks() -> None:
    blocks = qsdp.Blocks(np.random.default_rng(0).standard_normal((6, 3)), [2])
    problem = qsdp.TrainingProblem(blocks, np.ones(6), beta=0.1)
    program = paper.two_block_program(problem)
    program.problem.solve(**ACCURATE)
    assert program.relaxation().objective == pytest.approx(qsdp.solve_relaxation(problem).objective, rel=1e-5)


def test_what_has_no_point_is_refused() -> None:
    problem = qsdp.TrainingProblem(X, Y, beta=0.5)
    program = paper.full_program(problem)
    assert program.matrices() == (None, None, None)
    assert program.duals() == (None, None)
    with pytest.raises(InvalidInputError, match="the variables have no values: solve a CVXPY problem"):
        program.relaxation()
    for other in (paper.dual_program(problem), paper.polynomial_program(problem), paper.shaping_program(np.eye(2), 1)):
        with pytest.raises(InvalidInputError, match=r"needs the matrices Z, V and W .*; this program is the"):
            other.relaxation()


# -- polynomial networks -------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(2, 6),
    n=st.integers(2, 15),
    loss=st.sampled_from(sorted(SCALAR_LOSSES)),
    beta=st.sampled_from([0.01, 0.1, 1.0]),
)
def test_the_polynomial_program_is_below_the_optimum_over_all_neurons(
    seed: int, d: int, n: int, loss: str, beta: float
) -> None:
    problem = random_problem(seed, d, n, loss=loss, beta=beta)
    optimum = global_optimum(problem, quadratic_features(problem.X))
    value = paper.polynomial_program(problem).problem.solve(**ACCURATE)
    assert value <= optimum.upper + 1e-6 * max(1.0, optimum.upper)


def test_the_polynomial_program_is_between_the_bilinear_relaxation_and_the_optimum() -> None:
    # A network with v = u is a bilinear one, so its relaxation is the looser of the two.
    problem = random_problem(3, 5, 25, beta=0.3)
    value = paper.polynomial_program(problem).problem.solve(**ACCURATE)
    assert qsdp.solve_relaxation(problem).lower_bound <= value + 1e-6
    assert value >= 0.5 * global_optimum(problem, quadratic_features(problem.X)).lower


def test_rho_is_the_common_diagonal() -> None:
    program = paper.polynomial_program(random_problem(3, 4, 15, beta=0.2))
    program.problem.solve(**ACCURATE)
    values = {name: variable.value for name, variable in program.variables.items()}
    np.testing.assert_allclose(values["Z1"].diagonal(), values["rho1"], atol=1e-7)
    np.testing.assert_allclose(values["Z2"].diagonal(), values["rho2"], atol=1e-7)


# -- duals ---------------------------------------------------------------------------------------------------


def problem_of(loss: object = "squared", seed: int = 0, outputs: int = 1, **options: object) -> qsdp.TrainingProblem:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((14, 3))
    name = getattr(loss, "name", loss)
    y = np.column_stack([X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(14), X[:, 2] - 0.2, X[:, 1] ** 2 - 1.0])
    if name == "cross_entropy":
        y = y.argmax(axis=1)
    else:
        y = y[:, 0] if outputs == 1 else y[:, :outputs]
        y = np.where(y > 0, 1.0, -1.0) if get_loss(loss).labels else y
    return qsdp.TrainingProblem(X, y, **{"beta": 0.2, "loss": loss, **options})


CASES = {
    **{name: {"loss": name} for name in LOSSES},
    "huber object": {"loss": Huber(0.3)},
    "weighted": {"sample_weight": RNG.uniform(0.2, 3.0, 14)},
    "weighted logistic": {"loss": "logistic", "sample_weight": RNG.uniform(0.2, 3.0, 14)},
    "weighted cross-entropy": {"loss": "cross_entropy", "sample_weight": RNG.uniform(0.2, 3.0, 14)},
    "weighted hinge": {"loss": "hinge", "sample_weight": RNG.uniform(0.2, 3.0, 14)},
    "lifted": {"activation": "relu_like"},
    "levels": {"activation": "relu_like", "levels": 4},
    "outputs": {"outputs": 3},
    "outputs with absolute errors": {"outputs": 2, "loss": "absolute"},
}


def accuracy(case: str) -> dict[str, object]:
    return COARSER if "logistic" in case or "cross" in case else ACCURATE


@pytest.mark.parametrize("case", CASES)
def test_strong_duality_of_the_bilinear_relaxation(case: str) -> None:
    problem = problem_of(**CASES[case])
    primal = printed(problem).problem.solve(**accuracy(case))
    dual = paper.dual_program(problem)
    assert dual.problem.solve(**accuracy(case)) == pytest.approx(primal, rel=1e-6, abs=1e-7)
    nu = dual.variables["nu"].value.reshape(problem.n_samples, -1)
    assert problem.data_fit.dual_value(problem.data_fit.project(nu)) == pytest.approx(primal, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_bounds_of_this_package_are_values_of_the_dual(seed: int) -> None:
    problem = problem_of(seed=seed)
    best = paper.dual_program(problem.with_beta(2.0 * problem.beta)).problem.solve(**ACCURATE)
    relaxation = qsdp.solve_relaxation(problem, tol=1e-9)
    assert relaxation.lower_bound <= best + 1e-7
    assert relaxation.lower_bound == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_strong_duality_of_the_polynomial_relaxation(case: str) -> None:
    problem = problem_of(**CASES[case])
    primal = paper.polynomial_program(problem).problem.solve(**accuracy(case))
    dual = paper.polynomial_dual_program(problem).problem.solve(**accuracy(case))
    assert dual == pytest.approx(primal, rel=1e-6, abs=1e-7)


def test_the_equality_of_the_diagonals_has_free_multipliers() -> None:
    # With (20), entries of z have either sign; with the inequality that (23) does not have, the value would be less.
    problem = problem_of(seed=2)
    program = paper.polynomial_dual_program(problem)
    value = program.problem.solve(**ACCURATE)
    limit = problem.beta * problem.n_features / problem.size
    bounded = [program.variables[name] <= limit for name in ("z1", "z2")]
    fewer = cp.Problem(program.problem.objective, [*program.problem.constraints, *bounded]).solve(**ACCURATE)
    assert fewer <= value + 1e-9


@pytest.mark.parametrize("loss", [*LOSSES.values(), Huber(0.3)], ids=str)
def test_conjugates_as_expressions_have_the_values_of_conjugates(loss: object) -> None:
    loss = loss() if isinstance(loss, type) else loss
    rng = np.random.default_rng(1)
    if isinstance(loss, CrossEntropy):
        target = np.eye(3)[rng.integers(0, 3, 8)]
        weight = rng.uniform(0.5, 2.0, (8, 1))
    else:
        target, weight = rng.choice([-1.0, 1.0], (8, 1)), rng.uniform(0.5, 2.0, (8, 1))
    inside = loss.project_dual(rng.standard_normal(target.shape), target)
    dual = cp.Variable(target.shape)
    expression, domain = loss.conjugate_expression(dual, target, np.broadcast_to(weight, target.shape))
    # At the boundary of the domain a solver may find the equation infeasible.
    inside = loss.project_dual(0.999 * inside + 0.001 * loss.project_dual(np.zeros_like(target), target), target)
    value = cp.Problem(cp.Minimize(expression), [*domain, dual == weight * inside]).solve(**COARSER)
    values = loss.conjugates(inside, target)
    rows = values if values.ndim == 1 else values.sum(axis=1)
    assert value == pytest.approx(float(weight[:, 0] @ rows), rel=1e-6, abs=1e-6)


def test_a_loss_without_a_conjugate_expression_is_refused() -> None:
    class Own(Squared):
        conjugate_expression = qsdp.losses.Loss.conjugate_expression

    with pytest.raises(InvalidInputError, match="loss 'squared' must define conjugate_expression for a dual program"):
        paper.dual_program(problem_of(Own()))


# -- shaping -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", [None, "relu_like"])
def test_the_program_of_covariance_shaping_has_the_optimum_zero(activation: object) -> None:
    relaxation = qsdp.solve_relaxation(qsdp.TrainingProblem(X, Y, beta=0.5, activation=activation))
    program, N = paper.shaping_program(relaxation.Z[0][0], relaxation.rho[0, 0]), len(relaxation.Z[0][0])
    assert program.problem.solve(**ACCURATE) == pytest.approx(0.0, abs=1e-7)
    Q = program.variables["Q"].value
    np.testing.assert_allclose(Q[:N, N:], qsdp.shape_covariance(relaxation, "krivine").Q[:N, N:], atol=1e-3)
    np.testing.assert_allclose(Q.diagonal(), 1.0, atol=1e-7)


def triple(seed: int, N: int = 5, rank: int = 4) -> tuple[np.ndarray, ...]:
    """Return Z, V and W of a random covariance, with uneven diagonals and sizes."""
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((2 * N, rank)) * rng.uniform(0.2, 2.0, (2 * N, 1))
    K = F @ F.T
    return K[:N, N:], K[:N, :N], 7.0 * K[N:, N:]


@pytest.mark.parametrize("seed", range(4))
def test_every_feasible_triple_has_a_covariance(seed: int) -> None:
    Z, V, W = triple(seed)
    shaped = paper.shape(Z, V, W)
    assert shaped.rho == pytest.approx(math.sqrt(V.diagonal().max() * W.diagonal().max()), rel=1e-12)
    assert shaped.constant == pytest.approx(math.log(1.0 + math.sqrt(2.0)), rel=1e-15)
    assert shaped.min_eigenvalue >= -1e-12
    assert shaped.min_eigenvalue == pytest.approx(np.linalg.eigvalsh(shaped.Q)[0], abs=1e-12)
    np.testing.assert_allclose(shaped.Q.diagonal(), 1.0, atol=1e-12)
    np.testing.assert_array_equal(shaped.Q, shaped.Q.T)
    np.testing.assert_allclose(np.arcsin(shaped.Q[:5, 5:]), shaped.constant * Z / shaped.rho, atol=1e-12)


def test_triples_of_a_relaxation_are_shaped_as_the_relaxation_is() -> None:
    relaxation = qsdp.solve_relaxation(qsdp.TrainingProblem(X, Y, beta=0.5))
    expected = qsdp.shape_covariance(relaxation, "krivine")
    shaped = paper.shape(relaxation.Z[0][0], relaxation.V[0][0], relaxation.W[0][0])
    assert shaped.rho == pytest.approx(expected.rho, rel=1e-12)
    np.testing.assert_allclose(shaped.Q, expected.Q, atol=1e-12)


def test_sampled_networks_have_the_predictions_of_z() -> None:
    Z, V, W = triple(1)
    rows = np.random.default_rng(0).standard_normal((7, 5))
    expected = 2.0 * np.einsum("ni,ij,nj->n", rows, Z, rows)
    covariance = paper.shape(Z, V, W)
    networks = [qsdp.sample_network(covariance, 500, random_state=seed) for seed in range(200)]
    draws = np.array([network.predict(rows) for network in networks])
    z = (draws.mean(axis=0) - expected) / (draws.std(axis=0, ddof=1) / math.sqrt(len(draws)))
    # Seven z-values: a false alarm once in 100,000 runs of another seed.
    assert np.abs(z).max() < 4.8


def test_z_may_be_zero_and_w_is_v_by_default() -> None:
    zero = np.zeros((3, 3))
    assert paper.shape(zero, zero, np.eye(3)).rho == 0.0
    Z, V, _ = triple(2)
    even, V = 0.5 * (Z + Z.T), V + 9.0 * np.eye(5)
    np.testing.assert_array_equal(paper.shape(even, V).Q, paper.shape(even, V, V).Q)


def test_indefinite_matrices_are_refused_and_rounding_is_repaired() -> None:
    Z, V, W = triple(0)
    lowest = scipy.linalg.eigvalsh(np.block([[V, 5.0 * Z], [5.0 * Z.T, W]]))[0]
    assert lowest < -0.1
    with pytest.raises(InvalidInputError, match=f"smallest eigenvalue is {lowest:.3g}: add at least {-lowest:.3g} to"):
        paper.shape(5.0 * Z, V, W)
    assert paper.shape(Z * (1.0 + 1e-7), V, W).min_eigenvalue >= -1e-14
    with pytest.raises(InvalidInputError, match="V must be symmetric"):
        paper.shape(Z, V + np.triu(np.ones((5, 5)), 1), W)
    with pytest.raises(InvalidInputError, match="V must have 5 columns"):
        paper.shape(Z, V[:3, :3])
    with pytest.raises(InvalidInputError, match="square and of one size"):
        paper.shape(Z, V[:3], W)
    with pytest.raises(InvalidInputError, match=r"finite|NaN"):
        paper.shape(np.where(np.eye(5) > 0, np.nan, Z), V)
    with pytest.raises(InvalidInputError, match="Z must be square"):
        paper.shaping_program(Z[:3], 1.0)


# -- Algorithm 1 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["scs", "clarabel"])
@pytest.mark.parametrize("activation", [None, "relu_like"])
def test_algorithm_1_samples_the_printed_relaxation(solver: str, activation: object) -> None:
    problem = qsdp.TrainingProblem(X, Y, beta=0.5, activation=activation)
    network, relaxation, covariance = paper.algorithm_1(problem, 300, random_state=3, solver=solver)
    half = qsdp.solve_relaxation(problem.with_beta(0.25), tol=1e-8)
    N, gamma = problem.size, math.log(1.0 + math.sqrt(2.0))
    assert relaxation.rho == pytest.approx(half.rho, rel=1e-3)
    np.testing.assert_allclose(relaxation.predict(X), half.predict(X), atol=1e-2)
    np.testing.assert_allclose(
        covariance.Q[:N, N:], np.sin(gamma * relaxation.Z[0][0] / relaxation.rho[0, 0]), atol=1e-6
    )
    np.testing.assert_allclose(covariance.Q.diagonal(), 1.0, atol=1e-12)
    assert np.linalg.eigvalsh(covariance.Q)[0] > -1e-12
    np.testing.assert_allclose(network.alpha, relaxation.rho[0, 0] * math.pi / (300 * gamma), rtol=1e-12)
    again = qsdp.sample_network(covariance, 300, random_state=3)
    np.testing.assert_array_equal(network.U, again.U)
    certificate = qsdp.certify(network, problem, relaxation)
    assert certificate.lower_bound <= qsdp.solve_relaxation(problem).objective <= certificate.objective


def test_algorithm_1_divides_neurons_among_outputs_and_leaves_out_zero_outputs() -> None:
    problem = qsdp.TrainingProblem(X, np.column_stack([Y, 1e-3 * X[:, 0], TWO[:, 1]]), beta=0.5)
    network, relaxation, covariances = paper.algorithm_1(problem, 101)
    assert [covariance.rho > 0.0 for covariance in covariances] == [True, False, True]
    assert np.count_nonzero(network.alpha, axis=0).tolist() == [51, 0, 50]
    assert len(relaxation.Z[0]) == 3


def test_algorithm_1_refuses_what_it_cannot_do() -> None:
    problem = qsdp.TrainingProblem(X, Y, beta=0.5)
    with pytest.raises(InvalidInputError, match="levels must be 2 for Algorithm 1; got 3: repeat the columns"):
        paper.algorithm_1(qsdp.TrainingProblem(X, Y, beta=0.5, levels=3))
    with pytest.raises(InvalidInputError, match="did you mean 'scs'"):
        paper.algorithm_1(problem, solver="SCS")
    with pytest.raises(InvalidInputError, match="n_neurons must be"):
        paper.algorithm_1(problem, 0)
    if qsdp.available_solvers()["mosek"] is not None:
        with pytest.raises(UnavailableSolverError, match=r"mosek|MOSEK"):
            paper.algorithm_1(problem, solver="mosek")


def test_a_solver_that_fails_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise cp.SolverError("it broke\nin detail")

    monkeypatch.setattr("cvxpy.reductions.solvers.solving_chain.SolvingChain.solve_via_data", fail)
    with pytest.raises(SolverError, match=r"solver 'scs' .*: failed: it broke$"):
        paper.algorithm_1(qsdp.TrainingProblem(X, Y, beta=0.5))
