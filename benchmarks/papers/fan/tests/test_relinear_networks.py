"""Networks: ReZero, transferred weights, residual networks for images, several runs as one (B-8, B-16, B-17)."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.methods.quadratic_theory import family_dimension, resnet_parameters
from benchmarks.papers.fan import (
    QResNet,
    ReLinear,
    ReLinearNetwork,
    ReZero,
    count_trainable,
    parameter_groups,
    start_conventional,
    start_random,
    transfer_weights,
)
from qsdp.baselines import AffineForm
from qsdp.exceptions import InvalidInputError, InvalidTypeError

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


def test_the_square_activation_network_ends_in_a_linear_layer() -> None:
    network = ReLinearNetwork([3, 4, 2], "square_act")
    assert isinstance(network.layers[-1], nn.Linear)
    squares = network.layers[0](torch.randn(5, 3))
    assert torch.equal(torch.relu(squares), squares), "the ReLU between layers changes nothing"


def test_a_parabolic_network_by_the_name_of_the_other_paper() -> None:
    assert str(ReLinearNetwork([3, 4, 2], "rpqnn")) == str(ReLinearNetwork([3, 4, 2], ["parabolic", "rpqnn"]))
    assert resnet_parameters(20, "rpqnn") == resnet_parameters(20, "parabolic")
    assert count_trainable(QResNet(20, "rpqnn", width=2, device="meta")) == resnet_parameters(20, "parabolic", width=2)
    assert family_dimension((2, 2, 1), "rpqnn") == family_dimension((2, 2, 1), "parabolic")


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


def test_start_functions() -> None:
    network = scrambled(ReLinearNetwork([4, 6, 6, 2], rezero=True, dtype=torch.float64))
    start_conventional(network, generator())
    again = copy.deepcopy(network)
    assert network.layers[1].zeta.item() == 0.0
    assert all(torch.all(layer.wg == 0.0) for layer in (network.layers[0], network.layers[1].inner))
    start_random(network, 0.5, generator(1))
    assert torch.equal(network.layers[0].wr, again.layers[0].wr)
    assert not torch.any(network.layers[0].wg == 0.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ReLinearNetwork([3]), r"widths must be at least two numbers, inputs and outputs; got \[3\]"),
        (lambda: ReLinearNetwork([3, 0]), "widths must be an integer >= 1; got 0"),
        (lambda: ReLinearNetwork([3, 1], "quadratic"), "family must be one of .*; got 'quadratic'"),
        (
            lambda: ReLinearNetwork([3, 1], "qnn"),
            "'qnn' is excluded: ReLinear is of special cases of Fan's neuron",
        ),
        (
            lambda: ReLinearNetwork([3, 1], ["power_only"]),
            "'power_only' is excluded: .*QuadraticNetworkClassifier has all families",
        ),
        (
            lambda: ReLinearNetwork([3, 2, 1], ["fan"]),
            r"family must be one value or 2, one for each layer; got \['fan'\]",
        ),
        (lambda: ReLinearNetwork([3, 1], 7), "family must be a name, or one for each layer; got 7"),
        (
            lambda: ReLinearNetwork([3, 1], activation="square"),
            "'square' is excluded: a square after linear layers is the competitor of the quadratic neuron",
        ),
        (
            lambda: ReLinearNetwork([3, 1], activation="sign"),
            "'sign' is excluded: its derivative is 0",
        ),
        (lambda: ReLinearNetwork([3, 1], activation="relo"), "activation must be one of .*; did you mean 'relu'"),
        (
            lambda: ReLinearNetwork([5, 5, 5], rezero=True),
            r"rezero needs two hidden layers of equal widths, one after the other; got widths \[5, 5, 5\]",
        ),
        (lambda: QResNet(21), r"depth must be 6k \+ 2, such as 20, 32, 56 or 110; got 21"),
        (lambda: QResNet(20, "square_act"), "family must be one of .*; got 'square_act'"),
        (lambda: resnet_parameters(20, width=0), "width must be an integer >= 1; got 0"),
    ],
)
def test_bad_input(make: Any, message: str) -> None:
    with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
        make()


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


def test_b16_zeta_learns_at_the_conventional_rate() -> None:
    network = ReLinearNetwork([4, 6, 6, 2], rezero=True, dtype=torch.float64)
    groups = parameter_groups(network, 0.1, 1e-3, 1e-4)
    rate = {id(parameter): group["lr"] for group in groups for parameter in group["params"]}
    assert rate[id(network.layers[1].zeta)] == 0.1
    rule = ReLinear(torch.optim.SGD(groups), "sg")
    losses = []
    for _ in range(200):
        rule.zero_grad()
        loss = (network(draw(7, 4)) - draw(7, 2, seed=2)).square().mean()
        loss.backward()
        rule.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert network.layers[1].zeta.item() != 0.0


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


def test_b8_weights_of_any_origin() -> None:
    network = ReLinearNetwork([3, 4, 2], dtype=torch.float64)
    rng = np.random.default_rng(0)
    pairs = [(rng.standard_normal((4, 3)), rng.standard_normal(4)), (rng.standard_normal((2, 4)), [0.5, -0.5])]
    transfer_weights(pairs, network)
    X = rng.standard_normal((5, 3))
    expected = np.maximum(X @ pairs[0][0].T + pairs[0][1], 0.0) @ pairs[1][0].T + pairs[1][1]
    np.testing.assert_allclose(network(torch.as_tensor(X)).detach(), expected, rtol=1e-12)


@pytest.mark.parametrize("family", STARTED)
def test_b8_residual_networks_take_batch_norms_along(family: str) -> None:
    conventional = QResNet(8, "linear", width=4, dtype=torch.float64)
    for _ in range(3):
        conventional(draw(8, 3, 8, 8))
    quadratic = QResNet(8, family, width=4, dtype=torch.float64)
    transfer_weights(conventional, quadratic)
    images = draw(5, 3, 8, 8, seed=9)
    assert torch.allclose(quadratic.eval()(images), conventional.eval()(images), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (ReLinearNetwork([3, 5, 2], "linear"), "source must have the target's 3 layers; got 2"),
        (ReLinearNetwork([3, 5, 6, 2], "linear"), r"weight must have shape \(5, 5\); got \(6, 5\)"),
        (ReLinearNetwork([3, 5, 5, 2], "fan"), "source must have a linear layer for"),
        ([(np.ones((5, 3)), np.ones(5))], "source must have the target's 3 layers; got 1"),
        ([(np.ones((5, 3)), np.ones(4))] * 3, "bias must have 5 entries"),
        (5.0, r"transfer must be \(weights, bias\) of every layer; got 5.0"),
    ],
)
def test_b8_what_does_not_fit_is_refused(source: Any, message: str) -> None:
    with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
        transfer_weights(source, ReLinearNetwork([3, 5, 5, 2]))


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


@pytest.mark.parametrize(
    ("depth", "width", "printed"),
    [(32, 24, 1.04), (32, 32, 1.84), (32, 40, 2.88), (56, 24, 1.92), (56, 32, 3.40), (56, 40, 5.31)],
)
def test_b17_6_6_widened_conventional_networks(depth: int, width: int, printed: float) -> None:
    tolerance = 0.05 if printed > 10 else 0.015
    assert resnet_parameters(depth, "linear", width=width) / 1e6 == pytest.approx(printed, abs=tolerance)


def test_b17_residual_blocks_of_rezero_have_one_number_more() -> None:
    options = {"width": 5, "n_classes": 7, "in_channels": 1}
    counts = [resnet_parameters(8, "fan", rezero=rezero, **options) for rezero in (False, True)]
    # 3 (9 n + 1) a neuron and two of its batch norm: counted by hand.
    stem, classifier = 9 * 5 + 2 * 5, 20 * 7 + 7
    blocks = [5 * (3 * (9 * 5 + 1) + 2)] * 2
    for before, after in ((5, 10), (10, 20)):
        blocks += [after * (3 * (9 * n + 1) + 2) for n in (before, after)]
    assert counts == [stem + sum(blocks) + classifier, stem + sum(blocks) + classifier + 3]


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
