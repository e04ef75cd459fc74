"""Quadratic neurons in PyTorch: values, gradients, canonical forms, conventional starts (rows B-1, B-2, B-3, B-17)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from relinear_reference import fan_backward, fan_forward, value
from torch import nn
from torch.nn import functional

from benchmarks.papers.fan import FanConv2d
from benchmarks.papers.fan.neurons import CONVOLUTIONS, FAMILIES, QuadraticLinear
from benchmarks.papers.noel import get_family

QUADRATIC = sorted(set(FAMILIES) - {"linear"})
STARTED = sorted(set(QUADRATIC) - {"square_act"})


def layer_of(family: str, n: int, m: int, seed: int = 0) -> QuadraticLinear:
    """A layer with Gaussian parameters."""
    layer = FAMILIES[family](n, m, dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(generator=generator)
    return layer


def arrays_of(layer: nn.Module) -> dict[str, np.ndarray]:
    return {name: parameter.detach().numpy().copy() for name, parameter in layer.named_parameters()}


def inputs(rows: int, n: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(rows, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


# -- B-1: Fan's layer --------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("zeroed", [None, "wr", "br", "wg", "bg", "wb", "c"])
def test_b1_fan_layer_forward_backward_and_input_gradient(rows: int, zeroed: str | None) -> None:
    layer, X = layer_of("fan", 5, 3), inputs(rows, 5).requires_grad_()
    if zeroed is not None:
        nn.init.zeros_(getattr(layer, zeroed))
    D = inputs(rows, 3, seed=2)
    Z = layer(X)
    Z.backward(D)
    p = arrays_of(layer)
    expected, cache = fan_forward(X.detach().numpy(), p)
    gradients, in_inputs = fan_backward(D.numpy(), X.detach().numpy(), p, cache)
    np.testing.assert_allclose(Z.detach().numpy(), expected, rtol=0, atol=1e-13)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(getattr(layer, name).grad.numpy(), gradient, rtol=0, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(X.grad.numpy(), in_inputs, rtol=0, atol=1e-12)


def test_b1_gradients_through_three_layers_are_those_of_the_formulas() -> None:
    widths, layers = [3, 4, 4, 2], []
    for number in range(3):
        layers.append(layer_of("fan", widths[number], widths[number + 1], seed=number))
    X, target = inputs(6, 3), inputs(6, 2, seed=9)
    H = X
    for number, layer in enumerate(layers):
        H = layer(torch.tanh(H) if number else H)
    (0.5 * (H - target).square().sum()).backward()

    values, caches = [X.numpy()], []
    for number, layer in enumerate(layers):
        A = np.tanh(values[-1]) if number else values[-1]
        Z, cache = fan_forward(A, arrays_of(layer))
        values.append(Z)
        caches.append((A, cache))
    D = values[-1] - target.numpy()
    for number in (2, 1, 0):
        A, cache = caches[number]
        gradients, in_inputs = fan_backward(D, A, arrays_of(layers[number]), cache)
        scale = max(np.abs(gradient).max() for gradient in gradients.values())
        for name, gradient in gradients.items():
            found = getattr(layers[number], name).grad.numpy()
            np.testing.assert_allclose(found, gradient, rtol=0, atol=1e-12 * scale, err_msg=name)
        D = in_inputs * (1.0 - A**2)


# -- B-2: the other families -------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("family", QUADRATIC)
def test_b2_every_family_against_its_definition_and_complex_steps(family: str, rows: int) -> None:
    layer, X = layer_of(family, 4, 3), inputs(rows, 4).requires_grad_()
    D = inputs(rows, 3, seed=2)
    Z = layer(X)
    Z.backward(D)
    p, x = arrays_of(layer), X.detach().numpy()
    np.testing.assert_allclose(Z.detach().numpy(), value(family, p, x), rtol=0, atol=1e-13)
    h = 1e-30
    for name, array in p.items():
        for place in np.ndindex(array.shape):
            moved = {key: entry.astype(complex) for key, entry in p.items()}
            moved[name][place] += 1j * h
            derivative = float((D.numpy() * value(family, moved, x)).sum().imag / h)
            assert getattr(layer, name).grad[place].item() == pytest.approx(derivative, rel=1e-11, abs=1e-11)
    for place in np.ndindex(x.shape):
        moved_x = x.astype(complex)
        moved_x[place] += 1j * h
        derivative = float((D.numpy() * value(family, p, moved_x)).sum().imag / h)
        assert X.grad[place].item() == pytest.approx(derivative, rel=1e-11, abs=1e-11)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(QUADRATIC), st.integers(1, 6), st.integers(1, 4), st.integers(0, 10**6))
def test_every_family_as_a_quadratic_form(family: str, n: int, m: int, seed: int) -> None:
    layer, X = layer_of(family, n, m, seed), inputs(5, n, seed)
    form = layer.to_quadratic_form()
    Z = layer(X).detach().numpy()
    np.testing.assert_allclose(form.predict(X.numpy()), Z, rtol=0, atol=1e-12 * max(1.0, np.abs(Z).max()))
    assert np.array_equal(form.S, np.swapaxes(form.S, 1, 2))


@pytest.mark.parametrize("family", QUADRATIC)
def test_the_families_in_numpy_agree(family: str) -> None:
    """Two independent programs: values, gradients and canonical forms of `benchmarks.papers.noel`."""
    other = get_family({"parabolic": "rpqnn"}.get(family, family))
    names = {"square_act": ["W", "b"], "parabolic": ["W", "b", "U", "c"]}.get(family)
    layer, X, D = layer_of(family, 4, 3), inputs(6, 4).requires_grad_(), inputs(6, 3, seed=2)
    mine = list(layer.roles)
    theirs = dict(zip(mine, names or [name.replace("w", "W") for name in mine], strict=True))
    P = {theirs[name]: array for name, array in arrays_of(layer).items()}
    z, evaluated = other.forward(X.detach().numpy(), P)
    gradients, in_inputs = other.backward(D.numpy(), X.detach().numpy(), P, evaluated)
    Z = layer(X)
    Z.backward(D)
    np.testing.assert_allclose(Z.detach().numpy(), z, rtol=0, atol=1e-12)
    np.testing.assert_allclose(X.grad.numpy(), in_inputs, rtol=0, atol=1e-11)
    for name in mine:
        np.testing.assert_allclose(getattr(layer, name).grad.numpy(), gradients[theirs[name]], rtol=0, atol=1e-11)
    first, second = layer.to_quadratic_form(), other.to_form(P).to_quadratic_form()
    for part in ("S", "s", "s0"):
        np.testing.assert_allclose(getattr(first, part), getattr(second, part), rtol=0, atol=1e-13)


# -- B-3: the conventional start ---------------------------------------------------------------------


@pytest.mark.parametrize("family", STARTED)
def test_b3_a_new_layer_is_exactly_a_conventional_one(family: str) -> None:
    layer, X = FAMILIES[family](6, 4, dtype=torch.float64), inputs(9, 6).requires_grad_()
    weight, bias = inputs(4, 6, seed=3), inputs(4, 1, seed=4)[:, 0]
    layer.start_conventional(weight, bias)
    conventional = functional.linear(X, weight, bias)
    assert torch.equal(layer(X), conventional)
    D = inputs(9, 4, seed=5)
    (mine,) = torch.autograd.grad(layer(X), X, D)
    (theirs,) = torch.autograd.grad(conventional, X, D)
    assert torch.equal(mine, theirs)


@pytest.mark.parametrize("family", STARTED)
def test_b3_new_layers_and_redrawn_ones_are_conventional(family: str) -> None:
    layer = FAMILIES[family](50, 400, dtype=torch.float64)
    layer.reset_parameters(torch.Generator().manual_seed(0))
    weight, bias = (getattr(layer, name) for name in layer.conventional)
    assert torch.equal(layer(inputs(3, 50)), functional.linear(inputs(3, 50), weight, bias))
    # 20000 weights: the deviation of their root mean square is half a percent.
    assert weight.std().item() == pytest.approx(np.sqrt(2.0 / 50), rel=0.03)
    assert bias.abs().max().item() <= 1.0 / np.sqrt(50)


# -- B-17: convolutions ------------------------------------------------------------------------------


@pytest.mark.parametrize(("stride", "padding"), [(1, 1), (2, 0)])
@pytest.mark.parametrize("family", sorted(CONVOLUTIONS))
def test_b17_a_convolution_is_the_dense_layer_on_patches(family: str, stride: int, padding: int) -> None:
    layer = CONVOLUTIONS[family](2, 3, 3, stride=stride, padding=padding, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(generator=generator)
    images = torch.randn(2, 2, 6, 6, dtype=torch.float64, generator=generator)
    outputs = layer(images)
    patches = functional.unfold(images, 3, stride=stride, padding=padding).transpose(1, 2).reshape(-1, 18)
    expected = layer.to_quadratic_form().predict(patches.numpy())
    found = outputs.permute(0, 2, 3, 1).reshape(-1, 3).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)
    assert layer.n_inputs == 18


def test_b17_fan_convolution_is_three_convolutions() -> None:
    layer = FanConv2d(2, 4, 3, padding=1, dtype=torch.float64)
    layer.start_random(0.5, torch.Generator().manual_seed(0))
    images = torch.randn(2, 2, 5, 5, dtype=torch.float64)
    first, second = (
        functional.conv2d(images, w, b, padding=1) for w, b in ((layer.wr, layer.br), (layer.wg, layer.bg))
    )
    expected = first * second + functional.conv2d(images**2, layer.wb, layer.c, padding=1)
    assert torch.allclose(layer(images), expected, rtol=1e-12)


@pytest.mark.parametrize("family", sorted(CONVOLUTIONS))
def test_b17_a_new_convolution_is_exactly_a_conventional_one(family: str) -> None:
    conventional = nn.Conv2d(2, 4, 3, padding=1, bias=False, dtype=torch.float64)
    layer = CONVOLUTIONS[family](2, 4, 3, padding=1, dtype=torch.float64)
    layer.start_conventional(conventional.weight)
    images = torch.randn(2, 2, 5, 5, dtype=torch.float64)
    assert torch.equal(layer(images), conventional(images))
