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


def test_a3_rules_are_those_of_the_table() -> None:
    assert set(HIDDEN_TARGETS) == {"first", "mean", "ls", "relax", "damped", "gauss-seidel", "minnorm"}


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


def test_a3_default_is_relax() -> None:
    np.testing.assert_array_equal(hidden_target(H2, W2, T2), hidden_target(H2, W2, T2, "relax"))


@settings(deadline=None)
@given(**sizes)
def test_a3_equation_5_for_one_neuron_and_one_output(seed: int, S: int, n: int, J: int) -> None:
    H, W, T = problem(seed, S, n, J)
    alone = np.empty((S, n, J))
    for i in range(n):
        for j in range(J):
            others = sum(W[t, j] * H[:, t] for t in range(n) if t != i) + np.zeros(S)
            alone[:, i, j] = (T[:, j] - others) / W[i, j]
    scale = 1e-10 * max(1.0, float(np.abs(alone).max()))
    np.testing.assert_allclose(hidden_target(H, W, T, "first"), alone[:, :, 0], atol=scale)
    np.testing.assert_allclose(hidden_target(H, W, T, "mean"), alone.mean(axis=2), atol=scale)


@settings(deadline=None)
@given(**sizes)
def test_a3_least_squares_of_one_neuron(seed: int, S: int, n: int, J: int) -> None:
    H, W, T = problem(seed, S, n, J)
    N = hidden_target(H, W, T, "ls")
    for i in range(n):
        moved = H.copy()
        moved[:, i] = N[:, i]
        # The residual has nothing left along the row of that neuron.
        np.testing.assert_allclose((T - moved @ W) @ W[i], 0.0, atol=1e-9 * (1 + np.abs(W).max() ** 2))


@settings(deadline=None)
@given(**sizes)
def test_a3_damped_rules_are_shares_of_that_step(seed: int, S: int, n: int, J: int) -> None:
    H, W, T = problem(seed, S, n, J)
    step = hidden_target(H, W, T, "ls") - H
    np.testing.assert_allclose(hidden_target(H, W, T, "relax") - H, min(1.0, J / n) * step, atol=1e-10)
    np.testing.assert_allclose(hidden_target(H, W, T, "damped") - H, step / n, atol=1e-10)


@settings(deadline=None)
@given(**sizes)
def test_a3_average_gain(seed: int, S: int, n: int, J: int) -> None:
    # The output moves by E G, G = W' D W, of trace n: a gain of n / J on average, and of 1 for "relax" if J <= n.
    _, W, _ = problem(seed, S, n, J)
    gains = {rule: hidden_target(np.zeros((J, n)), W, np.eye(J), rule) @ W for rule in ("ls", "relax")}
    assert np.trace(gains["ls"]) == pytest.approx(n, rel=1e-9)
    assert np.trace(gains["relax"]) == pytest.approx(min(n, J), rel=1e-9)


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), S=st.integers(1, 6), n=st.integers(1, 7))
def test_a14_3_overshoot_of_one_output_is_exactly_n(seed: int, S: int, n: int) -> None:
    H, W, T = problem(seed, S, n, 1)
    E = T - H @ W
    np.testing.assert_allclose(hidden_target(H, W, T, "ls") @ W - H @ W, n * E, rtol=1e-9, atol=1e-9)


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
@settings(deadline=None)
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


@every
def test_arguments_are_not_written_to(rule: str) -> None:
    given_ = problem(1, 5, 4, 2)
    kept = [array.copy() for array in given_]
    hidden_target(*given_, rule)
    for array, copy in zip(given_, kept, strict=True):
        np.testing.assert_array_equal(array, copy)
