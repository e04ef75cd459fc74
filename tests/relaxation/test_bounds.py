"""The safe lower bound as a function of arbitrary candidates."""

import itertools

import numpy as np
import pytest
from brute_force import global_optimum, random_problem
from hypothesis import given, settings
from hypothesis import strategies as st

from qsdp.losses import SCALAR_LOSSES
from qsdp.relaxation import best_dual_bound, spectral_bound


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_spectral_bound_holds_for_every_pair_of_sign_vectors(seed, d):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((d, d))
    M = M + M.T
    z = rng.uniform(1e-3, 1.0, d)
    # max over v of u' M v is the 1-norm of M u.
    largest = max(np.abs(M @ np.array(u)).sum() for u in itertools.product([-1, 1], repeat=d))
    assert largest <= spectral_bound(M, z) * z.sum() * (1 + 1e-12)


def test_spectral_bound_is_the_smallest_multiple_that_dominates():
    rng = np.random.default_rng(0)
    M = rng.standard_normal((6, 6))
    M, z = M + M.T, rng.uniform(0.1, 1.0, 6)
    t = spectral_bound(M, z)
    lowest = [np.linalg.eigvalsh(t * np.diag(z) + sign * M)[0] for sign in (-1, 1)]
    assert min(lowest) == pytest.approx(0.0, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 5),
    n=st.integers(2, 10),
    loss=st.sampled_from(sorted(SCALAR_LOSSES)),
    beta=st.sampled_from([1e-300, 1e-3, 0.1, 10.0]),
    scale=st.sampled_from([0.0, 1e-9, 1e-2, 1.0, 1e3, 1e9]),
)
def test_bound_of_any_dual_vector_and_any_weights_is_valid(seed, d, n, loss, beta, scale):
    problem = random_problem(seed, d, n, loss=loss, beta=beta)
    rng = np.random.default_rng(seed + 1)
    duals = [
        scale * rng.standard_normal(n),
        -problem.loss.gradient(scale * rng.standard_normal(n), problem.y),
    ]
    weights = [rng.standard_normal(d), 1e-8 * rng.uniform(size=d)]
    bound = best_dual_bound(problem, duals, weights)
    assert 0.0 <= bound.value <= global_optimum(problem).upper
    assert np.all(bound.z > 0.0)


def test_zero_entries_of_the_weights_are_no_obstacle():
    # The first column alone carries the data, so the best z is concentrated on it.
    problem = random_problem(5, 3, 12, beta=0.3)
    X = problem.X.copy()
    X[:, 1:] *= 1e-9
    three = type(problem)(X, problem.y, beta=0.3)
    one = type(problem)(X[:, :1], problem.y, beta=0.9)
    nu = -problem.loss.gradient(np.zeros(12), problem.y)
    expected = best_dual_bound(one, [nu]).value
    assert best_dual_bound(three, [nu], [np.array([1.0, 0.0, 0.0])]).value == pytest.approx(expected, rel=1e-7)
