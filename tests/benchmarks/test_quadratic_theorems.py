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
from benchmarks.papers.noel import LOSSES, Descent, Layer, QuadraticNetwork
from qsdp import QuadraticForm
from qsdp.exceptions import InvalidInputError

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


def xor_course(Q: np.ndarray, rate: float, epochs: int) -> list[tuple[bool, float, np.ndarray]]:
    """Train A0 from w = 0, b = 0 on the points in their order; return, by epoch, success, det Q, (q11, q22, q12, b)."""
    X, y = make_xor()
    start = QuadraticNetwork([Layer("qnn", {"Q": Q[None], "W": np.zeros((1, 2)), "b": [0.0]})])
    network = QuadraticNetwork.stack([start])
    descent = Descent(network, X, y[:, None].astype(float), LOSSES["binary_cross_entropy"], rate)
    course = []
    for _ in range(epochs):
        descent.epoch(np.arange(4))
        P = network.layers[0].parameters
        matrix = P["Q"][0, 0]
        solved = bool(((network.decision(X)[0, :, 0] > 0) == y).all())
        course.append((solved, float(np.linalg.det(matrix)), np.append(matrix[[0, 1, 0], [0, 1, 1]], P["b"][0, 0])))
    return course


@pytest.mark.parametrize(("rate", "solved", "turned", "determinant"), [(0.01, 20, 25, 0.165), (0.1, 2, 3, 0.089)])
def test_the_ellipse_of_the_identity_start_is_an_effect_of_stopping_early(
    rate: float, solved: int, turned: int, determinant: float
) -> None:
    course = xor_course(np.eye(2), rate, 200)
    assert [success for success, _, _ in course].index(True) + 1 == solved
    assert course[solved - 1][1] == pytest.approx(determinant, abs=5e-4)
    assert course[solved - 1][2][3] < 0.0
    signs = [det < 0.0 for _, det, _ in course]
    assert signs.index(True) + 1 == turned
    assert all(signs[turned - 1 :])


def test_why_it_ends_as_a_hyperbola() -> None:
    """On bipolar points q11, q22 and b take the same steps, so their differences stay."""
    course = xor_course(np.eye(2), 1.0, 600)
    for _, _, (q11, q22, _, b) in course:
        assert q11 - b == pytest.approx(1.0, abs=1e-11)
        assert q22 - b == pytest.approx(1.0, abs=1e-11)
    q11, q22, q12, b = course[-1][2]
    np.testing.assert_allclose([q11, q22, b], [1 / 3, 1 / 3, -2 / 3], atol=0.08)
    assert q12 < -2.5


def test_random_starts_end_as_hyperbolas_mostly() -> None:
    rng = np.random.default_rng(0)
    kinds = []
    for _ in range(50):
        R = rng.standard_normal((2, 2))
        course = xor_course(0.5 * (R + R.T), 0.1, 10)
        first = next(entry for entry in course if entry[0])
        kinds.append(first[1] < 0.0)
    assert len(kinds) == 50
    assert sum(kinds) >= 45


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


@given(st.integers(0, 10**6), st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_a13_what_a_quadric_has_labelled_is_separable(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    form = QuadraticForm(rng.standard_normal((d, d)), rng.standard_normal(d), rng.standard_normal())
    X = 3.0 * rng.standard_normal((80, d))
    values = form.predict(X)
    X, values = X[np.abs(values) > 0.1], values[np.abs(values) > 0.1]
    if len({*np.sign(values)}) < 2:
        return
    answer = separate(X, values > 0)
    assert answer.separable
    check(answer, X, values > 0, "qnn")


def test_a13_bad_input() -> None:
    X, y = make_xor()
    with pytest.raises(InvalidInputError, match=r"family must be one of .*; got 'rpqnn'"):
        separate(X, y, "rpqnn")
    with pytest.raises(InvalidInputError, match="positive must be 4 labels of two values"):
        separate(X, [1, 1, 1, 1])
    with pytest.raises(InvalidInputError, match="positive must be 4 labels of two values"):
        separate(X, [0, 1, 2])


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


def test_a13_families_with_axes_are_the_same_function() -> None:
    rng = np.random.default_rng(3)
    centres = np.array([[0.0, 0.0], [6.0, 1.0], [-5.0, 4.0]])
    shapes = np.array([np.diag([1.0, 2.0]), np.diag([3.0, 0.5]), np.eye(2)])
    X = np.vstack([centre + 0.4 * rng.standard_normal((20, 2)) for centre in centres])
    labels = np.repeat(np.arange(3), 20)
    full, fan, compact = (
        decision(ellipsoid_neurons(X, labels, centres, shapes, family=family), X)
        for family in ("qnn", "fan", "fan_compact")
    )
    np.testing.assert_allclose(fan, full, rtol=1e-10)
    np.testing.assert_allclose(compact, full, rtol=1e-10)


def test_a_single_cluster_needs_no_others() -> None:
    X = np.array([[0.0, 0.0], [1.0, 0.0]])
    layer = ellipsoid_neurons(X, [0, 0], [[0.0, 0.0]], [np.eye(2)], confidence=0.9)
    assert expit(decision(layer, X)).min() >= 0.9 - 1e-12


def test_boundedness_is_not_enough() -> None:
    """A quadratic changes sign twice at most: E14."""
    X, positive = np.array([[0.0], [1.0], [2.0], [3.0]]), [1, 0, 1, 0]
    answer = separate(X, positive)
    assert not answer.separable
    check(answer, X, np.array(positive), "qnn")
    with pytest.raises(InvalidInputError, match="ellipsoid of cluster 0 does not separate it"):
        ellipsoid_neurons(X, [0, 1, 0, 1], [[1.0], [2.0]], np.ones((2, 1, 1)))


def test_ellipsoids_are_sufficient_not_necessary() -> None:
    X, positive = np.array([[-1.0], [1.0], [0.0]]), np.array([1, 1, 0])
    for centre, size in itertools.product(np.linspace(-3.0, 3.0, 13), (0.1, 1.0, 10.0)):
        with pytest.raises(InvalidInputError, match="ellipsoid of cluster 0"):
            ellipsoid_neurons(X, [0, 0, 1], [[centre], [0.0]], size * np.ones((2, 1, 1)))
    answer = separate(X, positive)
    assert answer.separable
    outside = Layer("power_only", {"Wb": [[1.0]], "c": [-0.5]})
    np.testing.assert_array_equal(decision(outside, X)[:, 0] > 0, positive == 1)


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


def test_half_spaces_of_a_product_recede_in_a_common_direction() -> None:
    rng = np.random.default_rng(4)
    for w, u in rng.standard_normal((200, 2, 2)):
        both = w / np.linalg.norm(w) + u / np.linalg.norm(u)
        assert np.linalg.norm(both) > 0.0
        assert min(w @ both, u @ both) > 0.0
    # Opposite half-spaces recede along the line between them.
    assert np.array([2.0, 1.0]) @ np.array([-1.0, 2.0]) == 0.0


def test_trained_rpqnn_neurons_fail_on_the_ring_where_a_qnn_does_not() -> None:
    X, positive = ring()
    rng = np.random.default_rng(5)
    found = {}
    for family, shapes in (("rpqnn", {"W": 2, "U": 2}), ("qnn", {"W": 2})):
        starts = []
        for _ in range(10):
            P = {name: rng.standard_normal((1, size)) for name, size in shapes.items()}
            P |= {"b": rng.standard_normal(1)} | ({"c": rng.standard_normal(1)} if family == "rpqnn" else {})
            P |= {} if family == "rpqnn" else {"Q": np.zeros((1, 2, 2))}
            starts.append(QuadraticNetwork([Layer(family, P)]))
        network = QuadraticNetwork.stack(starts)
        descent = Descent(network, X / 5.0, positive[:, None].astype(float), LOSSES["binary_cross_entropy"], 0.2)
        for _ in range(100):
            descent.epoch(rng.permutation(80))
        found[family] = ((network.decision(X / 5.0)[..., 0] > 0) == (positive == 1)).mean(axis=1)
    assert found["qnn"].min() == 1.0
    assert found["rpqnn"].max() < 1.0


def test_two_clusters_need_one_neuron() -> None:
    rng = np.random.default_rng(6)
    X = np.vstack([rng.standard_normal((30, 2)), rng.normal([12.0, 0.0], 1.0, (30, 2))])
    labels = np.repeat([0, 1], 30)
    layer = ellipsoid_neurons(X, labels, [[0.0, 0.0], [12.0, 0.0]], [np.eye(2), np.eye(2)])
    np.testing.assert_array_equal(decision(layer, X)[:, 1] > 0, labels == 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"confidence": 0.4}, "confidence must be a number between 0.5 and 1; got 0.4"),
        ({"confidence": 1.0}, "confidence must be a number between 0.5 and 1; got 1.0"),
        ({"family": "rpqnn"}, "family must be one of"),
        ({"labels": [0, 0, 0, 0]}, "labels must be 4 class numbers, with each of 0 to 1"),
        ({"labels": [0, 1]}, "labels must be 4 class numbers"),
        ({"shapes": [np.eye(2), -np.eye(2)]}, "shapes must be positive definite; that of cluster 1"),
        ({"shapes": [np.eye(2), [[1.0, 2.0], [0.0, 1.0]]]}, "shapes must be symmetric"),
        ({"shapes": [np.eye(2)]}, r"shapes must be symmetric, of shape \(2, 2, 2\)"),
        ({"shapes": [np.eye(2), [[1.0, 0.5], [0.5, 1.0]]], "family": "fan"}, "shapes must be diagonal for 'fan'"),
        ({"centres": [[0.0], [1.0]]}, "X must have|shapes must be symmetric, of shape"),
    ],
)
def test_bad_constructions(change: dict, message: str) -> None:
    arguments = {
        "X": np.array([[0.0, 0.0], [1.0, 0.0], [9.0, 0.0], [8.0, 0.0]]),
        "labels": [0, 0, 1, 1],
        "centres": [[0.0, 0.0], [9.0, 0.0]],
        "shapes": [np.eye(2), np.eye(2)],
    } | change
    with pytest.raises(InvalidInputError, match=message):
        ellipsoid_neurons(**arguments)


def test_balls_that_meet_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="the balls 0 and 2 intersect"):
        ball_neurons([[0.0], [9.0], [1.0]], [0.5, 0.5, 0.5])
    with pytest.raises(InvalidInputError, match="radii must be 2 numbers"):
        ball_neurons([[0.0], [9.0]], [0.5])
