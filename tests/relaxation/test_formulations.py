"""The programs as CVXPY problems: equivalent forms, independent implementations, size of the problem."""

import re

import cvxpy as cp
import numpy as np
import pytest
from brute_force import global_optimum, quadratic_features, random_problem
from hypothesis import given, settings
from hypothesis import strategies as st

import qsdp
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.losses import SCALAR_LOSSES

# The tolerance asked for is at the edge of what the solver reaches; the comparisons allow much more.
pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")

ACCURATE = {"solver": "CLARABEL", "tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 5),
    n=st.integers(2, 15),
    loss=st.sampled_from(sorted(SCALAR_LOSSES)),
    beta=st.sampled_from([0.01, 0.1, 1.0]),
    regularization=st.sampled_from(["tight", "paper"]),
)
def test_two_block_form_equals_the_literal_one(seed, d, n, loss, beta, regularization):
    problem = random_problem(seed, d, n, loss=loss, beta=beta)
    full = qsdp.build_full(problem, regularization=regularization)
    two_block = qsdp.build_two_block(problem, regularization=regularization)
    expected = full.problem.solve(**ACCURATE)
    assert two_block.problem.solve(**ACCURATE) == pytest.approx(expected, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("form", ["full", "two-block"])
@pytest.mark.parametrize(("regularization", "factor"), [("tight", 2.0), ("paper", 1.0)])
def test_forms_equal_the_paper_written_out_entry_by_entry(form, regularization, factor):
    problem = random_problem(7, 4, 9, loss="huber", beta=0.3)
    d = problem.dimension
    V, W = cp.Variable((d, d)), cp.Variable((d, d))
    Z, rho = cp.Variable((d, d)), cp.Variable()
    predictions = cp.hstack([2 * x @ Z @ x for x in problem.X])
    objective = cp.sum(cp.huber(predictions - problem.y)) + factor * problem.beta * d * rho
    constraints = [cp.bmat([[V, Z], [Z.T, W]]) >> 0, V == V.T, W == W.T]
    constraints += [M[j, j] == rho for M in (V, W) for j in range(d)]
    expected = cp.Problem(cp.Minimize(objective), constraints).solve(**ACCURATE)
    built = qsdp.build_relaxation(problem, form=form, regularization=regularization)
    assert built.problem.solve(**ACCURATE) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("form", ["full", "two-block"])
def test_values_and_multipliers_come_back_in_the_same_meaning(form):
    problem = random_problem(1, 4, 12, beta=0.4)
    built = qsdp.build_relaxation(problem, form=form)
    value = built.problem.solve(**ACCURATE)
    Z, V, W = (block[0] for block in built.matrices())
    nu, (z,) = built.duals()
    nu, prediction = nu[:, 0], built.variables["yhat"].value
    np.testing.assert_allclose(prediction, 2 * np.einsum("ij,jk,ik->i", problem.X, Z, problem.X), atol=1e-6)
    assert value == pytest.approx(problem.relaxed_objective(Z, float(built.variables["rho"].value)), rel=1e-6)
    # nu is minus the gradient of the loss, and Diag(z) +- X' diag(nu) X is positive semidefinite (up to
    # the scale of z, which the bound does not use).
    np.testing.assert_allclose(nu, -problem.loss.gradient(prediction, problem.y), atol=1e-5)
    M = problem.map.adjoint(nu)
    z = z * problem.beta * problem.dimension / z.sum()
    assert np.linalg.eigvalsh(np.diag(z) - M)[0] >= -1e-6
    assert np.linalg.eigvalsh(np.diag(z) + M)[0] >= -1e-6
    assert np.linalg.eigvalsh(np.block([[V, Z], [Z.T, W]]))[0] >= -1e-8


@pytest.mark.parametrize("form", ["full", "two-block"])
def test_number_of_constraints_does_not_grow_with_the_data(form):
    sizes = [len(qsdp.build_relaxation(random_problem(0, 5, n), form=form).problem.constraints) for n in (4, 400)]
    assert sizes[0] == sizes[1] <= 4


def test_unsolved_formulation_has_no_values():
    built = qsdp.build_two_block(random_problem(0, 3, 5))
    assert built.matrices() == (None, None, None)
    assert built.duals() == (None, None)


@pytest.mark.parametrize("build", [qsdp.build_full, qsdp.build_two_block, qsdp.build_polynomial])
def test_formulations_print_their_variables(build):
    built = build(random_problem(0, 3, 5))
    assert "yhat" in str(built)
    assert "rho" in str(built)
    assert f"form={built.form!r}" in repr(built)


@pytest.mark.parametrize("loss", sorted(SCALAR_LOSSES))
@pytest.mark.parametrize("build", [qsdp.build_full, qsdp.build_two_block, qsdp.build_polynomial])
def test_programs_print_names_and_not_the_data(build, loss):
    rng = np.random.default_rng(0)
    X, weights = rng.standard_normal((200, 40)), rng.uniform(1.0, 2.0, 200)
    for activation, levels in ((None, 2), ("relu_like", 3)):
        y = np.sign(X[:, 0] * X[:, 1])
        options = {"loss": loss, "activation": activation, "levels": levels, "sample_weight": weights}
        built = build(qsdp.TrainingProblem(X, y, beta=0.1, **options))
        text = str(built.problem)
        assert len(text) < 1000
        assert {"minimize", "yhat", "rho", "X", "y", "weights"} <= set(re.findall("[a-z]+|X", text))


def test_formulations_summarise_sizes_and_say_how_to_solve():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 4))
    problem = qsdp.TrainingProblem(X, X[:, :2], beta=0.1)
    built = {form: qsdp.build_relaxation(problem, form=form) for form in ("full", "two-block")}
    for form, size in (("full", "2 matrices 8 x 8"), ("two-block", "4 matrices 4 x 4")):
        text = str(built[form])
        equations = 2 * (12 + (8 if form == "full" else 4))
        assert f"{equations} equations; {size} positive semidefinite" in text
        assert 'problem.solve(solver="SCS")' in text
        assert len(text) < 600
        assert len(repr(built[form])) < 100
        assert f"form={form!r}" in repr(built[form])
        assert "<table" in built[form]._repr_html_()


def test_unknown_names_are_refused():
    problem = random_problem(0, 3, 5)
    with pytest.raises(InvalidInputError, match="did you mean 'full'"):
        qsdp.build_relaxation(problem, form="ful")
    with pytest.raises(InvalidInputError, match="did you mean 'tight'"):
        qsdp.build_relaxation(problem, regularization="tigth")


class TestPolynomial:
    """(23): the quadratic activation directly."""

    @settings(max_examples=30, deadline=None)
    @given(
        seed=st.integers(0, 2**32 - 1),
        d=st.integers(2, 6),
        n=st.integers(2, 15),
        loss=st.sampled_from(sorted(SCALAR_LOSSES)),
        beta=st.sampled_from([0.01, 0.1, 1.0]),
    )
    def test_is_below_the_optimum_over_all_neurons(self, seed, d, n, loss, beta):
        problem = random_problem(seed, d, n, loss=loss, beta=beta)
        optimum = global_optimum(problem, quadratic_features(problem.X))
        value = qsdp.build_polynomial(problem).problem.solve(**ACCURATE)
        assert value <= optimum.upper + 1e-6 * max(1.0, optimum.upper)

    def test_is_between_the_bilinear_relaxation_and_the_optimum(self):
        # A network with v = u is a bilinear one, so its relaxation is the looser of the two.
        problem = random_problem(3, 5, 25, beta=0.3)
        value = qsdp.build_polynomial(problem).problem.solve(**ACCURATE)
        assert qsdp.build_two_block(problem).problem.solve(**ACCURATE) <= value + 1e-6
        assert value >= 0.5 * global_optimum(problem, quadratic_features(problem.X)).lower

    def test_rho_is_the_common_diagonal(self):
        problem = random_problem(3, 4, 15, beta=0.2)
        built = qsdp.build_polynomial(problem)
        built.problem.solve(**ACCURATE)
        values = {name: variable.value for name, variable in built.variables.items()}
        np.testing.assert_allclose(values["Z1"].diagonal(), values["rho1"], atol=1e-7)
        np.testing.assert_allclose(values["Z2"].diagonal(), values["rho2"], atol=1e-7)


@pytest.mark.parametrize(
    "build", [qsdp.build_full, qsdp.build_two_block, qsdp.build_relaxation, qsdp.build_dual, qsdp.build_polynomial]
)
def test_what_is_not_a_problem_is_refused(build):
    with pytest.raises(InvalidTypeError, match="problem must be a TrainingProblem; got ndarray"):
        build(np.ones((3, 2)))
