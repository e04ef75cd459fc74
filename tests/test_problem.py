"""The training problem: objectives against plain loops, the data map, units, and what is kept of the data."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qsdp import BilinearNetwork, TrainingProblem
from qsdp.losses import Absolute, Hinge, Huber, Logistic, Loss, Squared, SquaredHinge

ALL = [Squared(), Absolute(), Huber(), Huber(0.25), Logistic(), Hinge(), SquaredHinge()]
every_loss = pytest.mark.parametrize("loss", ALL, ids=repr)
FUZZ = settings(max_examples=60, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)


def scalar_loss(loss: Loss, t: float, y: float) -> float:
    """Written from the definitions, sharing nothing with qsdp."""
    if isinstance(loss, Squared):
        return (t - y) ** 2
    if isinstance(loss, Absolute):
        return abs(t - y)
    if isinstance(loss, Huber):
        r = abs(t - y)
        return r**2 if r <= loss.delta else 2 * loss.delta * r - loss.delta**2
    if isinstance(loss, Logistic):
        return math.log1p(math.exp(-y * t)) if y * t > 0 else math.log1p(math.exp(y * t)) - y * t
    if isinstance(loss, Hinge):
        return max(0.0, 1 - y * t)
    assert isinstance(loss, SquaredHinge)
    return max(0.0, 1 - y * t) ** 2


def targets(loss: Loss, rng: np.random.Generator, n: int) -> np.ndarray:
    if not loss.labels:
        return rng.standard_normal(n)
    y = np.where(rng.standard_normal(n) > 0, 1.0, -1.0)
    y[:2] = -1.0, 1.0
    return y


def make(loss: Loss, seed: int, *, n: int = 7, d: int = 4, m: int = 3) -> tuple[TrainingProblem, BilinearNetwork]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    problem = TrainingProblem(X, targets(loss, rng, n), beta=float(rng.uniform(0, 2)), loss=loss)
    return problem, make_network(rng, m, d)


def make_network(rng: np.random.Generator, m: int, d: int) -> BilinearNetwork:
    U, V = rng.integers(0, 2, size=(2, m, d)) * 2 - 1
    return BilinearNetwork(U, V, rng.standard_normal(m))


def looped_objective(problem: TrainingProblem, network: BilinearNetwork) -> float:
    X, y, U, V, alpha = (a.tolist() for a in (problem.X, problem.y, network.U, network.V, network.alpha))
    terms = []
    for row, target in zip(X, y, strict=True):
        output = 0.0
        for u, v, weight in zip(U, V, alpha, strict=True):
            left = sum(a * b for a, b in zip(row, u, strict=True))
            right = sum(a * b for a, b in zip(row, v, strict=True))
            output += weight * left * right
        terms.append(scalar_loss(problem.loss, output, target))
    terms += [problem.beta * len(X[0]) * abs(weight) for weight in alpha]
    return math.fsum(terms)


# -- objectives --------------------------------------------------------------------------------------


@every_loss
@FUZZ
@given(seed=seeds)
def test_objective_against_loops(loss: Loss, seed: int) -> None:
    problem, network = make(loss, seed)
    expected = looped_objective(problem, network)
    assert problem.objective(network) == pytest.approx(expected, rel=1e-12)
    assert network.objective(problem) == problem.objective(network)


def test_objective_by_hand() -> None:
    # f(1, 2) = 2 (1 + 2)(1 - 2) = -6 and f(1, 0) = 2; residuals -7 and 0; beta D |alpha| = 0.5 * 2 * 2.
    problem = TrainingProblem([[1, 2], [1, 0]], [1, 2], beta=0.5)
    network = BilinearNetwork([[1, 1]], [[1, -1]], [2.0])
    assert problem.objective(network) == 49.0 + 2.0
    assert problem.penalty(network) == 2.0


@pytest.mark.parametrize(("regularization", "factor"), [("tight", 2.0), ("paper", 1.0)])
@every_loss
def test_relaxed_objective_against_loops(loss: Loss, regularization: str, factor: float) -> None:
    for seed in range(20):
        problem, _ = make(loss, seed)
        rng = np.random.default_rng(seed)
        Z = rng.standard_normal((4, 4))  # not symmetric
        rho = float(rng.uniform(0, 3))
        terms = []
        for row, target in zip(problem.X.tolist(), problem.y.tolist(), strict=True):
            form = sum(row[i] * Z[i, j] * row[j] for i in range(4) for j in range(4))
            terms.append(scalar_loss(loss, float(2 * form), target))
        expected = math.fsum(terms) + factor * problem.beta * 4 * rho
        assert problem.relaxed_objective(Z, rho, regularization=regularization) == pytest.approx(expected, rel=1e-12)
        assert problem.regularization_weight(regularization) == pytest.approx(factor * problem.beta * 4, rel=1e-15)


@every_loss
def test_the_default_regularization_is_the_tight_one(loss: Loss) -> None:
    problem, _ = make(loss, 3)
    Z = np.ones((4, 4))
    assert problem.relaxed_objective(Z, 1.0) == problem.relaxed_objective(Z, 1.0, regularization="tight")
    assert problem.relaxed_objective(Z, 1.0) > problem.relaxed_objective(Z, 1.0, regularization="paper")


@every_loss
@FUZZ
@given(seed=seeds)
def test_a_network_of_one_neuron_is_a_relaxed_point(loss: Loss, seed: int) -> None:
    # Z = alpha u v' / 2 with rho = |alpha| / 2 is feasible and has the network's own objective.
    problem, network = make(loss, seed, m=1)
    Z = 0.5 * network.alpha[0] * np.outer(network.U[0], network.V[0])
    rho = 0.5 * abs(network.alpha[0])
    assert problem.relaxed_objective(Z, rho) == pytest.approx(problem.objective(network), rel=1e-12)


def test_penalty_of_the_zero_network_vanishes_for_every_beta() -> None:
    zero = BilinearNetwork([[1, 1]], [[1, 1]], [0.0])
    for beta in (0.0, 1.0, 1e100, 1e308, np.finfo(np.float64).max):
        problem = TrainingProblem([[1.0, 2.0]], [3.0], beta=beta)
        assert problem.objective(zero) == 9.0


# -- the data map ------------------------------------------------------------------------------------


@FUZZ
@given(seed=seeds, n=st.integers(1, 9), d=st.integers(1, 6))
def test_forward_and_adjoint_are_adjoint(seed: int, n: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    problem = TrainingProblem(rng.standard_normal((n, d)), rng.standard_normal(n), beta=1.0)
    S, nu = rng.standard_normal((d, d)), rng.standard_normal(n)
    M = problem.adjoint(nu)
    scale = np.linalg.norm(problem.X) ** 2 * np.linalg.norm(S) * np.linalg.norm(nu)
    assert abs(problem.forward(S) @ nu - np.sum(S * M)) <= 1e-12 * scale
    np.testing.assert_array_equal(M, M.T)
    assert problem.forward(S).shape == (n,)


def test_forward_and_adjoint_against_loops() -> None:
    rng = np.random.default_rng(0)
    problem = TrainingProblem(rng.standard_normal((5, 3)), rng.standard_normal(5), beta=1.0)
    S, nu = rng.standard_normal((3, 3)), rng.standard_normal(5)
    forward = [sum(x[i] * S[i, j] * x[j] for i in range(3) for j in range(3)) for x in problem.X]
    adjoint = sum(weight * np.outer(x, x) for weight, x in zip(nu, problem.X, strict=True))
    np.testing.assert_allclose(problem.forward(S), forward, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(problem.adjoint(nu), adjoint, rtol=1e-12, atol=1e-12)


# -- units -------------------------------------------------------------------------------------------

exponents = st.floats(-6, 6)


@every_loss
@FUZZ
@given(seed=seeds, x=exponents, y=exponents, beta=st.floats(-8, 8), alpha=st.floats(-3, 3))
def test_normalised_objective(loss: Loss, seed: int, x: float, y: float, beta: float, alpha: float) -> None:
    rng = np.random.default_rng(seed)
    scale = 1.0 if loss.labels else 10.0**y
    problem = TrainingProblem(
        rng.standard_normal((6, 3)) * 10.0**x, targets(loss, rng, 6) * scale, beta=10.0**beta, loss=loss
    )
    normal, units = problem.normalised()
    network = make_network(rng, 4, 3)
    network = dataclasses.replace(network, alpha=network.alpha * 10.0**alpha)
    original = dataclasses.replace(network, alpha=network.alpha * units.weight)
    assert problem.objective(original) == pytest.approx(units.value * normal.objective(network), rel=1e-12)
    prediction = units.prediction * network.predict(normal.X)
    np.testing.assert_allclose(original.predict(problem.X), prediction, rtol=1e-12)

    Z, rho = rng.standard_normal((3, 3)), float(rng.uniform(0, 2))
    for regularization in ("tight", "paper"):
        value = problem.relaxed_objective(units.weight * Z, units.weight * rho, regularization=regularization)
        expected = units.value * normal.relaxed_objective(Z, rho, regularization=regularization)
        assert value == pytest.approx(expected, rel=1e-12)

    for unit in (units.weight, units.prediction):
        assert math.frexp(unit)[0] == 0.5
    assert math.frexp(units.value)[0] == 0.5
    if loss.labels:
        assert units.prediction == 1.0
        np.testing.assert_array_equal(normal.y, problem.y)


@pytest.mark.parametrize("scale", [1e-100, 1e-60, 1e60, 1e99])
@pytest.mark.parametrize("target_scale", [1e-100, 1.0, 1e99])
def test_normalised_numbers_are_finite_at_the_limits(scale: float, target_scale: float) -> None:
    X, y = np.array([[1.0, 0.3], [0.2, 1.0], [0.5, 0.5]]), np.array([1.0, -0.5, 0.2])
    for beta in (0.0, 5e-324, 1.0, 1e300, 1e308):
        normal, units = TrainingProblem(X * scale, y * target_scale, beta=beta).normalised()
        assert all(math.isfinite(unit) and unit > 0 for unit in dataclasses.astuple(units))
        assert math.isfinite(normal.beta)
        assert normal.beta >= 0
        assert 1e-6 < np.abs(normal.X).max() < 1e6
        assert 0.1 < np.abs(normal.y).max() < 10


@pytest.mark.parametrize("k", [-150, -3, 0, 7, 150])
def test_units_absorb_powers_of_two(k: int) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((9, 3)), rng.standard_normal(9)
    normal, units = TrainingProblem(X, y, beta=0.3).normalised()
    scaled, scaled_units = TrainingProblem(X * 2.0**k, y * 2.0**-k, beta=0.3 * 2.0 ** (k)).normalised()
    assert scaled == normal
    assert scaled_units.weight == units.weight * 2.0 ** (-3 * k)
    assert scaled_units.prediction == units.prediction * 2.0**-k
    assert scaled_units.value == units.value * 4.0**-k


@every_loss
def test_normalising_zero_data(loss: Loss) -> None:
    y = np.array([1.0, -1.0])
    normal, _ = TrainingProblem(np.zeros((2, 3)), y, beta=0.0, loss=loss).normalised()
    assert not normal.X.any()
    assert normal.beta == 0.0
    if not loss.labels:
        normal, _ = TrainingProblem(np.eye(2), np.zeros(2), beta=1.0, loss=loss).normalised()
        assert not normal.y.any()


# -- what is kept of the data ------------------------------------------------------------------------


def test_shapes_and_repr() -> None:
    problem = TrainingProblem(np.ones((5, 2)), np.ones(5), beta=0.5, loss="huber")
    assert (problem.n_samples, problem.n_features, problem.dimension) == (5, 2, 2)
    assert repr(problem) == "TrainingProblem(n_samples=5, n_features=2, beta=0.5, loss=Huber(delta=1.0))"


class Exporter:
    """An array-like that hands out its own buffer."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.array


def containers(array: np.ndarray) -> dict[str, tuple[np.ndarray, Any]]:
    """Return pairs of a buffer and an object that shows it."""
    found: dict[str, tuple[np.ndarray, Any]] = {}
    for name, wrap in {
        "array": lambda a: a,
        "view": lambda a: a[:],
        "exporter": Exporter,
        "masked": np.ma.masked_array,
        "subclass": lambda a: a.view(np.recarray),
        "pandas": lambda a: pd.DataFrame(a, copy=False) if a.ndim == 2 else pd.Series(a, copy=False),
    }.items():
        buffer = array.copy()
        found[name] = buffer, wrap(buffer)
    return found


CONTAINERS = list(containers(np.ones(1)))


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("name", CONTAINERS)
def test_a_problem_keeps_its_data_when_the_caller_changes_theirs(name: str, d: int) -> None:
    X, y = np.arange(1.0, 4 * d + 1).reshape(4, d), np.arange(1.0, 5.0)
    X_buffer, X_shown = containers(X)[name]
    y_buffer, y_shown = containers(y)[name]
    problem = TrainingProblem(X_shown, y_shown, beta=1.0)
    assert X_buffer.flags.writeable, "the caller's array became read-only"
    assert y_buffer.flags.writeable, "the caller's array became read-only"
    X_buffer[:], y_buffer[:] = 99.0, 99.0
    np.testing.assert_array_equal(problem.X, X)
    np.testing.assert_array_equal(problem.y, y)


def test_a_problem_keeps_its_data_when_a_pandas_frame_changes() -> None:
    frame, series = pd.DataFrame({"a": [1.0, 2.0]}), pd.Series([3.0, 4.0])
    problem = TrainingProblem(frame, series, beta=1.0)
    frame.iloc[0, 0] = 99.0
    series.iloc[0] = 99.0
    assert problem.X.tolist() == [[1.0], [2.0]]
    assert problem.y.tolist() == [3.0, 4.0]


def test_a_problem_keeps_its_data_when_a_mapped_file_changes(tmp_path: Any) -> None:
    X = np.memmap(tmp_path / "X", shape=(3, 2), dtype=np.float64, mode="w+")
    y = np.memmap(tmp_path / "y", shape=(3,), dtype=np.float64, mode="w+")
    X[:], y[:] = 1.0, 1.0
    problem = TrainingProblem(X, y, beta=1.0)
    X[:], y[:] = 2.0, 2.0
    assert np.all(problem.X == 1.0)
    assert np.all(problem.y == 1.0)


def test_arrays_are_read_only() -> None:
    problem = TrainingProblem(np.ones((3, 2)), [1, 2, 3], beta=1.0)
    for candidate in (problem, problem.normalised()[0]):
        for array in (candidate.X, candidate.y):
            assert array.dtype == np.float64
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 5.0


VARIANTS = {
    "lists": lambda a: a.tolist(),
    "tuples": lambda a: tuple(map(tuple, a.tolist())) if a.ndim == 2 else tuple(a.tolist()),
    "Fortran order": np.asfortranarray,
    "reversed view": lambda a: a[::-1].copy()[::-1],
    "strided view": lambda a: np.repeat(a, 2, axis=0)[::2],
    "column-strided view": lambda a: np.repeat(a, 3, axis=-1)[..., ::3] if a.ndim == 2 else a,
    "big-endian": lambda a: a.astype(">f8"),
    "objects": lambda a: a.astype(object),
    "pandas": lambda a: (
        pd.DataFrame(a, columns=list("pqr"), index=range(50, 50 + len(a)))
        if a.ndim == 2
        else pd.Series(a, name="target", index=range(50, 50 + len(a)))
    ),
    "read-only": lambda a: np.frombuffer(a.tobytes()).reshape(a.shape),
}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_containers_give_the_same_problem(variant: Any) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((6, 3)), rng.standard_normal(6)
    assert TrainingProblem(variant(X), variant(y), beta=1.0) == TrainingProblem(X, y, beta=1.0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.int64, np.uint16, bool])
def test_number_types_are_converted_exactly(dtype: Any) -> None:
    X, y = np.array([[0, 1, 3], [1, 0, 2]]).astype(dtype), np.array([1, 0]).astype(dtype)
    problem = TrainingProblem(X, y, beta=1.0)
    np.testing.assert_array_equal(problem.X, X.astype(np.float64))
    np.testing.assert_array_equal(problem.y, y.astype(np.float64))


def test_equality() -> None:
    X, y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, -1.0])
    problem = TrainingProblem(X, y, beta=1.0)
    assert problem == TrainingProblem(X.copy(), y.copy(), beta=1, loss=Squared())
    assert TrainingProblem(X, y, beta=1.0, loss=Huber(0.5)) == TrainingProblem(X, y, beta=1.0, loss=Huber(0.5))
    others = [
        TrainingProblem(np.nextafter(X, 9.0), y, beta=1.0),
        TrainingProblem(X, np.nextafter(y, 9.0), beta=1.0),
        TrainingProblem(X, y, beta=np.nextafter(1.0, 2.0)),
        TrainingProblem(X, y, beta=1.0, loss="absolute"),
        TrainingProblem(X, y, beta=1.0, loss=Huber(0.5)),
        TrainingProblem(X[:1], y[:1], beta=1.0),
        TrainingProblem(X[:, :1], y, beta=1.0),
    ]
    for other in others:
        assert problem != other
    assert TrainingProblem(X, y, beta=1.0, loss=Huber(0.5)) != TrainingProblem(X, y, beta=1.0, loss=Huber(0.6))
    assert problem != "problem"
    with pytest.raises(TypeError, match="unhashable"):
        hash(problem)
