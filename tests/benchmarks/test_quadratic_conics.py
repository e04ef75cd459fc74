"""Conics and data: rows A-12 and A-14."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.data.toys import make_nonlinear_clusters, make_xor, split_digits
from benchmarks.methods.quadratic_theory import classify_conic, classify_conics
from qsdp import QuadraticForm
from qsdp.exceptions import InvalidInputError, InvalidTypeError

# -- conics --------------------------------------------------------------------------------------

CONICS = {
    "ellipse": ([[2.0, 0.3], [0.3, 1.0]], [1.0, -2.0], -5.0),
    "hyperbola": ([[0.0, 1.0], [1.0, 0.0]], [0.0, 0.0], -1.0),
    "parabola": ([[1.0, 0.0], [0.0, 0.0]], [0.0, -1.0], 0.0),
    "crossing lines": ([[0.0, 1.0], [1.0, 0.0]], [0.0, 0.0], 0.0),
    "parallel lines": ([[1.0, 0.0], [0.0, 0.0]], [0.0, 0.0], -4.0),
    "double line": ([[1.0, 1.0], [1.0, 1.0]], [0.0, 0.0], 0.0),
    "point": ([[1.0, 0.0], [0.0, 3.0]], [0.0, 0.0], 0.0),
    "line": ([[0.0, 0.0], [0.0, 0.0]], [1.0, 1.0], 3.0),
    "empty": ([[1.0, 0.0], [0.0, 2.0]], [0.0, 0.0], 1.0),
    "plane": ([[0.0, 0.0], [0.0, 0.0]], [0.0, 0.0], 0.0),
}


@pytest.mark.parametrize("kind", CONICS)
def test_a14_kinds_of_conics(kind: str) -> None:
    S, s, s0 = CONICS[kind]
    assert classify_conic(QuadraticForm(S, s, s0)) == kind
    assert classify_conic(QuadraticForm(-1e6 * np.array(S), -1e6 * np.array(s), -1e6 * s0)) == kind


@given(st.sampled_from(["ellipse", "hyperbola", "parabola", "crossing lines", "parallel lines"]), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_a14_kinds_survive_motions_and_scales(kind: str, seed: int) -> None:
    """Move the plane and change its units: f(Rx + t)."""
    rng = np.random.default_rng(seed)
    S, s, s0 = (np.array(part) for part in CONICS[kind])
    angle, scale, t = rng.uniform(0, 2 * np.pi), 10.0 ** rng.uniform(-2, 2), rng.uniform(-3, 3, 2)
    R = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    form = QuadraticForm(R.T @ S @ R, R.T @ (2.0 * S @ t + s), t @ S @ t + s @ t + s0)
    assert classify_conic(form, tol=1e-10) == kind


def test_a14_other_forms_of_no_curve() -> None:
    assert classify_conic(QuadraticForm(np.zeros((2, 2)), s0=2.0)) == "empty"
    assert classify_conic(QuadraticForm(np.diag([1.0, 0.0]), s0=4.0)) == "empty"
    with pytest.raises(InvalidInputError, match="two variables"):
        classify_conic(QuadraticForm(np.eye(3)))
    assert classify_conics(QuadraticForm([np.eye(2), np.diag([1.0, -1.0])], s0=[-1.0, -1.0])) == [
        "ellipse",
        "hyperbola",
    ]


# -- data ----------------------------------------------------------------------------------------


def test_a12_xor() -> None:
    assert make_xor().X.tolist() == [[-1, -1], [1, -1], [-1, 1], [1, 1]]
    assert make_xor("binary").X.tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]
    with pytest.raises(InvalidInputError, match="encoding must be one of 'binary', 'bipolar'; got 'bool'"):
        make_xor("bool")


def test_a12_nonlinear_clusters() -> None:
    X, y = make_nonlinear_clusters(4000, random_state=1)
    assert X.shape == (24000, 2)
    means = {0: (-16, 0), 1: (-8, 0), 2: (0, 0), 3: (0, 10), 4: (-8, 10), 5: (-16, 10)}
    correlations = {0: -0.3, 1: 0.0, 2: 0.3, 3: -0.3, 4: 0.0, 5: 0.3}
    for k, mean in means.items():
        np.testing.assert_allclose(X[y == k].mean(axis=0), mean, atol=0.08)
        np.testing.assert_allclose(np.cov(X[y == k].T), [[1, correlations[k]], [correlations[k], 1]], atol=0.1)
    again, _ = make_nonlinear_clusters(4000, random_state=1)
    np.testing.assert_array_equal(X, again)
    with pytest.raises(InvalidTypeError, match="n_per_class must be an integer"):
        make_nonlinear_clusters(1.5)  # type: ignore[arg-type]


def test_a12_digits() -> None:
    X, y, X_test, y_test = split_digits(600)
    assert (X.shape, y.shape, X_test.shape, y_test.shape) == ((600, 64), (600,), (597, 64), (597,))
    assert X.min() == 0.0
    assert X.max() == 1.0
    longer, *_ = split_digits(1200)
    np.testing.assert_array_equal(longer[:600], X)
    rows = {row.tobytes() for row in longer}
    assert sum(row.tobytes() in rows for row in X_test) == 0
    with pytest.raises(InvalidInputError, match="n_train must be an integer from 1 to 1200; got 1201"):
        split_digits(1201)
