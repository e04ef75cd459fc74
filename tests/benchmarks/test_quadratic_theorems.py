"""What is proven of quadratic neurons: XOR, families that solve it, C clusters (7.1-7.3); row A-13."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from benchmarks.data.toys import make_xor
from benchmarks.methods.quadratic_theory import Separation, ball_neurons, classify_conics, ellipsoid_neurons, separate
from benchmarks.methods.quadratic_theory.separability import LINEAR_IN_PARAMETERS, lifted_features
from benchmarks.papers.noel import LOSSES, Layer, QuadraticNetwork

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


# -- 7.2 which families solve XOR ----------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["bipolar", "binary"])
@pytest.mark.parametrize(
    ("family", "solves"), [("qnn", True), ("fan_compact", False), ("power_only", False), ("linear", False)]
)
def test_which_families_solve_xor(family: str, solves: bool, encoding: str) -> None:
    X, y = make_xor(encoding)
    answer = separate(X, y, family)
    assert answer.separable is solves
    check(answer, X, y, family)


def check(answer: Separation, X: np.ndarray, positive: np.ndarray, family: str) -> None:
    """Check a function that separates, or the proof that there is none, by itself."""
    signs = np.where(np.asarray(positive) == np.max(positive), 1.0, -1.0)
    if answer.separable:
        assert answer.form is not None
        assert answer.multipliers is None
        assert (signs * answer.form.predict(X)).min() >= 1.0 - 1e-9
    else:
        assert answer.form is None
        assert answer.multipliers is not None
        features = lifted_features(X, family)
        common = (answer.multipliers * signs) @ (features / np.abs(features).max(axis=0))
        assert answer.multipliers.min() >= 0.0
        assert answer.multipliers.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(common, 0.0, atol=1e-9)


# -- separability by a linear program ------------------------------------------------------------


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(4, 40), st.sampled_from(sorted(LINEAR_IN_PARAMETERS)))
@settings(max_examples=40, deadline=None)
def test_a13_program_answers_with_a_proof(seed: int, d: int, n: int, family: str) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    positive = rng.integers(0, 2, n)
    positive[:2] = [0, 1]
    check(separate(X, positive, family), X, positive, family)


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


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(2, 6), st.sampled_from(["qnn", "fan", "fan_compact"]))
@settings(max_examples=30, deadline=None)
def test_a13_disjoint_balls_of_any_points(seed: int, n: int, C: int, family: str) -> None:
    rng = np.random.default_rng(seed)
    centres = 5.0 * rng.standard_normal((C, n))
    apart = np.linalg.norm(centres[:, None] - centres[None], axis=2) + np.where(np.eye(C), np.inf, 0.0)
    radii = rng.random(C) * 0.45 * apart.min(axis=1)
    layer = ball_neurons(centres, radii, confidence=0.99, family=family)
    directions = rng.standard_normal((C, 50, n))
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    X = (centres[:, None] + radii[:, None, None] * directions).reshape(-1, n)
    labels = np.repeat(np.arange(C), 50)
    sigmoids = expit(decision(layer, X))
    own = np.arange(C) == labels[:, None]
    # Outputs are differences of squares: small balls far from zero lose digits.
    rounding = 1e-9 + 1e-13 * float((np.square(centres).sum(axis=1) / radii**2).max())
    assert sigmoids[own].min() >= 0.99 - rounding
    assert sigmoids[~own].max() <= 0.01 + rounding


def ring() -> tuple[np.ndarray, np.ndarray]:
    """Return 16 positives on the unit circle and 64 negatives on the circle of radius 5."""
    inner, outer = (2.0 * np.pi * np.arange(k) / k for k in (16, 64))
    X = np.vstack(
        [np.column_stack([np.cos(inner), np.sin(inner)]), 5.0 * np.column_stack([np.cos(outer), np.sin(outer)])]
    )
    return X, np.repeat([1, 0], [16, 64])


@pytest.mark.parametrize(
    ("family", "parameters"),
    [
        ("qnn", {"Q": [-np.eye(2)], "W": [[0.0, 0.0]], "b": [9.0]}),
        ("fan", {"Wr": [[0, 0]], "br": [0], "Wg": [[0, 0]], "bg": [0], "Wb": [[-1, -1]], "c": [9]}),
        ("fan_compact", {"Wr": [[0.0, 0.0]], "Wb": [[-1.0, -1.0]], "c": [9.0]}),
    ],
)
def test_a_ring_is_separated_by_families_with_ellipsoids(family: str, parameters: dict) -> None:
    X, positive = ring()
    np.testing.assert_array_equal(decision(Layer(family, parameters), X)[:, 0] > 0, positive == 1)


def test_no_rpqnn_neuron_separates_the_ring() -> None:
    """The steps of the proof.

    The positive set has two convex components at most; one of them holds 8 of the 16 positives, and with their hull
    a whole half-strip in a direction in which it recedes. The narrowest such hull cuts the outer circle in an arc
    longer than the distance of the negatives.
    """
    X, positive = ring()
    inner = X[positive == 1]
    # The width of a polygon is smallest across an edge: normals of chords are at half the sum of two angles.
    angles = np.pi * np.arange(16) / 16.0
    heights = inner @ np.vstack([np.cos(angles), np.sin(angles)])
    subsets = np.array(list(itertools.combinations(range(16), 8)))
    widths = (heights[subsets].max(axis=1) - heights[subsets].min(axis=1)).min(axis=1)
    assert len(subsets) == 12870
    assert widths.min() == pytest.approx(0.79, abs=0.02)
    assert widths.min() > 2.0 * np.pi * 5.0 / 64.0
