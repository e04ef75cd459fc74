"""Rounding to levels against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from qsdp.baselines.backprop import round_to_levels
from qsdp.exceptions import InvalidInputError

RNG = np.random.default_rng(0)


def least_error(w: np.ndarray, M: int) -> float:
    """Least ||w - s q||^2 over all levels, each with its best scale."""
    best = float(w @ w)
    for levels in itertools.product(range(-M, M + 1, 2), repeat=len(w)):
        q = np.array(levels, dtype=float)
        if q @ q > 0 and w @ q > 0:
            s = (w @ q) / (q @ q)
            best = min(best, float(np.sum((w - s * q) ** 2)))
    return best


@pytest.mark.parametrize("M", [1, 2, 3, 4, 5, 6, 7])
@settings(max_examples=25, deadline=None)
@given(w=arrays(np.float64, 3, elements=st.floats(-8, 8).map(lambda value: round(value, 2))))
def test_no_levels_and_scale_are_nearer(M: int, w: np.ndarray) -> None:
    rounding = round_to_levels(w[None], M + 1)
    q, s = rounding.weights[0], rounding.scales[0]
    assert q.dtype == np.int8
    assert set(q.tolist()) <= set(range(-M, M + 1, 2))
    error = float(np.sum((w - s * q) ** 2))
    assert error <= least_error(w, M) + 1e-12 * (1 + w @ w)
    assert rounding.relative_error == pytest.approx(np.sqrt(error / (w @ w)) if w.any() else 0.0, abs=1e-7)


def test_binary_weights_are_signs_with_the_mean_magnitude() -> None:
    W = RNG.standard_normal((5, 7))
    W[0, 0] = 0.0
    rounding = round_to_levels(W)
    np.testing.assert_array_equal(rounding.weights, np.where(W < 0, -1, 1))
    np.testing.assert_allclose(rounding.scales, np.abs(W).mean(axis=1), rtol=1e-15)


@pytest.mark.parametrize("M", [1, 2, 3])
def test_one_scale_for_a_layer_is_the_best_one(M: int) -> None:
    W = RNG.standard_normal((2, 2))
    rounding = round_to_levels(W, M + 1, scale="layer")
    assert rounding.scales[0] == rounding.scales[1]
    error = np.sum((W - rounding.scales[:, None] * rounding.weights) ** 2)
    assert error == pytest.approx(least_error(W.ravel(), M), rel=1e-12)
    apart = round_to_levels(W, M + 1)
    assert apart.relative_error <= rounding.relative_error + 1e-15


@pytest.mark.parametrize("scale", ["neuron", "layer"])
@pytest.mark.parametrize("levels", [2, 3, 16, 128])
def test_weights_on_levels_are_kept(scale: str, levels: int) -> None:
    M = levels - 1
    q = (2 * RNG.integers(0, levels, (6, 9)) - M).astype(np.int8)
    q[:, 0] = M
    rounding = round_to_levels(0.25 * q, levels, scale=scale)
    np.testing.assert_array_equal(rounding.weights, q)
    np.testing.assert_allclose(rounding.scales, 0.25, rtol=1e-13)
    assert rounding.relative_error < 1e-13


@pytest.mark.parametrize(
    ("W", "options", "message"),
    [
        ([[1.0, np.nan]], {}, "W must be"),
        ([1.0], {}, "W must have shape"),
        ([[1.0]], {"levels": 1}, "levels must be an integer from 2 to 128"),
        ([[1.0]], {"levels": 2.5}, "levels must be"),
        ([[1.0]], {"scale": "neurons"}, "did you mean 'neuron'"),
    ],
)
def test_bad_input(W: object, options: dict, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        round_to_levels(W, **options)
