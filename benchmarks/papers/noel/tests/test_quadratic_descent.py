"""Steps of descent against autograd and against loops; counts: rows A-4, A-6, A-7, A-10, A-17."""

from __future__ import annotations

import numpy as np
import pytest
from quadratic_reference import Counted, LoopLayer, TorchNetwork, counted, plain, random_layer, random_network, since

from benchmarks.papers.noel import FAMILIES, LOSSES, Descent, QuadraticNetwork, get_family, starting_parameters
from benchmarks.papers.noel.counts import (
    count_operations,
    count_parameters,
    printed_extra_operations,
    printed_total_operations,
)
from benchmarks.papers.noel.maps import COUPLINGS
from qsdp.exceptions import InvalidInputError

BCE = LOSSES["binary_cross_entropy"]


def data(n: int, d: int, C: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), np.eye(C)[rng.integers(0, C, n)]


def assert_same(network: QuadraticNetwork, number: int, reference: TorchNetwork) -> None:
    for layer, expected in zip(network.layers, reference.parameters(), strict=True):
        for name, value in layer.parameters.items():
            np.testing.assert_allclose(value[number], expected[name].detach().numpy(), 1e-10, 1e-12, err_msg=name)


# -- updates against autograd --------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("loss", LOSSES)
def test_a6_a7_updates_match_autograd(batch_size: int, coupling: str, loss: str) -> None:
    """70 samples, over a block and batches that do not fill it, once more where steps are few; two starts at a time."""
    rng = np.random.default_rng(0)
    specs = [("qnn", 4, "tanh"), ("rpqnn", 3, "sigmoid"), ("qnn", 3, "identity")]
    networks = [random_network(specs, 5, rng, coupling) for _ in range(2)]
    X, Y = data(70, 5, 3, 1)
    stacked = QuadraticNetwork.stack(networks)
    descent = Descent(stacked, X, Y, LOSSES[loss], 0.05, batch_size)
    references = [TorchNetwork(network, coupling) for network in networks]
    for _ in range(1 if batch_size == 1 else 2):
        order = rng.permutation(70)
        descent.epoch(order)
        for start in range(0, 70, batch_size):
            rows = order[start : start + batch_size]
            for reference in references:
                reference.step(X[rows], Y[rows], loss, 0.05)
    for number, reference in enumerate(references):
        assert_same(stacked, number, reference)


@pytest.mark.parametrize("name", FAMILIES)
def test_a4_every_family_trains_as_input_layer_and_as_head(name: str) -> None:
    rng = np.random.default_rng(2)
    network = random_network([(name, 4, "sigmoid"), (name, 3, "identity")], 5, rng)
    X, Y = data(40, 5, 3, 3)
    reference = TorchNetwork(network)
    stacked = QuadraticNetwork.stack([network])
    Descent(stacked, X, Y, BCE, 0.03).epoch(np.arange(40))
    for x, y in zip(X, Y, strict=True):
        reference.step(x[None], y[None], "binary_cross_entropy", 0.03)
    assert_same(stacked, 0, reference)


def test_a0_quadratic_logistic_regression_takes_the_papers_steps() -> None:
    """A(8), A(11) with the sign of E1, and A(21)."""
    rng = np.random.default_rng(4)
    network = random_network([("qnn", 1, "identity")], 4, rng)
    X = rng.standard_normal((30, 4))
    y = (X[:, 0] > 0).astype(float)
    P = network.layers[0].parameters
    Q, w, b = P["Q"][0].copy(), P["W"][0].copy(), P["b"][0]
    stacked = QuadraticNetwork.stack([network])
    Descent(stacked, X, y[:, None], BCE, 0.1).epoch(np.arange(30))
    for x, target in zip(X, y, strict=True):
        e = target - 1.0 / (1.0 + np.exp(-(x @ Q @ x + w @ x + b)))
        b, w, Q = b + 0.1 * e, w + 0.1 * e * x, Q + 0.1 * e * (2.0 * np.outer(x, x) - np.diag(x * x))
    P = stacked.layers[0].parameters
    np.testing.assert_allclose(P["Q"][0, 0], Q, rtol=1e-11)
    np.testing.assert_allclose(P["W"][0, 0], w, rtol=1e-11)
    np.testing.assert_allclose(P["b"][0, 0], b, rtol=1e-11)
    np.testing.assert_array_equal(P["Q"], np.swapaxes(P["Q"], -1, -2))


def test_e1_the_printed_sign_learns_the_opposite() -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((200, 2))
    y = (X @ [1.0, 2.0] > 0).astype(float)
    accuracy = {}
    for sign in (1.0, -1.0):
        w, b = np.zeros(2), 0.0
        for _ in range(5):
            for x, target in zip(X, y, strict=True):
                e = target - 1.0 / (1.0 + np.exp(-(w @ x + b)))
                w, b = w + sign * 0.1 * e * x, b + 0.1 * e
        accuracy[sign] = np.mean((X @ w + b > 0) == (y == 1))
    network = QuadraticNetwork.stack([random_network([("linear", 1, "identity")], 2, rng)])
    for value in network.layers[0].parameters.values():
        value[...] = 0.0
    descent = Descent(network, X, y[:, None], BCE, 0.1)
    for _ in range(5):
        descent.epoch(np.arange(200))
    assert accuracy[-1.0] < 0.1 < 0.9 < accuracy[1.0]
    assert np.mean((network.decision(X)[0, :, 0] > 0) == (y == 1)) == accuracy[1.0]


# -- all starts together -------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [True, False], ids=["one order", "own orders"])
@pytest.mark.parametrize("batch_size", [1, 5, 200])
@pytest.mark.parametrize("head", ["linear", "qnn", "rpqnn", "fan"])
def test_a17_starts_trained_together_are_those_trained_alone(batch_size: int, head: str, shared: bool) -> None:
    rng = np.random.default_rng(6)
    networks = [random_network([("linear", 6, "sigmoid"), (head, 4, "identity")], 9, rng) for _ in range(5)]
    X, Y = data(150, 9, 4, 7)
    together = QuadraticNetwork.stack(networks)
    orders = [rng.permutation(150) for _ in range(3)]
    if not shared:
        orders = [rng.permuted(np.tile(order, (5, 1)), axis=1) for order in orders]
    descent = Descent(together, X, Y, BCE, 0.1, batch_size)
    losses = [descent.epoch(order)[0] for order in orders]
    for number, network in enumerate(networks):
        alone = QuadraticNetwork.stack([network])
        single = Descent(alone, X, Y, BCE, 0.1, batch_size)
        for order, loss in zip(orders, losses, strict=True):
            np.testing.assert_allclose(single.epoch(order if shared else order[number])[0][0], loss[number], 1e-11)
        for ours, theirs in zip(alone.layers, together.layers, strict=True):
            for name, value in ours.parameters.items():
                np.testing.assert_allclose(theirs.parameters[name][number], value[0], rtol=1e-10, atol=1e-13)


# -- counts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["linear", "qnn", "rpqnn", "fan"])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (4, 3), (5, 2)])
def test_a10_operations_are_those_that_a_loop_counts(name: str, n: int, m: int) -> None:
    """Algorithms A1 and A2, one number at a time; they take our steps, with as many products."""
    rng = np.random.default_rng(14)
    layer = random_layer(name, n, m, rng)
    loop, expected = LoopLayer(layer), count_operations(name, n, m)
    a, slope, d = rng.standard_normal(n), rng.standard_normal(n), rng.standard_normal(m)
    before = Counted.count
    Z = loop.forward(counted(a))
    assert since(before) == expected.forward
    before = Counted.count
    back = loop.delta(list(counted(d)), counted(slope))
    assert since(before) == expected.delta
    before = Counted.count
    loop.update(Counted(0.1))
    assert since(before) == expected.update

    ours, evaluated = layer.family.forward(a[None], layer.parameters)
    gradients, gA = layer.family.backward(d[None], a[None], layer.parameters, evaluated)
    np.testing.assert_allclose(plain(np.array(Z)), ours[0], rtol=1e-12)
    np.testing.assert_allclose(plain(np.array(back)), gA[0] * slope, rtol=1e-12)
    for key, value in layer.parameters.items():
        np.testing.assert_allclose(plain(loop.P[key]), value - 0.1 * gradients[key], rtol=1e-12, err_msg=key)


@pytest.mark.parametrize("name", FAMILIES)
def test_a10_parameters_are_the_numbers_that_can_vary(name: str) -> None:
    n, m = 6, 4
    P = starting_parameters(get_family(name), n, m, np.random.default_rng(0))
    distinct = sum(m * n * (n + 1) // 2 if value.ndim == 3 else value.size for value in P.values())
    per_neuron = {
        "linear": n + 1,
        "qnn": n * (n + 1) // 2 + n + 1,
        "rpqnn": 2 * n + 2,
        "fan": 3 * n + 3,
        "fan_compact": 2 * n + 1,
        "poly2": 2 * n + 2,
        "product_linear": 3 * n,
        "power_only": n + 1,
        "form_only": n * (n + 1) // 2,
        "square_act": n + 1,
    }
    assert count_parameters(name, n, m) == distinct == m * per_neuron[name]


def test_a10_printed_totals() -> None:
    """A(72) to A(75): E9, called extra but totals; E10, the update of the first layer is missing."""
    widths = (784, 30, 10)
    layers = [(784, 30), (30, 10)]
    forward, backward = printed_total_operations("linear", widths)
    assert (forward, backward) == (784 * 30 + 30 * 10, 2 * 30 * 10 + 10 + 2 * 30)
    counted = [count_operations("linear", n, m) for n, m in layers]
    assert forward == sum(count.forward for count in counted)
    assert printed_total_operations("linear", widths[:2])[1] == 0 < counted[0].update, "E10"
    assert backward - (counted[1].delta + counted[1].update) == 30, "one n a layer more than the algorithm takes"
    forward, backward = printed_total_operations("rpqnn", widths)
    assert (forward, backward) == (2 * 784 * 30 + 30 + 2 * 30 * 10 + 10, 4 * 30 * 10 + 6 * 10 + 30)
    assert printed_total_operations("parabolic", widths) == (forward, backward)
    assert forward == sum(count_operations("rpqnn", n, m).forward for n, m in layers)
    extra = [printed_extra_operations("rpqnn", n, m) for n, m in layers]
    assert forward - printed_total_operations("linear", widths)[0] == sum(part.forward for part in extra), "E9: a total"
    # The printed total, the printed extra over a linear layer, and a count of the algorithm are three numbers.
    linear = printed_total_operations("linear", widths)[1]
    direct = count_operations("rpqnn", 30, 10)
    assert len({backward, linear + extra[1].delta + extra[1].update, direct.delta + direct.update}) == 3
    assert backward - (direct.delta + direct.update) == 2 * 10
    for family, message in (("qnn", "'linear' or 'rpqnn'"), ("cubic", "family must be one of")):
        with pytest.raises(InvalidInputError, match=message):
            printed_total_operations(family, widths)
