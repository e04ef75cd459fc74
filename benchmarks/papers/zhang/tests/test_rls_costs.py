"""B.15, claim 16: counted multiply-adds and stored numbers follow the tables of the paper."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.papers.zhang import RLS, convolutional_cost, dense_cost, recurrent_cost


def count(call):
    """Return the multiply-adds of the matrix products and convolutions of a call, and its result."""
    with FlopCounterMode(display=False) as counter:
        result = call()
    return counter.get_total_flops() // 2, result


def counted(model, X):
    """Return multiply-adds of forward pass and step, and numbers kept as parameters and as P."""
    optimizer = RLS(model)
    forward, output = count(lambda: model(X))
    output = output[0] if isinstance(output, tuple) else output
    output.sum().backward()
    step, _ = count(optimizer.step)
    parameters = sum(parameter.numel() for parameter in model.parameters() if parameter.dim() > 1)
    return forward, step, parameters, sum(state["P"].numel() for state in optimizer.state.values())


def check(cost, found, sides, n_outs):
    """Compare counts with the leading terms; the products with P have a row for the mean input and a bias more."""
    forward, step, parameters, stored = found
    assert forward == cost.sgd_time
    assert parameters == cost.sgd_space
    assert stored == sum(side**2 for side in sides)
    assert step == sum((n_out + 1) * side**2 for side, n_out in zip(sides, n_outs, strict=True))
    assert cost.rls_space - cost.sgd_space == sum((side - 1) ** 2 for side in sides)
    assert cost.rls_time - cost.sgd_time == sum((side - 1) ** 2 * n for side, n in zip(sides, n_outs, strict=True))
    # Leading terms: what they leave out is small for layers of any size.
    assert step / (cost.rls_time - cost.sgd_time) == pytest.approx(1.0, abs=0.15)


def test_claim_16_fully_connected():
    check(dense_cost(60, 32, 16), counted(nn.Linear(60, 32), torch.rand(16, 60)), [61], [32])


def test_claim_16_fully_connected_over_time():
    X = torch.rand(4, 5, 60)
    check(dense_cost(60, 32, 4, 5), counted(nn.Linear(60, 32), X), [61], [32])


@pytest.mark.parametrize(("stride", "padding"), [(1, 1), (2, 0)])
def test_claim_16_convolutional(stride, padding):
    conv = nn.Conv2d(6, 32, 3, stride=stride, padding=padding)
    X = torch.rand(4, 6, 9, 9)
    positions = conv(X)[0, 0].numel()
    cost = convolutional_cost(6, 32, (3, 3), positions, 4)
    check(cost, counted(conv, X), [55], [32])


@pytest.mark.parametrize(("cell", "gates"), [(nn.RNN, 1), (nn.LSTM, 4)])
def test_claim_16_recurrent(cell, gates):
    n_in, n, M, T = 40, 48, 3, 5
    cost = recurrent_cost(n_in, n, M, T, gates=gates)
    forward, step, parameters, stored = counted(cell(n_in, n), torch.rand(T, M, n_in))
    if cell is nn.LSTM:
        # Its kernel is closed to the counter; the products of inputs and states with both maps are what it makes.
        assert forward == 0
        forward = T * M * parameters
    check(cost, (forward, step, parameters, stored), [n_in + 1, n + 1], [gates * n, gates * n])


@pytest.mark.parametrize(
    ("cost", "time", "space"),
    [
        (dense_cost(784, 512, 128), 1 + 784 / 128, 1 + 784 / 512),
        (dense_cost(512, 512, 128), 1 + 512 / 128, 2.0),
        (convolutional_cost(64, 64, (3, 3), 1024, 128), 1 + 576 / (128 * 1024), 10.0),
        (convolutional_cost(64, 64, (2, 2), 1024, 128), 1 + 256 / (128 * 1024), 5.0),
        (recurrent_cost(512, 512, 128, 50), 1 + 512 / (128 * 50), 2.0),
        (recurrent_cost(512, 512, 128, 50, gates=4), 1 + 512 / (128 * 50), 1.25),
        (recurrent_cost(300, 512, 64, 20), 1 + (300**2 + 512**2) / (812 * 64 * 20), None),
    ],
)
def test_ratios_of_the_tables(cost, time, space):
    assert cost.time_ratio == pytest.approx(time)
    assert space is None or cost.space_ratio == pytest.approx(space)
