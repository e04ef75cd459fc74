"""Refit of the second layer: optimal against CVXPY, never worse, few neurons or one magnitude."""

from __future__ import annotations

import dataclasses
import tracemalloc
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.optimize
from brute_force import ACTIVATIONS, random_neurons, random_problem, random_vector_problem
from hypothesis import given, settings
from hypothesis import strategies as st

from qsdp import BilinearNetwork, TrainingProblem, refit
from qsdp.exceptions import InvalidInputError
from qsdp.losses import LOSSES, SCALAR_LOSSES

FUZZ = settings(max_examples=10, deadline=None, derandomize=True)
LIFTS: list[tuple[int, Any]] = [(2, None), (3, "relu_like"), (2, (0.7, 0.0, -0.4)), (3, None), (4, "quadratic")]


def draw(
    problem: TrainingProblem, m: int, seed: int = 0, *, shared: bool = False, scale: float = 0.1
) -> BilinearNetwork:
    """A random network for a problem; shared: every neuron serves one output."""
    rng = np.random.default_rng(seed)
    U, V = random_neurons(rng, m, problem)
    alpha = scale * rng.standard_normal((m, *problem.y.shape[1:]))
    if shared and not problem.scalar:
        alpha = alpha * (np.arange(m)[:, None] % problem.n_outputs == np.arange(problem.n_outputs))
    return BilinearNetwork(U, V, alpha, levels=problem.levels, activation=problem.activation)


def columns(network: BilinearNetwork, problem: TrainingProblem) -> np.ndarray:
    """What every neuron predicts with the weight one, from the definition."""
    ones = np.ones(1)
    neurons = zip(network.U, network.V, strict=True)
    nets = [
        BilinearNetwork(u[None], v[None], ones, levels=problem.levels, activation=problem.activation)
        for u, v in neurons
    ]
    return np.stack([net.predict(problem.X) for net in nets], axis=1)


def best_second_layer(network: BilinearNetwork, problem: TrainingProblem) -> float:
    """The least objective over all second layers, by CVXPY."""
    F = columns(network, problem)
    alpha = cp.Variable((F.shape[1], *problem.y.shape[1:]))
    penalty = problem.beta * problem.dimension
    value = problem.loss.expression(F @ alpha, problem.y) + penalty * cp.sum(cp.abs(alpha))
    cp.Problem(cp.Minimize(value)).solve(solver="CLARABEL")
    return problem.loss.value(F @ alpha.value, problem.y) + penalty * float(np.abs(alpha.value).sum())


def at_zero(problem: TrainingProblem) -> float:
    return problem.loss.value(np.zeros_like(problem.y), problem.y)


def vector_problem(seed: int, loss: str, n: int = 12, **options: Any) -> TrainingProblem:
    return random_vector_problem(seed, 3, n, 3, loss, **{"beta": 0.05, **options})


def check_neurons(refitted: BilinearNetwork, network: BilinearNetwork, problem: TrainingProblem) -> None:
    """At most n neurons an output, and each one of those given."""
    served = (refitted.alpha != 0.0).reshape(refitted.n_neurons, -1).sum(axis=0)
    assert served.max() <= problem.n_samples
    if np.any(refitted.alpha):
        forms = {_key(u, v) for u, v in zip(network.U, network.V, strict=True)}
        for u, v in zip(refitted.U, refitted.V, strict=True):
            assert _key(u, v) in forms


def _key(u: np.ndarray, v: np.ndarray) -> bytes:
    """The form of a neuron up to its sign."""
    product = np.outer(u.astype(int), v.astype(int))
    form = product + product.T
    return min(form.tobytes(), (-form).tobytes())


# -- large data of the squared loss ------------------------------------------------------------------------


@pytest.mark.parametrize(("outputs", "beta"), [(None, 1e-6), (1, 5.0), (3, 1e-6), (3, 5.0)])
@pytest.mark.parametrize(("levels", "activation"), LIFTS[:3])
def test_few_rows_serve_as_all_samples(
    outputs: int | None, levels: int, activation: Any, beta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"beta": beta, "levels": levels, "activation": activation}
    problem = (
        random_problem(4, 5, 90, **options)
        if outputs is None
        else random_vector_problem(4, 5, 90, outputs, "squared", **options)
    )
    network = draw(problem, 20)
    # Equal neurons, and sides exchanged.
    U, V = network.U.copy(), network.V.copy()
    U[3], V[3], U[4], V[4] = V[5], U[5], U[5], V[5]
    network = dataclasses.replace(network, U=U, V=V)
    expected = problem.objective(refit(network, problem))
    monkeypatch.setattr("qsdp._utils.parallel.WORK_FLOATS", 64)
    refitted = refit(network, problem)
    assert problem.objective(refitted) == pytest.approx(expected, rel=1e-9)
    check_neurons(refitted, network, problem)
    assert refitted.n_neurons <= 20


def test_targets_and_data_of_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qsdp._utils.parallel.WORK_FLOATS", 64)
    rng = np.random.default_rng(0)
    for X, y in ((rng.standard_normal((50, 4)), np.zeros(50)), (np.zeros((50, 4)), rng.standard_normal(50))):
        for beta in (1e-300, 0.1):
            problem = TrainingProblem(X, y, beta=beta)
            refitted = refit(draw(problem, 6), problem)
            assert problem.objective(refitted) == pytest.approx(at_zero(problem), abs=1e-12)


def peak_of(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_on_large_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qsdp._utils.parallel.WORK_FLOATS", 2**14)
    X = np.random.default_rng(0).standard_normal((20_000, 60))
    problem = TrainingProblem(X, X[:, 0] * X[:, 1], beta=0.1)
    network = draw(problem, 40)
    # The values of all neurons on the data take 6.4 MB.
    assert peak_of(lambda: refit(network, problem)) < 4e6


# -- free ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", SCALAR_LOSSES)
def test_free_weights_are_optimal(loss: str) -> None:
    for seed, (levels, activation) in enumerate(LIFTS):
        problem = random_problem(seed, 3, 12, loss, beta=0.05, levels=levels, activation=activation)
        network = draw(problem, 25, seed)
        refitted = refit(network, problem)
        optimum = best_second_layer(network, problem)
        assert problem.objective(refitted) <= optimum * (1 + 1e-8)
        assert problem.objective(refitted) == pytest.approx(optimum, rel=1e-5, abs=1e-6 * at_zero(problem))
        check_neurons(refitted, network, problem)


@pytest.mark.parametrize("loss", LOSSES)
def test_free_weights_of_several_outputs_are_optimal(loss: str) -> None:
    for seed, (levels, activation) in enumerate(LIFTS[:2]):
        problem = vector_problem(seed, loss, levels=levels, activation=activation)
        network = draw(problem, 15, seed)
        refitted = refit(network, problem)
        optimum = best_second_layer(network, problem)
        assert problem.objective(refitted) <= optimum * (1 + 1e-8)
        assert problem.objective(refitted) == pytest.approx(optimum, rel=1e-5, abs=1e-6 * at_zero(problem))
        assert refitted.alpha.shape[1] == 3
        check_neurons(refitted, network, problem)


@pytest.mark.parametrize("n", [5, 60])
def test_networks_much_wider_than_the_data(n: int) -> None:
    for coarse in (False, True):
        problem = random_problem(3, 6, n, beta=0.01, coarse=coarse)
        network = draw(problem, 800)
        refitted = refit(network, problem)
        assert refitted.n_neurons <= min(n, 21)
        optimum = best_second_layer(network, problem)
        assert problem.objective(refitted) == pytest.approx(optimum, rel=1e-6, abs=1e-7 * at_zero(problem))
        assert problem.objective(refitted) <= optimum * (1 + 1e-7)


def test_data_of_few_samples_and_columns() -> None:
    for n, d in [(1, 1), (1, 3), (3, 1)]:
        for loss in ("squared", "absolute", "huber"):
            problem = random_problem(n, d, n, loss, beta=0.05)
            network = draw(problem, 4)
            refitted = refit(network, problem)
            optimum = best_second_layer(network, problem)
            assert problem.objective(refitted) == pytest.approx(optimum, rel=1e-6, abs=1e-9 * at_zero(problem))
            check_neurons(refitted, network, problem)


@pytest.mark.parametrize("shape", ["scalar", "vector", "cross entropy"])
def test_penalties_too_high_for_any_neuron(shape: str) -> None:
    problem = {
        "scalar": random_problem(0, 3, 10, beta=1e6),
        "vector": vector_problem(0, "squared", beta=1e6),
        "cross entropy": vector_problem(0, "cross_entropy", beta=1e6),
    }[shape]
    refitted = refit(draw(problem, 10), problem)
    assert problem.objective(refitted) == at_zero(problem)
    assert refitted.n_neurons == 1
    assert not np.any(refitted.alpha)


def test_an_optimal_second_layer_stays() -> None:
    problem = random_problem(1, 4, 20, beta=0.5)
    once = refit(draw(problem, 50), problem)
    twice = refit(once, problem)
    assert problem.objective(twice) <= problem.objective(once)
    assert problem.objective(twice) == pytest.approx(problem.objective(once), rel=1e-9)
    assert twice.n_neurons <= once.n_neurons


@pytest.mark.parametrize("second_layer", ["free", "shared"])
@pytest.mark.parametrize("loss", SCALAR_LOSSES)
@FUZZ
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 15),
    d=st.integers(1, 4),
    m=st.integers(1, 40),
    log_beta=st.floats(-4, 2),
    scale=st.floats(-4, 1),
    coarse=st.booleans(),
    lift=st.sampled_from([(2, None), (3, "relu_like"), *((2, activation) for activation in ACTIVATIONS)]),
)
def test_never_worse(
    loss: str,
    second_layer: str,
    seed: int,
    n: int,
    d: int,
    m: int,
    log_beta: float,
    scale: float,
    coarse: bool,
    lift: tuple[int, Any],
) -> None:
    levels, activation = lift
    problem = random_problem(seed, d, n, loss, beta=10.0**log_beta, coarse=coarse, activation=activation, levels=levels)
    network = draw(problem, m, seed, scale=10.0**scale)
    if second_layer == "shared":
        network = dataclasses.replace(network, alpha=np.full(m, network.alpha[0]))
    refitted = refit(network, problem, second_layer=second_layer)
    assert problem.objective(refitted) <= problem.objective(network)
    assert problem.objective(refitted) <= at_zero(problem) * (1 + 1e-9)
    if second_layer == "shared":
        assert refitted.shared_alpha
        assert refitted.n_neurons == m
    elif refitted is not network:
        check_neurons(refitted, network, problem)


@pytest.mark.parametrize("second_layer", ["free", "shared"])
@pytest.mark.parametrize("loss", ["squared", "hinge", "cross_entropy"])
@settings(FUZZ, max_examples=8)
@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 12), log_beta=st.floats(-4, 2), scale=st.floats(-4, 1))
def test_never_worse_for_several_outputs(
    loss: str, second_layer: str, seed: int, m: int, log_beta: float, scale: float
) -> None:
    problem = vector_problem(seed, loss, beta=10.0**log_beta)
    network = draw(problem, m, seed, scale=10.0**scale)
    if second_layer == "shared":
        owners = np.sort(np.random.default_rng(seed).integers(0, 3, size=m))
        alpha = 10.0**scale * (owners[:, None] == np.arange(3))
        network = dataclasses.replace(network, alpha=alpha)
        assert network.shared_alpha
    refitted = refit(network, problem, second_layer=second_layer)
    assert problem.objective(refitted) <= problem.objective(network)
    assert problem.objective(refitted) <= at_zero(problem) * (1 + 1e-9)


# -- shared --------------------------------------------------------------------------------------------


def oriented(network: BilinearNetwork, problem: TrainingProblem) -> np.ndarray:
    """Columns with the signs of the second layer moved in, summed over the neurons of every output."""
    alpha = network.alpha.reshape(network.n_neurons, -1)
    return columns(network, problem) @ np.where(alpha == 0.0, 0.0, np.sign(alpha))


@pytest.mark.parametrize("loss", SCALAR_LOSSES)
def test_one_magnitude_is_the_best_one(loss: str) -> None:
    for seed, (levels, activation) in enumerate(LIFTS):
        problem = random_problem(seed, 3, 12, loss, beta=0.005, levels=levels, activation=activation)
        m = 6
        network = draw(problem, m, seed)
        refitted = refit(network, problem, second_layer="shared")
        assert refitted.shared_alpha
        assert refitted.n_neurons == m
        assert refitted.levels == levels
        column = oriented(network, problem)[:, 0]
        penalty = problem.beta * problem.dimension * m
        best = np.inf
        for bounds in ((-1e3, 0.0), (0.0, 1e3)):
            search = scipy.optimize.minimize_scalar(
                lambda c, column=column, penalty=penalty, problem=problem: (
                    problem.loss.value(c * column, problem.y) + penalty * abs(c)
                ),
                bounds=bounds,
                method="bounded",
                options={"xatol": 1e-13, "maxiter": 2000},
            )
            best = min(best, float(search.fun))
        assert problem.objective(refitted) == pytest.approx(min(best, at_zero(problem)), rel=1e-7)


@pytest.mark.parametrize("loss", LOSSES)
def test_one_magnitude_an_output_is_the_best_one(loss: str) -> None:
    for seed, (levels, activation) in enumerate(LIFTS[:3]):
        problem = vector_problem(seed, loss, beta=0.005, levels=levels, activation=activation)
        network = draw(problem, 7, seed, shared=True)
        refitted = refit(network, problem, second_layer="shared")
        assert refitted.shared_alpha
        assert refitted.n_neurons == 7
        F, sizes = oriented(network, problem), (network.alpha != 0.0).sum(axis=0)
        scales = cp.Variable(3)
        value = problem.loss.expression(F @ cp.diag(scales), problem.y)
        value = value + problem.beta * problem.dimension * sizes @ cp.abs(scales)
        cp.Problem(cp.Minimize(value)).solve(solver="CLARABEL")
        assert problem.objective(refitted) == pytest.approx(value.value, rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_shared_magnitudes_are_computed_whatever_the_limit(loss: str) -> None:
    problem = vector_problem(0, loss)
    network = draw(problem, 9)
    network = dataclasses.replace(network, alpha=np.tile(np.eye(3), (3, 1)))
    limits: tuple[float | None, ...] = (None, 1e-9)
    one, other = (refit(network, problem, second_layer="shared", time_limit=limit) for limit in limits)
    assert np.any(one.alpha)
    np.testing.assert_array_equal(one.alpha, other.alpha)


def test_signs_move_into_the_first_layer() -> None:
    problem = TrainingProblem([[1.0, 2.0], [2.0, -1.0], [0.5, 0.5]], [4.0, -1.0, 1.0], beta=1e-6)
    network = BilinearNetwork([[1, 1], [1, -1]], [[1, 1], [1, -1]], [0.3, -0.4])
    refitted = refit(network, problem, second_layer="shared")
    assert refitted.U.tolist() == [[1, 1], [-1, 1]]
    assert refitted.V.tolist() == [[1, 1], [1, -1]]
    # (x1 + x2)^2 - (x1 - x2)^2 = 4 x1 x2, of which half is nearest to the targets.
    column = 4.0 * np.array([2.0, -2.0, 0.25])
    scale = float(column @ problem.y / (column @ column))
    assert refitted.alpha == pytest.approx([scale, scale], rel=1e-5)


def test_magnitudes_that_differ_become_one_even_if_that_is_worse() -> None:
    problem = random_problem(1, 3, 12, beta=0.01)
    network = refit(draw(problem, 20), problem)
    refitted = refit(network, problem, second_layer="shared")
    assert not network.shared_alpha
    assert refitted.shared_alpha
    assert refitted.n_neurons == network.n_neurons
    assert problem.objective(network) < problem.objective(refitted) <= at_zero(problem)


def test_neurons_of_weight_zero_get_the_magnitude_too() -> None:
    problem = random_problem(0, 3, 12, beta=1e-3)
    U, V = random_neurons(np.random.default_rng(0), 4, problem)
    refitted = refit(BilinearNetwork(U, V, [0.0, 0.2, 0.0, 0.2]), problem, second_layer="shared")
    assert np.array_equal(refitted.U, U)
    assert np.array_equal(refitted.V, V)
    assert refitted.shared_alpha


# -- refusals ------------------------------------------------------------------------------------------

PROBLEM = random_problem(0, 3, 8)
NETWORK = draw(PROBLEM, 4)


def test_neurons_that_serve_several_outputs_have_no_shared_magnitude() -> None:
    problem = vector_problem(0, "squared")
    network = draw(problem, 5)
    with pytest.raises(InvalidInputError, match="second_layer must be 'free' for a network whose neurons serve"):
        refit(network, problem, second_layer="shared")
    assert problem.objective(refit(network, problem)) < problem.objective(network)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"second_layer": "fre"}, "second_layer must be one of 'free', 'shared'; got 'fre'; did you mean 'free'"),
        ({"second_layer": None}, "second_layer must be one of 'free', 'shared'; got None"),
        ({"tol": 0}, "tol must be a finite number > 0; got 0"),
        ({"tol": -1e-3}, "tol must be a finite number > 0"),
        ({"tol": float("nan")}, "tol must be a finite number > 0; got nan"),
        ({"tol": "1e-3"}, "tol must be a finite number > 0; got '1e-3'"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        refit(NETWORK, PROBLEM, **options)
