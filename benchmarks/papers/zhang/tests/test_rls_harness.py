"""The comparison of optimisers: same start, same minibatches, same loss."""

from __future__ import annotations

import time

import pytest
import torch
from torch import nn

from benchmarks.papers.zhang import METHODS, compare_optimizers, squared_loss, train_network
from benchmarks.papers.zhang.harness import Data, Method, classification
from qsdp.baselines._torch import evaluate
from qsdp.exceptions import InvalidInputError


def data(n=96):
    g = torch.Generator().manual_seed(0)
    X = torch.rand(n, 5, generator=g)
    targets = torch.eye(3)[(3 * X[:, 0]).long()]
    return Data(X[:64], targets[:64], X[64:], targets[64:])


def network():
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))


class Frozen(torch.optim.Optimizer):
    """Records what it is given."""

    def __init__(self, model):
        super().__init__(model.parameters(), {})
        self.model, self.gradients = model, []

    def step(self):
        self.gradients.append([p.grad.clone() for p in self.model.parameters()])


class Slow(nn.Module):
    """Works for a while in every evaluation."""

    seconds = 0.05

    def forward(self, X):
        end = time.process_time() + (0.0 if self.training else self.seconds)
        while time.process_time() < end:
            pass
        return X


def test_start_and_minibatches_are_the_same_for_all_methods():
    kept = []

    def make(model):
        kept.append(Frozen(model))
        return kept[-1]

    method = Method(make)
    compare_optimizers(network, data(), {"a": method, "b": method}, n_epochs=2, batch_size=20, clip=None, seed=4)
    train_network(network, data(), method, n_epochs=2, batch_size=20, clip=None, seed=5)
    first, second, other = (optimizer.gradients for optimizer in kept)
    assert len(first) == 2 * 4
    assert all(torch.equal(a, b) for x, y in zip(first, second, strict=True) for a, b in zip(x, y, strict=True))
    assert not torch.equal(first[0][0], other[0][0])


def test_all_methods_train_and_record_curves():
    squared = compare_optimizers(network, data(), METHODS.keys() - {"none"}, n_epochs=3, batch_size=16)
    assert set(squared) == {
        *("sgd", "nag", "adagrad", "adam", "rls", "rls+m", "rls+r", "rls+m+r", "hrls", "hrls+m", "hrls+r", "hrls+m+r")
    }
    for history in squared.values():
        assert history.loss[-1] < history.loss[0]
        assert len(history.seconds) == len(history.score) == len(history.extra["test"]) == 3
        assert len(history.extra["test_loss"]) == 3
    assert len({tuple(history.loss) for history in squared.values()}) == len(squared)


def test_recorded_numbers_are_those_of_the_model():
    made = []

    def make_model():
        made.append(network())
        return made[-1]

    d = data()
    history = train_network(make_model, d, "rls", n_epochs=2, batch_size=16)
    outputs = evaluate(made[0], d.X, 1000)
    assert history.loss[-1] == pytest.approx(float(squared_loss(outputs, d.targets)))
    assert history.score[-1] == classification(outputs, d.targets)
    assert history.extra["test"][-1] == classification(evaluate(made[0], d.X_test, 1000), d.targets_test)
    assert made[0].training


def test_processor_seconds_are_those_of_training_alone():
    def make_model():
        return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), Slow(), nn.Linear(8, 3))

    start = time.process_time()
    history = train_network(make_model, data(), "rls", n_epochs=2, batch_size=64)
    whole = time.process_time() - start
    assert len(history.extra["cpu_seconds"]) == 2
    assert 0.0 < sum(history.extra["cpu_seconds"]) < whole - 2 * Slow.seconds


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "addam"}, "method must be one of .*did you mean 'adam'"),
        ({"loss": "mse"}, "loss must be one of"),
        ({"n_epochs": 0}, "n_epochs must be an integer >= 1"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1"),
        ({"seed": -1}, "seed must be an integer >= 0"),
        ({"method": "hrls", "make_model": nn.ReLU}, "the hybrid leaves the last Linear module to Adam"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(InvalidInputError, match=message):
        train_network(**{"make_model": network, "data": data(), "method": "adam", "n_epochs": 1} | options)
