"""Numbers of neurons that are enough: the bound that they satisfy, and networks that have them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import qsdp
from qsdp import paper
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.losses import LOSSES, get_loss

RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 3))
TARGETS = np.column_stack([X[:, 0] * X[:, 1], X[:, 2] - 0.3, X[:, 1]])


def solved(loss: str = "squared", outputs: int = 1, **options: object) -> qsdp.Relaxation:
    y = TARGETS[:, 0] if outputs == 1 else TARGETS[:, :outputs]
    if loss == "cross_entropy":
        y = TARGETS.argmax(axis=1)
    elif get_loss(loss).labels:
        y = np.where(y > 0, 1.0, -1.0)
    problem = qsdp.TrainingProblem(X, y, **{"beta": 0.5, "loss": loss, **options})
    return qsdp.solve_relaxation(problem, tol=1e-6)


def loss_of(problem: qsdp.TrainingProblem, predictions: np.ndarray) -> float:
    return problem.data_fit.value(predictions.reshape(problem.n_samples, -1))


CASES = {
    **{name: {"loss": name} for name in LOSSES},
    "outputs": {"outputs": 3},
    "lifted": {"activation": "relu_like"},
    "weighted": {"sample_weight": RNG.uniform(0.2, 3.0, 12)},
}


@pytest.mark.parametrize("case", CASES)
def test_networks_of_that_size_have_nearly_the_loss_of_the_relaxation(case: str) -> None:
    relaxation = solved(**CASES[case])
    problem = relaxation.problem
    before = loss_of(problem, relaxation.predict(X))
    epsilon = 0.5 * problem.data_fit.value_at_zero
    m = paper.neurons_needed(relaxation, epsilon, 0.2)
    covariance = qsdp.shape_covariance(relaxation, "krivine")
    for seed in range(20):
        network = qsdp.sample_network(covariance, m, random_state=seed, allocation="equal")
        # The bound is far from sharp: none of twenty fails, though four might.
        assert abs(loss_of(problem, network.predict(X)) - before) <= epsilon


@pytest.mark.parametrize("activation", [None, "relu_like"])
def test_the_number_is_the_smallest_that_satisfies_the_bound(activation: object) -> None:
    relaxation = solved("absolute", activation=activation)
    epsilon, delta = 0.3, 0.05
    m = paper.neurons_needed(relaxation, epsilon, delta)
    covariance = qsdp.shape_covariance(relaxation, "krivine")
    N = covariance.dimension
    lifted = X if activation is None else np.column_stack([X, np.ones(12)])
    a, b, c = (1.0, 0.0, 0.0) if activation is None else relaxation.problem.activation.coefficients
    matrices = np.einsum("ni,nj->nij", lifted, lifted) * a
    if activation is not None:
        matrices[:, :3, 3] = matrices[:, 3, :3] = 0.5 * b * X
        matrices[:, 3, 3] = c
    nuclear = np.linalg.svd(matrices, compute_uv=False).sum(axis=1)
    # The absolute error has slope one: all samples together move by s times the sum of the norms, where that is enough.
    residuals = relaxation.predict(X) - relaxation.problem.y

    def rise(s: float) -> float:
        return sum(max(abs(r + s * w), abs(r - s * w)) - abs(r) for r, w in zip(residuals, nuclear, strict=True))

    reach = epsilon / nuclear.sum()
    assert rise(reach) == pytest.approx(epsilon, rel=1e-9)
    second_moment = 2.0 / math.pi * np.arcsin(covariance.Q[:N, :N])
    variance, t = N * np.linalg.eigvalsh(second_moment)[-1], reach / covariance.total_weight

    def failure(m: int) -> float:
        return 2.0 * N * math.exp(-0.5 * m * t**2 / (variance + 2.0 * N * t / 3.0))

    assert failure(m) <= delta < failure(m - 1)


def test_moments_are_within_the_constants() -> None:
    # The variance and the norm that enter the inequality, for a covariance of which all signs can be drawn.
    relaxation = solved()
    covariance = qsdp.shape_covariance(relaxation, "krivine")
    network = qsdp.sample_network(covariance, 200_000, random_state=0)
    U, V = network.U.astype(float), network.V.astype(float)
    N, mean = covariance.dimension, (2.0 * covariance.constant / math.pi) * relaxation.Z[0][0] / relaxation.rho[0, 0]
    second = N * (U.T @ U) / len(U) - mean @ mean.T
    bound = 2.0 * N / math.pi * np.linalg.eigvalsh(np.arcsin(covariance.Q[:N, :N]))[-1]
    assert np.linalg.eigvalsh(second)[-1] <= bound + 0.02 * N
    norms = np.linalg.norm(np.einsum("mi,mj->mij", U[:200], V[:200]) - mean, ord=2, axis=(1, 2))
    assert norms.max() <= 2.0 * N


def test_more_accuracy_and_certainty_take_more_neurons() -> None:
    relaxation = solved()
    numbers = [paper.neurons_needed(relaxation, epsilon, 0.1) for epsilon in (1.0, 0.1, 0.01)]
    assert numbers == sorted(numbers)
    assert numbers[1] > 50 * numbers[0] / 10
    assert paper.neurons_needed(relaxation, 0.1, 1e-6) > numbers[1]


def test_the_zero_relaxation_needs_one_neuron_and_arguments_are_checked() -> None:
    problem = qsdp.TrainingProblem(X, TARGETS[:, 0], beta=1e6)
    with pytest.warns(qsdp.QSDPWarning, match="zero network"):
        zero = qsdp.solve_relaxation(problem)
    assert paper.neurons_needed(zero, 0.1, 0.1) == 1
    relaxation = solved()
    for epsilon, delta in ((0.0, 0.1), (0.1, 0.0), (0.1, 1.0), (math.inf, 0.1)):
        with pytest.raises(InvalidInputError, match=r"epsilon|delta"):
            paper.neurons_needed(relaxation, epsilon, delta)
    with pytest.raises(InvalidTypeError, match="relaxation must be a Relaxation"):
        paper.neurons_needed(problem, 0.1, 0.1)
    with pytest.raises(InvalidInputError, match="two levels"):
        paper.neurons_needed(solved(levels=3), 0.1, 0.1)
