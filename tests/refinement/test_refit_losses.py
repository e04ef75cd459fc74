"""Second layers for another loss, and in a few bits."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from block_problems import random_network, random_problem

import qsdp
from qsdp.exceptions import InvalidInputError
from qsdp.refinement._alpha_bits import in_bits, nearest_integers


def classes_problem(seed: int = 0, n: int = 60, *, blocks: bool = True) -> qsdp.TrainingProblem:
    """Return a squared-loss problem whose targets are centred one-hot rows."""
    rng = np.random.default_rng(seed)
    X: Any = rng.standard_normal((n, 5))
    y = np.argmax(X[:, :3] * X[:, 1:4] + 0.1 * rng.standard_normal((n, 3)), axis=1)
    if blocks:
        first, second = np.triu_indices(3)
        parts = [X[:, :3], X[:, 2:]]
        X = qsdp.Blocks(np.hstack([x[:, first] * x[:, second] for x in parts]), [3, 3], omega=[1.0, 2.0])
    hot = np.eye(3)[y]
    problem = qsdp.TrainingProblem(X, hot - hot.mean(axis=0), beta=1.0)
    return problem.with_beta(0.02 * qsdp.beta_max(problem))


@pytest.mark.parametrize(("loss", "blocks"), [("cross_entropy", True), ("logistic", False), ("huber", True)])
def test_another_loss_is_the_refit_to_its_problem(loss: str, blocks: bool) -> None:
    problem = classes_problem(blocks=blocks)
    network = qsdp.column_generation(problem).network
    refitted = qsdp.refit(network, problem, loss=loss)
    classes = np.argmax(problem.y, axis=1)
    targets = {"cross_entropy": classes, "logistic": 2.0 * np.eye(3)[classes] - 1.0, "huber": problem.y}[loss]
    other = qsdp.TrainingProblem(problem.X, targets, beta=1.0, loss=loss)
    # No neuron is used from the largest of their pricing values on, which is that of a network at that beta.
    values = network.with_neurons(network.U, network.V, np.ones(network.n_neurons))
    scales = []
    for one in (problem, other):
        nu = -one.data_fit.gradient(np.zeros_like(one.targets))
        columns = np.stack(
            [
                values.with_neurons(values.U[[j]], values.V[[j]], np.ones(1), [j]).predict(one.X)
                for j in range(network.n_neurons)
            ],
            axis=1,
        )
        prices = problem.blocks.prices[network.block] if problem.blocks else np.full(network.n_neurons, 5.0)
        scales.append(np.abs(columns.T @ nu / prices[:, None]).max())
    other = other.with_beta(problem.beta * scales[1] / scales[0])
    assert other.objective(refitted) == pytest.approx(other.objective(qsdp.refit(network, other)), rel=1e-6)
    assert problem.with_loss(loss).with_beta(other.beta) == other


def test_another_beta() -> None:
    problem = classes_problem()
    network = qsdp.column_generation(problem).network
    smaller = 0.1 * problem.beta
    again = qsdp.refit(network, problem, beta=smaller)
    expected = qsdp.refit(network, problem.with_beta(smaller))
    assert np.array_equal(again.alpha, expected.alpha)
    assert problem.with_beta(smaller).objective(again) < problem.with_beta(smaller).objective(network)


@pytest.mark.parametrize("bits", [2, 8])
def test_weights_are_integers_of_so_many_bits_times_a_scale_of_each_output(bits: int) -> None:
    problem = classes_problem()
    network = qsdp.column_generation(problem).network
    rounded = qsdp.refit(network, problem, alpha_bits=bits)
    largest = 2 ** (bits - 1) - 1
    for column in rounded.output_weights.T:
        used = np.abs(column[column != 0.0])
        candidates = [np.float64(np.float32(used.max() / k)) for k in range(1, largest + 1)]
        assert any(np.all(np.abs(used / one - np.rint(used / one)) < 1e-9) for one in candidates)
    error = np.abs(problem.outputs(rounded) - problem.outputs(qsdp.refit(network, problem))).max()
    assert error <= 4.0 * 2.0**-bits * np.abs(problem.outputs(network)).max() * network.n_neurons**0.5
    if bits == 16:
        certificate = qsdp.certify(rounded, problem)
        assert certificate.lower_bound <= certificate.objective == pytest.approx(problem.objective(rounded))


def test_integers_are_the_best_by_enumeration_up_to_single_moves() -> None:
    """With the scale found, no single integer can be moved for the better, and often all are best."""
    best = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        problem = random_problem(seed, n=30)
        network = qsdp.refit(random_network(rng, problem.blocks, 4), problem.with_beta(1e-3))
        m = network.n_neurons
        rounded = in_bits(network, problem, 2)
        scale, found = np.abs(rounded.alpha).max(), problem.objective(rounded)

        def objective(q: Any, network: Any = network, problem: Any = problem, scale: float = scale) -> float:
            weights = np.array(q) * scale
            return problem.objective(network.with_neurons(network.U, network.V, weights, range(len(weights))))

        choices = list(itertools.product([-1, 0, 1], repeat=m))
        values = np.array([objective(q) for q in choices])
        place = int(np.argmin(np.abs(values - found)))
        assert values[place] == pytest.approx(found, rel=1e-9)
        near = [sum(abs(a - b) for a, b in zip(q, choices[place], strict=True)) == 1 for q in choices]
        assert found <= values[near].min() * (1 + 1e-9)
        best += found <= values.min() * (1 + 1e-9)
    assert best >= 7


def test_rounding_in_the_norm_of_a_gram_matrix_is_the_best_up_to_single_moves() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        F, alpha = rng.standard_normal((30, 4)), rng.standard_normal(4)
        gram = F.T @ F
        integers, scale = nearest_integers(alpha, gram, 3)
        assert set(integers) <= set(range(-3, 4))
        rounded = scale * integers
        error = (rounded - alpha) @ gram @ (rounded - alpha)
        for j, step in itertools.product(range(4), (-1, 1)):
            moved = rounded.copy()
            moved[j] += step * scale
            if np.abs(moved[j]) <= 3 * scale:
                assert error <= (moved - alpha) @ gram @ (moved - alpha) * (1 + 1e-9)


@pytest.mark.parametrize(("loss", "blocks"), [("cross_entropy", True), ("logistic", False), ("hinge", True)])
def test_rounding_lowers_the_objective_below_that_of_rounded_weights(loss: str, blocks: bool) -> None:
    """The coordinate descent is at least as good as each weight rounded to the best of all common scales."""
    problem = classes_problem(n=200, blocks=blocks).with_loss(loss)
    problem = problem.with_beta(0.02 * qsdp.beta_max(problem))
    network = qsdp.column_generation(problem, tol=1e-4).network
    rounded = qsdp.refit(network, problem, alpha_bits=3)
    refitted = qsdp.refit(network, problem)
    alpha, plain = refitted.output_weights, []
    for share in np.linspace(0.3, 1.0, 36):
        scales = np.abs(alpha).max(axis=0) / 3 * share
        weights = np.clip(np.rint(alpha / scales), -3, 3) * scales
        plain.append(problem.objective(refitted.with_neurons(refitted.U, refitted.V, weights, range(len(weights)))))
    assert problem.objective(rounded) <= (1.04 if loss == "hinge" else 1.0) * min(plain)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"alpha_bits": 1}, "alpha_bits must be an integer from 2 to 16"),
        ({"alpha_bits": 4, "second_layer": "shared"}, "second_layer must be 'free' with alpha_bits"),
        ({"loss": "cross_entropie"}, "did you mean 'cross_entropy'"),
        ({"beta": -1.0}, "beta must be"),
    ],
)
def test_bad_options_are_one_clear_error(options: dict[str, Any], said: str) -> None:
    problem = classes_problem()
    network = random_network(np.random.default_rng(0), problem.blocks, 3, 3)
    with pytest.raises(InvalidInputError, match=said):
        qsdp.refit(network, problem, **options)
