"""ReLU networks: gradients and steps against formulas, rounding of the first layer, storage."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import qsdp
from qsdp import TrainingProblem
from qsdp.baselines import ReLUNetworkClassifier, ReLUNetworkRegressor
from qsdp.baselines._torch import minibatches, seeded
from qsdp.baselines.backprop import QuantizedReLUNetwork, ReLUNetwork, round_to_levels
from qsdp.baselines.backprop._training import GradientDescent
from qsdp.baselines.backprop.relu import _ReLUTraining
from qsdp.exceptions import InvalidInputError
from qsdp.losses import LOSSES

RNG = np.random.default_rng(0)
N, D, M, C = 12, 4, 6, 3
X = RNG.standard_normal((N, D)) * 2.0 + 0.5
Y, LABELS = RNG.standard_normal(N) * 3.0, np.where(np.arange(N) % 2, 1.0, -1.0)
ONE_HOT = np.eye(C)[np.arange(N) % C]
BETA = 0.7
OPTIONS = {
    "learning_rate": 0.05,
    "momentum": 0.9,
    "clip": 0.5,
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


def combinations() -> list[Any]:
    return [
        pytest.param(name, vector, intercept, id=f"{name}-{'vector' if vector else 'scalar'}-{intercept}")
        for name, kind in LOSSES.items()
        for vector in (False, True)
        for intercept in (False, True)
        if vector or not kind.coupled
    ]


def gradients(
    network: ReLUNetwork, problem: TrainingProblem, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Slopes of the summed loss in W, bias, alpha and intercept."""
    t = x @ network.W.T + network.bias
    h = np.maximum(t, 0.0)
    slopes = problem.loss.gradient(h @ network.alpha + network.intercept, y)
    columns, by_column = network.alpha.reshape(M, -1), slopes.reshape(len(x), -1)
    back = (by_column @ columns.T) * (t > 0.0)
    return back.T @ x, back.sum(axis=0), h.T @ slopes, slopes.sum(axis=0)


def kappa(problem: TrainingProblem) -> float:
    row = np.sqrt(np.mean(np.sum(problem.X**2, axis=1)))
    target = 1.0 if problem.loss.labels or problem.loss.coupled else np.sqrt(np.mean(problem.y**2))
    return float(row * target / np.sqrt(M))


@pytest.mark.parametrize(("name", "vector", "intercept"), combinations())
def test_objective_and_gradients_are_the_written_out_ones(name: str, vector: bool, intercept: bool) -> None:
    loss = LOSSES[name]()
    y = (ONE_HOT if not loss.labels else 2.0 * ONE_HOT - 1.0) if vector else LABELS if loss.labels else Y
    problem = TrainingProblem(X, y, beta=BETA, loss=loss)
    training = _ReLUTraining(
        problem, M, GradientDescent.from_parameters(SimpleNamespace(**OPTIONS)), intercept, np.random.default_rng(1)
    )
    with torch.no_grad():
        for one in ("b", "b0"):
            if one in training.parameters:
                training.parameters[one].add_(0.3)
    value = training.objective(torch.arange(N))
    value.backward()
    network, units, k = training.network(), training.units, kappa(problem)
    decay = 0.5 * BETA * (k * np.sum(network.W**2) + np.sum(network.alpha**2) / k)
    scale = N * units.factor
    expected = problem.loss.value(network.predict(X), problem.y) + decay
    assert float(value.detach()) * scale == pytest.approx(expected, rel=1e-12)
    outputs, penalty = training.evaluate()
    np.testing.assert_allclose(outputs * units.target, network.predict(X), rtol=1e-12, atol=1e-12)
    assert penalty == pytest.approx(decay, rel=1e-12)
    of_W, of_b, of_alpha, of_b0 = gradients(network, problem, problem.X, problem.y)
    second = np.sqrt(M) / units.target
    wanted = {
        "W": (of_W + BETA * k * network.W) / units.row,
        "b": of_b,
        "a": (of_alpha + BETA / k * network.alpha) / second,
        "b0": of_b0 * units.target,
    }
    assert set(training.parameters) == ({"W", "a", "b", "b0"} if intercept else {"W", "a"})
    for one, tensor in training.parameters.items():
        got = tensor.grad.numpy() * scale
        np.testing.assert_allclose(got, wanted[one], rtol=1e-10, atol=1e-10 * np.abs(wanted[one]).max())


def test_training_is_the_written_out_algorithm() -> None:
    problem = TrainingProblem(X, Y, beta=BETA)
    rng = np.random.default_rng(5)
    row, target, k = np.sqrt(np.mean(np.sum(X**2, axis=1))), np.sqrt(np.mean(Y**2)), kappa(problem)
    W, alpha = rng.standard_normal((M, D)) / row, rng.standard_normal(M) * target / np.sqrt(M)
    b, b0 = np.zeros(M), np.zeros(())
    units = [1.0 / row, target / np.sqrt(M), 1.0, target]
    generator = seeded(rng)
    moved = [np.zeros_like(one) for one in (W, alpha, b, b0)]
    for _ in range(3):
        for rows in minibatches(N, 5, generator):
            network = ReLUNetwork(W, b, alpha, b0)
            of_W, of_b, of_alpha, of_b0 = gradients(network, problem, X[rows.numpy()], Y[rows.numpy()])
            count = len(rows) * target**2
            share = BETA / (N * target**2)
            g = [of_W / count + share * k * W, of_alpha / count + share / k * alpha, of_b / count, of_b0 / count]
            g = [one * unit for one, unit in zip(g, units, strict=True)]
            norm = np.sqrt(sum(np.sum(one**2) for one in g))
            moved = [0.9 * kept + one * min(1.0, 0.5 / (norm + 1e-6)) for kept, one in zip(moved, g, strict=True)]
            W, alpha, b, b0 = (
                old - 0.05 * step * unit for old, step, unit in zip((W, alpha, b, b0), moved, units, strict=True)
            )
    options = {name: value for name, value in OPTIONS.items() if name != "device"}
    model = ReLUNetworkRegressor(M, beta=BETA, random_state=5, **options).fit(X, Y)
    ours = model.network_
    for got, wanted in ((ours.W, W), (ours.alpha, alpha), (ours.bias, b), (ours.intercept, b0)):
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-10 * (np.abs(wanted).max() + 1e-3))


# -- networks --------------------------------------------------------------------------------------------


def network_of(outputs: int = 1) -> ReLUNetwork:
    rng = np.random.default_rng(3)
    alpha = rng.standard_normal((M, outputs))
    intercept = rng.standard_normal(outputs)
    if outputs == 1:
        alpha, intercept = alpha[:, 0], intercept[0]
    return ReLUNetwork(rng.standard_normal((M, D)), rng.standard_normal(M), alpha, intercept)


@pytest.mark.parametrize("outputs", [1, C])
def test_values_and_layers(outputs: int) -> None:
    network = network_of(outputs)
    expected = [
        sum(np.maximum(w @ x + b, 0.0) * a for w, b, a in zip(network.W, network.bias, network.alpha, strict=True))
        + network.intercept
        for x in X
    ]
    np.testing.assert_allclose(network.predict(X), expected, rtol=1e-12)
    first, second = network.layers
    np.testing.assert_allclose(second.predict(first.predict(X)), expected, rtol=1e-12)
    assert network.n_parameters == M * D + M + M * outputs + outputs


@pytest.mark.parametrize("outputs", [1, C])
@pytest.mark.parametrize("levels", [2, 3, 4, 16])
@pytest.mark.parametrize("scale", ["neuron", "layer"])
def test_rounding_is_exact_in_function(outputs: int, levels: int, scale: str) -> None:
    network = network_of(outputs)
    rounded = network.quantized(levels, scale=scale)
    found = round_to_levels(network.W, levels, scale=scale)
    np.testing.assert_array_equal(rounded.Q, found.weights)
    assert rounded.Q.dtype == np.int8
    assert network.rounding(levels, scale=scale).relative_error == found.relative_error
    real = ReLUNetwork(found.scales[:, None] * found.weights, network.bias, network.alpha, network.intercept)
    np.testing.assert_allclose(rounded.predict(X), real.predict(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("outputs", [1, C])
def test_calibration_is_a_line_through_the_trained_outputs(outputs: int) -> None:
    network = network_of(outputs)
    data = RNG.standard_normal((50, D))
    plain, calibrated = network.quantized(), network.quantized(X=data)
    np.testing.assert_array_equal(calibrated.Q, plain.Q)
    assert calibrated.n_bits == plain.n_bits
    target = network.predict(data).reshape(50, -1)
    before, after = (one.predict(data).reshape(50, -1) for one in (plain, calibrated))
    for k in range(outputs):
        slope, offset = np.polyfit(before[:, k], target[:, k], 1)
        np.testing.assert_allclose(after[:, k], slope * before[:, k] + offset, rtol=1e-9, atol=1e-9)
    assert np.sum((after - target) ** 2) < np.sum((before - target) ** 2)


def test_bits() -> None:
    network = network_of()
    assert network.quantized(2).n_bits == M * D + 32 * (M + M + 1)
    assert network.quantized(4).n_bits == 2 * M * D + 32 * (M + M + 1)
    assert network.quantized(5).n_bits == 3 * M * D + 32 * (M + M + 1)
    plain = ReLUNetwork(network.W, 0.0, network.alpha, 0.0)
    assert plain.quantized(2).n_bits == M * D + 32 * M
    assert network_of(C).quantized(2).n_bits == M * D + 32 * (M + M * C + C)
    shared = QuantizedReLUNetwork(np.ones((M, D)), 0.0, np.full(M, 0.5), 0.0)
    assert shared.n_bits == M * D + 32


def test_estimators_hand_over_both() -> None:
    names = np.array(["a", "b"])[(LABELS > 0).astype(int)]
    model = ReLUNetworkClassifier(30, n_epochs=30, random_state=0).fit(X, names)
    np.testing.assert_array_equal(model.network_.predict(X), model.decision_function(X))
    assert model.quantized(4, scale="layer").levels == 4
    assert model.quantized().n_neurons == 30
    plain = ReLUNetworkClassifier(10, fit_intercept=False, n_epochs=3, random_state=0).fit(X, names)
    assert not plain.network_.bias.any()
    assert plain.network_.intercept == 0.0
    assert not hasattr(model, "to_quadratic_form")


def test_quantize_by_the_relaxation_as_a_whole_and_by_layers() -> None:
    data = RNG.standard_normal((100, 3))
    y = np.maximum(data[:, 0], 0.0) + np.maximum(data[:, 1] - data[:, 2], 0.0)
    model = ReLUNetworkRegressor(6, beta=1e-3, n_epochs=100, random_state=0).fit(data, y)
    assert model.score(data, y) > 0.8
    whole = qsdp.distill(model, data, 200, refine="polish", tol=1e-4, random_state=0)
    np.testing.assert_allclose(whole.problem.y, model.predict(data), rtol=1e-12)
    assert np.linalg.norm(whole.predict(data) - whole.problem.y) < 0.3 * np.linalg.norm(whole.problem.y)
    chain = model.distill(data, 400, refine="polish", tol=1e-4, random_state=0)
    assert len(chain.matches) == 2
    error = np.linalg.norm(chain.predict(data) - model.predict(data)) / np.linalg.norm(model.predict(data))
    assert error < 0.3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ReLUNetwork([[1.0, np.nan]], 0.0, [1.0], 0.0), "W must be"),
        (lambda: ReLUNetwork([[1.0]], [0.0, 1.0], [1.0], 0.0), r"bias must be a number or have shape \(1,\)"),
        (lambda: ReLUNetwork([[1.0]], 0.0, [1.0, 2.0], 0.0), "alpha must have 1 entries"),
        (
            lambda: ReLUNetwork([[1.0]], 0.0, [[1.0, 2.0]], [0.0] * 3),
            r"intercept must be a number or have shape \(2,\)",
        ),
        (lambda: QuantizedReLUNetwork([[0.5]], 0.0, [1.0], 0.0), r"Q must have entries -1 and \+1 only"),
        (lambda: QuantizedReLUNetwork([[1]], 0.0, [1.0], 0.0, levels=1), "levels must be"),
        (lambda: network_of().quantized(scale="shared"), "scale must be one of 'layer', 'neuron'"),
        (lambda: network_of().quantized(300), "levels must be an integer from 2 to 128"),
        (lambda: network_of().predict(X[:, :2]), "X must have 4 columns"),
    ],
)
def test_bad_input(make: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make()
