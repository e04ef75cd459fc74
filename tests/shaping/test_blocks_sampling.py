"""Shaping and sampling of relaxations of blocks."""

from __future__ import annotations

import numpy as np
import pytest
from block_problems import random_problem

import qsdp


@pytest.fixture(scope="module", params=[(0, 1), (1, 3), (2, 2)])
def relaxation(request: pytest.FixtureRequest) -> qsdp.Relaxation:
    seed, n_outputs = request.param
    return qsdp.solve_relaxation(random_problem(seed, n=40, n_outputs=n_outputs))


@pytest.mark.parametrize("method", ["krivine", "adaptive"])
def test_covariances_of_the_quadratic_blocks_are_exact(relaxation: qsdp.Relaxation, method: str) -> None:
    shaped = qsdp.shape_covariance(relaxation, method)
    layout = relaxation.problem.blocks
    for k, part in enumerate(shaped.parts):
        c, r = divmod(k, layout.n_blocks)
        if layout.linear[r]:
            assert part.s == pytest.approx(2.0 * relaxation.Z[r][c], abs=1e-15)
        else:
            assert part.dimension == layout.sizes[r]
            assert part.rho == pytest.approx(relaxation.rho[c, r])
            assert part.residual < 1e-12
            assert part.min_eigenvalue > -1e-6


@pytest.mark.parametrize("method", ["krivine", "adaptive"])
def test_the_mean_of_networks_is_the_function_of_the_relaxation(relaxation: qsdp.Relaxation, method: str) -> None:
    # 20 neurons for up to 12 pairs of outputs and blocks: every pair must get its share in the mean. A z-test for each
    # of at most 120 predictions with threshold 5 has a false-alarm rate of 7e-5.
    problem, shaped = relaxation.problem, qsdp.shape_covariance(relaxation, method)
    draws = np.array([qsdp.sample_network(shaped, 20, seed).outputs(problem.X) for seed in range(100)])
    exact = relaxation.outputs(problem.X)
    deviation = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - exact) <= 5.0 * deviation + 1e-12)


def test_neurons_of_an_output_share_one_weight_and_stay_in_their_blocks(relaxation: qsdp.Relaxation) -> None:
    shaped = qsdp.shape_covariance(relaxation)
    network = qsdp.sample_network(shaped, 50, 1, allocation="proportional")
    layout = relaxation.problem.blocks
    alpha = network.output_weights
    assert np.all((alpha != 0.0).sum(axis=1) <= 1)
    for column, total in zip(alpha.T, shaped.weights.sum(axis=1), strict=True):
        used = column[column > 0.0]
        assert np.ptp(used) == 0.0
        assert used.sum() == pytest.approx(total)
    assert np.array_equal(network.U != 0, layout.used[network.block])
    linear = np.array(layout.linear)[network.block]
    assert not np.any(network.V[linear])


def test_more_pairs_than_neurons() -> None:
    rng = np.random.default_rng(3)
    blocks = qsdp.Blocks(rng.standard_normal((50, 20 * 3)), sizes=[2] * 20)
    problem = qsdp.TrainingProblem(blocks, rng.standard_normal((50, 4)), beta=0.2)
    network = qsdp.sample_network(qsdp.shape_covariance(qsdp.solve_relaxation(problem)), 10)
    assert network.n_neurons == 10
    with pytest.raises(qsdp.QSDPError, match="at least 4, the number of outputs"):
        qsdp.sample_network(qsdp.shape_covariance(qsdp.solve_relaxation(problem)), 3)


def test_a_relaxation_at_zero_gives_a_network_of_zeros() -> None:
    problem = random_problem(0)
    zero = qsdp.solve_relaxation(problem.with_beta(2.0 * qsdp.beta_max(problem)))
    network = qsdp.sample_network(qsdp.shape_covariance(zero), 6)
    assert not np.any(network.alpha)
    assert problem.objective(network) == pytest.approx(problem.data_fit.value_at_zero)
