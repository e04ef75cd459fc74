"""Sampling beside real weights: networks take the weights of the relaxation, and only neurons are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from real_weight_problems import random_problem

import qsdp


def problem_of(seed: int, loss: str = "squared", **options: Any) -> Any:
    return random_problem(seed, loss, n=30, n_outputs=3 if loss == "cross_entropy" else 1 + seed % 2, **options)


@pytest.mark.parametrize("loss", ["squared", "logistic", "absolute", "cross_entropy"])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_weights_are_those_of_the_relaxation(seed: int, loss: str) -> None:
    problem = problem_of(seed, loss)
    relaxation = qsdp.solve_relaxation(problem)
    covariance = qsdp.shape_covariance(relaxation)
    for m in (20, 21):
        network = qsdp.sample_network(covariance, m, random_state=m)
        assert network.n_neurons == m
        np.testing.assert_array_equal(network.column_weights, relaxation.weights)
    many = qsdp.sample_network(covariance, 40_000)
    expected = relaxation.fitted
    assert np.abs(problem.outputs(many) - expected).max() <= 0.05 * np.abs(expected).max()


def test_blocks_of_weights_alone_are_sampled_without_neurons() -> None:
    problem = problem_of(5, loss="cross_entropy")
    assert problem.blocks.n_blocks == 0
    relaxation = qsdp.solve_relaxation(problem)
    covariance = qsdp.shape_covariance(relaxation)
    network = qsdp.sample_network(covariance, 100)
    assert network.n_neurons == 0
    assert problem.objective(network) == pytest.approx(relaxation.objective, rel=1e-9)
    assert "method='linear'" in repr(covariance)


@pytest.mark.parametrize("refine", ["none", "refit", "polish", "exact"])
@pytest.mark.parametrize("seed", [2, 3, 5])
def test_the_pipeline_trains_and_certifies(seed: int, refine: str) -> None:
    problem = problem_of(seed, "logistic")
    options: dict[str, Any] = {"beta": problem.beta, "loss": "logistic", "refine": refine}
    result = qsdp.solve_and_sample(problem.X, problem.y, 30, **options)
    assert result.certificate.lower_bound <= result.certificate.objective
    assert result.certificate.objective == pytest.approx(problem.objective(result.network), rel=1e-12)
    if refine == "exact":
        assert result.certificate.relative_gap <= 1e-6
    else:
        assert result.certificate.objective <= 1.5 * result.relaxation.objective
    assert "weights" in repr(result.network)
    again = result.resample(10, random_state=1, refine="none")
    assert again.network.n_neurons == (10 if problem.blocks.n_blocks else 0)
    np.testing.assert_array_equal(again.network.column_weights, again.relaxation.weights)


@pytest.mark.parametrize("refine", ["refit", "polish"])
def test_the_number_of_neurons_is_chosen(refine: str) -> None:
    problem = problem_of(2)
    result = qsdp.solve_and_sample(problem.X, problem.y, None, beta=problem.beta, refine=refine)
    assert result.certificate.lower_bound <= result.certificate.objective
    assert result.network.n_neurons > 0


@pytest.mark.parametrize("beta", ["auto", "5%"])
def test_beta_is_chosen(beta: str) -> None:
    problem = problem_of(4)
    result = qsdp.solve_and_sample(problem.X, problem.y, 40, beta=beta, refine="refit")
    assert 0.0 < result.problem.beta < qsdp.beta_max(problem)
