"""Polishing of networks on blocks: optimal for single moves (by brute force), monotone, at equal storage."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from block_problems import LOSSES, enumerated_optimum, random_blocks, random_problem, random_targets

import qsdp
from qsdp import polish
from qsdp.exceptions import InvalidInputError

SCALAR_LOSSES = [loss for loss in LOSSES if loss != "cross_entropy"]


def random_network(problem: Any, m: int, seed: int, free: bool = False, alpha: float | None = None) -> Any:
    """Return random neurons, sorted by output and then by block as sampled networks are."""
    rng, layout, C = np.random.default_rng(seed), problem.blocks, problem.n_outputs
    U, V = rng.choice([-1, 1], size=(2, m, layout.side))
    owners = np.arange(m) * C // m
    block = np.concatenate([np.sort(rng.integers(0, layout.n_blocks, size=int((owners == k).sum()))) for k in range(C)])
    weights = np.zeros((m, C))
    size = 1.0 / (m * float(np.abs(problem.X.rows).max()))
    weights[np.arange(m), owners] = size if alpha is None else alpha
    if free:
        weights += size * rng.standard_normal(weights.shape)
    return qsdp.BilinearNetwork.on_blocks(layout, U, V, problem.squeezed(weights), block)


def neuron_values(problem: Any, u: np.ndarray, v: np.ndarray, r: int) -> np.ndarray:
    """Return the outputs of one neuron, from its definition."""
    layout = problem.blocks
    rows = np.asarray(problem.X.rows, dtype=float)[:, layout.starts[r] : layout.starts[r + 1]]
    N = layout.sizes[r]
    if layout.linear[r]:
        return rows @ u[:N]
    matrices = np.zeros((len(rows), N, N))
    first, second = np.triu_indices(N)
    matrices[:, first, second] = matrices[:, second, first] = rows
    return np.einsum("iab,a,b->i", matrices, u[:N], v[:N])


def objective_of(problem: Any, U: np.ndarray, V: np.ndarray, alpha: np.ndarray, block: np.ndarray) -> float:
    """Return the objective from the definition of neurons."""
    values = np.stack([neuron_values(problem, u, v, r) for u, v, r in zip(U, V, block, strict=True)], axis=1)
    return float(problem.data_fit.value(values @ alpha)) + penalty_of(problem, alpha, block)


def penalty_of(problem: Any, alpha: np.ndarray, block: np.ndarray) -> float:
    layout = problem.blocks
    prices = np.array([layout.omega[r] * layout.sizes[r] for r in block])
    return problem.beta * float((prices[:, None] * np.abs(alpha)).sum())


def best_move(network: Any, problem: Any) -> float:
    """Return the smallest objective of all networks that differ in one sign."""
    U, V, alpha, block = network.U.astype(float), network.V.astype(float), network.output_weights, network.block
    values = np.stack([neuron_values(problem, u, v, r) for u, v, r in zip(U, V, block, strict=True)], axis=1)
    predictions, penalty, best = values @ alpha, penalty_of(problem, alpha, block), np.inf
    for j, side in itertools.product(range(len(U)), range(2)):
        for k in np.flatnonzero((U, V)[side][j]):
            pair = [U[j].copy(), V[j].copy()]
            pair[side][k] *= -1.0
            change = neuron_values(problem, pair[0], pair[1], block[j]) - values[:, j]
            best = min(best, problem.data_fit.value(predictions + np.outer(change, alpha[j])) + penalty)
    return float(best)


def check_polished(network: Any, problem: Any, **options: Any) -> Any:
    """Polish, and check optimality for single flips, the objective, storage and zeros."""
    values = [problem.objective(network)]
    polished = polish(
        network, problem, max_sweeps=500, random_state=0, callback=lambda _, value: values.append(value), **options
    )
    scale = problem.data_fit.value_at_zero
    if not options:
        assert np.all(np.diff(values) <= 1e-9 * scale)
    objective = objective_of(problem, polished.U, polished.V, polished.output_weights, polished.block)
    assert problem.objective(polished) == pytest.approx(objective, rel=1e-12)
    assert objective <= values[0] * (1.0 + 1e-15)
    assert best_move(polished, problem) >= objective - 1e-9 * scale
    assert polished.n_bits == network.n_bits
    assert np.array_equal(polished.block, network.block)
    for one, other in ((polished.U, network.U), (polished.V, network.V)):
        assert np.array_equal(one != 0, other != 0)
    assert polished.shared_alpha or not network.shared_alpha
    assert isinstance(polished, qsdp.BilinearNetwork)
    return polished


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the data of small problems count as large."""
    monkeypatch.setattr("qsdp._utils.parallel.WORK_FLOATS", 64)


@pytest.fixture
def single(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make products with the data of small problems run in single precision."""
    monkeypatch.setattr("qsdp.refinement._samples.SMALL", 0)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(("seed", "loss"), list(enumerate(SCALAR_LOSSES)))
def test_no_single_move_helps(loss: str, free: bool, seed: int) -> None:
    problem = random_problem(seed, loss, n=25)
    check_polished(random_network(problem, 12, seed, free=free), problem)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(("seed", "loss"), list(enumerate(["squared", "hinge", "huber", "cross_entropy"])))
def test_no_single_move_helps_with_several_outputs(loss: str, free: bool, seed: int) -> None:
    problem = random_problem(10 + seed, loss, n=25, n_outputs=3)
    check_polished(random_network(problem, 15, seed, free=free), problem)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_single_move_helps_on_large_data(loss: str, free: bool, large: None, single: None) -> None:
    problem = random_problem(20, loss, n=40)
    check_polished(random_network(problem, 12, 1, free=free), problem)


@pytest.mark.parametrize("loss", ["squared", "cross_entropy", "squared_hinge"])
def test_no_single_move_helps_with_sample_weights(loss: str) -> None:
    rng = np.random.default_rng(4)
    problem = random_problem(30, loss, n=25, sample_weight=rng.uniform(0.1, 3.0, size=25))
    check_polished(random_network(problem, 12, 1, free=True), problem)
    check_polished(random_network(problem, 12, 1), problem, restarts=2)


@pytest.mark.parametrize("dtype", ["f4", "i1", "u2", "f8"])
def test_rows_of_any_type_are_polished_as_doubles(dtype: str, large: None) -> None:
    rng = np.random.default_rng(2)
    blocks = random_blocks(rng, 30, 3)
    rows = np.rint(20.0 * np.abs(blocks.rows)).astype(dtype)
    y = random_targets(rng, 30, "logistic")
    polished = []
    for stored in (rows, rows.astype(np.float64)):
        data = qsdp.Blocks(stored, blocks.sizes, blocks.kinds, blocks.omega)
        problem = qsdp.TrainingProblem(data, y, beta=1.0, loss="logistic")
        polished.append(check_polished(random_network(problem, 10, 0), problem))
    for name in ("U", "V", "alpha"):
        np.testing.assert_allclose(getattr(polished[0], name), getattr(polished[1], name), rtol=1e-13)


@pytest.mark.parametrize("linear", [False, True])
def test_dead_neurons_come_to_life(linear: bool) -> None:
    rng = np.random.default_rng(5)
    kinds = ["linear" if linear else "quadratic", "quadratic"]
    blocks = qsdp.Blocks(rng.standard_normal((30, 10 if linear else 16)), [4, 3], kinds)
    planted = qsdp.BilinearNetwork.on_blocks(
        blocks.layout, *rng.choice([-1, 1], size=(2, 3, 4)), np.ones(3), np.array([0, 0, 1])
    )
    problem = qsdp.TrainingProblem(blocks, planted.predict(blocks), beta=0.01)
    start = random_network(problem, 20, 0, free=True)
    dead = start.with_neurons(start.U, start.V, np.zeros(20))
    polished = check_polished(dead, problem)
    assert problem.objective(polished) < 0.1 * problem.objective(dead)
    assert np.any(polished.alpha[polished.block == 0])


def test_shared_networks_approach_the_optimum() -> None:
    # Many neurons that share one weight come near the convex optimum from above.
    for seed in range(4):
        problem = random_problem(seed, n=10)
        optimum, start = enumerated_optimum(problem), random_network(problem, 60, seed)
        polished = check_polished(start, problem, restarts=5)
        assert polished.shared_alpha
        objective = problem.objective(polished)
        assert optimum * (1.0 - 1e-6) <= objective < problem.objective(start)
        assert objective <= 1.2 * optimum


def test_polish_reaches_the_best_shared_network() -> None:
    # By enumeration of all networks of two neurons in given blocks, each with its best magnitude.
    rng = np.random.default_rng(1)
    blocks = qsdp.Blocks(rng.standard_normal((8, 5)), [2, 2], ["quadratic", "linear"], omega=[1.0, 0.7])
    problem = qsdp.TrainingProblem(blocks, rng.standard_normal(8), beta=0.01)
    signs = [np.array(one) for one in itertools.product([-1.0, 1.0], repeat=2)]
    best, prices = np.inf, problem.blocks.prices.sum()
    for u, v, w in itertools.product(signs, repeat=3):
        f = neuron_values(problem, u, v, 0) + neuron_values(problem, w, v, 1)
        for sign in (-1.0, 1.0):
            t = max(0.0, (sign * float(f @ problem.y) - 0.5 * problem.beta * prices) / float(f @ f))
            best = min(best, float(((sign * t * f - problem.y) ** 2).sum()) + problem.beta * t * prices)
    found = []
    for _ in range(20):
        U, V = rng.choice([-1, 1], size=(2, 2, 2))
        start = qsdp.BilinearNetwork.on_blocks(problem.blocks, U, V, np.full(2, 0.1), np.array([0, 1]))
        found.append(problem.objective(check_polished(start, problem)))
    assert min(found) == pytest.approx(best, rel=1e-9)


def test_one_block_is_polished_like_its_columns() -> None:
    # The moves of data x x' in one block are those of x, and both descents start from the same random network.
    rng = np.random.default_rng(7)
    X, y = rng.standard_normal((40, 5)), rng.standard_normal(40)
    first, second = np.triu_indices(5)
    blocks = qsdp.Blocks(X[:, first] * X[:, second], [5])
    U, V = rng.choice([-1, 1], size=(2, 10, 5))
    for loss in ("huber", "squared"):
        one = qsdp.TrainingProblem(blocks, y, beta=0.1, loss=loss)
        other = qsdp.TrainingProblem(X, y, beta=0.1, loss=loss)
        start = qsdp.BilinearNetwork(U, V, np.full(10, 0.05), np.zeros(10, dtype=int), [5])
        plain = qsdp.BilinearNetwork(U, V, start.alpha)
        found, expected = check_polished(start, one), polish(plain, other, max_sweeps=500)
        assert one.objective(start) == pytest.approx(other.objective(plain), rel=1e-12)
        # Typical sizes of images, which choose among moves, are estimated in another way.
        assert one.objective(found) == pytest.approx(other.objective(expected), rel=0.2)


@pytest.mark.parametrize("scale", [2.0**140, 2.0**-140])
def test_huge_and_tiny_data(scale: float) -> None:
    problem = random_problem(5, n=30)
    network = random_network(problem, 10, 0)
    expected = problem.objective(polish(network, problem))
    data = problem.X
    scaled = qsdp.TrainingProblem(
        qsdp.Blocks(data.rows * scale, data.sizes, data.kinds, data.omega), problem.y, beta=problem.beta * scale
    )
    start = network.with_neurons(network.U, network.V, network.alpha / scale)
    assert scaled.objective(polish(start, scaled)) == pytest.approx(expected, rel=1e-9)


def test_threads_do_not_change_the_network() -> None:
    problem = random_problem(8, n=30, n_outputs=3)
    network = random_network(problem, 12, 0)
    alone, together = (polish(network, problem, restarts=1, random_state=0, n_jobs=jobs) for jobs in (None, 2))
    for name in ("U", "V", "alpha"):
        np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))


def test_interrupts_and_time_limits() -> None:
    problem = random_problem(12, n=60)
    network = random_network(problem, 50, 0)

    def interrupt(sweep: int, objective: float) -> None:
        raise KeyboardInterrupt

    with pytest.warns(qsdp.QSDPWarning, match="interrupted"):
        polished = polish(network, problem, callback=interrupt)
    assert problem.objective(polished) < problem.objective(network)
    best = polish(network, problem, max_sweeps=200)
    with pytest.raises(KeyboardInterrupt):
        polish(best, problem, callback=interrupt)
    assert problem.objective(polish(network, problem, time_limit=1e-9)) <= problem.objective(network)


def test_statistics_of_blocks_are_refused() -> None:
    problem = random_problem(0)
    statistics = qsdp.SufficientStatistics().partial_fit(problem.X, problem.y)
    summary = qsdp.TrainingProblem.from_statistics(statistics, beta=1.0)
    with pytest.raises(InvalidInputError, match="polish on blocks needs the rows"):
        polish(random_network(problem, 3, 0), summary)


def test_shared_weights_are_sorted_by_output() -> None:
    network = random_network(random_problem(8, n_outputs=2), 6, 0)
    assert network.shared_alpha
    alpha = network.output_weights.copy()
    assert not network.with_neurons(network.U, network.V, alpha[::-1]).shared_alpha
    alpha[0] *= -1.0
    assert not network.with_neurons(network.U, network.V, alpha).shared_alpha
    part = network.with_neurons(network.U[3:], network.V[3:], alpha[3:, 1], slice(3, None))
    assert part.shared_alpha
    assert np.array_equal(part.block, network.block[3:])
