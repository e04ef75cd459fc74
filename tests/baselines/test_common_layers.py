"""Chains of trained layers, and their quantization layer by layer."""

from __future__ import annotations

import numpy as np
import pytest

from qsdp import QuadraticForm
from qsdp.baselines import AffineForm, QuantizedChain, TrainedLayer, quantize_layers
from qsdp.exceptions import InvalidInputError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 4))
WEIGHTS, BIAS = RNG.standard_normal((3, 4)) / 2, RNG.standard_normal(3) / 2
S = RNG.standard_normal((2, 3, 3))


@pytest.fixture
def affine() -> TrainedLayer:
    return TrainedLayer(AffineForm(WEIGHTS, BIAS), np.tanh)


@pytest.fixture
def quadratic() -> TrainedLayer:
    return TrainedLayer(QuadraticForm(S, [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [0.5, -0.5]))


def relative(approximate: np.ndarray, exact: np.ndarray) -> float:
    return float(np.linalg.norm(approximate - exact) / np.linalg.norm(exact))


# -- affine forms ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("s", "s0", "message"),
    [
        (1.0, 0.0, r"s must have shape \(d,\) or \(C, d\); got \(\)"),
        (np.ones((2, 2, 2)), 0.0, r"s must have shape \(d,\) or \(C, d\); got \(2, 2, 2\)"),
        (np.ones((0, 2)), 0.0, r"got \(0, 2\)"),
        (np.ones((2, 3)), [1.0, 2.0, 3.0], r"s0 must have shape \(2,\); got \(3,\)"),
        (np.ones(3), [1.0], r"s0 must have shape \(\); got \(1,\)"),
        ([[np.nan]], 0.0, "s must be a numeric array"),
        ([[1.0]], np.inf, "s0 must be a numeric array"),
    ],
)
def test_bad_affine_forms_are_refused(s: object, s0: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        AffineForm(s, s0)


# -- layers ------------------------------------------------------------------------------------------


def test_layer_is_activation_of_form(affine: TrainedLayer, quadratic: TrainedLayer) -> None:
    np.testing.assert_array_equal(affine.predict(X), np.tanh(affine.form.predict(X)))
    H = affine.predict(X)
    expected = np.einsum("ni,kij,nj->nk", H, 0.5 * (S + S.transpose(0, 2, 1)), H) + H[:, :2] + [0.5, -0.5]
    np.testing.assert_allclose(quadratic.predict(H), expected, atol=1e-12)


# -- quantization ------------------------------------------------------------------------------------


def test_one_layer_of_any_size(affine: TrainedLayer) -> None:
    errors, bits = [], []
    for size in (10, 300, 30_000):
        chain = quantize_layers([affine], X, size, random_state=0)
        assert isinstance(chain, QuantizedChain)
        assert len(chain.matches) == 1
        assert chain.predict(X).shape == (80, 3)
        errors.append(relative(chain.matches[0].predict(X), affine.form.predict(X)))
        bits.append(chain.n_bits)
    # Sampling noise falls as 1 / sqrt(m): a factor 55 from 10 to 30000; half of it is asked for.
    assert errors[2] < errors[1] < errors[0]
    assert errors[2] < 2 * errors[0] / 55
    assert bits == sorted(bits)


def test_two_layers_agree_with_the_network(affine: TrainedLayer, quadratic: TrainedLayer) -> None:
    exact = quadratic.predict(affine.predict(X))
    errors = []
    for size in (100, 10_000):
        chain = quantize_layers([affine, quadratic], X, size, random_state=0)
        errors.append(relative(chain.predict(X), exact))
    assert errors[1] < 0.35 * errors[0]
    assert errors[1] < 0.15


def test_later_layers_are_matched_on_what_the_quantized_ones_make(
    affine: TrainedLayer, quadratic: TrainedLayer
) -> None:
    chain = quantize_layers([affine, quadratic], X, (50, 200), random_state=0)
    first, second = chain.matches
    made = np.tanh(first.predict(X))
    np.testing.assert_array_equal(second.problem.y, quadratic.form.predict(affine.predict(X)))
    np.testing.assert_array_equal(second.problem.X[:, :3], made)
    np.testing.assert_allclose(chain.predict(X), second.predict(made), atol=1e-12)


def test_certificates_of_every_layer_hold(affine: TrainedLayer, quadratic: TrainedLayer) -> None:
    chain = quantize_layers([affine, quadratic], X, 40, beta=0.5, random_state=0)
    for match in chain.matches:
        assert match.certificate.lower_bound <= match.certificate.objective
        mismatch = float(np.sum((match.network.predict(match.problem.X) - match.problem.y) ** 2))
        assert mismatch <= match.certificate.objective


def test_empty_chain_and_bad_data_are_refused(affine: TrainedLayer) -> None:
    with pytest.raises(InvalidInputError, match="layers must hold at least one layer"):
        quantize_layers([], X, 10)
    with pytest.raises(InvalidInputError, match="X must have 4 columns"):
        quantize_layers([affine], X[:, :2], 10)
    with pytest.raises(InvalidInputError, match="random_state"):
        quantize_layers([affine], X, 10, random_state=-1)
