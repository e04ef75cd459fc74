"""Sample weights in the relaxation: a weight counts rows, in every solver, and proves what the rows prove."""

import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from brute_force import global_optimum
from solver_problems import data, reference

import qsdp
from qsdp.losses import LOSSES, Huber, Logistic

pytestmark = pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning")

SMOOTH = [name for name, loss in LOSSES.items() if loss.smooth]
COUNTS = np.array([1, 2, 3, 1, 5, 1, 1, 2, 4, 1, 3, 2, 1, 1])
#: Between samples whose matrices have 10 entries, 14 need the kernel and 40 the Gram matrix.
SIZES = [(14, 4), (42, 3)]


def weighted(n: int, d: int, loss: str, *, vector: bool = False) -> tuple[qsdp.TrainingProblem, qsdp.TrainingProblem]:
    """Return a problem with weights 1 .. 5, and one with so many rows."""
    X, y = data(n, d, loss)
    if vector:
        y = np.column_stack([y, -y[::-1]])
    counts = np.resize(COUNTS, n)
    options = {"beta": 0.7, "loss": loss, "activation": "relu_like"}
    return (
        qsdp.TrainingProblem(X, y, sample_weight=counts, **options),
        qsdp.TrainingProblem(np.repeat(X, counts, axis=0), np.repeat(y, counts, axis=0), **options),
    )


def solved(problem: qsdp.TrainingProblem, solver: str, tol: float, max_iter: int = 200) -> qsdp.Relaxation:
    return qsdp.solve_relaxation(problem, solver=solver, tol=tol, max_iter=max_iter)


def assert_equal(one: qsdp.Relaxation, other: qsdp.Relaxation, rel: float) -> None:
    assert one.objective == pytest.approx(other.objective, rel=rel)
    assert one.lower_bound == pytest.approx(other.lower_bound, rel=rel)


VECTORS = [(loss, vector) for loss in LOSSES for vector in (False, True) if not (vector and LOSSES[loss].coupled)]


@pytest.mark.parametrize(("loss", "vector"), VECTORS)
def test_interior_points_count_rows(loss, vector):
    one, other = weighted(*SIZES[not vector], loss, vector=vector)
    found, expected = solved(one, "interior", 2e-10), solved(other, "interior", 2e-10)
    # Kinks of many rows leave the method without digits, but their weights do not.
    assert found.relative_gap < 2e-9
    assert_equal(found, expected, 1e-9 + expected.relative_gap)


@pytest.mark.parametrize(("loss", "vector"), VECTORS)
def test_splitting_counts_rows(loss, vector):
    """Iterates are those of the rows, so that they agree beyond the tolerance."""
    one, other = (solved(problem, "splitting", 1e-5, 100) for problem in weighted(*SIZES[vector], loss, vector=vector))
    assert_equal(one, other, 1e-9)


@pytest.mark.parametrize("loss", SMOOTH)
def test_low_rank_counts_rows(loss):
    one, other = (solved(problem, "low-rank", 1e-6) for problem in weighted(*SIZES[0], loss))
    assert_equal(one, other, 2e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_conic_solvers_count_rows(loss):
    one, other = (reference(problem) for problem in weighted(*SIZES[0], loss))
    assert_equal(one, other, 1e-5)


@pytest.mark.parametrize(
    ("loss", "solver"),
    [*itertools.product(LOSSES, ["interior", "splitting"]), *((loss, "low-rank") for loss in SMOOTH)],
)
def test_any_weights_agree_with_a_conic_solver(loss, solver):
    X, y = data(20, 4, loss)
    weights = np.random.default_rng(1).lognormal(0.0, 1.0, 20)
    problem = qsdp.TrainingProblem(X, y, beta=1.0, loss=loss, sample_weight=weights)
    tol, max_iter = (1e-6, 20_000) if solver == "splitting" else (1e-7 if solver == "interior" else 1e-6, 200)
    ours, theirs = solved(problem, solver, tol, max_iter), reference(problem)
    assert ours.status == "optimal"
    assert ours.objective == pytest.approx(theirs.objective, rel=2e-6)
    assert ours.lower_bound <= theirs.objective * (1.0 + 1e-12)
    assert theirs.lower_bound <= ours.objective * (1.0 + 1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_weight_zero_leaves_a_row_out(loss):
    X, y = data(15, 3, loss)
    weights = np.ones(15)
    weights[[2, 7]] = 0.0
    one = qsdp.solve_relaxation(qsdp.TrainingProblem(X, y, beta=0.4, loss=loss, sample_weight=weights))
    kept = weights > 0.0
    other = qsdp.solve_relaxation(qsdp.TrainingProblem(X[kept], y[kept], beta=0.4, loss=loss))
    assert (one.objective, one.lower_bound) == (other.objective, other.lower_bound)


@pytest.mark.parametrize("loss", LOSSES)
def test_bounds_are_below_the_enumerated_optimum(loss):
    X, y = data(12, 3, loss)
    weights = np.random.default_rng(2).lognormal(0.0, 2.0, 12)
    problem = qsdp.TrainingProblem(X, y, beta=0.3, loss=loss, sample_weight=weights)
    optimum = global_optimum(problem)
    relaxation = qsdp.solve_relaxation(problem)
    assert relaxation.lower_bound <= optimum.upper
    assert relaxation.lower_bound > 0.3 * optimum.lower


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_paths_and_reduced_samples_count_rows(loss):
    one, other = weighted(60, 2, loss)
    assert qsdp.beta_max(one) == pytest.approx(qsdp.beta_max(other), rel=1e-9)
    for solver in ("auto", "clarabel"):
        found = [qsdp.solve_relaxation(problem, solver=solver, tol=1e-7) for problem in (one, other)]
        assert_equal(*found, 5e-6)


# -- losses of one's own ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MyHuber(Huber):
    name: ClassVar[str] = "mine"


@dataclass(frozen=True)
class MyLogistic(Logistic):
    name: ClassVar[str] = "mine"


@pytest.mark.parametrize("solver", ["interior", "splitting", "low-rank"])
@pytest.mark.parametrize(("mine", "theirs"), [(MyHuber(0.7), Huber(0.7)), (MyLogistic(), Logistic())])
def test_a_subclass_is_its_loss(mine, theirs, solver):
    X, y = data(20, 4, theirs.name)
    one, other = (
        qsdp.solve_relaxation(qsdp.TrainingProblem(X, y, beta=0.4, loss=loss), solver=solver, tol=1e-5)
        for loss in (mine, theirs)
    )
    assert (one.objective, one.lower_bound) == (other.objective, other.lower_bound)
