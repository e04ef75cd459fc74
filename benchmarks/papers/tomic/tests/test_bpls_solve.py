"""A.5: the least squares of one layer, and what is said of its design matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.papers.tomic.passes import Factorisation, solve_layer

shapes = {"seed": st.integers(0, 10**6), "S": st.integers(1, 12), "n": st.integers(1, 9), "J": st.integers(1, 40)}


def data(seed: int, S: int, n: int, J: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((S, n)), rng.standard_normal((S, J))


def deficient(seed: int, S: int, n: int, rank: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((S, rank)) @ rng.standard_normal((rank, n))


@settings(deadline=None)
@given(**shapes)
def test_a5_without_ridge_it_is_the_solution_of_minimum_norm(seed: int, S: int, n: int, J: int) -> None:
    A, B = data(seed, S, n, J)
    W, _ = solve_layer(A, B, 0.0)
    expected = np.linalg.lstsq(A, B, rcond=None)[0]
    np.testing.assert_allclose(W, expected, atol=1e-8 * (1 + np.abs(expected).max()))


@pytest.mark.parametrize(("S", "n", "rank"), [(30, 8, 3), (8, 30, 3), (8, 8, 3)])
def test_a5_without_full_rank(S: int, n: int, rank: int) -> None:
    A = deficient(0, S, n, rank)
    B = np.random.default_rng(1).standard_normal((S, 5))
    W, diagnose = solve_layer(A, B, 0.0)
    design = diagnose()
    np.testing.assert_allclose(W, np.linalg.pinv(A, rcond=1e-10) @ B, atol=1e-10)
    values = np.linalg.svd(A, compute_uv=False)
    assert (design.n_samples, design.n_columns, design.rank) == (S, n, rank)
    assert design.condition == pytest.approx(values[0] / values[rank - 1], rel=1e-9)


@settings(deadline=None)
@given(**shapes, ridge=st.floats(1e-6, 10.0))
def test_a5_with_ridge_the_gradient_vanishes(seed: int, S: int, n: int, J: int, ridge: float) -> None:
    A, B = data(seed, S, n, J)
    W, _ = solve_layer(A, B, ridge)
    # Half the gradient of |AW - B|^2 + ridge S |W|^2: the ridge is scaled by the samples of this very solve.
    gradient = A.T @ (A @ W - B) + ridge * S * W
    np.testing.assert_allclose(gradient, 0.0, atol=1e-10 * (1 + np.abs(A.T @ B).max()))


@pytest.mark.parametrize("ridge", [0.0, 1e-3])
def test_a11_1_the_printed_inverse_fails_and_the_solve_does_not(ridge: float) -> None:
    # Two inputs into three linear neurons: the first example of the paper.
    X = np.column_stack([[1.0, 3.0, 5.0, 7.0, 9.0], np.ones(5)])
    Y = X @ [[-1 / 3, 2.0], [2.0, -1.0]]
    failures, worst = 0, 0.0
    for seed in range(200):
        H = X @ np.random.default_rng(seed).uniform(-1, 1, (2, 3))
        try:
            printed = np.linalg.inv(H.T @ H) @ (H.T @ Y)
            failures += not np.abs(H @ printed - Y).max() < 1e-3
        except np.linalg.LinAlgError:
            failures += 1
        W, diagnose = solve_layer(H, Y, ridge)
        design = diagnose()
        assert design.rank == 2
        if ridge == 0.0:
            worst = max(worst, float(np.abs(H @ W - Y).max()))
        assert np.isfinite(W).all()
    assert failures > 150
    assert worst < 1e-9


@pytest.mark.parametrize("ridge", [0.0, 1e-3])
@pytest.mark.parametrize("J", [1, 16, 17, 53])
def test_a14_11_any_number_of_threads_gives_the_same_columns(ridge: float, J: int) -> None:
    A, B = data(0, 200, 12, J)
    factorisation = Factorisation(A, ridge)
    W = factorisation.solve(B)
    for n_jobs in (2, 3):
        assert factorisation.solve(B, n_jobs).tobytes() == W.tobytes()
    columns = np.column_stack([solve_layer(A, B[:, [j]], ridge)[0] for j in range(J)])
    np.testing.assert_allclose(columns, W, rtol=1e-11, atol=1e-13)
