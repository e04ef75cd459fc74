"""Decompositions through few rows of the data agree with those of the whole matrices."""

from __future__ import annotations

import numpy as np
import pytest

import qsdp
from qsdp.lifting import QuadraticMap
from qsdp.relaxation import bounds, spectra
from qsdp.relaxation.evaluation import DirectEvaluation
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.repair import along_gradient
from qsdp.relaxation.scaled import ScaledProblem
from qsdp.relaxation.solvers.lowrank.factor_objective import ObjectiveData

PROBLEMS = pytest.mark.parametrize(
    ("activation", "outputs"), [(None, 1), (None, 3), ("relu_like", 1), ("relu_like", 3)]
)


def wide_problem(activation: str | None, outputs: int = 1, n: int = 8, d: int = 60) -> qsdp.TrainingProblem:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, d)), rng.standard_normal((n, outputs))
    return qsdp.TrainingProblem(X, y, beta=0.01, activation=activation)


def whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make all decompositions use the whole matrices."""
    monkeypatch.setattr(QuadraticMap, "has_few_rows", False)


@pytest.mark.parametrize("activation", [None, "relu_like"])
def test_all_nonzero_eigenvalues_are_found(activation: str | None) -> None:
    rng, problem = np.random.default_rng(0), wide_problem(activation, n=5, d=30)
    data = ObjectiveData(problem.map, rng.exponential(size=5))
    scales, nu = rng.exponential(size=problem.size), rng.standard_normal(5)
    assert problem.map.has_few_rows
    M = problem.map.adjoint(nu)
    for (values, vectors), matrix in [
        (spectra.decomposed(problem.map, M, nu, scales), M),
        (data.modes(scales), data._moments),
    ]:
        expected = matrix * np.outer(scales, scales)
        np.testing.assert_allclose((vectors * values) @ vectors.T, expected, atol=1e-12 * np.abs(expected).max())
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(values)), atol=1e-12)


@PROBLEMS
def test_bounds_are_those_of_the_whole_matrices(
    activation: str | None, outputs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, rng = wide_problem(activation, outputs), np.random.default_rng(1)
    instance, nu = Instance.from_problem(problem), rng.standard_normal((8, outputs))
    z = rng.exponential(size=(outputs, problem.size))
    M, evaluation = instance.adjoints(nu), DirectEvaluation(instance)

    def proofs() -> list[bounds.DualBound]:
        return [bounds.instance_bound(instance, [nu], [z], exhaustive=exhaustive) for exhaustive in (False, True)]

    found, few = evaluation.dominating(nu, M, z), proofs()
    np.testing.assert_allclose(found, spectra.dominating(M, z), rtol=1e-12)
    whole(monkeypatch)
    for own, expected in zip(few, proofs(), strict=True):
        assert own.value == pytest.approx(expected.value, rel=1e-10)
        np.testing.assert_allclose(own.z, expected.z, rtol=1e-10)


@PROBLEMS
def test_the_weights_of_a_bound_dominate_the_whole_matrix(activation: str | None, outputs: int) -> None:
    """The upper bound is never below the exact one, though terms of the matrix cancel to a millionth of their size."""
    data, rng = wide_problem(activation, outputs).map, np.random.default_rng(2)
    rows = np.vstack([data.X[:4], data.X[:4] * (1.0 + 1e-6 * rng.standard_normal((4, 1)))])
    close = qsdp.TrainingProblem(rows, np.ones(8), beta=1.0, activation=activation).map
    nu, z = np.repeat([1.0, -1.0], 4), rng.exponential(size=close.size)
    M = close.adjoint(nu)
    t = spectra.multiple_of(close, M, nu, z)
    weights = spectra.proven_weights(close, M, nu, z, t)
    assert np.abs(M).max() < 1e-4 * np.square(rows).max()
    exact = spectra.spectral_bound(M, z)
    assert np.all(exact * z <= weights)
    assert np.all(weights <= (1.0 + 1e-4) * exact * z)


@pytest.mark.parametrize("activation", [None, "relu_like"])
def test_the_weights_of_a_bound_trust_no_factorisation(activation: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    data, rng = wide_problem(activation).map, np.random.default_rng(4)
    nu, z = rng.standard_normal(8), rng.exponential(size=data.size)
    M, factored = data.adjoint(nu), np.linalg.qr
    exact = spectra.spectral_bound(M, z)

    def inaccurate(A: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple((1.0 + error * rng.standard_normal(part.shape)) * part for part in factored(A))

    for error in (1e-9, 1e-6, 1e-3):
        monkeypatch.setattr(np.linalg, "qr", inaccurate)
        weights = spectra.proven_weights(data, M, nu, z, exact)
        assert np.all(exact * z <= weights)
        assert np.all(weights <= (1.0 + 100.0 * error) * exact * z)


@PROBLEMS
def test_the_point_along_the_gradient_is_that_of_the_whole_matrix(
    activation: str | None, outputs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = ScaledProblem.from_problem(wide_problem(activation, outputs)).instance
    few = along_gradient(instance)
    whole(monkeypatch)
    expected = along_gradient(instance)
    for name in ("Z", "V"):
        matrices = getattr(expected, name)
        np.testing.assert_allclose(getattr(few, name), matrices, rtol=1e-10, atol=1e-12 * np.abs(matrices).max())


@pytest.mark.parametrize("loss", ["squared", "hinge"])
@pytest.mark.parametrize("solver", ["auto", "interior", "low-rank"])
def test_relaxations_are_those_of_the_whole_matrices(solver: str, loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if solver == "low-rank" and loss == "hinge":
        loss = "logistic"
    rng = np.random.default_rng(3)
    X = rng.standard_normal((10, 40))
    problem = qsdp.TrainingProblem(X, np.sign(X[:, 0] * X[:, 1]), beta=0.05, loss=loss)
    few = qsdp.solve_relaxation(problem, solver)
    whole(monkeypatch)
    expected = qsdp.solve_relaxation(problem, solver)
    assert few.status == expected.status == "optimal"
    assert few.lower_bound == pytest.approx(expected.lower_bound, rel=1e-6)
    assert expected.lower_bound <= few.objective
    assert few.lower_bound <= expected.objective
