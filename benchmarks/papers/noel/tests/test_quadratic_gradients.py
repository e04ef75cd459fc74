"""Forward passes, gradients and conversions of every family: rows A-2, A-3, A-5, A-7, A-15, A-16; section 7.9."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from quadratic_reference import ACTIVATIONS, FORMULAS, TorchNetwork, random_layer, random_network

from benchmarks.papers.noel import FAMILIES, LOSSES, Layer, QuadraticNetwork
from benchmarks.papers.noel.maps import COUPLINGS
from qsdp.baselines import AffineForm
from qsdp.exceptions import InvalidInputError
from qsdp.networks import QuadraticForm

EXACT = {"rtol": 1e-10, "atol": 1e-12}
every_family = pytest.mark.parametrize("name", FAMILIES)


def tensors(layer: Layer) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(value) for name, value in layer.parameters.items()}


# -- gradients against autograd ------------------------------------------------------------------------


@every_family
@pytest.mark.parametrize("B", [1, 6])
def test_a2_a3_gradients_of_a_layer_match_autograd(name: str, B: int) -> None:
    """Full coupling: autograd takes every entry of Q as free."""
    rng = np.random.default_rng(4)
    layer = random_layer(name, 5, 3, rng, coupling="full")
    A, D = rng.standard_normal((B, 5)), rng.standard_normal((B, 3))
    _, evaluated = layer.family.forward(A, layer.parameters)
    gradients, gA = layer.family.backward(D, A, layer.parameters, evaluated)
    free = {key: value.requires_grad_() for key, value in tensors(layer).items()}
    inputs = torch.tensor(A, requires_grad=True)
    value = (torch.tensor(D) * FORMULAS[name](inputs, free)).sum()
    *expected, expected_input = torch.autograd.grad(value, [*free.values(), inputs])
    assert set(gradients) == set(free)
    for key, found in zip(free, expected, strict=True):
        np.testing.assert_allclose(gradients[key], found.numpy(), err_msg=key, **EXACT)
    np.testing.assert_allclose(gA, expected_input.numpy(), **EXACT)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a5_a7_a15_gradients_of_networks_match_autograd(loss: str, coupling: str, activation: str) -> None:
    """Through two quadratic layers; every step on Q is the one that its free variables take."""
    rng = np.random.default_rng(5)
    network = random_network([("qnn", 4, activation), ("fan", 3, "tanh"), ("qnn", 3, "identity")], 5, rng, coupling)
    X, Y = rng.standard_normal((7, 5)), np.eye(3)[rng.integers(0, 3, 7)]
    value, gradients = network.gradients(X, Y, LOSSES[loss])
    reference = TorchNetwork(network, coupling)
    expected = reference.loss(X, Y, loss)
    np.testing.assert_allclose(value, expected.item(), rtol=1e-12)
    before = [{name: matrix.detach().clone() for name, matrix in layer.items()} for layer in reference.parameters()]
    reference.step(X, Y, loss, 1.0)
    for found, old, new in zip(gradients, before, reference.parameters(), strict=True):
        for name in found:
            step = (old[name] - new[name]).detach().numpy()
            np.testing.assert_allclose(found[name], step, err_msg=name, **EXACT)


@every_family
def test_gradients_of_networks_with_a_head_of_every_family(name: str) -> None:
    rng = np.random.default_rng(6)
    network = random_network([("rpqnn", 4, "sigmoid"), (name, 3, "identity")], 5, rng)
    X, Y = rng.standard_normal((5, 5)), rng.integers(0, 2, (5, 3)).astype(float)
    _, gradients = network.gradients(X, Y, LOSSES["binary_cross_entropy"])
    reference = TorchNetwork(network)
    found = torch.autograd.grad(reference.loss(X, Y, "binary_cross_entropy"), reference.variables())
    rows, columns = np.triu_indices(4)
    ours = [layer[key] for layer, free in zip(gradients, reference.free, strict=True) for key in free]
    ours = [value[:, rows, columns] if value.ndim == 3 else value for value in ours]
    for mine, theirs in zip(ours, found, strict=True):
        np.testing.assert_allclose(mine, theirs.numpy(), **EXACT)


# -- errata --------------------------------------------------------------------------------------------


def test_e2_each_bias_of_a_product_goes_with_the_other_factor() -> None:
    rng = np.random.default_rng(9)
    layer = random_layer("rpqnn", 4, 3, rng)
    A, D = rng.standard_normal((5, 4)), rng.standard_normal((5, 3))
    _, evaluated = layer.family.forward(A, layer.parameters)
    (V1, _), (V2, _) = evaluated
    gradients, _ = layer.family.backward(D, A, layer.parameters, evaluated)
    np.testing.assert_allclose(gradients["b"], (D * V2).sum(axis=0), rtol=1e-13)
    np.testing.assert_allclose(gradients["c"], (D * V1).sum(axis=0), rtol=1e-13)
    assert np.abs(gradients["b"] - (D * V1).sum(axis=0)).max() > 0.1


@pytest.mark.parametrize("storage", ["asymmetric", "triangle"])
def test_e8_cached_products_need_a_symmetric_matrix(storage: str) -> None:
    """W + 2V is wrong for other matrices of the same function, W + a'(Q + Q') is right; such a Q is refused."""
    rng = np.random.default_rng(11)
    Q = rng.standard_normal((1, 4, 4))
    if storage == "triangle":
        Q = np.triu(Q)
    a = rng.standard_normal(4)
    x = torch.tensor(a, requires_grad=True)
    (slope,) = torch.autograd.grad(x @ torch.tensor(Q[0]) @ x, [x])
    assert np.abs(2.0 * a @ Q[0] - slope.numpy()).max() > 0.05
    np.testing.assert_allclose(a @ (Q[0] + Q[0].T), slope.numpy(), rtol=1e-12)
    with pytest.raises(InvalidInputError, match="Q must be symmetric"):
        Layer("qnn", {"Q": Q, "W": np.zeros((1, 4)), "b": np.zeros(1)})


def test_e5_delta_recursion_weighs_both_terms_with_the_deltas() -> None:
    rng = np.random.default_rng(12)
    layer = random_layer("qnn", 4, 3, rng)
    P, a, delta = layer.parameters, rng.standard_normal(4), rng.standard_normal(3)
    _, gA = layer.family.backward(delta[None], a[None], P, layer.family.forward(a[None], P)[1])
    first, second = delta @ P["W"], 2.0 * np.einsum("k,kpt,p->t", delta, P["Q"], a)
    np.testing.assert_allclose(gA[0], first + second, rtol=1e-12)
    assert np.abs(gA[0] - (first + 2.0 * np.einsum("kpt,p->t", P["Q"], a))).max() > 0.1


# -- losses --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_a5_losses_are_stable_and_their_deltas_exact(loss: str) -> None:
    Z = torch.tensor([[800.0, -800.0, 3.0], [-1000.0, 5.0, 0.0]], dtype=torch.float64, requires_grad=True)
    Y = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    T = torch.tensor(Y)
    if loss == "cross_entropy":
        expected = -(T * torch.log_softmax(Z, dim=1)).sum(dim=1)
    else:
        expected = torch.nn.functional.binary_cross_entropy_with_logits(Z, T, reduction="none").sum(dim=1)
    values = LOSSES[loss].values(Z.detach().numpy(), Y)
    assert np.isfinite(values).all()
    np.testing.assert_allclose(values, expected.detach().numpy(), rtol=1e-12)
    (slope,) = torch.autograd.grad(expected.sum(), [Z])
    np.testing.assert_allclose(LOSSES[loss].delta(Z.detach().numpy(), Y), slope.numpy(), rtol=1e-13, atol=1e-16)


# -- conversion ----------------------------------------------------------------------------------------


@every_family
def test_a16_conversion_to_quadratic_forms(name: str) -> None:
    rng = np.random.default_rng(13)
    layer = random_layer(name, 5, 3, rng, "sigmoid")
    X = rng.standard_normal((8, 5))
    Z, _ = layer.family.forward(X, layer.parameters)
    trained = layer.to_trained()
    np.testing.assert_allclose(trained.form.predict(X), Z, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(trained.predict(X), 1.0 / (1.0 + np.exp(-Z)), rtol=1e-12)
    assert isinstance(trained.form, AffineForm if name == "linear" else QuadraticForm)
    form = layer.to_quadratic_form()
    assert isinstance(form, QuadraticForm)
    np.testing.assert_allclose(form.predict(X), Z, rtol=1e-12, atol=1e-12)
    ones = np.hstack([X, np.ones((8, 1))])
    np.testing.assert_allclose(np.einsum("si,kij,sj->sk", ones, form.lifted(), ones), Z, rtol=1e-12, atol=1e-12)
    with pytest.raises(InvalidInputError, match="the layer holds 1 starts"):
        QuadraticNetwork.stack([QuadraticNetwork([layer])]).layers[0].to_quadratic_form()


def test_fan_contains_square_act() -> None:
    rng = np.random.default_rng(15)
    square = random_layer("square_act", 4, 3, rng)
    W, b = square.parameters["W"], square.parameters["b"]
    zeros = np.zeros_like(W)
    fan = Layer("fan", {"Wr": W, "br": b, "Wg": W, "bg": b, "Wb": zeros, "c": np.zeros(3)})
    X = rng.standard_normal((5, 4))
    np.testing.assert_allclose(
        fan.family.forward(X, fan.parameters)[0], square.family.forward(X, square.parameters)[0], rtol=1e-14
    )
