"""Networks: ReZero, transferred weights, residual networks for images, several runs as one (B-8, B-16, B-17)."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.papers.fan import (
    QResNet,
    ReLinear,
    ReLinearNetwork,
    ReZero,
    count_trainable,
    parameter_groups,
    resnet_parameters,
    start_conventional,
    transfer_weights,
)
from qsdp.baselines import AffineForm

STARTED = ["fan", "fan_compact", "parabolic", "poly2"]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draw(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=generator(seed))


def scrambled(network: nn.Module, seed: int = 0) -> Any:
    """All parameters Gaussian."""
    with torch.no_grad():
        for number, parameter in enumerate(network.parameters()):
            parameter.copy_(0.5 * draw(*parameter.shape, seed=seed + number))
    return network


# -- fully connected networks ------------------------------------------------------------------------


@pytest.mark.parametrize("rezero", [False, True])
@pytest.mark.parametrize("activation", ["relu", "identity", "tanh"])
@pytest.mark.parametrize("family", [*STARTED, "linear", "square_act", ["linear", "fan", "parabolic"]])
def test_the_chain_of_forms_is_the_network(family: Any, activation: str, rezero: bool) -> None:
    network = scrambled(ReLinearNetwork([3, 5, 5, 2], family, activation, rezero=rezero, dtype=torch.float64))
    X = draw(6, 3)
    H = X.numpy()
    for layer in network.trained_layers():
        H = layer.predict(H)
    expected = network(X).detach().numpy()
    np.testing.assert_allclose(H, expected, rtol=0, atol=1e-12 * max(1.0, np.abs(expected).max()))
    affine = [isinstance(layer.form, AffineForm) for layer in network.trained_layers()]
    first, last = ["linear", ["linear", "fan", "parabolic"]], ["linear", "square_act"]
    assert affine == [family in first, family == "linear", family in last]


@pytest.mark.parametrize("activation", ["identity", "relu"])
def test_7_4_7_e28_networks_of_square_activations_are_fan_networks_with_a_linear_last_layer(activation: str) -> None:
    square = scrambled(ReLinearNetwork([3, 5, 4, 2], "square_act", activation, dtype=torch.float64))
    fan = scrambled(ReLinearNetwork([3, 5, 4, 2], "fan", activation, dtype=torch.float64), seed=50)
    *hidden, last = fan.layers
    with torch.no_grad():
        for mine, theirs in zip(hidden, square.layers, strict=False):
            for weights, bias in (("wr", "br"), ("wg", "bg")):
                getattr(mine, weights).copy_(theirs.wr)
                getattr(mine, bias).copy_(theirs.br)
            mine.wb.zero_()
            mine.c.zero_()
    last.start_conventional(square.layers[-1].weight, square.layers[-1].bias)
    X = draw(20, 3)
    values = square(X).detach()
    np.testing.assert_allclose(fan(X).detach(), values, rtol=0, atol=1e-12 * float(values.abs().max()))
    assert not torch.allclose(values, values.clamp(min=0.0)), "a square at the end would have kept them positive"
    # As the proof prints it, the last layer too becomes a square of the competitor's linear one.
    with torch.no_grad():
        for weights, bias in (("wr", "br"), ("wg", "bg")):
            getattr(last, weights).copy_(square.layers[-1].weight)
            getattr(last, bias).copy_(square.layers[-1].bias)
    np.testing.assert_allclose(fan(X).detach(), values**2, rtol=0, atol=1e-12 * float((values**2).max()))


@pytest.mark.parametrize("activation", ["identity", "relu"])
def test_7_5_e27_rescaled_layers_are_the_same_network(activation: str) -> None:
    """Outputs of a layer times D, by wr, br, wb, c alone; the next layer undoes it, its squares twice."""
    network = scrambled(ReLinearNetwork([3, 5, 4, 2], "fan", activation, dtype=torch.float64))
    X = draw(20, 3)
    values = network(X).detach()
    first, second, _ = network.layers
    D = draw(5, seed=9).abs() + 0.5
    t = draw(5, seed=10).abs() + 0.5
    printed = copy.deepcopy(network)
    with torch.no_grad():
        for name in ("wr", "br", "wb", "c"):
            getattr(first, name).mul_(D[:, None] if name.startswith("w") else D)
        second.wr.div_(D)
        second.wg.div_(D)
        second.wb.div_(D**2)
        # The other rescaling that the bound takes off: of the two factors, by t and 1/t.
        for name, factor in (("wr", t), ("br", t), ("wg", 1.0 / t), ("bg", 1.0 / t)):
            getattr(first, name).mul_(factor[:, None] if name.startswith("w") else factor)
        # Equation (20) scales every parameter of a layer by D, and those of the next by 1/D.
        for name in ("wr", "br", "wg", "bg", "wb", "c"):
            getattr(printed.layers[0], name).mul_(D[:, None] if name.startswith("w") else D)
        for name in ("wr", "wg", "wb"):
            getattr(printed.layers[1], name).div_(D)
    size = float(values.abs().max())
    np.testing.assert_allclose(network(X).detach(), values, rtol=0, atol=1e-12 * size)
    assert (printed(X).detach() - values).abs().max() > 1e-3 * size


# -- B-16, 7.4.6: ReZero -----------------------------------------------------------------------------


def test_b16_7_4_6_blocks_start_as_the_identity_and_wake_up_by_zeta() -> None:
    network = ReLinearNetwork([4, 6, 6, 6, 2], rezero=True, dtype=torch.float64)
    blocks = [layer for layer in network.layers if isinstance(layer, ReZero)]
    assert len(blocks) == 2
    hidden = torch.relu(network.layers[0](draw(7, 4)))
    for block in blocks:
        assert torch.equal(block(hidden), hidden)
    (network(draw(7, 4)) - draw(7, 2, seed=2)).square().mean().backward()
    for block in blocks:
        assert all(torch.all(parameter.grad == 0.0) for parameter in block.inner.parameters())
        assert block.zeta.grad.abs().item() > 0.0


@pytest.mark.parametrize("family", ["linear", *STARTED])
def test_b16_residual_blocks_for_images_start_as_the_identity(family: str) -> None:
    network = QResNet(8, family, width=4, rezero=True, dtype=torch.float64)
    x = torch.relu(draw(3, 4, 8, 8))
    assert torch.equal(network.blocks[0](x), x)
    assert network.blocks[1](x).shape == (3, 8, 4, 4)
    assert torch.equal(network.blocks[1](x), network.blocks[1].shortcut(x))
    network(draw(3, 3, 8, 8)).square().mean().backward()
    for block in network.blocks:
        inner = [parameter for name, parameter in block.named_parameters() if name != "zeta"]
        assert all(torch.all(parameter.grad == 0.0) for parameter in inner)
        assert block.zeta.grad.abs().item() > 0.0


# -- B-8: weight transfer ----------------------------------------------------------------------------


@pytest.mark.parametrize("rezero", [False, True])
@pytest.mark.parametrize("family", STARTED)
def test_b8_a_transferred_network_equals_the_conventional_one(family: str, rezero: bool) -> None:
    conventional = scrambled(ReLinearNetwork([3, 5, 5, 2], "linear", rezero=rezero, dtype=torch.float64))
    quadratic = scrambled(ReLinearNetwork([3, 5, 5, 2], family, rezero=rezero, dtype=torch.float64), seed=50)
    transfer_weights(conventional, quadratic)
    assert torch.allclose(quadratic(draw(9, 3)), conventional(draw(9, 3)), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("family", STARTED)
def test_b8_residual_networks_take_batch_norms_along(family: str) -> None:
    conventional = QResNet(8, "linear", width=4, dtype=torch.float64)
    for _ in range(3):
        conventional(draw(8, 3, 8, 8))
    quadratic = QResNet(8, family, width=4, dtype=torch.float64)
    transfer_weights(conventional, quadratic)
    images = draw(5, 3, 8, 8, seed=9)
    assert torch.allclose(quadratic.eval()(images), conventional.eval()(images), rtol=1e-12, atol=1e-13)


# -- B-17: residual networks for images --------------------------------------------------------------

#: Depth, family: parameters in millions, as counted in section 6.6 of the specification, and as printed.
SIZES = [
    (20, "linear", 0.270, "0.27M"),
    (32, "linear", 0.464, "0.46M"),
    (56, "linear", 0.853, "0.86M"),
    (110, "linear", 1.728, "1.7M"),
    (20, "parabolic", 0.538, "0.54M"),
    (32, "parabolic", 0.927, None),
    (56, "parabolic", 1.705, None),
    (20, "poly2", 0.538, "0.54M"),
    (32, "poly2", 0.927, None),
    (56, "poly2", 1.705, None),
    (20, "fan", 0.806, "0.81M"),
    (32, "fan", 1.389, "1.39M"),
    (56, "fan", 2.555, "2.55M"),
    (110, "fan", 5.178, "5.1M"),
    (20, "fan_compact", 0.538, "0.54M"),
    (32, "fan_compact", 0.927, "0.92M"),
    (56, "fan_compact", 1.705, None),
]


@pytest.mark.parametrize(("depth", "family", "counted", "printed"), SIZES)
def test_b17_6_6_parameters_are_those_counted_and_printed(
    depth: int, family: str, counted: float, printed: str | None
) -> None:
    count = resnet_parameters(depth, family, separate_biases=True)
    assert count / 1e6 == pytest.approx(counted, abs=0.0005)
    if printed is not None:
        # One printed size is rounded up, one is cut off.
        digits = len(printed.rstrip("M").partition(".")[2])
        assert count / 1e6 == pytest.approx(float(printed.rstrip("M")), abs=10.0**-digits)


@pytest.mark.parametrize("family", STARTED)
def test_b17_a_new_network_is_the_conventional_one_and_trains(family: str) -> None:
    images, labels = draw(16, 1, 8, 8), torch.arange(16) % 2
    conventional = QResNet(8, "linear", width=4, in_channels=1, n_classes=2, dtype=torch.float64)
    quadratic = QResNet(8, family, width=4, in_channels=1, n_classes=2, dtype=torch.float64)
    transfer_weights(conventional, quadratic)
    assert torch.allclose(quadratic(images), conventional(images), rtol=1e-11, atol=1e-12)
    rule = ReLinear(torch.optim.SGD(parameter_groups(quadratic, 0.1, 1e-3), momentum=0.9), "sg")
    losses = []
    for _ in range(25):
        rule.zero_grad()
        loss = nn.functional.cross_entropy(quadratic(images), labels)
        loss.backward()
        rule.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
    first = quadratic.blocks[0].first
    assert all((getattr(first, name) - value).abs().max() > 0.0 for name, value in first.start.items())


# -- several runs as one -----------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["sg", "sw-l1", "sw-soft"])
@pytest.mark.parametrize("family", ["fan", "fan_compact", "parabolic"])
def test_stacked_networks_train_as_each_alone(family: str, variant: str) -> None:
    runge = pytest.importorskip("benchmarks.papers.fan.experiments.runge")
    X, Y = draw(10, 3), draw(10, 2, seed=2)
    networks = []
    for seed in range(3):
        network = ReLinearNetwork([3, 5, 5, 2], family, dtype=torch.float64)
        start_conventional(network, generator(seed))
        networks.append(network)
    stacked = runge.stacked(networks)

    def train(model: nn.Module, error: Any) -> None:
        rule = ReLinear(torch.optim.Adam(parameter_groups(model, 0.01)), variant)
        for _ in range(8):
            rule.zero_grad()
            error(model).backward()
            rule.step()

    train(stacked, lambda model: (model(X) - Y).square().mean(dim=(1, 2)).sum())
    for number, network in enumerate(networks):
        train(network, lambda model: (model(X) - Y).square().mean())
        assert torch.allclose(stacked(X)[number], network(X), rtol=1e-9, atol=1e-11)
    assert count_trainable(stacked) == 3 * count_trainable(networks[0])
