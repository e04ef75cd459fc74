"""Where the optimiser stops, resets, or refuses to start."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from rls_shared import assert_same, batch, network, parameters, train
from torch import nn

from benchmarks.papers.zhang import RLS, DivergedError, NumpyNetwork, NumpyRLS, RLSSettings, squared_loss
from qsdp import QSDPWarning
from qsdp.exceptions import InvalidInputError, InvalidTypeError

# -- divergence ---------------------------------------------------------------------------------------


def test_gradients_that_are_not_finite_change_nothing():
    model = network()
    optimizer = RLS(model)
    X, targets = batch(0)
    squared_loss(model(X), targets * float("nan")).backward()
    before = parameters(model)
    with pytest.raises(DivergedError, match=r"the gradient is not finite; try inputs in \[0, 1\]"):
        optimizer.step()
    assert_same(before, parameters(model))
    assert all(state["step"] == 0 for state in optimizer.state.values())


def test_steps_that_are_not_finite_change_nothing():
    model = network()
    optimizer = RLS(model)
    optimizer.state[model[2].weight]["P"][0, 0] = float("inf")
    X, targets = batch(0)
    squared_loss(model(X), targets).backward()
    before = parameters(model)
    with pytest.raises(DivergedError, match="the step of '2' is not finite after 0 steps"):
        optimizer.step()
    assert_same(before, parameters(model))


def test_a_step_that_is_not_finite_leaves_the_state_of_every_layer():
    model = network()
    optimizer = RLS(model, forgetting=0.9, momentum=0.5, clip=0.1, ratio=0.0)
    train(model, optimizer, range(3))
    # P has grown, so that the trace guard is to scale it; that of the first layer has also lost its definiteness.
    optimizer.state[model[0].weight]["P"].neg_()
    optimizer.state[model[2].weight]["P"][0, 0] = float("inf")
    before, saved = parameters(model), copy.deepcopy(optimizer.state_dict()["state"])
    clipped = optimizer.n_clipped
    with pytest.raises(DivergedError, match="the step of '2' is not finite after 3 steps"):
        train(model, optimizer, [3])
    assert_same(before, parameters(model))
    assert (optimizer.n_steps, optimizer.n_clipped) == (3, clipped)
    for kept, found in zip(saved.values(), optimizer.state_dict()["state"].values(), strict=True):
        assert (kept["step"], kept["resets"]) == (found["step"], found["resets"])
        assert_same([kept["P"], kept["velocity"]], [found["P"], found["velocity"]])


@pytest.mark.parametrize("failing", [0, 1])
def test_numpy_step_that_is_not_finite_changes_nothing(failing):
    g = np.random.default_rng(0)
    thetas = [g.standard_normal((n + 1, m)) for n, m in ((4, 6), (6, 5), (5, 2))]
    chosen = RLSSettings(forgetting=0.9, momentum=0.5, l1=1e-3)
    trainer = NumpyRLS(NumpyNetwork(thetas), chosen, [1.0, 1.0], clip=0.1, adam_learning_rate=0.01)
    for _ in range(3):
        trainer.step(g.random((8, 4)), g.random((8, 2)))
    # The step of the other layer would set its P back, and that of the output layer is Adam's.
    trainer.states[failing].P[0, 0] = np.inf
    trainer.states[1 - failing].P *= -1.0
    before, kept = trainer.parameters(), [state.copy() for state in trainer.states]
    adam = trainer.adam.mean.copy(), trainer.adam.square.copy(), trainer.adam.steps
    counts = trainer.n_steps, trainer.n_clipped
    with pytest.raises(DivergedError, match=f"the step of layer {failing + 1} is not finite after 3 steps"):
        trainer.step(g.random((8, 4)), g.random((8, 2)))
    for first, second in zip(before, trainer.parameters(), strict=True):
        np.testing.assert_array_equal(first, second)
    for first, second in zip(kept, trainer.states, strict=True):
        np.testing.assert_array_equal(first.P, second.P)
        np.testing.assert_array_equal(first.velocity, second.velocity)
        assert (first.steps, first.resets) == (second.steps, second.resets)
    np.testing.assert_array_equal(adam[0], trainer.adam.mean)
    np.testing.assert_array_equal(adam[1], trainer.adam.square)
    assert adam[2] == trainer.adam.steps
    assert counts == (trainer.n_steps, trainer.n_clipped)


def test_lost_definiteness_is_reset_with_a_warning():
    model, twin = network(), network()
    optimizer, other = RLS(model), RLS(twin)
    optimizer.state[model[0].weight]["P"].neg_()
    with pytest.warns(QSDPWarning, match="P of '0' was not positive definite after 0 steps"):
        train(model, optimizer, [0])
    train(twin, other, [0])
    assert_same(parameters(model), parameters(twin), 1e-15)
    assert [state["resets"] for state in optimizer.state.values()] == [1, 0]


# -- what is refused ------------------------------------------------------------------------------------


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (nn.LSTM(3, 4, num_layers=2), {}, "cannot train the layer 'model': of 2 stacked layers in one module"),
        (nn.Sequential(nn.RNN(3, 4, bidirectional=True)), {}, "layer '0': the derivation has one direction of time"),
        (nn.Sequential(nn.LSTM(3, 4, proj_size=2)), {}, "projections of the outputs are not part of the derivation"),
        (nn.Sequential(nn.Conv2d(4, 4, 3, groups=2)), {}, "a convolution of 2 groups has a different input"),
        (nn.Sequential(nn.GRU(3, 4), nn.Linear(4, 2)), {}, "'0.weight_ih_l0', .* need another optimiser: rest='adam'"),
        (nn.Sequential(nn.ReLU()), {}, "model must have a Linear, Conv2d, RNN or LSTM module"),
        (nn.Sequential(nn.LazyLinear(3)), {}, "'0' has no shape yet: run the model once"),
        (Tied(), {}, "'second' shares its weights with 'first'"),
        (nn.Linear(3, 2).bfloat16(), {}, "must be of single or double precision; got torch.bfloat16"),
        (nn.Linear(99, 2), {"memory_limit": 39_999}, r"needs a P of 100 x 100 numbers, 0.00 GB: more than memory_lim"),
        (nn.Linear(3, 2), {"exclude": "nothing"}, "exclude must be one of ''; got 'nothing'"),
        (nn.Sequential(nn.Linear(3, 2)), {"exclude": "0"}, "all are excluded"),
        (nn.Linear(3, 2), {"rest": "adamw"}, "rest must be one of 'adam', 'sgd'; got 'adamw'; did you mean 'adam'"),
        (nn.Linear(3, 2), {"lr": 0.0}, "lr must be a finite number > 0; got 0.0"),
        (nn.Linear(3, 2), {"clip": 0.0}, "clip must be a finite number > 0"),
        (nn.Linear(3, 2), {"forgetting": 2.0}, "forgetting must be a number > 0 and <= 1"),
        (nn.Linear(3, 2), {"memory_limit": 0}, "memory_limit must be an integer >= 1"),
        (nn.Linear(3, 2), {"batch_first": "yes"}, "batch_first must be True or False"),
        ([torch.zeros(3)], {}, "model must be a torch.nn.Module"),
    ],
)
def test_refused(model, options, message):
    with pytest.raises(InvalidInputError, match=message):
        RLS(model, **options)


@pytest.mark.parametrize(
    ("module", "advice"),
    [
        (nn.LSTM(3, 4, num_layers=2), "; use one module for each layer$"),
        (nn.RNN(3, 4, bidirectional=True), r"; exclude it: exclude=\['model'\], rest='adam'$"),
        (nn.Conv2d(4, 4, 3, groups=2), r"; exclude it: exclude=\['model'\], rest='adam'$"),
    ],
)
def test_advice(module, advice):
    with pytest.raises(InvalidInputError, match=advice):
        RLS(module)


def test_what_is_refused_can_be_excluded():
    model = nn.Sequential(nn.Conv2d(4, 4, 3, groups=2), nn.Flatten(), nn.Linear(16, 2))
    optimizer = RLS(model, exclude="0", rest="adam")
    model(torch.rand(3, 4, 4, 4)).sum().backward()
    optimizer.step()
    big = nn.Sequential(nn.Linear(30, 40), nn.Linear(40, 2))
    assert [one.name for one in RLS(big, memory_limit=4 * 31**2, exclude="1", rest="sgd")._maps] == ["0"]


def test_groups_are_not_added():
    optimizer = RLS(network())
    with pytest.raises(InvalidInputError, match="RLS takes its parameters from the model"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})


def test_types():
    with pytest.raises(InvalidTypeError):
        RLS(network(), lr="1")
    with pytest.raises(InvalidTypeError):
        RLS(network(), clip="5")
