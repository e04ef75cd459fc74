"""Refits of networks on blocks."""

from __future__ import annotations

import numpy as np
import pytest
from block_problems import LOSSES, all_neurons, enumerated_optimum, random_problem

import qsdp


def sampled(problem: qsdp.TrainingProblem, n_neurons: int = 60) -> qsdp.BilinearNetwork:
    return qsdp.sample_network(qsdp.shape_covariance(qsdp.solve_relaxation(problem)), n_neurons)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n", [12, 60])
def test_of_all_neurons_a_refit_keeps_an_optimal_network(loss: str, n: int) -> None:
    problem = random_problem(n, loss, n=n, n_outputs=1 if loss == "cross_entropy" else 2)
    U, V, block = all_neurons(problem.blocks)
    weights = np.full((len(U), problem.n_outputs), 1e-3)
    network = qsdp.BilinearNetwork.on_blocks(problem.blocks, U, V, weights, block)
    refitted = qsdp.refit(network, problem)
    assert problem.objective(refitted) == pytest.approx(enumerated_optimum(problem), rel=1e-6)
    assert refitted.n_neurons <= n * problem.n_outputs


@pytest.mark.parametrize("loss", ["squared", "logistic", "cross_entropy"])
def test_free_weights_are_no_worse_than_shared_ones_and_these_than_the_sampled_ones(loss: str) -> None:
    problem = random_problem(3, loss, n=40, n_outputs=1 if loss == "cross_entropy" else 2)
    network = sampled(problem)
    shared, free = qsdp.refit(network, problem, second_layer="shared"), qsdp.refit(network, problem)
    assert shared.shared_alpha
    assert shared.n_neurons == network.n_neurons
    objectives = [problem.objective(one) for one in (free, shared, network)]
    assert objectives == sorted(objectives)
    assert qsdp.solve_relaxation(problem).lower_bound <= objectives[0]
    # Every magnitude is optimal, also one of zero; the refit orders neurons by their outputs.
    served = np.sort(np.argmax(network.output_weights != 0.0, axis=1))[:, None] == np.arange(problem.n_outputs)
    size = np.abs(shared.output_weights).max()
    assert size > 0.0
    for step in (-0.01 * size, 0.01 * size):
        for k in range(problem.n_outputs):
            weights = shared.output_weights + step * served * (np.arange(problem.n_outputs) == k)
            moved = shared.with_neurons(shared.U, shared.V, weights)
            assert problem.objective(moved) > problem.objective(shared)
