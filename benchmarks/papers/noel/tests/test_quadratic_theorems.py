"""What is proven of quadratic neurons: XOR by one neuron (7.1), C clusters by C neurons (7.3); row A-13."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from benchmarks.data.toys import make_xor
from benchmarks.papers.noel import LOSSES, Layer, QuadraticNetwork
from benchmarks.papers.noel.conics import classify_conics
from benchmarks.papers.noel.constructions import ellipsoid_neurons

SIGNS = [-1.0, 1.0, 1.0, -1.0]


def decision(layer: Layer, X: np.ndarray) -> np.ndarray:
    return QuadraticNetwork([layer]).decision(X)


# -- 7.1 XOR with one neuron ---------------------------------------------------------------------------

CLOSED_FORMS = {
    "hyperbola": ("qnn", {"Q": [[[0.0, -0.5], [-0.5, 0.0]]], "W": [[0.0, 0.0]], "b": [0.0]}, "bipolar", 1.0),
    "ellipse": ("qnn", {"Q": [[[1.0, -0.5], [-0.5, 1.0]]], "W": [[0.0, 0.0]], "b": [-2.0]}, "bipolar", 1.0),
    "rpqnn": ("rpqnn", {"W": [[1.0, 0.0]], "b": [0.0], "U": [[0.0, -1.0]], "c": [0.0]}, "bipolar", 1.0),
    "fan": (
        "fan",
        {"Wr": [[1, -1]], "br": [0], "Wg": [[1, -1]], "bg": [0], "Wb": [[0, 0]], "c": [-0.5]},
        "binary",
        0.5,
    ),
}


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_one_neuron_solves_xor_in_closed_form(name: str) -> None:
    family, parameters, encoding, size = CLOSED_FORMS[name]
    X, y = make_xor(encoding)
    layer = Layer(family, parameters)
    np.testing.assert_array_equal(decision(layer, X)[:, 0], size * np.array(SIGNS))
    assert y.tolist() == [0, 1, 1, 0]
    # Without a constant the hyperbola is the pair of its asymptotes.
    kinds = {"hyperbola": "crossing lines", "ellipse": "ellipse", "rpqnn": "crossing lines", "fan": "parallel lines"}
    assert classify_conics(layer.to_trained().form) == [kinds[name]]


# -- 7.3 C clusters by one layer of C neurons ----------------------------------------------------------


def ellipsoids(n: int, C: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Return points in random ellipsoids around centres far apart, labels, centres and shapes."""
    factors = rng.standard_normal((C, n, n)) / np.sqrt(n)
    shapes = factors @ np.swapaxes(factors, 1, 2) + 0.3 * np.eye(n)
    centres = 25.0 * rng.standard_normal((C, n))
    points = []
    for centre, shape in zip(centres, shapes, strict=True):
        directions = rng.standard_normal((200, n))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        radii = rng.random((200, 1)) ** (1.0 / n)
        points.append(centre + np.linalg.solve(np.linalg.cholesky(shape).T, (radii * directions).T).T)
    return np.vstack(points), np.repeat(np.arange(C), 200), centres, shapes


@pytest.mark.parametrize(("n", "C"), [(2, 6), (5, 10), (20, 4)])
def test_a13_theorem_of_c_clusters(n: int, C: int) -> None:
    X, labels, centres, shapes = ellipsoids(n, C, np.random.default_rng(n))
    eps = 1e-3
    layer = ellipsoid_neurons(X, labels, centres, shapes, confidence=1.0 - eps)
    outputs = QuadraticNetwork([layer]).to_layers()[0].form.predict(X)
    sigmoids = expit(outputs)
    own = np.arange(C) == labels[:, None]
    assert sigmoids[own].min() >= 1.0 - eps - 1e-12
    assert sigmoids[~own].max() <= eps + 1e-12
    losses = LOSSES["binary_cross_entropy"].values(outputs, own.astype(float))
    assert losses.max() <= -C * np.log(1.0 - eps) * (1.0 + 1e-9)
    # As tight as the theorem: the points on which the levels rest have the confidence asked for.
    assert sigmoids[own].min() == pytest.approx(1.0 - eps, abs=1e-9)
