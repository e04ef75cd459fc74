"""Kinds of conics: row A-14."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.papers.noel.conics import classify_conic, classify_conics
from qsdp import QuadraticForm
from qsdp.exceptions import InvalidInputError

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
