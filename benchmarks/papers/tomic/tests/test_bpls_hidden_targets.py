"""A.3: the rules for desired hidden values, against the golden values and against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.papers.tomic import HIDDEN_TARGETS, hidden_target

H1, W1, T1 = np.array([[1.0, 2.0]]), np.array([[1.0], [2.0]]), np.array([[9.0]])
H2 = np.array([[1.0, 2.0, 0.0]])
W2 = np.array([[1.0, 0.0], [2.0, 1.0], [0.0, 4.0]])
T2 = np.array([[6.0, 6.0]])

every = pytest.mark.parametrize("rule", sorted(HIDDEN_TARGETS))


def problem(seed: int, S: int, n: int, J: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((S, n)), rng.standard_normal((n, J)), rng.standard_normal((S, J))


sizes = {"seed": st.integers(0, 10**6), "S": st.integers(1, 6), "n": st.integers(1, 7), "J": st.integers(1, 5)}


@pytest.mark.parametrize(
    ("rule", "expected", "output"),
    [
        ("ls", [[5.0, 4.0]], 13.0),
        ("relax", [[3.0, 3.0]], 9.0),
        ("damped", [[3.0, 3.0]], 9.0),
        ("gauss-seidel", [[5.0, 2.0]], 9.0),
        ("minnorm", [[1.8, 3.6]], 9.0),
        ("first", [[5.0, 4.0]], 13.0),
        ("mean", [[5.0, 4.0]], 13.0),
    ],
)
def test_a3_golden_values_of_one_output(rule: str, expected: list[list[float]], output: float) -> None:
    np.testing.assert_array_equal(T1 - H1 @ W1, [[4.0]])
    N = hidden_target(H1, W1, T1, rule)
    np.testing.assert_allclose(N, expected, atol=1e-10)
    np.testing.assert_allclose(N @ W1, [[output]], atol=1e-10)


@pytest.mark.parametrize(
    ("rule", "expected", "residual"),
    [
        ("ls", [[2.0, 3.2, 1.0]], None),
        ("relax", [[5 / 3, 2.8, 2 / 3]], None),
        ("damped", [[4 / 3, 2.4, 1 / 3]], None),
        ("gauss-seidel", [[2.0, 2.8, 0.8]], [[-1.6, 0.0]]),
        ("minnorm", [[10 / 9, 22 / 9, 8 / 9]], [[0.0, 0.0]]),
        ("first", [[2.0, 2.5, 0.0]], None),
        ("mean", [[1.5, 4.25, 0.5]], None),
    ],
)
def test_a3_golden_values_of_two_outputs(
    rule: str, expected: list[list[float]], residual: list[list[float]] | None
) -> None:
    np.testing.assert_array_equal(T2 - H2 @ W2, [[1.0, 4.0]])
    N = hidden_target(H2, W2, T2, rule)
    np.testing.assert_allclose(N, expected, atol=1e-10)
    if residual is not None:
        np.testing.assert_allclose(T2 - N @ W2, residual, atol=1e-10)


@settings(deadline=None)
@given(**sizes)
def test_a3_gauss_seidel_moves_one_neuron_after_the_other(seed: int, S: int, n: int, J: int) -> None:
    H, W, T = problem(seed, S, n, J)
    N = H.copy()
    for i in range(n):
        N[:, i] += (T - N @ W) @ W[i] / (W[i] @ W[i])
    np.testing.assert_allclose(hidden_target(H, W, T, "gauss-seidel"), N, atol=1e-8 * (1 + np.abs(N).max()))
    if J == 1:
        # The first neuron absorbs the whole residual.
        np.testing.assert_allclose(N[:, 1:], H[:, 1:], atol=1e-8 * (1 + np.abs(N).max()))
        np.testing.assert_allclose(N @ W, T, atol=1e-8 * (1 + np.abs(N).max()))


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), S=st.integers(1, 6), n=st.integers(1, 7), J=st.integers(1, 5))
def test_a14_4_minimum_norm_fits_exactly_and_is_the_smallest_change(seed: int, S: int, n: int, J: int) -> None:
    H, W, T = problem(seed, S, n, J)
    N = hidden_target(H, W, T, "minnorm")
    change = N - H
    size = 1e-7 * (1 + np.abs(N).max())
    if n >= J:
        np.testing.assert_allclose(N @ W, T, atol=size)
    # The smallest change lies in the rows of W', whatever its rank.
    np.testing.assert_allclose(change, change @ W @ np.linalg.pinv(W), atol=size)


@every
@settings(max_examples=30, deadline=None)
@given(**sizes)
def test_a3_nothing_moves_where_the_layer_fits(rule: str, seed: int, S: int, n: int, J: int) -> None:
    H, W, _ = problem(seed, S, n, J)
    np.testing.assert_allclose(hidden_target(H, W, H @ W, rule), H, atol=1e-9 * (1 + 1 / np.abs(W).min()))


@every
def test_a3_dead_rows_get_no_update(rule: str) -> None:
    H, W, T = problem(0, 5, 4, 2)
    W[2] = 0.0
    N = hidden_target(H, W, T, rule)
    assert np.isfinite(N).all()
    np.testing.assert_allclose(N[:, 2], H[:, 2], atol=1e-12)
    np.testing.assert_array_equal(hidden_target(H, np.zeros_like(W), T, rule), H)


@pytest.mark.parametrize("rule", ["ls", "relax", "damped", "gauss-seidel"])
def test_a3_rows_of_rounding_errors_are_dead(rule: str) -> None:
    H, W, T = problem(0, 5, 4, 2)
    W[2] = 1e-9
    N = hidden_target(H, W, T, rule)
    np.testing.assert_array_equal(N[:, 2], H[:, 2])
