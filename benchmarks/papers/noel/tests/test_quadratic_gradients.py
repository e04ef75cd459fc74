"""Forward passes, gradients and conversions of every family: rows A-2, A-3, A-5, A-7, A-15, A-16; section 7.9."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from quadratic_reference import ACTIVATIONS, FORMULAS, TorchNetwork, random_layer, random_network

from benchmarks.papers.noel import FAMILIES, LOSSES, Layer, QuadraticNetwork, get_family
from benchmarks.papers.noel.maps import COUPLINGS, step_weights
from qsdp.baselines import AffineForm
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.networks import QuadraticForm

EXACT = {"rtol": 1e-10, "atol": 1e-12}
every_family = pytest.mark.parametrize("name", FAMILIES)


def tensors(layer: Layer) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(value) for name, value in layer.parameters.items()}


# -- forward -------------------------------------------------------------------------------------------


@every_family
@pytest.mark.parametrize("B", [1, 7])
def test_forward_is_the_formula(name: str, B: int) -> None:
    rng = np.random.default_rng(1)
    layer = random_layer(name, 5, 3, rng)
    A = rng.standard_normal((B, 5))
    Z, _ = layer.family.forward(A, layer.parameters)
    np.testing.assert_allclose(Z, FORMULAS[name](torch.tensor(A), tensors(layer)).numpy(), rtol=1e-12, atol=1e-13)


def test_a2_products_are_cached_and_are_those_of_the_block_form() -> None:
    rng = np.random.default_rng(2)
    layer = random_layer("qnn", 4, 3, rng)
    P, a = layer.parameters, rng.standard_normal(4)
    Z, [(_, V)] = layer.family.forward(a[None, :], P)
    stack = P["Q"].reshape(12, 4)
    np.testing.assert_allclose(V[0], np.kron(np.eye(3), a) @ stack, rtol=0, atol=1e-15)
    np.testing.assert_allclose(Z[0], P["b"] + (P["W"] + V[0]) @ a, rtol=0, atol=1e-14)
    delta = rng.standard_normal(3)
    gradients, _ = layer.family.backward(delta[None, :], a[None, :], P, [(Z, V)])
    M = 2.0 * np.outer(a, a) - np.diag(a * a)
    np.testing.assert_allclose(gradients["Q"].reshape(12, 4), np.kron(delta[:, None], M), rtol=0, atol=1e-15)


def test_a2_quadratic_part_is_torchs_bilinear() -> None:
    rng = np.random.default_rng(3)
    layer = random_layer("form_only", 5, 4, rng)
    A = torch.tensor(rng.standard_normal((6, 5)))
    expected = torch.nn.functional.bilinear(A, A, torch.tensor(layer.parameters["Q"])).numpy()
    np.testing.assert_allclose(layer.family.forward(A.numpy(), layer.parameters)[0], expected, rtol=0, atol=1e-13)


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


def test_gradients_of_all_starts_are_those_of_each() -> None:
    rng = np.random.default_rng(7)
    specs = [("fan", 4, "relu"), ("qnn", 3, "identity")]
    networks = [random_network(specs, 5, rng) for _ in range(4)]
    X, Y = rng.standard_normal((6, 5)), np.eye(3)[rng.integers(0, 3, 6)]
    loss = LOSSES["cross_entropy"]
    values, gradients = QuadraticNetwork.stack(networks).gradients(X, Y, loss)
    for number, network in enumerate(networks):
        value, alone = network.gradients(X, Y, loss)
        np.testing.assert_allclose(values[number], value, rtol=1e-13)
        for together, single in zip(gradients, alone, strict=True):
            for name in single:
                np.testing.assert_allclose(together[name][number], single[name], rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("block", ["Wr", "br", "Wg", "bg", "Wb", "c"])
def test_fan_gradients_with_a_block_of_zeros(block: str) -> None:
    rng = np.random.default_rng(8)
    layer = random_layer("fan", 4, 3, rng)
    layer.parameters[block][...] = 0.0
    A, D = rng.standard_normal((5, 4)), rng.standard_normal((5, 3))
    gradients, _ = layer.family.backward(D, A, layer.parameters, layer.family.forward(A, layer.parameters)[1])
    free = {key: value.requires_grad_() for key, value in tensors(layer).items()}
    found = torch.autograd.grad((torch.tensor(D) * FORMULAS["fan"](torch.tensor(A), free)).sum(), list(free.values()))
    for key, expected in zip(free, found, strict=True):
        np.testing.assert_allclose(gradients[key], expected.numpy(), err_msg=key, **EXACT)


@given(st.integers(1, 4), st.integers(1, 4), st.sampled_from(sorted(FAMILIES)), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_directional_derivative_by_complex_step(n: int, m: int, name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    layer = random_layer(name, n, m, rng, coupling="full")
    A, D = rng.standard_normal((3, n)), rng.standard_normal((3, m))
    P = layer.parameters
    gradients, gA = layer.family.backward(D, A, P, layer.family.forward(A, P)[1])
    directions = {key: rng.standard_normal(value.shape) for key, value in P.items()}
    if "Q" in directions:
        directions["Q"] += np.swapaxes(directions["Q"], 1, 2)
    along = rng.standard_normal(A.shape)
    moved = {key: value + 1e-30j * directions[key] for key, value in P.items()}
    Z, _ = layer.family.forward(A + 1e-30j * along, moved)
    expected = (gA * along).sum() + sum((gradients[key] * directions[key]).sum() for key in P)
    np.testing.assert_allclose((D * Z).sum().imag / 1e-30, expected, rtol=1e-11, atol=1e-12)


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


def test_e3_tied_gradient_is_not_that_of_a_single_entry() -> None:
    rng = np.random.default_rng(10)
    a, delta = rng.standard_normal((1, 4)), np.array([[0.7]])
    tied = get_family("form_only").gradients([delta], a)["Q"][0]
    free = get_family("form_only", "full").gradients([delta], a)["Q"][0]
    np.testing.assert_allclose(free, 0.7 * a.T @ a, rtol=1e-15)
    np.testing.assert_allclose(tied, 0.7 * (2.0 * a.T @ a - np.diag(a[0] ** 2)), rtol=1e-14)


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


# -- couplings -----------------------------------------------------------------------------------------


def test_a7_step_weights() -> None:
    for coupling, factor in (("tied", 2.0), ("full", 1.0), ("packed", 0.5)):
        weights = step_weights(coupling, 3)
        np.testing.assert_array_equal(np.diag(weights), 1.0)
        np.testing.assert_array_equal(weights[~np.eye(3, dtype=bool)], factor)
    with pytest.raises(InvalidInputError, match="coupling must be one of 'full', 'packed', 'tied'; got 'tide'"):
        get_family("qnn", "tide")


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


def test_a16_closed_forms_of_the_specification() -> None:
    rng = np.random.default_rng(14)
    P = random_layer("rpqnn", 4, 1, rng).parameters
    w, b, u, c = P["W"][0], P["b"][0], P["U"][0], P["c"][0]
    Q, linear, constant = get_family("rpqnn").triple(P)
    np.testing.assert_allclose(Q[0], 0.5 * (np.outer(w, u) + np.outer(u, w)), rtol=1e-14)
    np.testing.assert_allclose(linear[0], c * w + b * u, rtol=1e-14)
    np.testing.assert_allclose(constant[0], b * c, rtol=1e-14)
    # The eigenvalues of the quadratic part: never definite.
    eigenvalues = np.linalg.eigvalsh(Q[0])
    sizes = np.linalg.norm(w) * np.linalg.norm(u)
    np.testing.assert_allclose(eigenvalues[[0, -1]], [(w @ u - sizes) / 2, (w @ u + sizes) / 2], rtol=1e-10)
    np.testing.assert_allclose(eigenvalues[1:-1], 0.0, atol=1e-13)


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


# -- bad input -----------------------------------------------------------------------------------------

GOOD = {"W": np.zeros((2, 3)), "b": np.zeros(2)}


@pytest.mark.parametrize(
    ("family", "parameters", "message"),
    [
        ("lineal", GOOD, "family must be one of .*got 'lineal'; did you mean 'linear'"),
        ("linear", {"W": np.zeros((2, 3))}, "parameters of 'linear' must be W, b; got W"),
        ("linear", GOOD | {"U": np.zeros(2)}, "parameters of 'linear' must be W, b; got W, b, U"),
        ("linear", {"W": np.zeros((2, 3)), "b": np.zeros(3)}, r"b must have shape \(2,\); got \(3,\)"),
        ("linear", {"W": np.zeros(3), "b": np.zeros(1)}, "W must have 2 axes, or 3 with that of starts; got shape"),
        ("linear", {"W": [["a"]], "b": np.zeros(1)}, "W must be a numeric array"),
        ("linear", {"W": [[np.nan]], "b": np.zeros(1)}, "W must be a numeric array"),
        ("form_only", {"Q": np.zeros((1, 2, 3))}, r"Q must have shape \(1, 3, 3\)"),
    ],
)
def test_bad_layers(family: str, parameters: dict, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Layer(family, parameters)


def test_rpqnn_by_the_name_of_the_other_paper() -> None:
    assert get_family("parabolic") == get_family("rpqnn")
    assert Layer("parabolic", random_layer("rpqnn", 3, 2, np.random.default_rng(0)).parameters).family.name == "rpqnn"


def test_bad_networks() -> None:
    rng = np.random.default_rng(16)
    with pytest.raises(InvalidInputError, match="layers must fit together: 3 neurons"):
        QuadraticNetwork([random_layer("linear", 4, 3, rng), random_layer("qnn", 4, 2, rng)])
    with pytest.raises(InvalidInputError, match="at least one layer"):
        QuadraticNetwork([])
    network = QuadraticNetwork([random_layer("linear", 4, 3, rng)])
    with pytest.raises(InvalidInputError, match="no axis of starts"):
        network.start(0)
    with pytest.raises(InvalidInputError, match="X must have 4 columns"):
        network.decision(np.zeros((2, 3)))
    with pytest.raises(InvalidInputError, match="holds 1 starts"):
        QuadraticNetwork.stack([network]).to_layers()
    with pytest.raises(InvalidTypeError, match="family must be one of"):
        get_family(3)  # type: ignore[arg-type]


def test_parameters_are_copies() -> None:
    W = np.zeros((2, 3))
    layer = Layer("linear", {"W": W, "b": np.zeros(2)})
    layer.parameters["W"] += 1.0
    assert not W.any()
