"""Where the optimiser stops, resets, or refuses to start."""

from __future__ import annotations

import pytest
import torch
from rls_shared import assert_same, batch, network, parameters
from torch import nn

from benchmarks.papers.zhang import RLS, DivergedError, squared_loss
from qsdp.exceptions import InvalidInputError

# -- divergence ---------------------------------------------------------------------------------------


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
