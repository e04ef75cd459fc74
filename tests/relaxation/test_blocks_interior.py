"""The interior-point method on blocks: against enumeration, and against the same data in one block."""

from __future__ import annotations

import numpy as np
import pytest
from block_problems import LOSSES, enumerated_optimum, random_problem

import qsdp


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_point_and_bound_enclose_the_relaxation_and_the_bound_the_optimum(loss: str, seed: int) -> None:
    n_outputs = 1 if loss == "cross_entropy" else 1 + seed % 2
    problem = random_problem(seed, loss, n=60 if seed == 0 else 12, n_outputs=n_outputs)
    relaxation = qsdp.solve_relaxation(problem, solver="interior")
    assert relaxation.relative_gap < 1e-5
    optimum = enumerated_optimum(problem)
    assert relaxation.lower_bound <= optimum * (1.0 + 1e-6)
    assert relaxation.objective == pytest.approx(problem.relaxed_objective(relaxation.Z, relaxation.rho), rel=1e-12)
    for Z, V, radii in zip(relaxation.Z, relaxation.V, relaxation.rho.T, strict=True):
        for z, v, radius in zip(Z, V, radii, strict=True):
            if z.ndim == 1:
                # A linear block has vectors, |z| <= rho.
                np.testing.assert_allclose(v, radius, rtol=1e-9, atol=1e-12)
                assert np.abs(z).max() <= radius * (1.0 + 1e-9)
                continue
            assert np.diagonal(v) == pytest.approx(radius, rel=1e-9, abs=1e-12)
            assert min(np.linalg.eigvalsh(v + z)[0], np.linalg.eigvalsh(v - z)[0]) >= -1e-9 * max(radius, 1e-3)


@pytest.mark.parametrize("loss", ["squared", "logistic", "absolute", "cross_entropy"])
def test_one_block_of_products_is_the_problem_of_the_columns(loss: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4))
    y = rng.integers(0, 3, size=40) if loss == "cross_entropy" else np.where(X[:, 0] * X[:, 1] > 0.0, 1.0, -1.0)
    first, second = np.triu_indices(4)
    blocks = qsdp.Blocks(X[:, first] * X[:, second], sizes=[4])
    columns = qsdp.TrainingProblem(X, y, beta=0.5, loss=loss)
    alone, one = (
        qsdp.solve_relaxation(columns),
        qsdp.solve_relaxation(qsdp.TrainingProblem(blocks, y, beta=0.5, loss=loss)),
    )
    assert one.objective == pytest.approx(alone.objective, rel=1e-5)
    assert one.lower_bound == pytest.approx(alone.lower_bound, rel=1e-5)
    assert qsdp.beta_max(one.problem) == pytest.approx(qsdp.beta_max(columns), rel=1e-8)


def test_linear_blocks_have_no_gap() -> None:
    rng = np.random.default_rng(0)
    blocks = qsdp.Blocks(rng.standard_normal((30, 7)), sizes=[3, 4], kinds=["linear", "linear"])
    problem = qsdp.TrainingProblem(blocks, rng.standard_normal(30), beta=0.4)
    relaxation = qsdp.solve_relaxation(problem)
    assert relaxation.objective == pytest.approx(enumerated_optimum(problem), rel=1e-6)


def test_a_singular_gram_matrix_and_zero_rows_are_ordinary() -> None:
    # Every block holds the same constant, and one block has no variation at all.
    rng = np.random.default_rng(0)
    patches = np.concatenate([rng.standard_normal((200, 3, 2)), np.ones((200, 3, 1))], axis=2)
    patches[:, 2, :2] = 0.0
    first, second = np.triu_indices(3)
    blocks = qsdp.Blocks((patches[:, :, first] * patches[:, :, second]).reshape(200, -1), sizes=[3, 3, 3])
    problem = qsdp.TrainingProblem(blocks, patches[:, 0, 0] * patches[:, 1, 1], beta=0.2)
    relaxation = qsdp.solve_relaxation(problem)
    assert relaxation.status == "optimal"
    assert relaxation.lower_bound <= enumerated_optimum(problem) * (1.0 + 1e-6)


def test_warm_start_and_path() -> None:
    problem = random_problem(1, n=50)
    first = qsdp.solve_relaxation(problem)
    warm = qsdp.solve_relaxation(problem.with_beta(0.9 * problem.beta), start=first)
    cold = qsdp.solve_relaxation(problem.with_beta(0.9 * problem.beta))
    assert warm.objective == pytest.approx(cold.objective, rel=1e-5)
