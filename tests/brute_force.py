"""The global optimum of small training problems, by enumerating every neuron."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import cvxpy as cp
import numpy as np

import qsdp
from qsdp.losses import Loss, PiecewiseQuadratic

#: Activations with every combination of parts, lifted and not.
ACTIVATIONS: list[Any] = [
    "quadratic",
    "relu_like",
    "linear_quadratic",
    (-0.5, 1.0, 0.25),
    (0.0, 1.0, 0.0),
    (0.0, 0.0, 1.0),
    (0.7, 0.0, -0.4),
]

#: Clarabel gives up on some problems of many equal atoms.
_ATTEMPTS: list[dict[str, Any]] = [
    {"solver": "CLARABEL", "tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10},
    {"solver": "CLARABEL"},
    {"solver": "SCS", "eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 100_000},
]


@dataclass(frozen=True)
class Optimum:
    """``lower <= p_b* <= upper``, both evaluated from the data; alpha attains upper."""

    lower: float
    upper: float
    alpha: np.ndarray


def sign_vectors(d: int) -> np.ndarray:
    """All vectors of {-1, +1}^d whose first entry is +1, as rows."""
    tails = np.array(list(itertools.product([1.0, -1.0], repeat=d - 1))).reshape(2 ** (d - 1), d - 1)
    return np.hstack([np.ones((len(tails), 1)), tails])


def level_vectors(d: int, levels: int) -> np.ndarray:
    """All vectors of Q_M^d, M = levels - 1, as rows."""
    return np.array(list(itertools.product(range(1 - levels, levels, 2), repeat=d)), dtype=float)


def atoms(problem: qsdp.TrainingProblem) -> tuple[np.ndarray, np.ndarray]:
    """Every pair (u, v) of neurons up to signs and order, as rows of two matrices of true levels."""
    one_side = level_vectors(problem.n_features, problem.levels)
    if problem.lifted:
        # Of a neuron and its negative the one whose last entry is +1.
        one_side = np.hstack([one_side, np.ones((len(one_side), 1))])
    else:
        one_side = one_side[: (len(one_side) + 1) // 2]
    first, second = np.triu_indices(len(one_side))
    return one_side[first], one_side[second]


def neuron_values(problem: qsdp.TrainingProblem, U: np.ndarray, V: np.ndarray) -> np.ndarray:
    """u' X_i v for every row (u, v) of U and V, from the definition of the lift: one column a neuron."""
    a, b, c = problem.activation.coefficients if problem.activation else (1.0, 0.0, 0.0)
    d = problem.n_features
    left, right = problem.X @ U[:, :d].T, problem.X @ V[:, :d].T
    if not problem.lifted:
        return a * left * right
    s, t = U[:, d], V[:, d]
    return a * left * right + 0.5 * b * (left * t + right * s) + c * s * t


def lifted_features(problem: qsdp.TrainingProblem) -> np.ndarray:
    """u' X_i v for every pair of neurons of the problem."""
    return neuron_values(problem, *atoms(problem))


def quadratic_features(X: np.ndarray) -> np.ndarray:
    """(x.u)^2 for every u up to sign."""
    return (X @ sign_vectors(X.shape[1]).T) ** 2


def global_optimum(
    problem: qsdp.TrainingProblem, features: np.ndarray | None = None, weight: float | None = None
) -> Optimum:
    """Solve the training problem over all neurons; the lower end is an evaluated feasible dual value.

    Features of other atoms than the pairs of neurons, and another price than beta D, may be given.
    """
    if features is None:
        features = lifted_features(problem)
    if weight is None:
        weight = problem.beta * problem.dimension
    alpha = cp.Variable((features.shape[1], problem.n_outputs))
    prediction = cp.Variable(problem.targets.shape)
    fit = prediction == features @ alpha
    loss = problem.data_fit
    objective = loss.expression(prediction) + weight * cp.sum(cp.abs(alpha))
    program = cp.Problem(cp.Minimize(objective), [fit])
    with warnings.catch_warnings():
        # Both ends are evaluated below, however accurate the solver was.
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        for options in _ATTEMPTS:
            try:
                program.solve(**options)
                break
            except cp.SolverError:
                continue
    value = loss.value(features @ alpha.value) + weight * np.abs(alpha.value).sum()
    best = 0.0
    multipliers = np.reshape(fit.dual_value, problem.targets.shape)
    for nu in (multipliers, -loss.gradient(features @ alpha.value)):
        nu = loss.project(nu)
        steepest = np.abs(features.T @ nu).max()
        scale = min(1.0, weight / steepest) if steepest > 0 else 1.0
        best = max(best, loss.dual_value(scale * nu))
    # Less what rounding may have added: sums of n terms no larger than these.
    size = best + loss.value_at_zero
    return Optimum(max(0.0, best - 1e-15 * problem.y.size * size), value, problem.squeezed(alpha.value))


def optimal_network(problem: qsdp.TrainingProblem, optimum: Optimum) -> qsdp.BilinearNetwork:
    """The network that attains the upper end."""
    U, V = atoms(problem)
    return qsdp.BilinearNetwork(U, V, optimum.alpha, levels=problem.levels, activation=problem.activation)


def random_problem(
    seed: int,
    d: int,
    n: int,
    loss: str = "squared",
    beta: float = 0.1,
    coarse: bool = False,
    activation: Any = None,
    levels: int = 2,
) -> qsdp.TrainingProblem:
    """Draw Gaussian data, or coarse data: integers, with ties, equal rows and zero columns."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(n, d)).astype(float) if coarse else rng.standard_normal((n, d))
    if loss in {"logistic", "hinge", "squared_hinge"}:
        y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
        y[:2] = [-1.0, 1.0]
    else:
        y = rng.standard_normal(n) * rng.choice([0.1, 1.0, 10.0])
    return qsdp.TrainingProblem(X, y, beta=beta, loss=loss, activation=activation, levels=levels)


def random_vector_problem(
    seed: int, d: int, n: int, n_outputs: int, loss: str = "squared", beta: float = 0.1, **options: Any
) -> qsdp.TrainingProblem:
    """Draw Gaussian data with real targets, labels or classes for several outputs."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    if loss == "cross_entropy":
        y = rng.permutation(np.arange(n) % n_outputs).astype(float)
    elif loss in {"logistic", "hinge", "squared_hinge"}:
        y = np.where(rng.random((n, n_outputs)) < 0.5, -1.0, 1.0)
        y[0], y[1] = -1.0, 1.0
    else:
        y = rng.standard_normal((n, n_outputs)) * rng.choice([0.1, 1.0, 10.0], n_outputs)
    return qsdp.TrainingProblem(X, y, beta=beta, loss=loss, **options)


def weighted(problem: qsdp.TrainingProblem, seed: int = 0) -> list[qsdp.TrainingProblem]:
    """The problem with sample weights 0 .. 3, and the same with repeated rows; the first three rows stay."""
    counts = np.random.default_rng(seed).integers(0, 4, problem.n_samples)
    counts[:3] = [1, 2, 3]
    rows = np.repeat(np.arange(problem.n_samples), counts)
    options: dict[str, Any] = {
        "beta": problem.beta,
        "loss": problem.loss,
        "activation": problem.activation,
        "levels": problem.levels,
    }
    return [
        qsdp.TrainingProblem(problem.X, problem.y, sample_weight=counts, **options),
        qsdp.TrainingProblem(problem.X[rows], problem.y[rows], **options),
    ]


@dataclass(frozen=True)
class Pinball(PiecewiseQuadratic):
    """A loss from outside: ``q r`` for ``r = y - t >= 0``, ``(q - 1) r`` below."""

    q: float = 0.5

    name: ClassVar[str] = "pinball"
    smooth: ClassVar[bool] = False
    bounded_dual: ClassVar[bool] = True

    @property
    def lipschitz(self) -> float:
        return max(self.q, 1.0 - self.q)

    def interval(self, target: np.ndarray) -> tuple[float, float]:
        return self.q - 1.0, self.q

    def values(self, prediction: np.ndarray, target: np.ndarray) -> np.ndarray:
        r = target - prediction
        return np.maximum(self.q * r, (self.q - 1.0) * r)

    def expression(self, prediction: Any, target: np.ndarray, weight: Any = 1.0) -> Any:
        r = target - prediction
        values = cp.maximum(self.q * r, (self.q - 1.0) * r)
        return cp.sum(cp.multiply(weight, values))

    def rescaled(self, scale: float) -> tuple[Loss, float]:
        return self, float(scale)


def random_neurons(rng: np.random.Generator, m: int, problem: qsdp.TrainingProblem) -> tuple[np.ndarray, np.ndarray]:
    """Draw weights of the problem's levels, binary in the last entry of a lift."""
    U, V = rng.integers(0, problem.levels, size=(2, m, problem.size)) * 2 - (problem.levels - 1)
    for W in (U, V):
        W[:, problem.n_features :] = rng.choice([-1, 1], size=(m, int(problem.lifted)))
    return U, V
