"""A.4: activations, their inverses, and those that have none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from benchmarks.papers.tomic import (
    ELU,
    Identity,
    InvertibleActivation,
    LeakyReLU,
    Sigmoid,
    Softmax,
    Softplus,
    Tanh,
)

ELEMENTWISE = [Identity(), Sigmoid(), Tanh(), Softplus(), ELU(), ELU(0.3), LeakyReLU(), LeakyReLU(2.5)]
EVERY = [*ELEMENTWISE, Softmax()]
every = pytest.mark.parametrize("activation", EVERY, ids=repr)


@pytest.mark.parametrize(
    ("activation", "formula"),
    [
        (Identity(), lambda z: z),
        (Sigmoid(), lambda z: 1 / (1 + math.exp(-z))),
        (Tanh(), math.tanh),
        (Softplus(), lambda z: math.log(1 + math.exp(z))),
        (ELU(0.3), lambda z: z if z > 0 else 0.3 * (math.exp(z) - 1)),
        (LeakyReLU(0.2), lambda z: z if z > 0 else 0.2 * z),
    ],
    ids=lambda value: repr(value) if isinstance(value, InvertibleActivation) else "",
)
def test_a4_values_are_those_of_the_formula(activation: InvertibleActivation, formula: object) -> None:
    Z = np.linspace(-5, 5, 41)[:, None]
    expected = [[formula(float(z))] for z in Z[:, 0]]  # type: ignore[operator]
    np.testing.assert_allclose(activation(Z), expected, rtol=1e-14, atol=1e-15)


@every
@settings(max_examples=25, deadline=None)
@given(Z=arrays(np.float64, (3, 4), elements=st.floats(-4, 4)))
def test_a14_5_round_trip(activation: InvertibleActivation, Z: np.ndarray) -> None:
    values = activation(Z)
    assert activation.outside(values, 1e-9) == 0.0
    back = activation.inverse(values, 1e-9)
    centred = Z - Z.mean(axis=1, keepdims=True) if isinstance(activation, Softmax) else Z
    np.testing.assert_allclose(back, centred, atol=1e-11)
    np.testing.assert_allclose(activation(back), values, rtol=1e-11, atol=1e-15)


@every
@settings(max_examples=25, deadline=None)
@given(
    P=arrays(np.float64, (3, 2), elements=st.one_of(st.floats(-1e6, 1e6), st.just(math.inf), st.just(-math.inf))),
    eps=st.floats(1e-9, 0.2),
)
def test_a14_5_out_of_domain_inputs_stay_finite(activation: InvertibleActivation, P: np.ndarray, eps: float) -> None:
    # An unbounded range has unbounded values; infinite ones occur only where a solve failed.
    if activation.domain[1] == math.inf or isinstance(activation, Softmax):
        P = np.minimum(P, 1e6)
    if activation.domain[0] == -math.inf:
        P = np.maximum(P, -1e6)
    Z = activation.inverse(P, eps)
    assert np.isfinite(Z).all()
    low, high = activation.domain
    values = activation(Z)
    assert np.all((values >= low) & (values <= high))
    inside = (low + eps <= P) & (high - eps >= P)
    if not isinstance(activation, Softmax):
        np.testing.assert_allclose(values[inside], P[inside], rtol=1e-9, atol=1e-12)
        assert activation.outside(P, eps) == pytest.approx(1.0 - inside.mean())


@pytest.mark.parametrize(
    ("activation", "eps", "low", "high"),
    [
        (Sigmoid(), 0.1, 0.1, 0.9),
        (Tanh(), 0.1, -0.9, 0.9),
        (Softplus(), 0.1, 0.1, math.inf),
        (ELU(0.5), 0.1, -0.4, math.inf),
        (Softmax(), 0.1, 0.1, math.inf),
        (LeakyReLU(), 0.1, -math.inf, math.inf),
        (Identity(), 0.1, -math.inf, math.inf),
    ],
    ids=repr,
)
def test_a4_desired_values_are_cut_to_the_range(
    activation: InvertibleActivation, eps: float, low: float, high: float
) -> None:
    P = np.array([[-3.0, -0.45, 0.05, 0.5, 0.95, 3.0]])
    expected = activation.inverse(np.clip(P, low, high), 1e-12)
    np.testing.assert_array_equal(activation.inverse(P, eps), expected)
    assert activation.outside(P, eps) == np.mean((low > P) | (high < P))
