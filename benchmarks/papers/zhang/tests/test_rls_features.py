"""B.16, row by row: what the baseline has to offer. Exactness of each is tested beside it, in the other files."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import rls_by_hand as by_hand
import torch
from torch import nn

import qsdp
from benchmarks.papers import zhang
from qsdp import QSDPWarning
from qsdp.exceptions import InvalidInputError

G = torch.Generator().manual_seed(0)
CODES = torch.arange(24) % 2
#: Noise, and a bright upper or lower half.
IMAGES = 0.5 * torch.rand(24, 1, 8, 8, generator=G)
IMAGES[:, 0] += 0.5 * ((torch.arange(8)[:, None] < 4) == CODES[:, None, None].bool())
ONE_HOT = torch.eye(2)[CODES]


def losses(model, X, targets, optimizer, loss=zhang.squared_loss, steps=40):
    """Train on one minibatch, and return the losses before every step."""
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(model(X), targets)
        value.backward()
        optimizer.step()
        found.append(float(value.detach()))
    return found


def seeded(make):
    torch.manual_seed(0)
    return make()


def test_b16_row_1_fully_connected_layers_with_all_options():
    model = seeded(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 2)))
    optimizer = zhang.RLS(
        model,
        {"1": 0.5, "3": 1.0},
        momentum=0.5,
        l1=1e-5,
        clip=5.0,
        forgetting=0.99,
        ratio=0.2,
        initial_inverse=0.5,
    )
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 1.0]
    assert float(optimizer.state[model[1].weight]["P"].trace()) == 0.5 * 65
    course = losses(model, IMAGES, ONE_HOT, optimizer)
    assert course[-1] < 0.2 * course[0]


@pytest.mark.parametrize(("stride", "padding"), [(1, 1), (2, 0), ((2, 1), (0, 2))])
def test_b16_row_2_convolutional_layers_with_stride_and_padding(stride, padding):
    def make():
        conv = nn.Conv2d(1, 4, 3, stride=stride, padding=padding)
        return nn.Sequential(conv, nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(2))

    model = seeded(make)
    model(IMAGES)
    course = losses(model, IMAGES, ONE_HOT, zhang.RLS(model))
    assert course[-1] < 0.5 * course[0]


class Sequences(nn.Module):
    def __init__(self, cell, last):
        super().__init__()
        self.below, self.above = cell(8, 6, batch_first=True), cell(6, 6, batch_first=True)
        self.output, self.last = nn.Linear(6, 2 if last else 8), last

    def forward(self, X):
        Y = self.above(self.below(X)[0])[0]
        return self.output(Y[:, -1] if self.last else Y)


@pytest.mark.parametrize("cell", [nn.RNN, nn.LSTM])
def test_b16_row_3_recurrent_layers_for_classification_and_prediction(cell):
    X = IMAGES[:, 0]
    classifier = seeded(lambda: Sequences(cell, last=True))
    course = losses(classifier, X, ONE_HOT, zhang.RLS(classifier, clip=1.0))
    assert course[-1] < course[0]
    predictor = seeded(lambda: Sequences(cell, last=False))
    course = losses(predictor, X[:, :-1], X[:, 1:], zhang.RLS(predictor, clip=1.0))
    assert course[-1] < 0.5 * course[0]


@pytest.mark.parametrize("rest", ["adam", "sgd"])
@pytest.mark.parametrize(
    "loss", [nn.functional.cross_entropy, nn.functional.multi_margin_loss], ids=["cross-entropy", "margin"]
)
def test_b16_row_4_hybrid_of_chosen_layers_with_any_loss(rest, loss):
    model = seeded(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 2)))
    optimizer = zhang.RLS(model, exclude=["3"], rest=rest)
    course = losses(model, IMAGES, CODES, optimizer, loss)
    assert course[-1] < course[0]
    assert [group["name"] for group in optimizer.param_groups] == ["1"]


@pytest.mark.parametrize("activation", ["identity", "sigmoid", "tanh", "softmax", "softplus", "elu", "leaky_relu"])
def test_b16_row_5_squared_loss_of_linear_outputs_with_inverse_activations(activation):
    outputs, targets = torch.rand(6, 3), torch.rand(6, 3)
    value = zhang.squared_loss(outputs, targets)
    assert float(value) == pytest.approx(float(((outputs - targets) ** 2).sum() / 12))
    assert float(value) == pytest.approx(1.5 * float(nn.functional.mse_loss(outputs, targets)))
    X, labels = IMAGES.flatten(1).double().numpy(), CODES.numpy()
    model = zhang.RLSNetworkClassifier(8, output_activation=activation, n_epochs=60, batch_size=8, random_state=0)
    assert model.fit(X, labels).score(X, labels) > 0.9
    assert model.history_.loss[-1] < model.history_.loss[0]


def test_b16_row_6_exact_reference():
    g = np.random.default_rng(0)
    theta, P, X, Z = g.standard_normal((4, 2)), np.eye(4), g.standard_normal((5, 4)), g.standard_normal((5, 2))
    step, _ = zhang.woodbury_step(theta, P, X, Z)
    # One exact step solves its ridge problem, which no step along its gradient does.
    exact = np.linalg.solve(np.eye(4) + X.T @ X / 5, theta + X.T @ Z / 5)
    np.testing.assert_allclose(step, exact, atol=1e-14)


def test_b16_row_7_trace_guard():
    chosen = zhang.RLSSettings(forgetting=0.5)
    guarded, free = (zhang.LayerState.initial(3, chosen) for _ in range(2))
    unguarded = zhang.RLSSettings(forgetting=0.5, trace_guard=False)
    for _ in range(40):
        x = np.array([1.0, 0.0, 1.0])
        zhang.update_layer(np.zeros((3, 1)), guarded, np.zeros((3, 1)), x, chosen)
        zhang.update_layer(np.zeros((3, 1)), free, np.zeros((3, 1)), x, unguarded)
    # Without the guard, the direction that is never excited has grown like 2^40.
    assert free.P[1, 1] == pytest.approx(2.0**40)
    assert np.trace(guarded.P) <= 3.0 / 0.5


def test_b16_row_7_definiteness_check_with_reset():
    model = nn.Linear(3, 2)
    optimizer = zhang.RLS(model)
    optimizer.state[model.weight]["P"].fill_(-1.0)
    with pytest.warns(QSDPWarning, match="was not positive definite"):
        losses(model, torch.rand(4, 3), torch.rand(4, 2), optimizer, steps=1)
    assert torch.linalg.eigvalsh(optimizer.state[model.weight]["P"]).min() > 0.0


def test_b16_row_7_memory_limit_per_layer():
    model = nn.Sequential(nn.Linear(100, 10), nn.Linear(10, 2))
    with pytest.raises(InvalidInputError, match="'0' needs a P of 101 x 101"):
        zhang.RLS(model, memory_limit=4 * 100**2)
    assert len(zhang.RLS(model, memory_limit=4 * 100**2, exclude="0", rest="adam").param_groups) == 1


def test_b16_row_8_framework_free_version():
    g = np.random.default_rng(0)
    thetas = [g.standard_normal((5, 4)) / 2, g.standard_normal((5, 2)) / 2]
    hand = by_hand.Run({"0": thetas[0].copy(), "2": thetas[1].copy()}, clip=5.0)
    trainer = zhang.NumpyRLS(zhang.NumpyNetwork(thetas), zhang.RLSSettings(), [1.0, 1.0])
    for _ in range(20):
        X, Z = g.random((8, 4)), g.random((8, 2))
        hand.step(*by_hand.dense(hand.thetas, X, Z))
        trainer.step(X, Z)
    for ours, theirs in zip(trainer.parameters(), hand.thetas.values(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-13)


def test_b16_row_9_comparison_harness():
    X = IMAGES.flatten(1)
    data = zhang.Data(X[:16], ONE_HOT[:16], X[16:], ONE_HOT[16:])
    methods = ["adam", "sgd", "nag", "adagrad", "rls", "hrls"]
    curves = zhang.compare_optimizers(
        lambda: nn.Sequential(nn.Linear(64, 4), nn.Linear(4, 2)), data, methods, n_epochs=2
    )
    assert list(curves) == methods
    for history in curves.values():
        assert len(history.loss) == len(history.seconds) == len(history.extra["test"]) == 2


def test_b16_row_10_sweeps_of_the_figures_are_an_experiment(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[3])
    from benchmarks.papers.zhang.experiments.rls_curves import EXPERIMENT, METHODS

    trained = [METHODS[case["method"]] for case in EXPERIMENT.cases(False) if case["network"] == "dense"]
    for name, default in (("ratio", 0.1), ("lr", 1.0)):
        swept = {str(options.get(name, default)) for method, _, options in trained if method == "rls"}
        assert swept >= {"0.01", "0.1", "1.0", "10.0"}


def test_b16_row_11_checkpoint_of_P_velocity_and_step_counter():
    model = nn.Linear(3, 2)
    optimizer = zhang.RLS(model, momentum=0.5)
    losses(model, torch.rand(4, 3), torch.rand(4, 2), optimizer, steps=3)
    (saved,) = optimizer.state_dict()["state"].values()
    assert saved["step"] == 3
    assert saved["P"].shape == (4, 4)
    assert saved["velocity"].shape == (2, 4)
    twin = nn.Linear(3, 2)
    other = zhang.RLS(twin, momentum=0.5)
    other.load_state_dict(optimizer.state_dict())
    torch.testing.assert_close(other.state[twin.weight]["P"], optimizer.state[model.weight]["P"], rtol=0, atol=0)


def test_b16_row_12_trained_weights_go_to_quantization():
    X, labels = IMAGES.flatten(1).double().numpy()[:, ::8], CODES.numpy()
    model = zhang.RLSNetworkClassifier(3, n_epochs=50, batch_size=24, random_state=0).fit(X, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QSDPWarning)
        chain = model.distill(X, 500, random_state=0)
    assert all(isinstance(match, qsdp.QSDPResult) for match in chain.matches)
    match = qsdp.distill(model.layers_[0].form, X, 500, random_state=0)
    assert match.certificate.lower_bound <= match.certificate.objective
