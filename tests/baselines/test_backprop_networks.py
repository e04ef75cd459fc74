"""Networks with real weights: their values and forms, and what rounding makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import qsdp
from qsdp import BilinearNetwork, PolynomialNetwork
from qsdp.baselines.backprop import FloatNetwork, round_to_levels
from qsdp.exceptions import InvalidInputError

RNG = np.random.default_rng(0)
D, M, C = 4, 6, 3
X = RNG.standard_normal((30, D)) + 0.3
LIFTED = (0.3, -0.7, 0.4)


def network_of(activation: Any = None, outputs: int = 1, fixed: bool = False) -> FloatNetwork:
    rng = np.random.default_rng(3)
    factors = rng.standard_normal((2 if activation is None else 1, M, D))
    alpha = rng.standard_normal((M, outputs))
    if fixed:
        alpha = np.zeros((M, outputs))
        alpha[np.arange(M), np.arange(M) * outputs // M] = 1.0 / M
    return FloatNetwork(factors, alpha[:, 0] if outputs == 1 else alpha, activation)


every = pytest.mark.parametrize("outputs", [1, C])
kinds = pytest.mark.parametrize("activation", [None, "quadratic", LIFTED], ids=["bilinear", "quadratic", "lifted"])


def values_of(network: FloatNetwork, x: np.ndarray) -> Any:
    total: Any = 0.0
    for j in range(M):
        t = [factor[j] @ x for factor in network.factors]
        total = total + network.alpha[j] * (t[0] * t[1] if network.activation is None else network.activation(t[0]))
    return total


@every
@kinds
def test_values_and_quadratic_form(activation: Any, outputs: int) -> None:
    network = network_of(activation, outputs)
    expected = np.array([values_of(network, x) for x in X])
    assert network.predict(X).shape == expected.shape
    np.testing.assert_allclose(network.predict(X), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(network.to_quadratic_form().predict(X), expected, rtol=1e-12, atol=1e-12)
    assert network.n_parameters == M * D * (2 if activation is None else 1) + M * outputs


@every
def test_scales_of_neurons_go_into_alpha(outputs: int) -> None:
    network = network_of(None, outputs)
    rounded = network.quantized(4, corrected=False)
    U, V = network.roundings(4)
    assert isinstance(rounded, BilinearNetwork)
    assert rounded.levels == 4
    assert rounded.U.dtype == rounded.V.dtype == np.int8
    np.testing.assert_array_equal(rounded.U, U.weights)
    np.testing.assert_array_equal(rounded.V, V.weights)
    np.testing.assert_array_equal(U.weights, round_to_levels(network.factors[0], 4).weights)
    product = (U.scales[:, None] * U.weights, V.scales[:, None] * V.weights)
    real = FloatNetwork(product, network.alpha)
    np.testing.assert_allclose(rounded.predict(X), real.predict(X), rtol=1e-12, atol=1e-12)


@every
def test_scales_of_quadratic_neurons_are_squared(outputs: int) -> None:
    network = network_of("quadratic", outputs)
    rounded = network.quantized(3, corrected=False)
    assert isinstance(rounded, PolynomialNetwork)
    (found,) = network.roundings(3)
    real = FloatNetwork((found.scales[:, None] * found.weights,), network.alpha, "quadratic")
    np.testing.assert_allclose(rounded.predict(X), real.predict(X), rtol=1e-12, atol=1e-12)
    assert set(np.unique(rounded.Q)) <= {-2, 0, 2}


@every
@pytest.mark.parametrize("levels", [2, 4, 5])
def test_scale_of_other_activations_goes_into_their_coefficients(outputs: int, levels: int) -> None:
    network = network_of(LIFTED, outputs)
    rounded = network.quantized(levels, corrected=False)
    (found,) = network.roundings(levels, scale="layer")
    s = found.scales[0]
    a, b, c = LIFTED
    assert isinstance(rounded, PolynomialNetwork)
    assert rounded.activation.coefficients == pytest.approx((a * s * s, b * s, c), rel=1e-14)
    real = FloatNetwork((s * found.weights,), network.alpha, LIFTED)
    np.testing.assert_allclose(rounded.predict(X), real.predict(X), rtol=1e-12, atol=1e-12)
    bilinear = qsdp.from_polynomial(rounded)
    np.testing.assert_allclose(bilinear.predict(X), real.predict(X), rtol=1e-11, atol=1e-11)


@every
@pytest.mark.parametrize("activation", [None, "quadratic"])
@pytest.mark.parametrize("levels", [2, 3])
def test_layer_scale(outputs: int, activation: Any, levels: int) -> None:
    network = network_of(activation, outputs)
    rounded = network.quantized(levels, scale="layer", corrected=False)
    found = network.roundings(levels, scale="layer")
    factors = tuple(one.scales[:, None] * one.weights for one in found)
    real = FloatNetwork(factors, network.alpha, activation)
    np.testing.assert_allclose(rounded.predict(X), real.predict(X), rtol=1e-12, atol=1e-12)


def matrices(network: Any, outputs: int) -> np.ndarray:
    factors = network.factors if isinstance(network, FloatNetwork) else (network.U, network.V)
    alpha = network.alpha.reshape(len(network.alpha), -1)
    left, right = factors[0].astype(float), factors[-1].astype(float)
    return np.stack([(left.T * alpha[:, k]) @ right for k in range(outputs)])


@every
@pytest.mark.parametrize("levels", [2, 3])
def test_shared_scale_is_the_least_squares_one(outputs: int, levels: int) -> None:
    network = network_of(None, outputs, fixed=True)
    rounded = network.quantized(levels, scale="shared")
    assert isinstance(rounded, BilinearNetwork)
    assert rounded.shared_alpha
    exact = matrices(network, outputs)
    exact = 0.5 * (exact + exact.transpose(0, 2, 1))
    columns = rounded.alpha.reshape(M, -1)
    for k in range(outputs):
        c = columns[:, k][columns[:, k] != 0.0]
        assert np.ptp(c) == 0.0
        ones = BilinearNetwork(rounded.U, rounded.V, np.sign(np.abs(columns[:, k])), levels=levels)
        Z = ones.quadratic_form
        best = minimize_scalar(lambda s, Z=Z, k=k: np.sum((s * Z - exact[k]) ** 2), tol=1e-12).x
        assert c[0] == pytest.approx(best, rel=1e-6)
        # The sum over samples would be another matter: this is the paper's criterion.
        assert c[0] == pytest.approx(np.sum(Z * exact[k]) / np.sum(Z * Z), rel=1e-12)


@every
@kinds
@pytest.mark.parametrize("scale", ["auto", "layer"])
def test_correction_is_the_factor_of_least_squares(activation: Any, outputs: int, scale: str) -> None:
    network = network_of(activation, outputs)
    plain, corrected = (network.quantized(3, scale=scale, corrected=flag) for flag in (False, True))
    ratios = corrected.alpha.reshape(M, -1) / plain.alpha.reshape(M, -1)

    def distance(k: int, factor: float) -> float:
        forms = [one.to_quadratic_form() for one in (network, plain)]
        S, s, s0 = ([np.reshape(getattr(form, part), (outputs, -1))[k] for form in forms] for part in ("S", "s", "s0"))
        # As matrices of (x, 1): the linear part stands there twice, halved.
        return float(sum(w * np.sum((a - factor * b) ** 2) for w, (a, b) in ((1.0, S), (0.5, s), (1.0, s0))))

    for k in range(outputs):
        assert np.ptp(ratios[:, k]) < 1e-12 * np.abs(ratios[:, k]).max()
        best = minimize_scalar(lambda factor, k=k: distance(k, factor), tol=1e-12).x
        assert ratios[0, k] == pytest.approx(best, rel=1e-6)
        assert distance(k, ratios[0, k]) <= distance(k, 1.0)


def test_signs_of_a_fixed_second_layer_are_kept() -> None:
    network = network_of("quadratic", fixed=True)
    signs = np.where(np.arange(M) % 2, -1.0, 1.0)
    network = FloatNetwork(network.factors, network.alpha * signs, "quadratic")
    rounded = network.quantized(scale="shared")
    c = rounded.alpha[0]
    np.testing.assert_array_equal(rounded.alpha, c * signs)
    Z = (rounded.Q.astype(float).T * signs) @ rounded.Q
    exact = (network.factors[0].T * network.alpha) @ network.factors[0]
    assert c == pytest.approx(np.sum(Z * exact) / np.sum(Z * Z), rel=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FloatNetwork((np.ones((2, 3)),), [1.0, 2.0]), r"factors must have shape \(2, m, D\)"),
        (lambda: FloatNetwork((np.ones((2, 3)), np.ones((2, 4))), [1.0, 2.0]), "factors must be a numeric array"),
        (lambda: FloatNetwork((np.ones((2, 3)),) * 2, [1.0, 2.0], "quadratic"), r"factors must have shape \(1, m, D\)"),
        (lambda: FloatNetwork((np.ones((2, 3)),) * 2, [1.0]), "alpha must have 2 entries"),
        (lambda: FloatNetwork((np.full((2, 3), np.inf),) * 2, [1.0, 2.0]), "factors must be"),
        (lambda: network_of().predict(X[:, :2]), "X must have 4 columns"),
        (lambda: network_of().quantized(1), "levels must be"),
        (lambda: network_of().quantized(scale="neurons"), "did you mean 'neuron'"),
        (lambda: network_of(LIFTED).quantized(scale="neuron"), "scaling its argument does not scale its value"),
        (lambda: network_of(LIFTED).quantized(scale="paper"), "scale must be 'layer'"),
        (lambda: network_of().quantized(scale="shared"), "second-layer weights of several magnitudes"),
        (lambda: network_of().objective(qsdp.TrainingProblem(X, np.ones((30, 2)), beta=1.0)), "targets of shape"),
    ],
)
def test_bad_input(make: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make()
