"""Networks of pixels from networks of their blocks, and records that turn the verdicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qsdp
from benchmarks.runner import Record

study = pytest.importorskip("benchmarks.experiments.product.many_inputs", reason="not in the installed package")
data = pytest.importorskip("benchmarks.data.sets", reason="not in the installed package")


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


NETWORKS = {"shared, many": (0.976, 49.4), "shared, few": (0.96, 14.9), "free, few": (0.971, 38.8)}
NETWORKS |= {"shared, many, all pixels": (0.98, 196.4)}


def verdicts(changed: dict[str, Any]) -> dict[str, str]:
    """Return the verdicts of records that hold but for what is changed, by statement."""
    m = {"seconds": 19.0, "class_gap": 0.01, "class_gaps": [0.01], "peak_mib": 8192.0, **changed}
    accuracies = {name: changed.get(name, found) for name, found in NETWORKS.items()}
    network = {name: {"test_accuracy": a, "bits": 8e3 * size} for name, (a, size) in accuracies.items()}
    records = [
        Record(case, {**m, "share": {str(share): m for share in case.get("shares", ())}, "network": network}, 0.0)
        for case in study.cases(quick=False)
    ]
    return {claim.statement: claim.verdict for claim in study.claims(records)}


@pytest.mark.parametrize(
    ("changed", "contradicted"),
    [
        ({}, ()),
        ({"shared, few": (0.97, 14.9)}, ()),
        ({"shared, many": (0.9749, 49.4)}, ("1000 polished",)),
        ({"shared, many": (0.976, 49.6)}, ("1000 polished",)),
        ({"free, few": (0.9699, 38.8)}, ("300 neurons",)),
        ({"shared, many, all pixels": (0.98, 201.0)}, ("28 x 28",)),
        ({"seconds": 31.0}, ("in 30 s", "in 20 s")),
        ({"class_gap": 0.011}, ("in 10 min", "a further beta", "in 30 s", "in 20 s")),
        ({"class_gaps": [0.01, 0.011]}, ("every class to a gap",)),
        ({"peak_mib": 8193.0}, ("14: below 8 GiB", "60000 images: below 8 GiB")),
    ],
)
def test_verdicts(changed: dict[str, Any], contradicted: tuple[str, ...]) -> None:
    found = verdicts(changed)
    wrong = {statement for statement, verdict in found.items() if verdict == "contradicted"}
    assert all(any(words in statement for statement in wrong) for words in contradicted)
    assert len(wrong) == len(contradicted)
    assert set(found.values()) <= {"supported", "contradicted"}


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_gaps_of_classes_are_those_that_the_relaxation_certifies(loss: str) -> None:
    rng = np.random.default_rng(0)
    problem = qsdp.TrainingProblem(rng.normal(size=(30, 5)), np.sign(rng.normal(size=(30, 3))), beta=0.05, loss=loss)
    relaxation = qsdp.solve_relaxation(problem, tol=1e-4)
    gaps = 1.0 - relaxation.lower_bounds / relaxation.objectives
    np.testing.assert_allclose(study.class_gaps(relaxation), gaps, rtol=1e-3, atol=1e-9)
