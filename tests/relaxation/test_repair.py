"""Repair: every output is feasible, good input stays good."""

import numpy as np
import pytest
from brute_force import random_problem
from hypothesis import given, settings
from hypothesis import strategies as st

from qsdp.losses import SCALAR_LOSSES
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.repair import repair as repair_instance
from qsdp.relaxation.scaled import RawSolution


def repair(problem, *blocks):
    """Repair of one output, without its axis."""
    stacked = [None if block is None else block[None] for block in blocks]
    return [part[0] for part in repair_instance(Instance.from_problem(problem), RawSolution(*stacked))[:3]]


def random_feasible(rng, d):
    factor = rng.standard_normal((2 * d, 2 * d))
    factor /= np.linalg.norm(factor, axis=1, keepdims=True)
    K = factor @ factor.T
    return K[:d, d:], K[:d, :d], K[d:, d:]


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 6),
    st.sampled_from(sorted(SCALAR_LOSSES)),
    st.sampled_from([1e-300, 1e-6, 1.0]),
)
def test_output_is_feasible_and_no_worse_than_zero(seed, d, loss, beta):
    rng = np.random.default_rng(seed)
    problem = random_problem(seed, d, 8, loss=loss, beta=beta)
    Z, V, rho = repair(problem, *rng.standard_normal((3, d, d)))
    K = np.block([[V, Z], [Z.T, V]])
    assert np.linalg.eigvalsh(K)[0] >= -1e-12 * max(rho, 1.0)
    np.testing.assert_array_equal(K.diagonal(), np.full(2 * d, rho))
    at_zero = problem.loss.value(np.zeros(8), problem.y)
    assert problem.relaxed_objective([Z[None]], [[rho]]) <= at_zero * (1 + 1e-12)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.sampled_from(sorted(SCALAR_LOSSES)))
def test_feasible_points_never_get_worse(seed, d, loss):
    rng = np.random.default_rng(seed)
    problem = random_problem(seed, d, 8, loss=loss)
    Z, V, W = random_feasible(rng, d)
    before = problem.relaxed_objective([Z[None]], [[1.0]])
    repaired_Z, _, rho = repair(problem, Z, V, W)
    assert problem.relaxed_objective([repaired_Z[None]], [[rho]]) <= before * (1 + 1e-9)


def test_the_repair_of_a_feasible_point_needs_no_eigenvalues(monkeypatch):
    problem = random_problem(0, 6, 12)
    Z, V, W = random_feasible(np.random.default_rng(0), 6)
    monkeypatch.setattr("qsdp.relaxation.repair.positive_part", None)
    repaired = repair_instance(Instance.from_problem(problem), RawSolution(Z[None], V[None], W[None]), stretch=False)
    for one, other in zip(repaired[:3], (0.5 * (Z + Z.T), 0.5 * (V + W), 1.0), strict=True):
        np.testing.assert_allclose(one[0], other, rtol=1e-12, atol=1e-12)


def test_scale_of_the_input_is_forgotten():
    problem = random_problem(0, 4, 12)
    Z, V, W = random_feasible(np.random.default_rng(0), 4)
    reference = repair(problem, Z, V, W)
    for scale in (0.01, 100.0):
        for expected, actual in zip(reference, repair(problem, scale * Z, scale * V, scale * W), strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("bad", [None, np.full((3, 3), np.nan), np.full((3, 3), np.inf), -np.eye(3)])
def test_useless_input_gives_the_zero_point(bad):
    Z, V, rho = repair(random_problem(0, 3, 8), bad, bad, bad)
    assert rho == 0.0
    assert not Z.any()
    assert not V.any()
