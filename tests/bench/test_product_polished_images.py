"""Networks of pixels from networks of their blocks, and records that turn the verdicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qsdp
from qsdp.bench import Record

study = pytest.importorskip("benchmarks.experiments.product.polished_images", reason="not in the installed package")
data = pytest.importorskip("benchmarks.experiments._data", reason="not in the installed package")


@pytest.mark.parametrize("side", [4, 14])
def test_the_network_of_pixels_has_the_outputs_of_that_of_their_blocks(side: int) -> None:
    rng = np.random.default_rng(side)
    X = rng.uniform(size=(5, 784))
    small, fine = data.with_constant(data.pooled(X, side), X / (28 // side) ** 2)
    U, V = rng.choice([-1, 1], size=(2, 6, side * side + 1))
    network = qsdp.BilinearNetwork(U, V, rng.standard_normal((6, 3)))
    expected = ((small @ U.T) * (small @ V.T)) @ network.alpha
    np.testing.assert_allclose(study.of_pixels(network, side).predict(fine), expected, rtol=1e-10, atol=1e-12)


def test_free_weights_are_free_and_those_of_the_sample_to_rounding() -> None:
    rng = np.random.default_rng(0)
    U, V = rng.choice([-1, 1], size=(2, 4, 5))
    network = qsdp.BilinearNetwork(U, V, np.kron(np.eye(2), np.full((2, 1), 3.0)))
    free = study.with_free_weights(network)
    assert network.shared_alpha
    assert not free.shared_alpha
    np.testing.assert_allclose(free.alpha, network.alpha, atol=2e-8)


def record_of(accuracies: dict[str, float], kilobytes: dict[str, float]) -> Record:
    networks: dict[str, Any] = {
        name: {"test_accuracy": accuracy, "bits": 8e3 * kilobytes[name]} for name, accuracy in accuracies.items()
    }
    (case,) = study.cases(quick=False)
    return Record(case, {"networks": networks}, 0.0)


@pytest.mark.parametrize(
    ("changed", "verdicts"),
    [
        ({}, ["supported"] * 3),
        ({"shared, many": 0.9749}, ["contradicted", "supported", "supported"]),
        ({"free, few": 0.9699}, ["supported", "contradicted", "supported"]),
        ({"shared, few": 0.97}, ["supported"] * 3),
        ({"shared, many, all pixels": 0.9699}, ["supported", "supported", "contradicted"]),
    ],
)
def test_verdicts(changed: dict[str, float], verdicts: list[str]) -> None:
    kilobytes = {"shared, many": 49.4, "shared, few": 14.9, "free, few": 38.8, "shared, many, all pixels": 196.4}
    accuracies = {"shared, many": 0.976, "shared, few": 0.96, "free, few": 0.971, "shared, many, all pixels": 0.98}
    made = study.claims([record_of({**accuracies, **changed}, kilobytes)])
    assert [claim.verdict for claim in made] == verdicts
    # More bits than are allowed support nothing.
    heavier = dict.fromkeys(kilobytes, 1000.0)
    assert {claim.verdict for claim in study.claims([record_of(accuracies, heavier)])} == {"contradicted"}
