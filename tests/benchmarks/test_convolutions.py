"""Binary CNNs that convolutions are compared with."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
from benchmarks.experiments.product import convolutions


def halves(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return images of noise whose left or right half is brighter."""
    y = rng.integers(0, 2, n)
    images = rng.integers(0, 100, (n, 10, 10))
    images[y == 0, :, :5] += 100
    images[y == 1, :, 5:] += 100
    return images.reshape(n, -1).astype(np.uint8), y


def test_binary_cnns_learn_and_have_weights_of_one_bit() -> None:
    X, y = halves(600, np.random.default_rng(0))
    for channels, bits in (
        ((4,), 9 * 4 + 4 * 4 * 2 + 64 * (4 + 2)),
        ((2, 3), 9 * 2 + 9 * 6 + 3 * 4 * 2 + 64 * (5 + 2)),
    ):
        model = convolutions.train_binary_cnn(X[:500], y[:500], channels, regions=2, rate=3e-2, epochs=40)
        assert model.n_bits == bits
        assert (model.predict(X[500:]).argmax(axis=1) == y[500:]).mean() > 0.9


def test_binary_cnns_compute_with_signs_only() -> None:
    """Outputs do not change when latent weights are replaced by their signs, up to the scale that norms remove."""
    X, y = halves(500, np.random.default_rng(1))
    model = convolutions.train_binary_cnn(X, y, (3,), regions=2, epochs=2)
    before = model.predict(X)
    for weight in [*model.module.filters, model.module.dense]:
        weight.data = weight.data.sign() + (weight.data == 0)
    assert np.array_equal(model.predict(X), before)
