"""B.15, claims 7-9: whole runs of the optimiser against back-propagation and updates by hand, in double precision."""

from __future__ import annotations

import numpy as np
import pytest
import rls_by_hand as by_hand
import torch
from torch import nn

from benchmarks.papers.zhang import RLS, NumpyNetwork, NumpyRLS, RLSSettings, squared_loss

OPTIONS = {"momentum": 0.5, "l1": 1e-3, "forgetting": 0.98, "ratio": 0.2, "clip": 0.8}
HAND = {"alpha": 0.5, "gamma": 1e-3, "lam": 0.98, "k": 0.2, "clip": 0.8}
STEPS = 30


def rng():
    return np.random.default_rng(0)


def thetas_of(model, maps):
    """Return parameters as matrices (n_in + 1, n_out)."""
    parameters = dict(model.named_parameters())
    return {
        name: np.vstack([parameters[w].detach().flatten(1).T.numpy(), parameters[b].detach().numpy()]).copy()
        for name, (w, b) in maps.items()
    }


class Recurrent(nn.Module):
    def __init__(self, cell, n_in=3, width=4, n_out=2, last=False):
        super().__init__()
        self.first, self.second = cell(n_in, width), cell(width, width)
        self.output, self.last = nn.Linear(width, n_out), last
        self.double()

    def forward(self, X):
        Y = self.second(self.first(X)[0])[0]
        return self.output(Y[-1] if self.last else Y)


MAPS = {
    **{
        f"{layer}.{kind}": (f"{layer}.weight_{s}_l0", f"{layer}.bias_{s}_l0")
        for layer in ("first", "second")
        for kind, s in (("input", "ih"), ("recurrent", "hh"))
    },
    "output": ("output.weight", "output.bias"),
}


def run_both(model, maps, by_hand_step, batch, *, etas=None, batch_dim=0):
    """Train by the optimiser and by hand on the same minibatches; return the largest differences of G and theta."""
    hand = by_hand.Run(thetas_of(model, maps), **HAND, etas=etas or {})
    optimizer = RLS(model, etas or 1.0, trace_guard=False, **OPTIONS)
    gradient_error, generator = 0.0, rng()
    for _ in range(STEPS):
        X, targets = batch(generator)
        gradients, means, times = by_hand_step(hand.thetas, X, targets)
        optimizer.zero_grad()
        squared_loss(model(torch.from_numpy(X)), torch.from_numpy(targets), batch_dim).backward()
        found = dict(model.named_parameters())
        for name, (w, b) in maps.items():
            G = np.vstack([found[w].grad.flatten(1).T.numpy(), found[b].grad.numpy()])
            gradient_error = max(gradient_error, float(np.abs(G - gradients[name]).max()))
        hand.step(gradients, means, times)
        optimizer.step()
    error = max(float(np.abs(theta - hand.thetas[name]).max()) for name, theta in thetas_of(model, maps).items())
    for one, state in zip(optimizer._maps, optimizer.state.values(), strict=True):
        expected = hand.P[one.name]
        np.testing.assert_allclose(state["P"].numpy(), expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    assert optimizer.n_clipped > 0
    return gradient_error, error


def test_claim_9_fully_connected():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3)).double()
    maps = {"0": ("0.weight", "0.bias"), "2": ("2.weight", "2.bias")}

    def batch(g):
        return 2 * g.standard_normal((6, 5)), g.standard_normal((6, 3))

    gradient_error, error = run_both(model, maps, by_hand.dense, batch, etas={"0": 0.7, "2": 1.0})
    assert gradient_error < 1e-13
    assert error < 1e-12


@pytest.mark.parametrize(("stride", "padding"), [(1, 1), (2, 0), (2, 1), (1, 0)])
def test_claim_9_convolutional(stride, padding):
    torch.manual_seed(0)
    side = (6 + 2 * padding - 3) // stride + 1
    conv = nn.Conv2d(2, 3, 3, stride=stride, padding=padding)
    model = nn.Sequential(conv, nn.ReLU(), nn.Flatten(), nn.Linear(3 * side * side, 2)).double()
    maps = {"0": ("0.weight", "0.bias"), "3": ("3.weight", "3.bias")}

    def batch(g):
        return g.standard_normal((4, 2, 6, 6)), g.standard_normal((4, 2))

    def step(thetas, X, targets):
        return by_hand.convolution(thetas, X, targets, 3, stride, padding)

    gradient_error, error = run_both(model, maps, step, batch)
    assert gradient_error < 1e-13
    assert error < 1e-12


@pytest.mark.parametrize("last", [True, False], ids=["classification", "prediction"])
@pytest.mark.parametrize("cell", ["RNN", "LSTM"])
def test_claim_9_recurrent(cell, last):
    torch.manual_seed(0)
    T, M = 5, 6
    model = Recurrent(getattr(nn, cell), last=last)
    shape = (1, M, 2) if last else (T, M, 2)

    def batch(g):
        X, targets = g.standard_normal((T, M, 3)), g.standard_normal(shape)
        return X, targets[0] if last else targets

    def step(thetas, X, targets):
        return by_hand.recurrent(cell, thetas, X, targets[None] if last else targets, t0=T if last else 1)

    gradient_error, error = run_both(model, MAPS, step, batch, batch_dim=0 if last else 1)
    assert gradient_error < 1e-13
    assert error < 1e-12


@pytest.mark.parametrize("regularize_bias", [True, False])
def test_claim_9_numpy_runs_are_those_of_the_optimiser(regularize_bias):
    g = rng()
    thetas = [g.standard_normal((n + 1, m)) / 2 for n, m in ((4, 6), (6, 2))]
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)).double()
    with torch.no_grad():
        for linear, theta in zip((model[0], model[2]), thetas, strict=True):
            linear.weight.copy_(torch.from_numpy(theta[:-1].T))
            linear.bias.copy_(torch.from_numpy(theta[-1]))
    options = {"momentum": 0.5, "l1": 1e-2, "forgetting": 0.9, "regularize_bias": regularize_bias}
    trainer = NumpyRLS(NumpyNetwork(thetas, "tanh"), RLSSettings(**options), [0.5, 1.0], clip=0.5)
    optimizer = RLS(model, {"0": 0.5}, clip=0.5, **options)
    for _ in range(STEPS):
        X, targets = g.standard_normal((5, 4)), g.standard_normal((5, 2))
        loss = squared_loss(model(torch.from_numpy(X)), torch.from_numpy(targets))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert trainer.step(X, targets) == pytest.approx(float(loss.detach()), rel=1e-11)
    assert trainer.n_clipped == optimizer.n_clipped > 0
    for linear, theta in zip((model[0], model[2]), trainer.parameters(), strict=True):
        np.testing.assert_allclose(linear.weight.detach().numpy().T, theta[:-1], atol=1e-12)
        np.testing.assert_allclose(linear.bias.detach().numpy(), theta[-1], atol=1e-12)


# -- claim 7: convolutions -------------------------------------------------------------------------


def one_step(model, X, targets, **options):
    optimizer = RLS(model, clip=None, **options)
    squared_loss(model(X).flatten(1), targets).backward()
    optimizer.step()
    return optimizer


def test_claim_7_a_1x1_convolution_on_1x1_images_is_a_fully_connected_layer():
    g = torch.Generator().manual_seed(0)
    X, targets = (torch.randn(8, n, generator=g, dtype=torch.float64) for n in (5, 3))
    linear, conv = nn.Linear(5, 3).double(), nn.Conv2d(5, 3, 1).double()
    conv.load_state_dict({"weight": linear.weight.detach()[:, :, None, None], "bias": linear.bias.detach()})
    dense = one_step(linear, X, targets, momentum=0.5, l1=0.1)
    convolutional = one_step(conv, X[:, :, None, None], targets, momentum=0.5, l1=0.1)
    torch.testing.assert_close(conv.weight.flatten(1), linear.weight, rtol=0, atol=1e-14)
    torch.testing.assert_close(
        convolutional.state[conv.weight]["P"], dense.state[linear.weight]["P"], rtol=0, atol=1e-15
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding": 2},
        {"stride": 2, "padding": 1},
        {"stride": (2, 3), "padding": (0, 2), "dilation": (2, 1)},
        {"padding": "same", "dilation": (1, 2)},
        {"padding": "valid", "stride": 3},
        {"padding": 1, "padding_mode": "reflect"},
        {"padding": (1, 2), "padding_mode": "circular"},
        {"padding": "same", "padding_mode": "replicate", "dilation": 2},
    ],
)
def test_claim_7_mean_of_the_patches_is_that_of_the_mean_image(options):
    conv = nn.Conv2d(2, 3, (3, 4), bias=False, **options).double()
    X = torch.randn(5, 2, 9, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    optimizer = RLS(conv)
    output = conv(X)
    output.sum().backward()
    mean = optimizer._collector.mean(optimizer._maps[0])
    # With the identity for weights, a convolution's outputs are its patches.
    probe = nn.Conv2d(2, 24, (3, 4), bias=False, **options).double()
    probe.weight.data = torch.eye(24, dtype=torch.float64).reshape(24, 2, 3, 4)
    patches = probe(X).detach().transpose(0, 1).flatten(1)
    torch.testing.assert_close(mean.value, patches.mean(dim=1), rtol=0, atol=1e-13)
    assert mean.rows == mean.samples == patches.shape[1] == output[:, 0].numel()


# -- claim 8: recurrent layers ----------------------------------------------------------------------


def sequences(T=4, M=5):
    g = torch.Generator().manual_seed(0)
    return torch.randn(T, M, 3, generator=g, dtype=torch.float64), torch.randn(M, 2, generator=g, dtype=torch.float64)


def test_claim_8_update_does_not_depend_on_the_order_of_the_gates():
    X, _ = sequences()
    lstm = nn.LSTM(3, 4).double()
    order = torch.randperm(16, generator=torch.Generator().manual_seed(2))
    results = []
    for rows in (torch.arange(16), order):
        model = nn.LSTM(3, 4).double()
        model.load_state_dict(lstm.state_dict())
        optimizer = RLS(model, clip=None, momentum=0.5)
        model(X)[0].sum().backward()
        for parameter in model.parameters():
            parameter.grad = parameter.grad[rows]
            parameter.data = parameter.data[rows]
        optimizer.step()
        results.append([parameter.detach() for parameter in model.parameters()])
    for plain, permuted in zip(*results, strict=True):
        torch.testing.assert_close(plain[order], permuted, rtol=0, atol=1e-15)


@pytest.mark.parametrize("cell", [nn.RNN, nn.LSTM])
def test_claim_8_one_step_from_a_zero_state_is_a_fully_connected_update(cell):
    X, _ = sequences(T=1)
    recurrent = cell(3, 4).double()
    optimizer = RLS(recurrent, clip=None)
    recurrent(X)[0].square().sum().backward()
    w, v = optimizer._maps
    G, before = w.gradient().clone(), w.matrix().clone()
    G_v, before_v = v.gradient().clone(), v.matrix().clone()
    optimizer.step()
    mean = np.append(X[0].mean(dim=0).numpy(), 1.0)
    theta, P, _ = by_hand.literal_update(before.T.numpy(), np.eye(4), 0.0, G.T.numpy(), mean)
    np.testing.assert_allclose(w.matrix().T.numpy(), theta, atol=1e-14)
    np.testing.assert_allclose(optimizer.state[w.weight]["P"].numpy(), P, atol=1e-15)
    # The recurrent map has seen nothing but its constant.
    theta, P, _ = by_hand.literal_update(before_v.T.numpy(), np.eye(5), 0.0, G_v.T.numpy(), np.eye(5)[4])
    np.testing.assert_allclose(v.matrix().T.numpy(), theta, atol=1e-14)
    np.testing.assert_allclose(optimizer.state[v.weight]["P"].numpy(), P, atol=1e-15)
