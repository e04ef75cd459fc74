"""Polish and refit of networks with real weights beside neurons: never worse, and optimal where that is convex."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_weight_problems import LOSSES, optimum, random_network, random_problem

import qsdp

#: Clarabel says so where it cannot reach its tolerances.
pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")


def case(
    seed: int, loss: str, n: int = 40, *, shared: bool = False
) -> tuple[qsdp.TrainingProblem, qsdp.BilinearNetwork]:
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 2.0, n) if seed % 2 else None
    problem = random_problem(
        seed, loss, n, n_outputs=1 + seed % 3 if loss != "cross_entropy" else 3, sample_weight=weights
    )
    return problem, random_network(rng, problem, int(rng.integers(1, 12)), shared=shared)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(2))
def test_refitted_weights_are_optimal(seed: int, loss: str) -> None:
    problem, network = case(seed, loss)
    refitted = qsdp.refit(network, problem)
    expected = optimum(problem, (network.U, network.V, network.block))
    assert problem.objective(refitted) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("loss", ["squared", "logistic", "absolute", "cross_entropy"])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_shared_magnitudes_are_optimal_beside_weights(seed: int, loss: str) -> None:
    problem, network = case(seed, loss, shared=True)
    refitted = qsdp.refit(network, problem, second_layer="shared")
    signs = np.sign(network.output_weights)
    expected = optimum(problem, (network.U, network.V, network.block, signs), shared=True)
    assert problem.objective(refitted) == pytest.approx(expected, rel=1e-6)
    assert refitted.shared_alpha
    assert refitted.n_neurons == network.n_neurons


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), loss=st.sampled_from(LOSSES), shared=st.booleans())
def test_polish_never_increases_the_objective(seed: int, loss: str, shared: bool) -> None:
    problem, network = case(seed, loss, shared=shared)
    polished = qsdp.polish(network, problem, max_sweeps=6, random_state=0)
    assert problem.objective(polished) <= problem.objective(network)
    assert polished.n_neurons == network.n_neurons
    np.testing.assert_array_equal(polished.block, network.block)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3, 6])
def test_a_polish_leaves_optimal_weights(seed: int, shared: bool, loss: str) -> None:
    problem, network = case(seed, loss, shared=shared)
    polished = qsdp.polish(network, problem, random_state=0)
    # With the neurons as they are, the weights alone are a lasso.
    weights, layout = polished.column_weights, problem.blocks
    nu = problem.data_fit.gradient(problem.outputs(polished))
    slopes = np.asarray(problem.X.rows)[:, layout.weight_entries].T @ nu / layout.weight_omega[:, None]
    assert np.abs(slopes).max() <= problem.beta * (1.0 + 1e-3)
    used = weights != 0.0
    np.testing.assert_allclose(slopes[used], -problem.beta * np.sign(weights[used]), rtol=2e-3)


@pytest.mark.parametrize(
    ("loss", "seed", "bits"), [*((loss, 0, 3) for loss in LOSSES), ("squared", 1, 8), ("cross_entropy", 2, 8)]
)
def test_bits_round_weights_with_a_scale_of_their_own(seed: int, loss: str, bits: int) -> None:
    problem, network = case(seed, loss)
    best = problem.objective(qsdp.refit(network, problem))
    rounded = qsdp.refit(network, problem, alpha_bits=bits)
    for layer in (rounded.output_weights, rounded.column_weights):
        for column in layer.T:
            sizes = np.abs(column[column != 0.0])
            if not len(sizes):
                continue
            # Multiples of a common scale, which is a number of single precision.
            scales = [np.float64(np.float32(sizes.max() / k)) for k in range(1, 2 ** (bits - 1))]
            assert any(np.all(np.abs(sizes / one - np.rint(sizes / one)) < 1e-9) for one in scales)
    assert problem.objective(rounded) >= best * (1.0 - 1e-9)
    assert problem.objective(rounded) <= best * (1.01 if bits == 8 else 1.6)
    form = rounded.to_integer_form()
    np.testing.assert_allclose(form.predict(problem.X), rounded.predict(problem.X), rtol=1e-11, atol=1e-12)
    assert all(width <= bits for width in [(2 * int(np.abs(form.weights).max(initial=0))).bit_length()])


def test_weights_alone_need_no_neurons() -> None:
    problem, network = case(5, "squared")
    assert (problem.blocks.n_blocks, network.n_neurons) == (0, 0)
    refitted = qsdp.refit(network, problem)
    assert refitted.n_neurons == 0
    assert problem.objective(refitted) == pytest.approx(optimum(problem), rel=1e-8)
    polished = qsdp.polish(network, problem, restarts=2, random_state=0)
    assert problem.objective(polished) == pytest.approx(optimum(problem), rel=1e-8)
    shared = qsdp.refit(network, problem, second_layer="shared")
    assert problem.objective(shared) == pytest.approx(optimum(problem), rel=1e-7)
    rounded = qsdp.refit(network, problem, alpha_bits=8)
    assert rounded.n_neurons == 0
    assert qsdp.certify(rounded, problem).lower_bound <= optimum(problem) * (1.0 + 1e-9)


def test_another_loss_refits_weights_too() -> None:
    problem, network = case(3, "logistic")
    other = qsdp.refit(network, problem, loss="squared_hinge", beta=0.5 * problem.beta)
    changed = problem.with_loss("squared_hinge").with_beta(0.5 * problem.beta)
    assert changed.objective(other) == pytest.approx(optimum(changed, (network.U, network.V, network.block)), rel=1e-7)
    assert qsdp.refit(network, problem, loss="squared").n_neurons > 0


def test_a_thousand_columns_take_seconds() -> None:
    rng = np.random.default_rng(0)
    n, p, N = 300, 1000, 4
    z, columns = rng.standard_normal((n, N)), rng.standard_normal((n, p))
    first, second = np.triu_indices(N)
    rows = np.hstack([columns, z[:, first] * z[:, second]])
    y = columns[:, :5] @ [3.0, -2.0, 1.0, 1.0, -1.0] + z[:, 0] * z[:, 1]
    problem = qsdp.TrainingProblem(qsdp.Blocks(rows, [p, N], ["weights", "quadratic"]), y, beta=60.0)
    U, V = rng.choice([-1, 1], size=(2, 8, N))
    network = qsdp.BilinearNetwork.on_blocks(problem.blocks, U, V, np.full(8, 0.1), np.zeros(8, dtype=int))
    refitted = qsdp.refit(network, problem)
    used = np.flatnonzero(refitted.weights)
    assert set(range(5)) <= set(used.tolist())
    assert len(used) < 100
    nu = problem.data_fit.gradient(problem.outputs(refitted))[:, 0]
    assert np.abs(columns.T @ nu).max() <= problem.beta * (1.0 + 1e-6)
    polished = qsdp.polish(refitted, problem, random_state=0)
    assert problem.objective(polished) <= problem.objective(refitted)
