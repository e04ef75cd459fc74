"""Relaxations from CVXPY problems that users have changed, and Algorithm 1 as printed in one call."""

from __future__ import annotations

import numpy as np
import pytest

import qsdp
from qsdp.exceptions import InvalidInputError

cp = pytest.importorskip("cvxpy")
pytest.importorskip("clarabel")
ACCURATE = {"solver": "CLARABEL", "tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
X, Y = qsdp.datasets.make_planted(n=30, d=4, n_neurons=3, random_state=0)
TWO = np.column_stack([Y, X[:, 0] * X[:, 1]])
FORMS = pytest.mark.parametrize("form", ["full", "two-block"])


@FORMS
@pytest.mark.parametrize("regularization", ["tight", "paper"])
@pytest.mark.parametrize("y", [Y, TWO], ids=["one output", "two outputs"])
def test_the_program_as_it_is_gives_what_solve_relaxation_gives(form: str, regularization: str, y: np.ndarray) -> None:
    problem = qsdp.TrainingProblem(X, y, beta=0.5)
    built = qsdp.build_relaxation(problem, form=form, regularization=regularization)
    value = built.problem.solve(**ACCURATE)
    found, expected = built.relaxation(), qsdp.solve_relaxation(problem, tol=1e-8, regularization=regularization)
    assert (found.status, found.solver_status) == ("optimal", "point of a CVXPY problem")
    assert "changed" not in repr(found)
    assert found.objective == pytest.approx(value, rel=1e-7)
    assert found.objective == pytest.approx(expected.objective, rel=1e-6)
    assert found.lower_bound == pytest.approx(expected.lower_bound, rel=1e-5)
    np.testing.assert_allclose(found.predict(X), expected.predict(X), atol=1e-3)


@FORMS
@pytest.mark.parametrize("levels", [2, 4])
def test_added_constraints_hold_and_the_point_is_feasible_and_certified(form: str, levels: int) -> None:
    problem = qsdp.TrainingProblem(X, Y, beta=0.5, activation="relu_like", levels=levels)
    built = qsdp.build_relaxation(problem, form=form)
    Z, yhat = built.parts[0][0], built.variables["yhat"]
    changed = cp.Problem(built.problem.objective, [*built.problem.constraints, Z[0, 1] + Z[1, 0] == 0, yhat >= -1.0])
    value = changed.solve(**ACCURATE)
    relaxation = built.relaxation()
    assert relaxation.status == "optimal"
    note = "from a changed program; the bound is that of the program without the change"
    assert relaxation.solver_status == note
    assert repr(relaxation).endswith(f"; {note})")
    assert note in relaxation._summary().text()
    assert abs(relaxation.Z[0, 1]) < 1e-7 * relaxation.rho
    assert relaxation.predict(X).min() >= -1.0 - 1e-5
    assert relaxation.objective == pytest.approx(value, rel=1e-6)
    K = np.block([[relaxation.V, relaxation.Z], [relaxation.Z.T, relaxation.W]])
    assert np.linalg.eigvalsh(K)[0] >= -1e-12 * relaxation.rho
    np.testing.assert_allclose(K.diagonal(), relaxation.rho, rtol=1e-12)
    # The bound is one for all networks, whatever the constraints do to the multipliers.
    free = qsdp.solve_relaxation(problem, tol=1e-8)
    assert 0.0 < relaxation.lower_bound <= free.objective < relaxation.objective
    network = qsdp.sample_network(qsdp.shape_covariance(relaxation), 2000, random_state=0)
    certificate = qsdp.certify(network, problem, relaxation)
    assert certificate.lower_bound <= free.objective <= certificate.objective


def test_another_objective_moves_the_point() -> None:
    problem = qsdp.TrainingProblem(X, Y, beta=0.5)
    built = qsdp.build_relaxation(problem, form="full")
    Z, V, W = built.parts[0]
    cp.Problem(cp.Minimize(cp.sum_squares(Z - np.eye(4)) + cp.trace(V) + cp.trace(W)), built.problem.constraints).solve(
        **ACCURATE
    )
    relaxation = built.relaxation()
    assert relaxation.objective == pytest.approx(problem.relaxed_objective(relaxation.Z, relaxation.rho), rel=1e-12)
    assert "the bound is that of the program without the change" in repr(relaxation)
    assert relaxation.lower_bound <= qsdp.solve_relaxation(problem).objective


@FORMS
def test_the_last_solve_decides_whether_the_program_was_changed(form: str) -> None:
    built = qsdp.build_relaxation(qsdp.TrainingProblem(X, Y, beta=0.5), form=form)
    changed = cp.Problem(built.problem.objective, [*built.problem.constraints, built.variables["yhat"] >= -1.0])
    for program, said in ((built.problem, False), (changed, True), (built.problem, False)):
        program.solve(**ACCURATE)
        assert ("changed program" in repr(built.relaxation())) is said
    changed.solve(**ACCURATE)
    # A point that the solver left far from feasible is not called optimal.
    built.variables["rho"].value = 0.5 * built.variables["rho"].value
    matrix = built.variables["Q" if form == "full" else "V"]
    matrix.project_and_assign(matrix.value + np.diag(np.arange(len(matrix.value))))
    assert built.relaxation().status == "inaccurate"


def test_what_has_no_point_is_refused() -> None:
    problem = qsdp.TrainingProblem(X, Y, beta=0.5)
    with pytest.raises(InvalidInputError, match="the variables have no values: solve a CVXPY problem"):
        qsdp.build_full(problem).relaxation()
    for built in (qsdp.build_dual(problem), qsdp.build_polynomial(problem)):
        with pytest.raises(InvalidInputError, match="form must be 'full' or 'two-block'"):
            built.relaxation()


def test_the_algorithm_as_printed_is_one_call() -> None:
    printed = qsdp.solve_and_sample(
        X, Y, 100, 0.5, regularization="paper", form="full", solver="scs", shaping="sdp", random_state=0
    )
    problem = printed.problem
    relaxation = qsdp.solve_relaxation(problem, "scs", regularization="paper", form="full")
    network = qsdp.sample_network(qsdp.shape_covariance(relaxation, "sdp"), 100, random_state=0)
    assert printed.relaxation.regularization == "paper"
    np.testing.assert_array_equal(printed.network.U, network.U)
    np.testing.assert_array_equal(printed.network.alpha, network.alpha)
    tight = qsdp.solve_and_sample(X, Y, 100, 0.5, random_state=0)
    assert printed.certificate.lower_bound < tight.certificate.lower_bound <= printed.certificate.objective
    for argument in ("regularization", "form"):
        with pytest.raises(InvalidInputError, match=f"{argument} must be one of"):
            qsdp.solve_and_sample(X, Y, **{argument: "none"})


@pytest.mark.parametrize("levels", [2, 3])
def test_the_program_of_covariance_shaping_has_the_optimum_zero(levels: int) -> None:
    problem = qsdp.TrainingProblem(X, TWO, beta=0.5, activation="relu_like", levels=levels)
    relaxation = qsdp.solve_relaxation(problem)
    for k, built in enumerate(qsdp.build_shaping(relaxation)):
        assert built.form == "shaping"
        assert built.problem.solve(**ACCURATE) == pytest.approx(0.0, abs=1e-7)
        Q, N = built.variables["Q"].value, problem.size
        shaped = qsdp.shape_covariance(relaxation.with_levels(levels))[k]
        np.testing.assert_allclose(Q[:N, N:], shaped.Q[:N, N:], atol=1e-3)
        assert Q.diagonal().max() <= 1.0 + 1e-7
    assert "covariance shaping" in str(built)
    assert "sin(gamma Z)" in str(built.problem)


def test_programs_of_blocks_are_not_built() -> None:
    blocks = qsdp.Blocks(np.random.default_rng(0).standard_normal((6, 3)), [2])
    relaxation = qsdp.solve_relaxation(qsdp.TrainingProblem(blocks, np.ones(6), beta=0.1))
    with pytest.raises(InvalidInputError, match="got blocks"):
        qsdp.build_shaping(relaxation)
    built = qsdp.build_relaxation(relaxation.problem)
    built.problem.solve(**ACCURATE)
    assert built.relaxation().objective == pytest.approx(relaxation.objective, rel=1e-5)
