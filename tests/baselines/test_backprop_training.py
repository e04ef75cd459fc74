"""Gradients and updates of the systems trained by automatic gradients, against formulas written out in NumPy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from qsdp import BilinearNetwork, PolynomialNetwork, TrainingProblem
from qsdp.baselines import BackpropRegressor
from qsdp.baselines._torch import minibatches, seeded, torch_loss
from qsdp.baselines.backprop._training import FloatTraining, GradientDescent
from qsdp.baselines.backprop.float_networks import FloatNetwork
from qsdp.losses import LOSSES, get_loss

RNG = np.random.default_rng(0)
N, D, M, C = 12, 4, 5, 3
X = RNG.standard_normal((N, D)) * 2.0 + 0.5
REAL, LABELS = RNG.standard_normal(N) * 3.0, np.where(np.arange(N) % 2, 1.0, -1.0)
ONE_HOT = np.eye(C)[np.arange(N) % C]
ACTIVATIONS = {"bilinear": None, "quadratic": (1.0, 0.0, 0.0), "lifted": (0.3, -0.7, 0.4)}
BETA = 0.7


def settings(**changed: Any) -> SimpleNamespace:
    plain = {
        "learning_rate": 0.05,
        "momentum": 0.9,
        "clip": None,
        "optimizer": "sgd",
        "schedule": "constant",
        "batch_size": 5,
        "n_epochs": 3,
        "patience": None,
        "device": None,
        "dtype": "float64",
        "callback": None,
        "verbose": False,
    }
    return SimpleNamespace(**(plain | changed))


def problem_of(name: str, activation: Any, vector: bool) -> TrainingProblem:
    loss = get_loss(name)
    y = REAL
    if loss.labels:
        y = LABELS
    if vector:
        y = ONE_HOT * 2.0 - 1.0 if loss.labels else ONE_HOT * 2.5 if not loss.coupled else ONE_HOT
    return TrainingProblem(X, y, beta=BETA, loss=loss, activation=activation)


def combinations() -> list[Any]:
    found = []
    for name in LOSSES:
        for kind in ACTIVATIONS:
            for vector in (False, True):
                if vector or not LOSSES[name].coupled:
                    found.append(
                        pytest.param(name, kind, vector, id=f"{name}-{kind}-{'vector' if vector else 'scalar'}")
                    )
    return found


def written_out(problem: TrainingProblem, network: FloatNetwork) -> tuple[float, list[np.ndarray], np.ndarray]:
    """Objective and its gradients with respect to factors and alpha, sample by sample and neuron by neuron."""
    a, b, c = ACTIVATIONS["quadratic"] if problem.activation is None else problem.activation.coefficients
    alpha = network.alpha.reshape(network.n_neurons, -1)
    outputs = np.zeros((N, alpha.shape[1]))
    for i, x in enumerate(problem.X):
        for j in range(network.n_neurons):
            t = [factor[j] @ x for factor in network.factors]
            outputs[i] += alpha[j] * (t[0] * t[1] if len(t) == 2 else a * t[0] ** 2 + b * t[0] + c)
    outputs = outputs.reshape(problem.y.shape)
    slopes = problem.loss.gradient(outputs, problem.y).reshape(N, -1)
    of_factors = [np.zeros_like(factor) for factor in network.factors]
    of_alpha = np.zeros_like(alpha)
    size = 0.0
    for j in range(network.n_neurons):
        weight = float(np.mean([factor[j] @ factor[j] for factor in network.factors])) + problem.lifted
        size += np.abs(alpha[j]).sum() * weight
        of_alpha[j] = problem.beta * np.sign(alpha[j]) * weight
        for i, x in enumerate(problem.X):
            t = [factor[j] @ x for factor in network.factors]
            pull = float(slopes[i] @ alpha[j])
            if len(t) == 2:
                of_factors[0][j] += pull * t[1] * x
                of_factors[1][j] += pull * t[0] * x
                value = t[0] * t[1]
            else:
                of_factors[0][j] += pull * (2 * a * t[0] + b) * x
                value = a * t[0] ** 2 + b * t[0] + c
            of_alpha[j] += slopes[i] * value
        for k, factor in enumerate(network.factors):
            of_factors[k][j] += problem.beta * np.abs(alpha[j]).sum() * 2.0 * factor[j] / len(network.factors)
    return (
        problem.loss.value(outputs, problem.y) + problem.beta * size,
        of_factors,
        of_alpha.reshape(network.alpha.shape),
    )


@pytest.mark.parametrize(("name", "kind", "vector"), combinations())
def test_objective_and_gradients_are_the_written_out_ones(name: str, kind: str, vector: bool) -> None:
    problem = problem_of(name, ACTIVATIONS[kind], vector)
    training = FloatTraining(problem, M, GradientDescent.from_parameters(settings()), "free", np.random.default_rng(1))
    value = training.objective(torch.arange(N))
    value.backward()
    network, units = training.network(), training.units
    expected, of_factors, of_alpha = written_out(problem, network)
    scale = N * units.factor
    assert float(value.detach()) * scale == pytest.approx(expected, rel=1e-12)
    assert network.objective(problem) == pytest.approx(expected, rel=1e-12)
    W, a = (tensor.grad.numpy() * scale for tensor in training.parameters.values())
    # Weights in training are r times, and m / tau times, the user's: gradients the other way round.
    np.testing.assert_allclose(W * units.row, of_factors, rtol=1e-10, atol=1e-10 * np.abs(of_factors).max())
    np.testing.assert_allclose(a * M / units.target, of_alpha, rtol=1e-10, atol=1e-10 * np.abs(of_alpha).max())


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_their_slopes(name: str) -> None:
    loss = get_loss(name)
    y = ONE_HOT if loss.coupled else LABELS if loss.labels else REAL
    # Far out, near, and exactly at the kinks.
    rows = [RNG.standard_normal(y.shape) * size for size in (1e-3, 1.0, 40.0, 300.0)] + [y, np.zeros_like(y)]
    for prediction in rows:
        t = torch.tensor(prediction, requires_grad=True)
        value = torch_loss(loss)(t, torch.tensor(y))
        value.backward()
        assert float(value.detach()) == pytest.approx(loss.value(prediction, y), rel=1e-12, abs=1e-14)
        assert t.grad is not None
        np.testing.assert_allclose(t.grad.numpy(), loss.gradient(prediction, y), rtol=1e-12, atol=1e-14)


# -- steps -----------------------------------------------------------------------------------------------


def trained_in_numpy(options: SimpleNamespace, problem: TrainingProblem, start: FloatTraining, seed: int) -> Any:
    """Follow the gradients of `written_out` in the user's units, with steps of the training's."""
    rng = np.random.default_rng(seed)
    rng.standard_normal((len(start.network().factors), M, D))
    generator = seeded(rng)
    units = start.units
    network = start.network()
    factors, alpha = np.stack(network.factors), network.alpha.copy()
    # Steps of w' = r w and a = m alpha / tau are those of w and alpha times r^-2 and (tau / m)^2.
    to_w, to_alpha = units.row**-2.0, (units.target / M) ** 2
    first, second = [np.zeros_like(factors), np.zeros_like(factors)], [np.zeros_like(alpha), np.zeros_like(alpha)]
    count = 0
    for epoch in range(options.n_epochs):
        rate = options.learning_rate
        if options.schedule == "cosine":
            rate *= 0.5 * (1.0 + np.cos(np.pi * epoch / options.n_epochs))
        for rows in minibatches(N, options.batch_size, generator):
            count += 1
            part = TrainingProblem(
                problem.X[rows.numpy()], problem.y[rows.numpy()], beta=BETA, activation=problem.activation
            )
            moved = FloatNetwork(factors, alpha, problem.activation)
            g, h = gradients(part, moved, len(rows), units.factor)
            gw, ga = g * to_w**0.5, h * to_alpha**0.5
            if options.clip is not None:
                norm = np.sqrt(np.sum(gw**2) + np.sum(ga**2))
                factor = min(1.0, options.clip / np.sqrt(M) / (norm + 1e-6))
                gw, ga = gw * factor, ga * factor
            if options.optimizer == "sgd":
                first[0] = options.momentum * first[0] + gw
                second[0] = options.momentum * second[0] + ga
                sw, sa = rate * M * first[0], rate * M * second[0]
            else:
                steps = []
                for kept, gradient in ((first, gw), (second, ga)):
                    kept[0] = options.momentum * kept[0] + (1 - options.momentum) * gradient
                    kept[1] = 0.999 * kept[1] + 0.001 * gradient**2
                    mean = kept[0] / (1 - options.momentum**count)
                    square = kept[1] / (1 - 0.999**count)
                    steps.append(rate * mean / (np.sqrt(square) + 1e-8))
                sw, sa = steps
            factors = factors - sw * to_w**0.5
            alpha = alpha - sa * to_alpha**0.5
    return FloatNetwork(factors, alpha, problem.activation)


def gradients(part: TrainingProblem, network: FloatNetwork, count: int, factor: float) -> tuple[np.ndarray, np.ndarray]:
    """Gradients of the mean loss of some rows and of the regulariser's share of a sample."""
    t = [part.X @ f.T for f in network.factors]
    if part.activation is None:
        values, inner = t[0] * t[1], [t[1], t[0]]
    else:
        a, b, c = part.activation.coefficients
        values, inner = a * t[0] ** 2 + b * t[0] + c, [2 * a * t[0] + b]
    slopes = part.loss.gradient(values @ network.alpha, part.y) / (count * factor)
    sizes = np.mean([np.sum(f**2, axis=1) for f in network.factors], axis=0) + part.lifted
    share = part.beta / (N * factor)
    of_factors = [
        ((slopes[:, None] * pull).T @ part.X) * network.alpha[:, None]
        + share * np.abs(network.alpha)[:, None] * 2.0 * f / len(network.factors)
        for f, pull in zip(network.factors, inner, strict=True)
    ]
    return np.stack(of_factors), values.T @ slopes + share * np.sign(network.alpha) * sizes


@pytest.mark.parametrize("kind", ACTIVATIONS)
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"schedule": "cosine", "momentum": 0.5},
        {"clip": 0.3},
        {"optimizer": "adam", "learning_rate": 0.02},
        {"batch_size": 100, "momentum": 0.0},
    ],
    ids=["sgd", "cosine", "clip", "adam", "whole"],
)
def test_training_is_the_written_out_algorithm(kind: str, changed: dict[str, Any]) -> None:
    options = settings(**changed)
    problem = TrainingProblem(X, REAL, beta=BETA, activation=ACTIVATIONS[kind])
    start = FloatTraining(problem, M, GradientDescent.from_parameters(options), "free", np.random.default_rng(7))
    expected = trained_in_numpy(options, problem, start, 7)
    model = BackpropRegressor(
        M,
        activation=ACTIVATIONS[kind],
        beta=BETA,
        constant_column=False,
        random_state=7,
        **vars(options),
    ).fit(X, REAL)
    assert model.history_.n_epochs == options.n_epochs
    for ours, theirs in zip(model.network_.factors, expected.factors, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10 * np.abs(theirs).max())
    np.testing.assert_allclose(model.network_.alpha, expected.alpha, rtol=1e-10)
    assert model.history_.loss[-1] == pytest.approx(expected.objective(problem), rel=1e-10)


# -- units -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_objective_of_binary_weights_is_that_of_the_training_problem(kind: str) -> None:
    problem = problem_of("squared", ACTIVATIONS[kind], True)
    signs = [(2 * RNG.integers(0, 2, (M, D)) - 1).astype(np.int8) for _ in range(2)]
    alpha = RNG.standard_normal((M, C))
    if kind == "bilinear":
        factors: tuple[Any, ...] = tuple(signs)
        quantized: Any = BilinearNetwork(*signs, alpha)
    else:
        factors, quantized = (signs[0],), PolynomialNetwork(signs[0], alpha, ACTIVATIONS[kind])
    network = FloatNetwork(factors, alpha, ACTIVATIONS[kind])
    assert network.objective(problem) == pytest.approx(problem.objective(quantized), rel=1e-13)


@pytest.mark.parametrize("second_layer", ["fixed", "free"])
def test_units_of_data_and_targets_do_not_matter(second_layer: str) -> None:
    options = {"n_epochs": 5, "random_state": 0, "constant_column": False, "second_layer": second_layer}
    plain = BackpropRegressor(10, beta=0.3, **options).fit(X, REAL)
    # Loss times t^2; the regulariser is that of weights divided by s^2 and multiplied by t.
    s, t = 2.0**7, 2.0**-5
    scaled = BackpropRegressor(10, beta=0.3 * t * s**2, **options).fit(s * X, t * REAL)
    np.testing.assert_allclose(scaled.predict(s * X), t * plain.predict(X), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(scaled.history_.loss, t**2 * np.array(plain.history_.loss), rtol=1e-10)


@pytest.mark.parametrize("outputs", [1, 3])
def test_fixed_second_layer_stays_what_the_paper_says(outputs: int) -> None:
    y = REAL if outputs == 1 else np.column_stack([REAL, -REAL, REAL**2])
    alpha = BackpropRegressor(7, second_layer="fixed", n_epochs=2, random_state=0).fit(X, y).network_.alpha
    unit = np.sqrt(np.mean(y**2))
    columns = alpha.reshape(7, -1)
    assert np.all((columns != 0).sum(axis=1) == 1)
    for column in columns.T:
        np.testing.assert_allclose(column[column != 0], unit / np.count_nonzero(column), rtol=1e-12)
    signed = BackpropRegressor(6, activation="relu_like", second_layer="fixed", n_epochs=2, random_state=0).fit(X, REAL)
    np.testing.assert_allclose(
        signed.network_.alpha, np.sqrt(np.mean(REAL**2)) / 6 * np.array([1, -1, 1, -1, 1, -1]), rtol=1e-12
    )
