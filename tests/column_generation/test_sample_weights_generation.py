"""Column generation of weighted samples, and of losses that are defined elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from brute_force import Pinball, global_optimum, random_problem, random_vector_problem, weighted

import qsdp
from qsdp import TrainingProblem, column_generation
from qsdp.exceptions import SolverError
from qsdp.losses import LOSSES, Huber, Logistic, Loss


class Bare(Logistic):
    """A logistic loss that is not known to have a second derivative."""

    has_curvature = False  # type: ignore[assignment]


@dataclass(frozen=True)
class Softplus(Loss):
    """The logistic loss from outside: nothing but what a second layer needs is its own."""

    name: ClassVar[str] = "softplus"
    labels: ClassVar[bool] = True
    smooth: ClassVar[bool] = True
    bounded_dual: ClassVar[bool] = True
    lipschitz = 1.0  # type: ignore[assignment]
    inner: ClassVar[Loss] = Logistic()

    def values(self, prediction: Any, target: Any) -> Any:
        return self.inner.values(prediction, target)

    def gradient(self, prediction: Any, target: Any) -> Any:
        return self.inner.gradient(prediction, target)

    def conjugates(self, dual: Any, target: Any) -> Any:
        return self.inner.conjugates(dual, target)

    def project_dual(self, dual: Any, target: Any) -> Any:
        return self.inner.project_dual(dual, target)

    def prox(self, point: Any, target: Any, step: Any) -> Any:
        return self.inner.prox(point, target, step)

    def expression(self, prediction: Any, target: Any, weight: Any = 1.0) -> Any:
        return self.inner.expression(prediction, target, weight)

    def rescaled(self, scale: float) -> tuple[Loss, float]:
        return self, self.inner.rescaled(scale)[1]

    def curvature(self, prediction: Any, target: Any) -> Any:
        return self.inner.curvature(prediction, target)


def problems(loss: str, vector: bool, **options: Any) -> list[TrainingProblem]:
    """A problem with weights 0 .. 3, and the same with repeated rows."""
    if vector or loss == "cross_entropy":
        return weighted(random_vector_problem(3, 4, 18, 3, loss, **options), seed=1)
    return weighted(random_problem(3, 4, 18, loss, **options), seed=1)


def test_a_loss_without_equations_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(0, 4, 12, "logistic")
    problem = TrainingProblem(problem.X, problem.y, beta=0.1, loss=Bare())
    network = qsdp.BilinearNetwork(np.ones((1, 4)), np.ones((1, 4)), [0.1])
    monkeypatch.setattr(TrainingProblem, "adjoint", None)
    for refused in (
        lambda: column_generation(problem),
        lambda: qsdp.refit(network, problem),
    ):
        with pytest.raises(SolverError, match="loss must be a PiecewiseQuadratic or define curvature"):
            refused()


# -- networks of any width ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "vector"),
    [*((loss, False) for loss in LOSSES), ("squared", True), ("hinge", True), ("cross_entropy", True)],
)
def test_weights_are_repeated_rows(loss: str, vector: bool) -> None:
    one, other = (column_generation(problem, tol=1e-10) for problem in problems(loss, vector, beta=0.3))
    assert one.relative_gap <= 1e-9 >= other.relative_gap
    assert one.objective == pytest.approx(other.objective, rel=1e-9)
    assert one.lower_bound == pytest.approx(other.lower_bound, rel=1e-9)
    assert one.certificate.bound_type == other.certificate.bound_type == "exact"


@pytest.mark.parametrize("rows", ["gram", "all"])
def test_reductions_of_weighted_samples(rows: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if rows != "gram":
        monkeypatch.setattr("qsdp.relaxation.instance.Reduction.applies", lambda instance: False)
    rng = np.random.default_rng(0)
    problem = random_problem(1, 4, 60, activation="relu_like")
    w = rng.uniform(0.01, 5.0, 60)
    problem = TrainingProblem(problem.X, problem.y, beta=2.0, activation="relu_like", sample_weight=w)
    result = column_generation(problem, tol=1e-9)
    optimum = global_optimum(problem)
    assert result.relative_gap <= 1e-8
    assert optimum.lower * (1 - 1e-9) <= result.objective <= optimum.upper * (1 + 1e-7)
    assert result.lower_bound <= optimum.upper


@pytest.mark.parametrize("loss", [Pinball(0.3), Pinball(0.8), Softplus(), Huber(0.4)], ids=repr)
def test_losses_of_ones_own_are_proven_optimal(loss: Loss) -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((15, 4))
    y = rng.choice([-1.0, 1.0], 15) if loss.labels else rng.standard_normal(15)
    for w in (None, rng.uniform(0.2, 4.0, 15)):
        problem = TrainingProblem(X, y, beta=0.2, loss=loss, sample_weight=w)
        result = column_generation(problem)
        assert result.status == "optimal"
        optimum = global_optimum(problem)
        assert optimum.lower * (1 - 1e-9) <= result.objective <= optimum.upper * (1 + 2e-6)
        assert result.lower_bound <= optimum.upper * (1 + 1e-12)
