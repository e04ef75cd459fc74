"""Activations: names and coefficients taken strictly, fits against least squares on a dense grid."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qsdp
from qsdp import PolynomialActivation
from qsdp.exceptions import InvalidInputError

FUZZ = settings(max_examples=60, deadline=None, derandomize=True)
coefficients = st.floats(-100, 100).filter(lambda value: value == 0 or abs(value) > 1e-3)


# -- coefficients and names --------------------------------------------------------------------------


def activation_of(values: Any) -> PolynomialActivation | None:
    return qsdp.TrainingProblem([[1.0], [2.0]], [1.0, -1.0], beta=1.0, activation=values).activation


def relu_like() -> PolynomialActivation:
    activation = activation_of("relu_like")
    assert activation is not None
    return activation


@pytest.mark.parametrize(
    ("name", "coefficients", "lifted"),
    [
        ("quadratic", (1.0, 0.0, 0.0), False),
        ("relu_like", (0.0937, 0.5, 0.4688), True),
        ("linear_quadratic", (0.1, 1.0, 0.0), True),
    ],
)
def test_presets(name: str, coefficients: tuple[float, ...], lifted: bool) -> None:
    activation = activation_of(name)
    assert activation is not None
    assert tuple(activation) == activation.coefficients == coefficients
    assert activation.lifted is lifted


def test_none_and_activations_pass() -> None:
    assert activation_of(None) is activation_of("bilinear") is None
    activation = PolynomialActivation(1, 2, 3)
    assert activation_of(activation) == activation


@pytest.mark.parametrize(
    "values",
    [
        (1, 2, 3),
        [1.0, 2.0, 3.0],
        np.array([1, 2, 3]),
        np.array([1, 2, 3], dtype=np.float32),
        range(1, 4),
        (Fraction(1), 2, 3),
        (np.int8(1), np.float16(2), 3),
    ],
    ids=repr,
)
def test_three_numbers(values: Any) -> None:
    activation = activation_of(values)
    assert activation == PolynomialActivation(1.0, 2.0, 3.0)
    assert activation is not None
    assert all(type(value) is float for value in activation.coefficients)


@pytest.mark.parametrize("name", ["sigmoid", "softmax", "relu", "leaky_relu"])
def test_activations_of_other_networks_are_refused_with_the_reason(name: str) -> None:
    listing = "'bilinear', 'quadratic', 'relu_like', 'linear_quadratic'"
    message = rf"activation must be one of {listing}; '{name}' is excluded: .*degree two: PolynomialActivation.fit_to"
    with pytest.raises(InvalidInputError, match=message):
        activation_of(name)
    with pytest.raises(InvalidInputError, match="ReLUNetworkClassifier" if name.endswith("lu") else name):
        activation_of(name)


@pytest.mark.parametrize("wrong", [np.nan, -np.inf, 10**400], ids=lambda v: f"{v!r:.10}")
@pytest.mark.parametrize("position", [0, 1, 2])
def test_numbers_that_are_not_finite(wrong: Any, position: int) -> None:
    values: list[Any] = [1.0, 1.0, 1.0]
    values[position] = wrong
    with pytest.raises(InvalidInputError, match=f"activation coefficient {'abc'[position]} must be a finite number"):
        activation_of(values)
    with pytest.raises(InvalidInputError, match=f"activation coefficient {'abc'[position]}"):
        PolynomialActivation(*values)


@pytest.mark.parametrize(
    ("name", "closest"),
    [
        ("Relu_like", "relu_like"),
        ("relu-like", "relu_like"),
        ("relulike", "relu_like"),
        ("quadratc", "quadratic"),
        ("linear-quadratic", "linear_quadratic"),
    ],
)
def test_unknown_names_get_the_closest(name: str, closest: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"activation must be one of .*; did you mean '{closest}'\?$"):
        activation_of(name)


@FUZZ
@given(a=coefficients, b=coefficients, c=coefficients, t=st.lists(st.floats(-1e3, 1e3), max_size=5))
def test_values(a: float, b: float, c: float, t: list[float]) -> None:
    if a == b == c == 0:
        return
    activation = PolynomialActivation(a, b, c)
    assert activation.lifted == (b != 0 or c != 0)
    values = activation(t)
    assert values.shape == (len(t),)
    for value, point in zip(values, t, strict=True):
        size = abs(a) * point**2 + abs(b * point) + abs(c)
        assert abs(value - (a * point * point + b * point + c)) <= 1e-14 * size
    assert activation(np.ones((2, 3))).shape == (2, 3)


# -- fits --------------------------------------------------------------------------------------------


def on_a_grid(function: Callable[[Any], Any], low: float, high: float) -> np.ndarray:
    """Coefficients of (1, z, z^2), z from -1 to 1, of the least-squares fit on midpoints of 20000 cells."""
    z = (np.arange(20000) + 0.5) / 10000 - 1
    values = function(0.5 * (low + high) + 0.5 * (high - low) * z)
    return np.linalg.lstsq(np.vander(z, 3, increasing=True), values, rcond=None)[0]


SMOOTH: dict[str, Callable[[Any], Any]] = {
    "tanh": np.tanh,
    "exp": np.exp,
    "sin": np.sin,
    "cubic": lambda t: t**3 - 2 * t + 1,
    "swish": lambda t: t / (1 + np.exp(-t)),
    "constant and cosine": lambda t: 3 + np.cos(3 * t),
}


@pytest.mark.parametrize("interval", [(-1.0, 1.0), (-5.0, 5.0), (0.0, 1.0), (2.0, 2.5), (-4, -1)], ids=str)
@pytest.mark.parametrize("name", SMOOTH)
def test_fits_against_least_squares_on_a_dense_grid(name: str, interval: tuple[float, float]) -> None:
    low, high = interval
    activation = PolynomialActivation.fit_to(SMOOTH[name], interval)
    z = np.linspace(-1, 1, 101)
    points = 0.5 * (low + high) + 0.5 * (high - low) * z
    expected = np.vander(z, 3, increasing=True) @ on_a_grid(SMOOTH[name], low, high)
    np.testing.assert_allclose(activation(points), expected, rtol=0, atol=1e-6 * np.abs(SMOOTH[name](points)).max())


def relu(t: Any) -> Any:
    return np.maximum(t, 0.0)


KINKED: dict[str, Callable[[Any], Any]] = {"relu": relu, "abs": np.abs, "hard": lambda t: np.clip(t, -1, 1)}


@pytest.mark.parametrize("interval", [(-5.0, 5.0), (-1.0, 3.0), (-0.7, 0.3)], ids=str)
@pytest.mark.parametrize("name", KINKED)
def test_fits_of_functions_with_kinks(name: str, interval: tuple[float, float]) -> None:
    low, high = interval
    activation = PolynomialActivation.fit_to(KINKED[name], interval)
    z = np.linspace(-1, 1, 101)
    points = 0.5 * (low + high) + 0.5 * (high - low) * z
    expected = np.vander(z, 3, increasing=True) @ on_a_grid(KINKED[name], low, high)
    np.testing.assert_allclose(activation(points), expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize("half", [1.0, 5.0, 0.125, 3e4, 1e-4])
def test_relu_and_absolute_value_in_closed_form(half: float) -> None:
    # ReLU on [-h, h]: 15/32 t^2 / h + t / 2 + 3/32 h; |t| is twice that less t.
    activation = PolynomialActivation.fit_to(relu, (-half, half))
    np.testing.assert_allclose(activation.coefficients, (15 / 32 / half, 0.5, 3 / 32 * half), rtol=1e-12)
    absolute = PolynomialActivation.fit_to(np.abs, (-half, half))
    np.testing.assert_allclose(absolute.coefficients, (15 / 16 / half, 0, 3 / 16 * half), rtol=1e-12)
    assert absolute.b == 0.0


def test_the_default_interval() -> None:
    assert PolynomialActivation.fit_to(np.exp) == PolynomialActivation.fit_to(np.exp, (-1, 1))
    assert PolynomialActivation.fit_to(np.exp) == PolynomialActivation.fit_to(np.exp, np.array([-1.0, 1.0]))  # type: ignore[arg-type]


def assert_reproduces(polynomial: tuple[float, float, float], interval: tuple[float, float]) -> None:
    a, b, c = polynomial

    def function(t: Any) -> Any:
        return a * t * t + b * t + c

    activation = PolynomialActivation.fit_to(function, interval)
    points = np.linspace(*interval, 51)
    size = max(abs(a) * max(abs(points)) ** 2, abs(b) * max(abs(points)), abs(c))
    # Beyond the range a fit is extrapolated, so this says something about the coefficients, too.
    np.testing.assert_allclose(activation(points), function(points), rtol=0, atol=2e-11 * size)


@pytest.mark.parametrize("interval", [(-1.0, 1.0), (100.0, 101.0), (-1e4, -9.9e3), (1e6, 1e6 + 1)], ids=str)
def test_polynomials_are_reproduced_far_from_zero(interval: tuple[float, float]) -> None:
    assert_reproduces((0.3, -1.7, 2.9), interval)


@FUZZ
@given(a=coefficients, b=coefficients, c=coefficients, low=st.floats(-100, 100), width=st.floats(0.01, 100).map(float))
def test_random_polynomials_are_reproduced(a: float, b: float, c: float, low: float, width: float) -> None:
    if (a, b, c) != (0, 0, 0):
        assert_reproduces((a, b, c), (low, low + width))


@pytest.mark.parametrize("interval", [(-1.0, 1.0), (-3e5, 3e5), (-1e-5, 1e-5)], ids=str)
@pytest.mark.parametrize("polynomial", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (2, 0, 3), (0, 2, 3)], ids=str)
def test_zeros_are_exact_on_symmetric_intervals(
    polynomial: tuple[float, float, float], interval: tuple[float, float]
) -> None:
    # One of 1e-17 would add a coordinate to every neuron. (A constant would drown where the rest is large.)
    scale = interval[1]
    a, b, c = polynomial
    activation = PolynomialActivation.fit_to(lambda t: a * (t / scale) ** 2 + b * (t / scale) + c, interval)
    np.testing.assert_allclose(activation.coefficients, (a / scale**2, b / scale, c), rtol=1e-12, atol=0)


@pytest.mark.parametrize("interval", [(0.0, 1.0), (-1.0, 3.0), (0.1, 0.7), (-2.0, 5.0)], ids=str)
def test_a_multiple_of_the_square_is_not_lifted_on_any_interval(interval: tuple[float, float]) -> None:
    activation = PolynomialActivation.fit_to(lambda t: 3 * t**2, interval)
    np.testing.assert_allclose(activation.a, 3, rtol=1e-12)
    assert not activation.lifted, activation


@pytest.mark.parametrize(
    "interval",
    [
        (1, 2, 3),
        (2, 1),
        (1, 1),
        None,
        (0, np.inf),
        (np.nan, 1),
        ("0", "1"),
        (False, True),
        ([0], 1),
    ],
    ids=lambda interval: f"{interval!r:.20}",
)
def test_bad_intervals(interval: Any) -> None:
    with pytest.raises(InvalidInputError, match="interval"):
        PolynomialActivation.fit_to(np.exp, interval)
