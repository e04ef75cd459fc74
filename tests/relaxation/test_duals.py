"""The dual programs have the optimal values of the primal ones, for every loss, and bounds are their values."""

from __future__ import annotations

import numpy as np
import pytest

import qsdp
from qsdp.exceptions import InvalidInputError
from qsdp.losses import LOSSES, CrossEntropy, Huber, Squared, get_loss

cp = pytest.importorskip("cvxpy")
pytest.importorskip("clarabel")
ACCURATE = {"solver": "CLARABEL", "tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
#: Clarabel loses its way in exponential cones when it is asked for more.
COARSER = {"solver": "CLARABEL", "tol_gap_abs": 1e-8, "tol_gap_rel": 1e-8, "tol_feas": 1e-8}
RNG = np.random.default_rng(0)


def problem(loss: object = "squared", seed: int = 0, outputs: int = 1, **options: object) -> qsdp.TrainingProblem:
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


@pytest.mark.parametrize("regularization", ["tight", "paper"])
@pytest.mark.parametrize("case", CASES)
def test_strong_duality_of_the_bilinear_relaxation(case: str, regularization: str) -> None:
    one = problem(**CASES[case])
    primal = qsdp.build_full(one, regularization=regularization).problem.solve(**accuracy(case))
    built = qsdp.build_dual(one, regularization=regularization)
    assert built.problem.solve(**accuracy(case)) == pytest.approx(primal, rel=1e-6, abs=1e-7)
    nu = built.variables["nu"].value.reshape(one.n_samples, -1)
    assert one.data_fit.dual_value(one.data_fit.project(nu)) == pytest.approx(primal, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_bounds_of_this_package_are_values_of_the_dual(seed: int) -> None:
    one = problem(seed=seed)
    best = qsdp.build_dual(one).problem.solve(**ACCURATE)
    relaxation = qsdp.solve_relaxation(one, tol=1e-9)
    assert relaxation.lower_bound <= best + 1e-7
    assert relaxation.lower_bound == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_strong_duality_of_the_polynomial_relaxation(case: str) -> None:
    one = problem(**CASES[case])
    primal = qsdp.build_polynomial(one).problem.solve(**accuracy(case))
    dual = qsdp.build_dual_polynomial(one).problem.solve(**accuracy(case))
    assert dual == pytest.approx(primal, rel=1e-6, abs=1e-7)


def test_the_equality_of_the_diagonals_has_free_multipliers() -> None:
    # With (20), entries of z have either sign; with the inequality that (23) does not have, the value would be less.
    one = problem(seed=2)
    built = qsdp.build_dual_polynomial(one)
    value = built.problem.solve(**ACCURATE)
    limit = one.beta * one.n_features / one.size
    bounded = [built.variables[name] <= limit for name in ("z1", "z2")]
    fewer = cp.Problem(built.problem.objective, [*built.problem.constraints, *bounded]).solve(**ACCURATE)
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


def test_what_a_dual_cannot_be_built_of_is_refused() -> None:
    class Own(Squared):
        conjugate_expression = qsdp.losses.Loss.conjugate_expression

    with pytest.raises(InvalidInputError, match="loss 'squared' must define conjugate_expression for a dual program"):
        qsdp.build_dual(problem(Own()))
    blocks = qsdp.Blocks(np.ones((4, 3)), [2])
    with pytest.raises(InvalidInputError, match="must have rows of columns for a dual program; got blocks"):
        qsdp.build_dual(qsdp.TrainingProblem(blocks, np.ones(4), beta=1.0))
    with pytest.raises(InvalidInputError, match="regularization must be"):
        qsdp.build_dual(problem(), regularization="none")


def test_duals_are_formulations_that_print_and_summarise() -> None:
    built = qsdp.build_dual(problem(outputs=2))
    assert sorted(built.variables) == ["nu", "z1_0", "z1_1", "z2_0", "z2_1"]
    assert "2 matrices 6 x 6 positive semidefinite" in str(built)
    assert "dual of the polynomial form" in str(qsdp.build_dual_polynomial(problem()))
    assert "maximize" in str(built.problem)
