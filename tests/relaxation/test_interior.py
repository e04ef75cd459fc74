"""The interior-point method against conic solvers, reference values and what it promises at every stop."""

import numpy as np
import pytest

import qsdp
from qsdp.lifting import append_constant
from qsdp.relaxation.incumbent import Limits
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.interior import solve_interior
from qsdp.relaxation.solution import Relaxation, finish


def solved(problem: qsdp.TrainingProblem, tol: float = 1e-9) -> Relaxation:
    """Solve to the certified gap; the final bound allows for more rounding than that."""
    raw = solve_interior(Instance.of(problem).normalised()[0], Limits(tol, 100))
    assert raw.status == "optimal"
    return finish(problem, raw, solver="interior", tol=tol)


def reference(problem: qsdp.TrainingProblem) -> Relaxation:
    return qsdp.solve_relaxation(problem, solver="clarabel", tol=1e-9)


def standardised(name: str) -> tuple[np.ndarray, np.ndarray]:
    data = qsdp.datasets.load_uci(name)
    X, y = data.data, data.target
    train = np.random.default_rng(0).permutation(len(X))[: int(0.8 * len(X))]
    X, y = X[train], y[train]
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@pytest.mark.usefixtures("uci_available")
@pytest.mark.parametrize(
    ("name", "constant", "optimum"), [("ionosphere", False, 56.2728), ("breast-cancer", True, 136.975)]
)
def test_reference_values_of_the_relaxation(name, constant, optimum):
    X, y = standardised(name)
    relaxation = solved(qsdp.TrainingProblem(append_constant(X) if constant else X, y, beta=10.0))
    assert relaxation.objective == pytest.approx(optimum, abs=5e-4)
    assert relaxation.relative_gap < 2e-6


@pytest.mark.parametrize("n", [8, 40])
@pytest.mark.parametrize("beta", [0.01, 1.0])
def test_squared_loss_agrees_with_a_conic_solver(n, beta):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 4))
    problem = qsdp.TrainingProblem(append_constant(X), X[:, 0] * X[:, 1] + 0.1 * rng.standard_normal(n), beta=beta)
    ours, theirs = solved(problem), reference(problem)
    assert ours.relative_gap < 2e-6
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-6)
