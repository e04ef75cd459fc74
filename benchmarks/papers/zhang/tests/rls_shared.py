"""What several of these tests train: a small network on noise, and the specification's split of digits."""

from __future__ import annotations

import functools

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from benchmarks.papers.zhang import Data, squared_loss


@functools.cache
def digits(scale="unit"):
    """The split of B.13: 1437 training and 360 test images, one-hot targets, pixels in [0, 1] unless scaled."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / 16.0, y, test_size=360, stratify=y, random_state=0)
    if scale == "standardised":
        mean, deviation = X.mean(axis=0), X.std(axis=0)
        deviation[deviation == 0.0] = 1.0
        X, X_test = (X - mean) / deviation, (X_test - mean) / deviation
    X, X_test = (torch.tensor(part, dtype=torch.float32) for part in (X, X_test))
    return Data(X, torch.eye(10)[y], X_test, torch.eye(10)[y_test])


def perceptron():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)).double()


def batch(seed, n=8):
    g = torch.Generator().manual_seed(seed)
    return torch.rand(n, 4, generator=g, dtype=torch.float64), torch.rand(n, 2, generator=g, dtype=torch.float64)


def train(model, optimizer, seeds):
    for seed in seeds:
        X, targets = batch(seed)
        optimizer.zero_grad()
        squared_loss(model(X), targets).backward()
        optimizer.step()


def parameters(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


def assert_same(first, second, tolerance=0.0):
    for a, b in zip(first, second, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=tolerance)
