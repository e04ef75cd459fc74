"""The straight-through estimator: values of levels, gradients by the formula, and no latent weights left."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import qsdp
from qsdp import BilinearNetwork, PolynomialNetwork, TrainingProblem
from qsdp.baselines import StraightThroughClassifier, StraightThroughRegressor
from qsdp.baselines._torch import minibatches, seeded
from qsdp.baselines.backprop._training import FloatTraining, GradientDescent
from qsdp.baselines.straight_through import _LatentTraining, straight_through
from qsdp.datasets import make_planted

RNG = np.random.default_rng(0)
N, D, M, C = 12, 4, 5, 3
X = RNG.standard_normal((N, D)) * 2.0 + 0.5
Y = RNG.standard_normal(N) * 3.0
YS = RNG.standard_normal((N, C))
BETA = 0.7
KINDS = {"bilinear": None, "quadratic": (1.0, 0.0, 0.0), "lifted": (0.3, -0.7, 0.4)}
SECOND_LAYERS = ("free", "shared", "analytic")
OPTIONS = {
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


def combinations() -> list[Any]:
    return [
        pytest.param(kind, second, levels, vector, id=f"{kind}-{second}-{levels}-{'vector' if vector else 'scalar'}")
        for kind, second, levels, vector in itertools.product(KINDS, SECOND_LAYERS, (2, 3, 4), (False, True))
        if not (kind == "lifted" and second == "analytic")
    ]


def nearest_level(w: float, M: int) -> int:
    """The level nearest to M w, the larger of two at the same distance."""
    return max(range(-M, M + 1, 2), key=lambda q: (-abs(q - M * min(max(w, -1.0), 1.0)), q))


# -- rounding --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [2, 3, 4, 5, 8, 128])
def test_values_are_the_nearest_levels(levels: int) -> None:
    M = levels - 1
    w = np.concatenate([RNG.uniform(-1.5, 1.5, 200), [0.0, 1.0, -1.0, 7.0, -7.0]])
    q = straight_through(torch.tensor(w, requires_grad=True), M).detach().numpy() * M
    np.testing.assert_allclose(q, np.rint(q), atol=1e-12)
    np.testing.assert_array_equal(np.rint(q), [nearest_level(value, M) for value in w])


@pytest.mark.parametrize("levels", [2, 3, 4, 8])
def test_gradient_is_that_of_clipping(levels: int) -> None:
    w = np.array([-1.5, -1.0, -0.3, 0.0, 0.4, 1.0, 1.2])
    upstream = RNG.standard_normal(len(w))
    latent = torch.tensor(w, requires_grad=True)
    straight_through(latent, levels - 1).backward(torch.tensor(upstream))
    assert latent.grad is not None
    np.testing.assert_array_equal(latent.grad.numpy(), upstream * (np.abs(w) <= 1.0))


# -- gradients of the network ----------------------------------------------------------------------------


def training_of(kind: str, second: str, levels: int, vector: bool, loss: str = "squared") -> _LatentTraining:
    problem = TrainingProblem(X, YS if vector else Y, beta=BETA, loss=loss, activation=KINDS[kind], levels=levels)
    training = _LatentTraining(
        problem, M, GradientDescent.from_parameters(SimpleNamespace(**OPTIONS)), second, np.random.default_rng(2)
    )
    with torch.no_grad():
        # Some beyond the range that training keeps them in, to see their gradients vanish.
        training.parameters["first layer"].mul_(1.4)
        training.parameters["second layer"].mul_(
            torch.linspace(0.5, 1.5, training.parameters["second layer"].numel()).reshape(
                training.parameters["second layer"].shape
            )
        )
    return training


def network_and_parts(training: _LatentTraining, second: str) -> tuple[Any, ...]:
    """Levels, alpha, and what is needed to follow their gradients to the latent weights, in the user's units."""
    w = training.parameters["first layer"].detach().numpy()
    p = training.parameters["second layer"].detach().numpy()
    top, unit = training.M, training.units.target / (M * training._size)
    q = np.vectorize(lambda value: nearest_level(value, top))(w).astype(float)
    if second == "free":
        return w, q, unit * p, unit, None, None
    share = training._a.numpy()
    gain = p * training._unit
    if second == "shared":
        return w, q, unit * share * gain, unit, share, None
    q_unit = q / top
    sizes = np.maximum(np.sum(q_unit**2, axis=-1), top**-2.0)
    scales = np.sum(w * q_unit, axis=-1) / sizes
    return w, q, None, unit, share, (scales, q_unit / sizes[..., None], gain)


@pytest.mark.parametrize(("kind", "second", "levels", "vector"), combinations())
def test_objective_and_gradients_are_the_written_out_ones(kind: str, second: str, levels: int, vector: bool) -> None:
    training = training_of(kind, second, levels, vector)
    problem, factor = training.problem, training.units.factor
    value = training.objective(torch.arange(N))
    value.backward()
    got_w, got_p = (tensor.grad.numpy() * N * factor for tensor in training.parameters.values())

    w, q, alpha, unit, share, analytic = network_and_parts(training, second)
    neuron_scale = np.ones(M)
    if analytic is not None:
        scales, slopes_of_scales, gain = analytic
        neuron_scale = np.prod(scales, axis=0) if len(scales) == 2 else scales[0] ** 2
        alpha = unit * share * gain * (neuron_scale[:, None] if vector else neuron_scale)

    # Forward and backward through the network of levels.
    a, b, c = KINDS[kind] or (1.0, 0.0, 0.0)
    t = [problem.X @ factor_.T for factor_ in q]
    if kind == "bilinear":
        values, inner = t[0] * t[1], [t[1], t[0]]
    else:
        values, inner = a * t[0] ** 2 + b * t[0] + c, [2 * a * t[0] + b]
    columns = alpha.reshape(M, -1)
    outputs = values @ alpha
    slopes = problem.loss.gradient(outputs, problem.y).reshape(N, -1)
    objective = problem.loss.value(outputs, problem.y) + BETA * problem.dimension * np.abs(alpha).sum()
    assert float(value.detach()) * N * factor == pytest.approx(objective, rel=1e-12)
    of_q = np.stack([((slopes @ columns.T) * pull).T @ problem.X for pull in inner])
    of_alpha = (values.T @ slopes + BETA * problem.dimension * np.sign(columns)).reshape(alpha.shape)

    # The straight-through estimator: d q / d w is M inside [-1, 1] and 0 outside.
    passed = training.M * (np.abs(w) <= 1.0)
    expected_w = of_q * passed
    if second == "free":
        expected_p = of_alpha * unit
    else:
        weighted = of_alpha * unit * share * training._unit
        if analytic is None:
            expected_p = weighted.sum(axis=0)
        else:
            scales, slopes_of_scales, gain = analytic
            expected_p = (weighted * (neuron_scale[:, None] if vector else neuron_scale)).sum(axis=0)
            pull = (of_alpha * unit * share * gain).reshape(M, -1).sum(axis=1)
            others = scales[::-1] if len(scales) == 2 else 2.0 * scales
            # XNOR-Net: through the scales as well; the levels in them count as constants.
            expected_w = expected_w + (pull * others)[..., None] * slopes_of_scales
    np.testing.assert_allclose(got_p, expected_p, rtol=1e-10, atol=1e-10 * np.abs(expected_p).max())
    np.testing.assert_allclose(got_w, expected_w, rtol=1e-10, atol=1e-10 * np.abs(expected_w).max())


@pytest.mark.parametrize(("kind", "second", "levels", "vector"), combinations())
def test_the_network_is_what_the_forward_pass_computes(kind: str, second: str, levels: int, vector: bool) -> None:
    training = training_of(kind, second, levels, vector)
    outputs, penalty = training.evaluate()
    network, problem = training.network(), training.problem
    assert isinstance(network, BilinearNetwork if kind == "bilinear" else PolynomialNetwork)
    np.testing.assert_allclose(outputs * training.units.target, network.predict(X), rtol=1e-10, atol=1e-10)
    assert penalty == pytest.approx(problem.penalty(network), rel=1e-12)
    if second == "shared":
        columns = network.alpha.reshape(M, -1).T
        assert all(np.ptp(np.abs(column[column != 0.0])) == 0.0 for column in columns)


def test_steps_are_those_of_the_formula() -> None:
    """A whole training of a bilinear network with binary weights, latent weights and all."""
    options = {**OPTIONS, "n_epochs": 4}
    problem = TrainingProblem(X, Y, beta=BETA)
    rng = np.random.default_rng(5)
    latent = rng.uniform(-1.0, 1.0, (2, M, D))
    a = np.ones(M)
    generator = seeded(rng)
    row = np.sqrt(np.mean(np.sum(X**2, axis=1)))
    tau = np.sqrt(np.mean(Y**2))
    moved = [np.zeros_like(latent), np.zeros_like(a)]
    best = (np.inf, None, None)
    for _ in range(4):
        for rows in minibatches(N, 5, generator):
            x, y = X[rows.numpy()] / row, Y[rows.numpy()] / tau
            q = np.where(latent < 0.0, -1.0, 1.0)
            t = [x @ q[0].T, x @ q[1].T]
            slopes = 2.0 * (t[0] * t[1] @ a / M - y) / len(rows)
            weight = BETA * D * tau / (tau**2 * M * row**2) / N
            g = np.stack([((slopes[:, None] * t[1 - k]).T @ x) * a[:, None] / M for k in range(2)])
            h = (t[0] * t[1]).T @ slopes / M + weight * np.sign(a)
            moved[0] = 0.9 * moved[0] + g
            moved[1] = 0.9 * moved[1] + h
            latent = np.clip(latent - 0.05 * M * moved[0], -1.0, 1.0)
            a = a - 0.05 * M * moved[1]
        q = np.where(latent < 0.0, -1, 1)
        network = BilinearNetwork(q[0], q[1], a * tau / (M * row**2))
        loss = problem.objective(network)
        if loss < best[0]:
            best = (loss, network, a)
    options.pop("device")
    model = StraightThroughRegressor(M, beta=BETA, constant_column=False, random_state=5, **options).fit(X, Y)
    assert best[1] is not None
    np.testing.assert_array_equal(model.network_.U, best[1].U)
    np.testing.assert_array_equal(model.network_.V, best[1].V)
    np.testing.assert_allclose(model.network_.alpha, best[1].alpha, rtol=1e-10)
    assert min(model.history_.loss) == pytest.approx(best[0], rel=1e-10)


# -- what a fit leaves -----------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [2, 3, 4])
@pytest.mark.parametrize("activation", [None, "relu_like"])
def test_networks_have_true_levels(levels: int, activation: Any) -> None:
    model = StraightThroughRegressor(20, levels=levels, activation=activation, n_epochs=5, random_state=0).fit(X, Y)
    arrays = [model.network_.U, model.network_.V] if activation is None else [model.network_.Q]
    for array in arrays:
        assert array.dtype == np.int8
        assert set(np.unique(array)) <= set(range(1 - levels, levels, 2))
    bits = {2: 1, 3: 2, 4: 2}[levels]
    if activation is None:
        assert model.network_.levels == levels
        assert model.network_.n_bits == 2 * 20 * 5 * bits + 32 * 20


def test_the_best_epoch_is_kept() -> None:
    planted = make_planted(n=100, d=8, n_neurons=4, random_state=0)
    model = StraightThroughRegressor(
        20, beta=0.1, constant_column=False, schedule="constant", n_epochs=40, random_state=0
    ).fit(planted.X, planted.y)
    problem = model.training_problem(planted.X, planted.y, model.network_)
    assert problem.objective(model.network_) == pytest.approx(min(model.history_.loss), rel=1e-12)
    assert min(model.history_.loss) < model.history_.loss[-1]


@pytest.mark.parametrize("activation", [None, "relu_like"])
def test_certificates(activation: Any) -> None:
    planted = make_planted(n=60, d=5, n_neurons=3, random_state=0)
    model = StraightThroughRegressor(30, activation=activation, beta=1.0, n_epochs=40, random_state=0)
    model.fit(planted.X, planted.y)
    network = model.network_ if activation is None else qsdp.from_polynomial(model.network_)
    problem = model.training_problem(planted.X, planted.y, model.network_)
    certificate = qsdp.certify(network, problem)
    assert certificate.objective == pytest.approx(min(model.history_.loss), rel=1e-9)
    assert 0.0 < certificate.lower_bound < certificate.objective
    refitted = qsdp.refit(network, problem)
    assert certificate.lower_bound < problem.objective(refitted) < certificate.objective


def test_training_levels_beats_rounding_afterwards() -> None:
    planted = make_planted(n=200, d=8, n_neurons=4, random_state=0)
    options = {"beta": 1e-3, "constant_column": False, "n_epochs": 80, "random_state": 0}
    trained = StraightThroughRegressor(60, second_layer="shared", **options).fit(planted.X, planted.y)
    rounded = (
        qsdp.baselines.BackpropRegressor(60, second_layer="fixed", **options).fit(planted.X, planted.y)
    ).quantized(scale="shared")
    errors = [np.sum((network.predict(planted.X) - planted.y) ** 2) for network in (trained.network_, rounded)]
    assert trained.network_.n_bits == rounded.n_bits
    assert errors[0] < 0.2 * errors[1]


# -- what makes it strong --------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "second", "levels", "vector"), combinations())
def test_a_start_from_real_weights_is_their_rounding(kind: str, second: str, levels: int, vector: bool) -> None:
    """Before the first step there are the nearest levels and, where there are scales, the rounded second layer."""
    problem = TrainingProblem(X, YS if vector else Y, beta=BETA, activation=KINDS[kind], levels=levels)
    descent, rng = GradientDescent.from_parameters(SimpleNamespace(**OPTIONS)), np.random.default_rng(0)
    source = FloatTraining(problem, M, descent, "free" if second == "free" else "fixed", rng).network()
    training = _LatentTraining(problem, M, descent, second, rng)
    training.start_from(source)
    network = training.network()
    found = source.roundings(levels)
    weights = (network.U, network.V) if kind == "bilinear" else (network.Q,)
    for rounded, one in zip(weights, found, strict=True):
        np.testing.assert_array_equal(rounded, one.weights)
    if kind == "lifted":
        assert second != "free" or np.all(np.sign(network.alpha) == np.sign(source.alpha))
        return
    exact = source.quantized(levels, scale="neuron", corrected=False).alpha
    if second == "free":
        np.testing.assert_allclose(network.alpha, exact, rtol=1e-12)
    elif second == "shared":
        np.testing.assert_allclose(np.abs(network.alpha).sum(axis=0), np.abs(exact).sum(axis=0), rtol=1e-12)
        assert np.all(np.sign(network.alpha) == np.sign(exact))


def problem_of_signs() -> tuple[np.ndarray, np.ndarray]:
    rows = np.random.default_rng(3).standard_normal((150, 6))
    return rows, np.sign(rows[:, 0] * rows[:, 1] + rows[:, 2] + 0.3)


def test_samples_held_out_choose_the_epoch_and_end_the_training() -> None:
    rows, labels = problem_of_signs()
    options = {"n_epochs": 300, "validation_fraction": 0.3, "patience": 5, "random_state": 0}
    model = StraightThroughClassifier(20, start="float", start_epochs=4, **options).fit(rows, labels)
    history = model.history_
    losses = history.extra["validation_loss"]
    assert history.stopped == "no improvement"
    assert history.best_epoch == int(np.argmin(losses)) + 1 == history.n_epochs - 5 < 295
    # The network is that of the best epoch: its loss on the samples held out, which the seed tells.
    rng = np.random.default_rng(0)
    held = rng.permutation(150)[:45]
    outputs = model.decision_function(rows[held])
    assert np.mean((outputs - labels[held]) ** 2) == pytest.approx(losses[history.best_epoch - 1])
    assert np.mean(np.sign(outputs) == labels[held]) == history.extra["validation_score"][history.best_epoch - 1]
    assert model.start_history_.n_epochs == 4
    assert set(model.start_history_.extra) == {"validation_loss", "validation_score"}


@pytest.mark.parametrize(("second", "activation"), [("free", None), ("shared", None), ("free", "relu_like")])
def test_a_refitted_second_layer_is_the_best_one(second: str, activation: Any) -> None:
    rows, labels = problem_of_signs()
    options = {"second_layer": second, "activation": activation, "beta": 0.5, "n_epochs": 3, "random_state": 0}
    plain = StraightThroughClassifier(12, **options).fit(rows, labels)
    model = StraightThroughClassifier(12, refit=True, **options).fit(rows, labels)
    problem = model.training_problem(rows, labels, model.network_)
    before = plain.network_ if activation is None else qsdp.from_polynomial(plain.network_)
    again = qsdp.refit(before, problem, second_layer=second)
    assert problem.objective(model.network_) == pytest.approx(problem.objective(again), rel=1e-7)
    assert problem.objective(model.network_) < problem.objective(before)
    if second == "shared":
        assert model.network_.n_bits == before.n_bits


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": "warm"}, "start must be one of 'float', 'random'; got 'warm'"),
        ({"start_epochs": 0}, "start_epochs must be an integer >= 1"),
        ({"refit": "yes"}, "refit must be True or False"),
        ({"patience": 0}, "patience must be an integer >= 1"),
        ({"validation_fraction": 1.0}, "validation_fraction must be from 0 to below 1"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    rows, labels = problem_of_signs()
    with pytest.raises(qsdp.exceptions.InvalidInputError, match=message):
        StraightThroughClassifier(5, **options).fit(rows, labels)
