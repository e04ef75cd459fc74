"""The training problem: objectives against plain loops, the data map, units, and what is kept of the data."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qsdp
from qsdp import BilinearNetwork, SufficientStatistics, TrainingProblem
from qsdp.exceptions import InvalidInputError
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
@settings(FUZZ, max_examples=30)
@given(seed=seeds)
def test_objective_against_loops(loss: Loss, seed: int) -> None:
    problem, network = make(loss, seed)
    expected = looped_objective(problem, network)
    assert problem.objective(network) == pytest.approx(expected, rel=1e-12)
    assert network.objective(problem) == problem.objective(network)


@every_loss
def test_relaxed_objective_against_loops(loss: Loss) -> None:
    for seed in range(20):
        problem, _ = make(loss, seed)
        rng = np.random.default_rng(seed)
        Z = rng.standard_normal((4, 4))  # not symmetric
        rho = float(rng.uniform(0, 3))
        terms = []
        for row, target in zip(problem.X.tolist(), problem.y.tolist(), strict=True):
            form = sum(row[i] * Z[i, j] * row[j] for i in range(4) for j in range(4))
            terms.append(scalar_loss(loss, float(2 * form), target))
        expected = math.fsum(terms) + 2.0 * problem.beta * 4 * rho
        assert problem.relaxed_objective([Z[None]], [[rho]]) == pytest.approx(expected, rel=1e-12)
        assert problem.relaxed_penalty == pytest.approx(2.0 * problem.beta * 4, rel=1e-15)


@every_loss
@settings(FUZZ, max_examples=25)
@given(seed=seeds)
def test_a_network_of_one_neuron_is_a_relaxed_point(loss: Loss, seed: int) -> None:
    # Z = alpha u v' / 2 with rho = |alpha| / 2 is feasible and has the network's own objective.
    problem, network = make(loss, seed, m=1)
    Z = 0.5 * network.alpha[0] * np.outer(network.U[0], network.V[0])
    rho = 0.5 * abs(network.alpha[0])
    assert problem.relaxed_objective([Z[None]], [[rho]]) == pytest.approx(problem.objective(network), rel=1e-12)


def test_penalty_of_the_zero_network_vanishes_for_every_beta() -> None:
    zero = BilinearNetwork([[1, 1]], [[1, 1]], [0.0])
    for beta in (1e-300, 1.0, 1e100, 1e308, np.finfo(np.float64).max):
        problem = TrainingProblem([[1.0, 2.0]], [3.0], beta=beta)
        assert problem.objective(zero) == 9.0


# -- the data map ------------------------------------------------------------------------------------


@FUZZ
@given(seed=seeds, n=st.integers(1, 9), d=st.integers(1, 6))
def test_forward_and_adjoint_are_adjoint(seed: int, n: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    problem = TrainingProblem(rng.standard_normal((n, d)), rng.standard_normal(n), beta=1.0)
    S, nu = rng.standard_normal((d, d)), rng.standard_normal(n)
    M = problem.map.adjoint(nu)
    scale = np.linalg.norm(problem.X) ** 2 * np.linalg.norm(S) * np.linalg.norm(nu)
    assert abs(problem.map.forward(S) @ nu - np.sum(S * M)) <= 1e-12 * scale
    np.testing.assert_array_equal(M, M.T)
    assert problem.map.forward(S).shape == (n,)


def test_forward_and_adjoint_against_loops() -> None:
    rng = np.random.default_rng(0)
    problem = TrainingProblem(rng.standard_normal((5, 3)), rng.standard_normal(5), beta=1.0)
    S, nu = rng.standard_normal((3, 3)), rng.standard_normal(5)
    forward = [sum(x[i] * S[i, j] * x[j] for i in range(3) for j in range(3)) for x in problem.X]
    adjoint = sum(weight * np.outer(x, x) for weight, x in zip(nu, problem.X, strict=True))
    np.testing.assert_allclose(problem.map.forward(S), forward, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(problem.map.adjoint(nu), adjoint, rtol=1e-12, atol=1e-12)


# -- what is kept of the data ------------------------------------------------------------------------


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


# -- levels, activations, several outputs ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "size", "dimension"),
    [
        ({}, 4, 4),
        ({"levels": 4}, 4, 12),
        ({"activation": "quadratic"}, 4, 4),
        ({"activation": "relu_like"}, 5, 5),
        ({"activation": "relu_like", "levels": 3}, 5, 9),
        ({"activation": (0, 0, 1), "levels": 128}, 5, 4 * 127 + 1),
    ],
    ids=str,
)
def test_sizes(options: dict[str, Any], size: int, dimension: int) -> None:
    problem = TrainingProblem(np.ones((3, 4)), [1.0, 2.0, 3.0], beta=0.25, **options)
    assert (problem.size, problem.dimension) == (size, dimension)
    assert problem.relaxed_penalty == 2 * 0.25 * dimension
    assert (problem.map.size, problem.map.n_rows) == (size, 3)
    assert (problem.scalar, problem.n_outputs) == (True, 1)


@pytest.mark.parametrize("levels", [2, 3, 4])
@pytest.mark.parametrize("activation", [None, (2.0, 0.0, 0.0), (0.5, -1.5, 0.75), (0.0, 1.0, 0.0)])
@pytest.mark.parametrize("n_outputs", [0, 1, 3])
def test_objective_of_every_kind_of_network_against_loops(n_outputs: int, activation: Any, levels: int) -> None:
    rng = np.random.default_rng(levels)
    X, Y = rng.standard_normal((6, 3)), rng.standard_normal((6, max(n_outputs, 1)))
    y = Y if n_outputs else Y[:, 0]
    problem = TrainingProblem(X, y, beta=0.3, activation=activation, levels=levels)
    a, b, c = activation or (1.0, 0.0, 0.0)
    lifted = problem.size - 3
    alpha = rng.standard_normal((5, Y.shape[1]))
    U, V = rng.integers(0, levels, size=(2, 5, problem.size)) * 2 - (levels - 1)
    for weights in (U, V):
        weights[:, 3:] = rng.choice([-1, 1], size=(5, lifted))
    network = BilinearNetwork(U, V, alpha if n_outputs else alpha[:, 0], levels=levels, activation=activation)
    terms = [0.3 * (3 * (levels - 1) + lifted) * abs(weight) for weight in alpha.ravel()]
    for i in range(6):
        for k in range(Y.shape[1]):
            output = 0.0
            for j in range(5):
                left, right = float(X[i] @ U[j, :3]), float(X[i] @ V[j, :3])
                value = a * left * right
                if lifted:
                    s, t = int(U[j, 3]), int(V[j, 3])
                    value += 0.5 * b * (left * t + right * s) + c * s * t
                output += alpha[j, k] * value
            terms.append((output - Y[i, k]) ** 2)
    assert problem.objective(network) == pytest.approx(math.fsum(terms), rel=1e-12)


def test_objectives_of_wide_data_form_no_matrix_of_a_network() -> None:
    rng = np.random.default_rng(0)
    U, V = (rng.integers(0, 2, (3, 50)) * 2 - 1 for _ in range(2))
    network = BilinearNetwork(U, V, np.ones(3))
    X, y = rng.standard_normal((4, 50)), np.ones(4)
    problem = TrainingProblem(X, y, beta=1.0)
    loss = sum((float(((X[i] @ U.T) * (X[i] @ V.T)).sum()) - 1.0) ** 2 for i in range(4))
    assert problem.objective(network) == pytest.approx(loss + problem.dimension * 3.0, rel=1e-10)
    assert "quadratic_form" not in vars(network)


def test_with_levels_and_output_share_the_data() -> None:
    X, y = np.ones((4, 2)), np.arange(8.0).reshape(4, 2)
    problem = TrainingProblem(X, y, beta=1.0, activation="relu_like")
    problem.map  # noqa: B018 (cached, and must not be carried over)
    other = problem.with_levels(5)
    assert other == TrainingProblem(X, y, beta=1.0, activation="relu_like", levels=5)
    assert other != problem
    assert other.X is problem.X
    assert other.y is problem.y
    assert other.dimension == 9
    np.testing.assert_array_equal(other.map.X, 4 * X)
    assert problem.levels == 2, "the problem itself stays as it was"
    assert other.with_levels(2) == problem
    assert type(other.with_levels(np.int64(3)).levels) is int
    for k in range(2):
        scalar = problem.output(k)
        assert scalar == TrainingProblem(X, y[:, k], beta=1.0, activation="relu_like")
        assert scalar.X is problem.X
        with pytest.raises(ValueError, match="read-only"):
            scalar.y[0] = 7.0


def test_problems_survive_pickling_with_their_map() -> None:
    problem = TrainingProblem(
        np.ones((3, 2)), np.eye(3), beta=1.0, loss="cross_entropy", levels=3, activation="relu_like"
    )
    problem.map  # noqa: B018
    other = pickle.loads(pickle.dumps(problem))
    assert other == problem
    np.testing.assert_array_equal(other.map.X, problem.map.X)
    with pytest.raises(ValueError, match="read-only"):
        other.X[0] = 5.0


@pytest.mark.parametrize("weighted", [False, True])
def test_part_of_the_samples_is_the_problem_of_those(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    X, y, weights = rng.normal(size=(20, 3)), np.where(np.arange(20) < 3, 1.0, -1.0), rng.uniform(0.5, 2.0, 20)
    problem = TrainingProblem(X, y, beta=0.5, loss="logistic", sample_weight=weights if weighted else None)
    assert problem.data_fit.value_at_zero > 0.0
    assert problem.map.n_rows == 20
    rows = np.arange(20) % 2 == 0
    part = problem.take(rows)
    own = TrainingProblem(
        X[rows], y[rows], beta=0.5, loss="logistic", sample_weight=weights[rows] if weighted else None
    )
    assert part == own
    assert part.map.n_rows == 10
    assert part.data_fit.value_at_zero == own.data_fit.value_at_zero
    with pytest.raises(ValueError, match="read-only"):
        part.X[0, 0] = 1.0


@pytest.mark.parametrize("loss", ["logistic", "cross_entropy"])
def test_part_of_the_samples_need_not_have_every_class(loss: str) -> None:
    rng = np.random.default_rng(0)
    codes = np.arange(20) % 3
    y = codes.astype(float) if loss == "cross_entropy" else 2.0 * np.eye(3)[codes] - 1.0
    part = TrainingProblem(rng.normal(size=(20, 3)), y, beta=0.5, loss=loss).take(codes != 2)
    assert part.n_outputs == 3
    assert part.n_samples == np.sum(codes != 2)
    with pytest.raises(ValueError, match="at least one sample"):
        part.take([])


def test_other_weights_give_the_problem_that_is_built_with_them() -> None:
    rng = np.random.default_rng(0)
    X, y, weights = rng.standard_normal((6, 3)), rng.standard_normal(6), rng.uniform(0.5, 2.0, 6)
    problem = TrainingProblem(X, y, beta=0.1)
    assert problem.reweighted(weights) == TrainingProblem(X, y, beta=0.1, sample_weight=weights)
    assert TrainingProblem(X, y, beta=0.1, sample_weight=weights).reweighted(None) == problem
    for wrong, message in (
        (-weights, "sample_weight must be >= 0"),
        (weights * [0.0, 1.0, 1.0, 1.0, 1.0, 1.0], "build another problem"),
        (weights[:5], r"sample_weight must have shape \(6,\)"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            problem.reweighted(wrong)
    statistics = TrainingProblem.from_statistics(SufficientStatistics().partial_fit(X, y), beta=0.1)
    with pytest.raises(InvalidInputError, match="needs the rows"):
        statistics.reweighted(weights)


# -- betas of zero -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda problem: TrainingProblem(problem.X, problem.y, beta=0),
        lambda problem: problem.with_beta(0),
        lambda problem: TrainingProblem.from_statistics(
            SufficientStatistics().partial_fit(problem.X, problem.y), beta=0
        ),
        lambda problem: qsdp.solve_and_sample(problem.X, problem.y, beta=0),
        lambda problem: qsdp.refit(BilinearNetwork([[1, 1]], [[1, 1]], [0.5]), problem, beta=0),
        lambda problem: qsdp.distill(qsdp.QuadraticForm(np.eye(2)), problem.X, beta=0),
        lambda problem: qsdp.certify_stream(
            BilinearNetwork([[1, 1]], [[1, 1]], [0.5]), [(problem.X, problem.y)], qsdp.solve_relaxation(problem), beta=0
        ),
        lambda problem: qsdp.QuantizedNetworkRegressor(beta=0).fit(problem.X, problem.y),
    ],
)
def test_a_beta_of_zero_is_refused_with_a_remedy(call: Any) -> None:
    problem = TrainingProblem([[1.0, 2.0], [2.0, -1.0], [0.5, 1.0]], [1.0, 0.0, 2.0], beta=1.0)
    message = "beta must be a finite number > 0; got 0; for nearly no penalty take 1e-6 times qsdp.beta_max(problem)"
    with pytest.raises(InvalidInputError) as caught:
        call(problem)
    assert str(caught.value) == message
