"""Refinements of weighted samples, and of losses that are defined elsewhere."""

from __future__ import annotations

import dataclasses
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from brute_force import Pinball, random_neurons, random_problem, random_vector_problem, weighted

import qsdp
from qsdp import BilinearNetwork, TrainingProblem
from qsdp.exceptions import SolverError
from qsdp.losses import LOSSES, CrossEntropy, Logistic, Loss


class Rough(Logistic):
    """A logistic loss that is not known to have a second derivative."""

    has_curvature = False  # type: ignore[assignment]


class RoughClasses(CrossEntropy):
    """The same of the cross-entropy."""

    has_curvature = False  # type: ignore[assignment]


def problems(loss: str, vector: bool = False, n: int = 18, d: int = 4, **options: Any) -> list[TrainingProblem]:
    """A problem with weights 0 .. 3, and the same with repeated rows."""
    options = {"beta": 0.1, **options}
    if vector or loss == "cross_entropy":
        return weighted(random_vector_problem(3, d, n, 3, loss, **options))
    return weighted(random_problem(3, d, n, loss, **options))


def network_for(problem: TrainingProblem, m: int, free: bool) -> BilinearNetwork:
    rng = np.random.default_rng(m)
    U, V = random_neurons(rng, m, problem)
    alpha = np.zeros((m, problem.n_outputs))
    alpha[np.arange(m), np.arange(m) * problem.n_outputs // m] = 0.05
    if free:
        alpha += 0.05 * rng.standard_normal(alpha.shape)
    return BilinearNetwork(
        U, V, alpha[:, 0] if problem.scalar else alpha, levels=problem.levels, activation=problem.activation
    )


def reweighted(problem: TrainingProblem, loss: Loss) -> TrainingProblem:
    """The problem with another loss."""
    y = problem.y
    return TrainingProblem(problem.X, y, beta=problem.beta, loss=loss, sample_weight=problem.sample_weight)


# -- weights are repeated rows -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "vector", "second_layer"),
    [
        *((loss, False, "free") for loss in LOSSES),
        *((loss, False, "shared") for loss in ("squared", "hinge")),
        ("squared", True, "shared"),
        ("hinge", True, "free"),
    ],
)
def test_refit(loss: str, vector: bool, second_layer: str) -> None:
    one, other = problems(loss, vector, beta=0.1)
    network = network_for(one, 12, free=False)
    first, second = (qsdp.refit(network, problem, second_layer=second_layer, tol=1e-11) for problem in (one, other))
    assert one.objective(first) == pytest.approx(other.objective(second), rel=1e-9, abs=1e-9)
    assert one.objective(first) == pytest.approx(other.objective(first), rel=1e-12)
    assert one.objective(first) < one.objective(network)


def test_refit_of_large_data(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = problems("squared", n=80, beta=0.3)
    network = network_for(one, 10, free=False)
    expected = one.objective(qsdp.refit(network, one, tol=1e-11))
    monkeypatch.setattr("qsdp._utils.parallel.WORK_FLOATS", 64)
    for problem in (one, other):
        assert problem.objective(qsdp.refit(network, problem)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(
    ("loss", "vector", "large"),
    [
        *((loss, False, False) for loss in LOSSES),
        *((loss, True, False) for loss in ("squared", "hinge")),
        # On kinks, where best magnitudes are, rounding decides on slopes.
        *((loss, False, True) for loss in ("squared", "huber", "logistic", "cross_entropy")),
        ("squared", True, True),
    ],
)
def test_polish(loss: str, vector: bool, free: bool, large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if large:
        monkeypatch.setattr("qsdp._utils.parallel.WORK_FLOATS", 16)
    one, other = problems(loss, vector, levels=3)
    network = network_for(one, 9, free)
    # Where the second layer is solved for, weights that a barrier leaves are rounding, and decide on bits.
    sweeps = 4 if free else 50
    first, second = (qsdp.polish(network, each, max_sweeps=sweeps, random_state=0) for each in (one, other))
    assert np.array_equal(first.U, second.U)
    assert np.array_equal(first.V, second.V)
    assert one.objective(first) == pytest.approx(other.objective(second), rel=1e-9)
    assert one.objective(first) < one.objective(network)


# -- losses from elsewhere -----------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [0.2, 0.5, 0.9])
def test_pinball_loss(q: float) -> None:
    one, other = (reweighted(problem, Pinball(q)) for problem in problems("absolute", n=10, d=2))
    network = network_for(one, 6, free=True)
    refitted = qsdp.refit(network, one, tol=1e-11)
    assert one.objective(refitted) == pytest.approx(other.objective(qsdp.refit(network, other, tol=1e-11)), rel=1e-9)
    # The best second layer, by a conic solver.
    alpha = cp.Variable((6, 1))
    penalty = one.beta * one.dimension * cp.sum(cp.abs(alpha))
    program = cp.Problem(cp.Minimize(one.data_fit.expression(network_images(network, one) @ alpha) + penalty))
    assert one.objective(refitted) == pytest.approx(program.solve(solver="CLARABEL"), rel=1e-7)
    polished = qsdp.polish(network, one, random_state=0)
    assert one.objective(polished) <= one.objective(refitted) * (1 + 1e-9)
    if q == 0.5:
        halves = TrainingProblem(one.X, one.y, beta=2 * one.beta, loss="absolute", sample_weight=one.sample_weight)
        assert 2.0 * one.objective(refitted) == pytest.approx(
            halves.objective(qsdp.refit(network, halves, tol=1e-11)), rel=1e-8
        )


def network_images(network: BilinearNetwork, problem: TrainingProblem) -> np.ndarray:
    left, right = problem.X @ network.U.T.astype(float), problem.X @ network.V.T.astype(float)
    return left * right


@pytest.mark.parametrize("loss", LOSSES)
def test_a_subclass_behaves_like_its_base(loss: str) -> None:
    kind = dataclasses.dataclass(frozen=True)(type("Mine", (LOSSES[loss],), {"name": "mine"}))
    problem = problems(loss)[0]
    other = reweighted(problem, kind())
    for free in (False, True):
        network = network_for(problem, 6, free)
        first, second = qsdp.polish(network, problem, random_state=0), qsdp.polish(network, other, random_state=0)
        assert np.array_equal(first.U, second.U)
        assert np.array_equal(first.alpha, second.alpha)
    assert np.array_equal(qsdp.refit(network, problem).alpha, qsdp.refit(network, other).alpha)


def test_polishing_needs_no_curvature_of_one_output() -> None:
    problem = problems("logistic")[0]
    rough = reweighted(problem, Rough())
    network = network_for(problem, 9, free=False)
    assert np.array_equal(qsdp.polish(network, rough).U, qsdp.polish(network, problem).U)
    free = network_for(problem, 9, free=True)
    assert rough.objective(qsdp.polish(free, rough, random_state=0)) < rough.objective(free)


def test_what_a_loss_lacks_is_said_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = reweighted(problems("logistic")[0], Rough())
    classes = reweighted(problems("cross_entropy")[0], RoughClasses())
    monkeypatch.setattr(TrainingProblem, "objective", None)
    monkeypatch.setattr(TrainingProblem, "adjoint", None)
    for refused in (
        lambda: qsdp.refit(network_for(problem, 4, free=False), problem),
        lambda: qsdp.polish(network_for(classes, 4, free=False), classes),
    ):
        with pytest.raises(SolverError, match=r"^loss must .*define curvature"):
            refused()
