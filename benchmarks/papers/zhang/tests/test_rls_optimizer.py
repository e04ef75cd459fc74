"""The optimiser as PyTorch sees it: hooks, accumulation, states, the hybrid."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import warnings

import pytest
import torch
from rls_shared import assert_same, batch, network, parameters, train
from torch import nn

from benchmarks.papers.zhang import RLS, squared_loss
from qsdp.exceptions import InvalidInputError, StorageError

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


def test_gradients_in_evaluation_mode_are_refused():
    model = network().eval()
    optimizer = RLS(model)
    X, targets = batch(0)
    squared_loss(model(X), targets).backward()
    before = parameters(model)
    with pytest.raises(InvalidInputError, match="'0' has a gradient but no mean input: run its module"):
        optimizer.step()
    assert_same(before, parameters(model))


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


def test_zero_grad_forgets_a_minibatch_that_was_given_up():
    model, twin = network(), network()
    optimizer, other = RLS(model), RLS(twin)
    X, targets = batch(7)
    squared_loss(model(100 * X), targets).backward()
    train(model, optimizer, range(3))
    train(twin, other, range(3))
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


def test_accumulation_does_not_change_the_number_of_time_steps():
    results = []
    for parts in ([slice(0, 6)], [slice(0, 2), slice(2, 6)]):
        torch.manual_seed(0)
        model = nn.ModuleDict({"rnn": nn.RNN(3, 4, batch_first=True), "out": nn.Linear(4, 2)}).double()
        optimizer = RLS(model)
        X = torch.rand(6, 5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        for part in parts:
            outputs = model["out"](model["rnn"](X[part])[0])
            (outputs.square().sum() / 12).backward()
        optimizer.step()
        results.append([*parameters(model), *(state["P"] for state in optimizer.state.values())])
    assert_same(*results, 1e-14)


def test_closure():
    model, twin = network(), network()
    optimizer, other = RLS(model), RLS(twin)
    X, targets = batch(0)

    def closure():
        optimizer.zero_grad()
        loss = squared_loss(model(X), targets)
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    train(twin, other, [0])
    assert float(loss.detach()) == pytest.approx(float(squared_loss(network()(X), targets).detach()))
    assert_same(parameters(model), parameters(twin))


def test_layers_without_gradient_are_left_alone():
    model = network()
    optimizer = RLS(model)
    before = parameters(model)
    # The first layer is not in this graph.
    model[2](torch.rand(3, 6, dtype=torch.float64)).sum().backward()
    optimizer.step()
    after = parameters(model)
    assert_same(before[:2], after[:2])
    assert not torch.equal(before[2], after[2])
    assert [state["step"] for state in optimizer.state.values()] == [0, 1]


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


def test_a_layer_that_is_called_twice_has_the_mean_of_both_calls():
    model = nn.Linear(4, 4).double()
    optimizer = RLS(model)
    X = batch(0)[0]
    Y = model(X)
    model(Y).sum().backward()
    mean = optimizer._collector.mean(optimizer._maps[0])
    torch.testing.assert_close(mean.value, torch.cat([X, Y.detach()]).mean(dim=0), rtol=0, atol=1e-15)
    assert (mean.rows, mean.samples) == (16, 16)


def test_copies_and_pickles_of_a_model_do_not_report_to_the_optimiser():
    model = network()
    optimizer = RLS(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.load(file, weights_only=False)):
        other(batch(0)[0]).sum().backward()
    assert optimizer._collector.mean(optimizer._maps[0]) is None
    train(model, optimizer, [0])


def test_hooks_go_with_the_optimiser():
    model = network()
    optimizer = RLS(model)
    assert len(model[0]._forward_hooks) == 1
    del optimizer
    gc.collect()
    assert len(model[0]._forward_hooks) == 0
    # Two optimisers of one model do not disturb each other.
    first, second = RLS(model), RLS(model)
    twin = network()
    train(twin, RLS(twin), [0])
    train(model, first, [0])
    assert_same(parameters(model), parameters(twin))
    assert second.n_steps == 0


def test_checkpointed_forward_passes_count_once():
    model, twin = network(), network()
    optimizer, other = RLS(model), RLS(twin)
    X, targets = batch(0)
    squared_loss(torch.utils.checkpoint.checkpoint(model, X, use_reentrant=False), targets).backward()
    optimizer.step()
    train(twin, other, [0])
    assert_same(parameters(model), parameters(twin), 1e-15)


# -- learning rates, schedulers, time ------------------------------------------------------------------


def test_learning_rates_by_name():
    model = nn.ModuleDict({"a": nn.LSTM(3, 4), "b": nn.LSTM(4, 4), "out": nn.Linear(4, 2)})
    optimizer = RLS(model, {"a": 10.0, "b": 5.0, "b.recurrent": 2.0})
    rates = {group["name"]: group["lr"] for group in optimizer.param_groups}
    assert rates == {"a.input": 10.0, "a.recurrent": 10.0, "b.input": 5.0, "b.recurrent": 2.0, "out": 1.0}
    with pytest.raises(InvalidInputError, match=r"lr must be one of .*did you mean 'out'"):
        RLS(model, {"outt": 1.0})
    with pytest.raises(InvalidInputError, match=r"lr\['a'\] must be a finite number > 0"):
        RLS(model, {"a": -1.0})


def test_schedulers_work():
    model = network()
    optimizer = RLS(model, 0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(model, optimizer, [0])
        scheduler.step()
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.05, 0.05])


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


def test_batch_first_is_that_of_the_recurrent_layers():
    for batch_first in (False, True):
        model = nn.ModuleDict({"rnn": nn.RNN(3, 4, batch_first=batch_first), "out": nn.Linear(4, 2)})
        optimizer = RLS(model)
        X = torch.rand(6, 5, 3) if batch_first else torch.rand(5, 6, 3)
        model["out"](model["rnn"](X)[0]).sum().backward()
        means = [optimizer._collector.mean(one) for one in optimizer._maps]
        assert [(mean.rows, mean.samples) for mean in means] == [(30, 6)] * 3


def test_inputs_without_a_batch():
    model = nn.ModuleDict({"c": nn.Conv2d(1, 2, 3), "r": nn.RNN(4, 3), "l": nn.Linear(3, 1)}).double()
    optimizer = RLS(model)
    image = torch.rand(1, 6, 6, dtype=torch.float64)
    sequence = model["c"](image)[0]
    model["l"](model["r"](sequence)[0][-1]).sum().backward()
    means = [optimizer._collector.mean(one) for one in optimizer._maps]
    assert [(mean.rows, mean.samples) for mean in means] == [(16, 16), (4, 1), (4, 1), (1, 1)]
    patches = nn.functional.unfold(image[None], 3)[0]
    torch.testing.assert_close(means[0].value, patches.mean(dim=1), rtol=0, atol=1e-15)
    optimizer.step()


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


def test_loading_does_not_share_what_is_changed_in_place():
    model, twin = network(), network()
    optimizer, other = RLS(model), RLS(twin)
    train(model, optimizer, range(2))
    other.load_state_dict(optimizer.state_dict())
    kept = optimizer.state[model[0].weight]["P"].clone()
    train(twin, other, range(2))
    torch.testing.assert_close(optimizer.state[model[0].weight]["P"], kept, rtol=0, atol=0)


def test_states_of_other_models_are_refused():
    saved = RLS(network()).state_dict()
    message = r"the state is that of an optimiser of the maps \['0', '2'\], without a rest"
    with pytest.raises(StorageError, match=message):
        RLS(network(), exclude="2", rest="adam").load_state_dict(saved)
    with pytest.raises(StorageError, match=r"the state has P of \[5, 7\] rows; this model needs \[5, 9\]"):
        RLS(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))).load_state_dict(saved)


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
