"""Binary CNNs that convolutions are compared with, and the claims on what was chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.runner import Record

pytest.importorskip("torch")
convolutions = pytest.importorskip("benchmarks.experiments.product.convolutions", reason="not in the installed package")


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


def test_claims_are_of_what_the_images_for_the_choice_prefer() -> None:
    case = next(one for one in convolutions.cases(quick=False) if one["kind"] == "certified")
    entries: list[dict[str, Any]] = [
        {"bits": 4, "bytes": 1000, "choice_accuracy": 0.98, "test_accuracy": 0.971, "gap": 0.02},
        {"bits": 5, "bytes": 1100, "choice_accuracy": 0.97, "test_accuracy": 0.999, "gap": 0.001},
    ]
    record = Record(case, {"entries": entries}, 1.0)
    first, *_ = convolutions.claims([record])
    assert first.figures == "97.10 % in 1.00 kB"
    certified = next(one for one in convolutions.claims([record]) if "certified gap" in one.statement)
    assert certified.figures == "99.90 % in 1.10 kB"


def test_tables_leave_out_networks_that_others_of_their_kind_beat() -> None:
    case = next(one for one in convolutions.cases(quick=False) if one["kind"] == "certified")
    numbers = [(3, 1000, 0.98, 0.02), (4, 1100, 0.97, 0.001), (5, 1100, 0.98, 0.02), (6, 1200, 0.99, 0.03)]
    names = ("bits", "bytes", "choice_accuracy", "gap")
    entries = [{**dict(zip(names, one, strict=True)), "test_accuracy": 0.9} for one in numbers]
    rival = {"kind": "forest", "data": case["data"], "patches": case["patches"], "samples": case["samples"]}
    tree = {"model": "boosting", "trees": 3, "leaves": 8, "bytes": 2000, "choice_accuracy": 0.5, "test_accuracy": 0.5}
    rows = convolutions.shown([Record(case, {"entries": entries}, 1.0), Record(rival, {"entries": [tree]}, 1.0)])
    assert [row.case.get("bits") for row in rows] == [3, 4, 6, None]
