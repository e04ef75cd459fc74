"""ReLinear's update rules against the printed ones (rows B-4, B-5, B-6, B-7, B-15; section 7.4)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from relinear_reference import Arrays, NumpyOptimizer, fan_backward, fan_forward, relinear_step
from torch import Tensor, nn

from benchmarks.papers.fan import FanLinear, ReLinear, ReLinearNetwork, parameter_groups
from benchmarks.papers.fan.rules import VARIANTS

X = torch.randn(12, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
Y = torch.randn(12, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def network_of(family: str = "fan", seed: int = 0, **options: Any) -> ReLinearNetwork:
    network = ReLinearNetwork([4, 6, 6, 2], family, dtype=torch.float64, **options)
    start(network, seed)
    return network


def start(network: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for module in network.modules():
        if hasattr(module, "reset_parameters"):
            if isinstance(module, nn.Linear):
                with torch.no_grad():
                    module.weight.normal_(0.0, (2.0 / module.in_features) ** 0.5, generator=generator)
                    bound = module.in_features**-0.5
                    module.bias.uniform_(-bound, bound, generator=generator)
            else:
                module.reset_parameters(generator)


def optimizer_of(kind: str, groups: list[dict[str, Any]], rate: float = 0.01) -> torch.optim.Optimizer:
    if kind == "adam":
        return torch.optim.Adam(groups, lr=rate)
    return torch.optim.SGD(groups, lr=rate, momentum=0.9 if kind == "sgd" else 0.0)


def train(network: nn.Module, rule: ReLinear, steps: int) -> list[float]:
    losses = []
    for _ in range(steps):
        rule.zero_grad()
        loss = (network(X) - Y).square().mean()
        loss.backward()
        rule.step()
        losses.append(loss.item())
    return losses


# -- B-4, B-5, B-7, B-15: every variant with every optimiser ------------------------------------------

RATES = {"r": 0.03, "g": 0.02, "b": 0.005}
SHRINKING = {
    "none": {},
    "sg": {},
    "sw-l1": {"alpha_g": 1e-3, "alpha_b": 2e-3},
    "sw-l2": {"beta_g": 0.05, "beta_b": 0.1},
    "sw-soft": {"alpha_g": 1e-3, "alpha_b": 2e-3},
}


@pytest.mark.parametrize("kind", ["gd", "sgd", "adam"])
@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_b4_b5_b7_b15_steps_are_the_printed_ones(variant: str, kind: str) -> None:
    layer = FanLinear(4, 2, dtype=torch.float64)
    layer.reset_parameters(torch.Generator().manual_seed(0))
    layer.start_random(0.3, torch.Generator().manual_seed(1))
    rates = RATES if variant == "sg" else dict.fromkeys("rgb", 0.03)
    groups = parameter_groups(layer, rates["r"], rates["g"], rates["b"])
    rule = ReLinear(optimizer_of(kind, groups), variant, **SHRINKING[variant])
    p: Arrays = {name: parameter.detach().numpy().copy() for name, parameter in layer.named_parameters()}
    shrunk_g, shrunk_b = (list(SHRINKING[variant].values()) or [0.0, 0.0])[:2]
    directions = NumpyOptimizer(kind)
    x, y = X.numpy(), Y.numpy()
    for _ in range(20):
        Z, cache = fan_forward(x, p)
        gradients, _ = fan_backward(2.0 * (Z - y) / Z.size, x, p, cache)
        relinear_step(p, directions.direction(gradients), variant, rates, shrunk_g, shrunk_b)
        rule.zero_grad()
        (layer(X) - Y).square().mean().backward()
        rule.step()
    for name, array in p.items():
        np.testing.assert_allclose(getattr(layer, name).detach().numpy(), array, rtol=0, atol=1e-11, err_msg=name)


def still_layer() -> FanLinear:
    """A layer with 0.5 for all quadratic parameters."""
    layer = FanLinear(4, 2, dtype=torch.float64)
    with torch.no_grad():
        for name in ("wg", "bg", "wb", "c"):
            getattr(layer, name).fill_(0.5)
    return layer


def step_without_gradient(layer: nn.Module, rule: ReLinear) -> None:
    for parameter in layer.parameters():
        parameter.grad = torch.zeros_like(parameter)
    rule.step()


def test_sw_l1_chatters_and_the_soft_threshold_does_not() -> None:
    """Rule 6: a weight below alpha changes sign at every step, unless it is cut to zero."""
    for variant, expected in (("sw-l1", [0.4, -0.6, 0.4]), ("sw-soft", [0.0, 0.0, 0.0])):
        layer = still_layer()
        with torch.no_grad():
            layer.wg.fill_(-0.6)
        rule = ReLinear(torch.optim.SGD(parameter_groups(layer, 0.01)), variant, alpha_g=1.0, alpha_b=1.0)
        seen = []
        for _ in range(3):
            step_without_gradient(layer, rule)
            seen.append(layer.wg[0, 0].item())
        assert seen == pytest.approx(expected, abs=1e-15)


# -- B-6: groups, schedules, decay -------------------------------------------------------------------


def test_b6_three_groups_follow_one_schedule() -> None:
    network = network_of()
    rule = ReLinear(torch.optim.SGD(parameter_groups(network, 0.1, 1e-3, 1e-4)), "sg")
    schedule = torch.optim.lr_scheduler.MultiStepLR(rule.optimizer, [2, 4], 0.1)
    seen = []
    for _ in range(5):
        rates = {group["role"]: group["lr"] for group in rule.optimizer.param_groups}
        seen.append([rates[role] for role in "rgb"])
        rule.optimizer.step()
        schedule.step()
    expected = np.outer([1.0, 1.0, 0.1, 0.1, 0.01], [0.1, 1e-3, 1e-4])
    np.testing.assert_allclose(seen, expected, rtol=1e-12)
    members = {group["role"]: len(group["params"]) for group in rule.optimizer.param_groups}
    assert members == {"r": 6, "g": 6, "b": 6}


# -- 7.4: exactness ----------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["fan", "fan_compact", "parabolic", "poly2"])
def test_7_4_1_the_start_is_the_conventional_network(family: str) -> None:
    quadratic, conventional = network_of(family), network_of("linear")
    x = X.clone().requires_grad_()
    outputs, plain = quadratic(x), conventional(x)
    # Products of the same numbers may be rounded apart, by where in memory they are.
    assert torch.allclose(outputs, plain, rtol=1e-14, atol=1e-15)
    weights = torch.randn(12, 2, dtype=torch.float64)
    first, second = (torch.autograd.grad(values, x, weights)[0] for values in (outputs, plain))
    assert torch.allclose(first, second, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("kind", ["gd", "sgd", "adam"])
@pytest.mark.parametrize("family", ["fan", "fan_compact", "parabolic", "poly2"])
def test_7_4_2_without_quadratic_rates_the_training_is_the_conventional_one(family: str, kind: str) -> None:
    quadratic, conventional = network_of(family), network_of("linear")
    first = ReLinear(optimizer_of(kind, parameter_groups(quadratic, 0.02, 0.0, 0.0)), "sg")
    second = ReLinear(optimizer_of(kind, parameter_groups(conventional, 0.02)), "none")
    losses = train(quadratic, first, 60), train(conventional, second, 60)
    np.testing.assert_allclose(*losses, rtol=1e-12)
    assert losses[0][-1] < 0.8 * losses[0][0]
    for layer, plain in zip(quadratic.layers, conventional.layers, strict=True):
        weight, bias = (getattr(layer, name) for name in layer.conventional)
        assert torch.allclose(weight, plain.weight, rtol=0, atol=1e-13)
        assert torch.allclose(bias, plain.bias, rtol=0, atol=1e-13)


def test_7_4_4_adam_notices_rates_not_gradients() -> None:
    def quadratic_norm(gradient_scale: float, rate_scale: float) -> float:
        network = network_of()
        groups = parameter_groups(network, 0.01, 0.01 * rate_scale, 0.01 * rate_scale)
        rule = ReLinear(torch.optim.Adam(groups), "sg")
        scaled = [tensor for group in groups if group["role"] != "r" for tensor in group["params"]]
        for _ in range(50):
            rule.zero_grad()
            (network(X) - Y).square().mean().backward()
            for tensor in scaled:
                tensor.grad *= gradient_scale
            rule.step()
        squares = [(layer.wg.square().sum() + layer.wb.square().sum()).item() for layer in network.layers]
        return sum(squares) ** 0.5

    plain = quadratic_norm(1.0, 1.0)
    assert quadratic_norm(0.01, 1.0) == pytest.approx(plain, rel=0.02)
    assert quadratic_norm(1.0, 0.01) < 0.05 * plain


# -- bad input ---------------------------------------------------------------------------------------


def sgd(**rates: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameter_groups(FanLinear(2, 1), rates.pop("gamma_r", 0.1), **rates))


def test_parameters_of_a_schedule_survive(tmp_path: Any) -> None:
    """The state of the optimiser holds the roles, as PyTorch saves groups whole."""
    network = network_of()
    rule = ReLinear(torch.optim.Adam(parameter_groups(network, 0.01, 0.001)), "sg")
    train(network, rule, 3)
    torch.save(rule.optimizer.state_dict(), tmp_path / "state.pt")
    other = ReLinear(torch.optim.Adam(parameter_groups(network_of(), 0.01, 0.001)), "sg")
    other.optimizer.load_state_dict(torch.load(tmp_path / "state.pt"))
    assert [group["role"] for group in other.optimizer.param_groups] == ["r", "g", "b"]
    moments: list[Tensor] = [entry["exp_avg"] for entry in other.optimizer.state.values()]
    assert len(moments) == 18
