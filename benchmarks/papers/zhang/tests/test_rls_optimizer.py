"""The optimiser as PyTorch sees it: hooks, accumulation, states, the hybrid."""

from __future__ import annotations

import io

import pytest
import torch
from rls_shared import assert_same, batch, network, parameters, train
from torch import nn

from benchmarks.papers.zhang import RLS, squared_loss
from qsdp.exceptions import InvalidInputError

# -- means are those of training passes (claim 17, trap 5) ---------------------------------------------


def evaluation(model, X):
    model.eval()
    model(X)
    with torch.no_grad():
        model(X)
    model.train()


def without_gradients(model, X):
    with torch.no_grad():
        model(X)


def not_differentiated(model, X):
    model(X)


@pytest.mark.parametrize("disturb", [evaluation, without_gradients, not_differentiated])
def test_claim_17_other_passes_leave_no_trace(disturb):
    results = []
    for disturbed in (False, True):
        model = network()
        optimizer = RLS(model, momentum=0.5, l1=1e-3)
        for seed in range(5):
            X, targets = batch(seed)
            optimizer.zero_grad()
            if disturbed:
                disturb(model, 100 * X)
            loss = squared_loss(model(X), targets)
            if disturbed:
                disturb(model, 100 * X)
            loss.backward()
            if disturbed:
                disturb(model, 100 * X)
            optimizer.step()
        results.append([*parameters(model), *(state["P"] for state in optimizer.state.values())])
    assert_same(*results)


@pytest.mark.parametrize("order", ["zero_grad first", "zero_grad after the forward pass"])
def test_zero_grad_may_come_before_or_after_the_forward_pass(order):
    model, twin = network(), network()
    optimizer, other = RLS(model), RLS(twin)
    train(twin, other, range(4))
    for seed in range(4):
        X, targets = batch(seed)
        if order == "zero_grad first":
            optimizer.zero_grad()
        loss = squared_loss(model(X), targets)
        if order != "zero_grad first":
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert_same(parameters(model), parameters(twin))


def test_gradient_accumulation_is_the_step_of_the_whole_minibatch():
    model, twin = network(), network()
    optimizer, other = RLS(model, momentum=0.5), RLS(twin, momentum=0.5)
    train(twin, other, range(3))
    for seed in range(3):
        X, targets = batch(seed)
        optimizer.zero_grad()
        for part in (slice(0, 2), slice(2, 3), slice(3, 8)):
            (squared_loss(model(X[part]), targets[part]) * (len(X[part]) / 8)).backward()
        optimizer.step()
    assert_same(parameters(model), parameters(twin), 1e-14)


def test_layers_without_bias_and_frozen_parameters():
    model = nn.Sequential(nn.Linear(4, 6, bias=False), nn.Linear(6, 5), nn.Linear(5, 2)).double()
    model[1].requires_grad_(False)
    model[2].bias.requires_grad_(False)
    optimizer = RLS(model)
    assert [(one.name, one.side) for one in optimizer._maps] == [("0", 4), ("2", 5)]
    frozen = parameters(model[1]), model[2].bias.clone()
    train(model, optimizer, range(3))
    assert_same(frozen[0], parameters(model[1]))
    torch.testing.assert_close(frozen[1], model[2].bias, rtol=0, atol=0)


# -- learning rates, schedulers, time ------------------------------------------------------------------


@pytest.mark.parametrize("scaled", [True, False])
def test_time_steps_multiply_the_ratio(scaled):
    T, M = 5, 3
    linear = nn.Linear(4, 2).double()
    X = torch.rand(M, T, 4, dtype=torch.float64)
    optimizer = RLS(linear, scale_ratio_by_time=scaled, ratio=0.3)
    linear(X).sum().backward()
    optimizer.step()
    x = torch.cat([X.mean(dim=(0, 1)), torch.ones(1, dtype=torch.float64)])
    k = 0.3 * (T if scaled else 1)
    expected = torch.eye(5, dtype=torch.float64) - k / (1 + k * x @ x) * torch.outer(x, x)
    torch.testing.assert_close(optimizer.state[linear.weight]["P"], expected, rtol=0, atol=1e-14)


# -- clipping -----------------------------------------------------------------------------------------


def test_clip_is_of_all_gradients_together_and_of_the_rest_too():
    model, twin = network(), network()
    optimizer, other = RLS(model, exclude="2", rest="sgd", clip=0.01), RLS(twin, exclude="2", rest="sgd", clip=None)
    X, targets = batch(0)
    for one, who in ((model, optimizer), (twin, other)):
        squared_loss(one(X), targets).backward()
        if one is twin:
            assert float(nn.utils.clip_grad_norm_(one.parameters(), 0.01)) > 0.01
        who.step()
    assert_same(parameters(model), parameters(twin), 1e-15)
    assert (optimizer.n_clipped, other.n_clipped) == (1, 0)


# -- states -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rest", [None, "adam"])
def test_claim_17_saved_states_resume_identically(rest):
    options = {"momentum": 0.5, "l1": 1e-3, "forgetting": 0.99}
    options |= {"exclude": "2", "rest": rest} if rest else {}
    model = network()
    optimizer = RLS(model, **options)
    train(model, optimizer, range(4))
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    train(model, optimizer, range(4, 8))
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    resumed = network(seed=1)
    resumed.load_state_dict(saved["model"])
    other = RLS(resumed, 5.0, **options)
    other.load_state_dict(saved["optimizer"])
    assert other.param_groups[0]["lr"] == 1.0
    train(resumed, other, range(4, 8))
    assert_same(parameters(model), parameters(resumed))
    for a, b in zip(optimizer.state.values(), other.state.values(), strict=True):
        assert a["step"] == b["step"] == 8
        assert_same([a["P"], a["velocity"]], [b["P"], b["velocity"]])


# -- the hybrid ---------------------------------------------------------------------------------------


def test_hybrid_takes_any_loss_and_leaves_the_output_layer_to_adam():
    model, twin = network(), network()
    optimizer = RLS(model, exclude=["2"], rest="adam")
    assert [group["name"] for group in optimizer.param_groups] == ["0"]
    assert isinstance(optimizer.rest, torch.optim.Adam)
    theirs = torch.optim.Adam(twin[2].parameters())
    X, labels = batch(0)[0], torch.tensor([0, 1] * 4)
    for one, who in ((model, optimizer), (twin, theirs)):
        nn.functional.cross_entropy(one(X), labels).backward()
        who.step()
    assert_same(parameters(model[2]), parameters(twin[2]), 1e-15)
    assert not torch.equal(model[0].weight, twin[0].weight)


def test_rest_trains_what_is_not_covered():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.norm = nn.Embedding(5, 4), nn.LayerNorm(4)
            self.body = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))

        def forward(self, tokens):
            return self.body(self.norm(self.embedding(tokens)))

    model = Tagger()
    with pytest.raises(InvalidInputError, match=r"'embedding.weight', 'norm.weight', 'norm.bias' need another opt"):
        RLS(model)
    optimizer = RLS(model, exclude="body.1", rest=lambda rest: torch.optim.SGD(rest, lr=0.5))
    before = dict(model.named_parameters())
    before = {name: value.detach().clone() for name, value in before.items()}
    model(torch.tensor([0, 1, 2])).square().sum().backward()
    optimizer.step()
    assert all(not torch.equal(before[name], value) for name, value in model.named_parameters())
    assert [group["name"] for group in optimizer.param_groups] == ["body.0"]
    optimizer.zero_grad()
    assert all(parameter.grad is None for parameter in model.parameters())
