"""Theorem 2: the shaped covariance proves itself, in closed form and by the paper's program."""

import numpy as np
import pytest
from brute_force import random_problem, random_vector_problem
from hypothesis import given, settings
from hypothesis import strategies as st

import qsdp
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.relaxation.solution import RawSolution, finish
from qsdp.shaping import GAMMA, smallest_diagonal

pytestmark = pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning")


def relaxation_of(seed, d, n=20, beta=0.1):
    return qsdp.solve_relaxation(random_problem(seed, d, n, beta=beta))


def test_gamma_is_krivines_constant():
    assert pytest.approx(np.log(1 + np.sqrt(2)), rel=1e-15) == GAMMA
    assert np.sinh(GAMMA) == pytest.approx(1.0, rel=1e-15)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_krivine_is_exact_for_any_feasible_point(seed, d):
    # Not only at optima: any factor with unit rows gives a feasible point of the relaxation.
    rng = np.random.default_rng(seed)
    problem = random_problem(seed, d, 10, beta=1e-3)
    factor = rng.standard_normal((2 * d, rng.integers(1, 2 * d + 1)))
    factor /= np.linalg.norm(factor, axis=1, keepdims=True)
    K = factor @ factor.T
    relaxation = finish(
        problem, RawSolution(K[None, :d, d:], K[None, :d, :d], K[None, d:, d:]), solver="none", tol=1e-6
    )
    covariance = qsdp.shape_covariance(relaxation)
    assert_proven(covariance, relaxation, residual=1e-14, eigenvalue=-1e-13)


@pytest.mark.parametrize("d", [1, 2, 5, 12])
@pytest.mark.parametrize("method", ["krivine", "sdp"])
def test_both_methods_prove_themselves(method, d):
    relaxation = relaxation_of(d, d)
    covariance = qsdp.shape_covariance(relaxation, method=method)
    assert covariance.method == method
    assert_proven(covariance, relaxation, residual=1e-8, eigenvalue=-1e-13)


@pytest.mark.parametrize("d", [2, 5, 12])
def test_methods_agree_in_the_off_diagonal_block(d):
    relaxation = relaxation_of(d + 50, d)
    krivine, program = (qsdp.shape_covariance(relaxation, method=method).Q for method in ("krivine", "sdp"))
    np.testing.assert_allclose(program[:d, d:], krivine[:d, d:], atol=1e-8)


def assert_proven(covariance, relaxation, *, residual, eigenvalue):
    Q, d = covariance.Q, relaxation.problem.dimension
    assert Q.shape == (2 * d, 2 * d)
    np.testing.assert_array_equal(Q, Q.T)
    scaled = relaxation.Z / relaxation.rho if relaxation.rho else np.zeros((d, d))
    error = np.abs(np.arcsin(Q[:d, d:]) - covariance.constant * scaled).max()
    # What it says of itself is what is true, and what is true is small.
    assert covariance.residual == pytest.approx(error, abs=1e-15)
    assert covariance.residual <= residual
    assert covariance.diagonal_error == np.abs(Q.diagonal() - 1).max() <= 1e-14
    assert covariance.min_eigenvalue == pytest.approx(np.linalg.eigvalsh(Q)[0], abs=1e-12)
    assert covariance.min_eigenvalue >= eigenvalue


def test_weights_add_up_to_rho_pi_over_gamma():
    relaxation = relaxation_of(0, 4)
    covariance = qsdp.shape_covariance(relaxation)
    assert covariance.total_weight == pytest.approx(relaxation.rho * np.pi / np.log(1 + np.sqrt(2)), rel=1e-15)
    # The sampled regulariser is K_G times that of the relaxation: pi / (2 gamma) of 2 beta D rho.
    assert covariance.total_weight / (2 * relaxation.rho) == pytest.approx(1.7822, abs=1e-4)


def test_zero_point_gives_independent_signs():
    problem = random_problem(0, 3, 8, beta=1e9)
    covariance = qsdp.shape_covariance(qsdp.solve_relaxation(problem))
    np.testing.assert_array_equal(covariance.Q, np.eye(6))
    assert covariance.total_weight == 0.0


def test_names_and_kinds_are_checked():
    relaxation = relaxation_of(0, 2)
    with pytest.raises(InvalidInputError, match="did you mean 'krivine'"):
        qsdp.shape_covariance(relaxation, method="krivin")
    with pytest.raises(InvalidTypeError, match="must be a Relaxation; got ndarray"):
        qsdp.shape_covariance(np.eye(2))


def test_repr_tells_method_and_residual():
    text = repr(qsdp.shape_covariance(relaxation_of(0, 2)))
    assert "method='krivine'" in text
    assert "residual=" in text


# Several levels, lifts, several outputs


KINDS = [(3, None), (4, None), (2, "relu"), (3, "relu"), (4, (-0.5, 1.0, 0.25)), (128, None), (128, "relu")]
kinds = pytest.mark.parametrize(("levels", "activation"), KINDS, ids=str)


def levels_relaxation(levels, activation, d=4, beta=0.02):
    return qsdp.solve_relaxation(random_problem(21, d, 25, beta=beta, activation=activation, levels=levels))


def covariance_of_replicas(covariance):
    """Every replica of every coordinate of [u; v], written out."""
    owner = np.repeat(np.arange(len(covariance.Q)), covariance.replicas)
    full = covariance.Q[np.ix_(owner, owner)].copy()
    same = owner[:, None] == owner[None, :]
    full[same] = np.broadcast_to(covariance.replica_correlation[owner][:, None], full.shape)[same]
    np.fill_diagonal(full, 1.0)
    return full, owner


@pytest.mark.parametrize("method", ["krivine", "sdp"])
@kinds
def test_covariance_of_all_replicas(levels, activation, method):
    relaxation = levels_relaxation(levels, activation)
    problem, N = relaxation.problem, relaxation.problem.size
    covariance = qsdp.shape_covariance(relaxation, method=method)
    assert covariance.dimension == N
    assert covariance.levels == levels
    assert covariance.activation == problem.activation
    expected = np.r_[np.full(problem.n_features, levels - 1), np.ones(N - problem.n_features)]
    np.testing.assert_array_equal(covariance.replicas, np.r_[expected, expected])
    full, owner = covariance_of_replicas(covariance)
    assert len(full) == 2 * problem.dimension
    np.testing.assert_array_equal(full, full.T)
    np.testing.assert_allclose(full.diagonal(), 1.0, atol=1e-14)
    lowest = np.linalg.eigvalsh(full)[0]
    assert lowest >= -1e-13 * len(full)
    # Means over replicas: what is sampled first.
    average = (owner[None, :] == np.arange(2 * N)[:, None]) / covariance.replicas[:, None]
    np.testing.assert_allclose(covariance.mean_covariance, average @ full @ average.T, atol=1e-12)
    assert np.linalg.eigvalsh(covariance.mean_covariance)[0] >= -1e-13
    # The identity that makes the mean right.
    np.testing.assert_allclose(
        np.arcsin(covariance.Q[:N, N:]), covariance.constant * relaxation.Z / covariance.rho, atol=1e-8
    )
    assert covariance.residual <= 1e-8
    assert covariance.diagonal_error <= 1e-14
    # rho may grow by the small excess that smallest_diagonal left.
    assert relaxation.rho <= covariance.rho <= relaxation.rho * 1.02
    assert covariance.total_weight == pytest.approx(covariance.rho * np.pi / GAMMA, rel=1e-15)
    assert np.all(covariance.replica_correlation <= 1.0)
    several = covariance.replicas > 1
    assert np.all(
        covariance.replica_correlation[several] >= -1 / np.maximum(covariance.replicas[several] - 1, 1) - 1e-12
    )


@pytest.mark.parametrize("seed", [0, 3, 6])
@kinds
def test_smallest_eigenvalue_is_that_of_all_replicas(levels, activation, seed):
    problem = random_problem(seed, 4, 40, beta=1e-3, activation=activation, levels=levels)
    covariance = qsdp.shape_covariance(qsdp.solve_relaxation(problem))
    full, _ = covariance_of_replicas(covariance)
    assert covariance.min_eigenvalue == pytest.approx(np.linalg.eigvalsh(full)[0], abs=1e-12 * len(full))


@pytest.mark.parametrize("method", ["krivine", "sdp"])
def test_zero_point_of_several_levels_gives_independent_signs(method):
    problem = random_problem(0, 2, 8, beta=1e9, activation="relu", levels=3)
    covariance = qsdp.shape_covariance(qsdp.solve_relaxation(problem), method=method)
    np.testing.assert_allclose(covariance.Q[:3, 3:], 0.0, atol=1e-8)
    assert covariance.total_weight == 0.0


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.floats(-6, 6))
def test_smallest_diagonal_is_feasible_and_no_larger(seed, d, exponent):
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((2 * d, rng.integers(1, 2 * d + 1)))
    factor /= np.linalg.norm(factor, axis=1, keepdims=True)
    K = 10.0**exponent * factor @ factor.T
    Z, V, rho = 0.5 * (K[:d, d:] + K[d:, :d]), 0.5 * (K[:d, :d] + K[d:, d:]), 10.0**exponent
    np.fill_diagonal(V, rho)
    small, grown = smallest_diagonal(Z, V, rho)
    np.testing.assert_array_equal(small, small.T)
    for sign in (-1, 1):
        assert np.linalg.eigvalsh(small + sign * Z)[0] >= -1e-12 * rho
    assert rho <= grown <= rho * 1.02
    assert np.all(small.diagonal() <= grown)
    assert np.trace(small) <= np.trace(V) * 1.001
    # Not below what any feasible V needs: the sum of the singular values of Z.
    assert np.trace(small) >= np.abs(np.linalg.eigvalsh(Z)).sum() - 1e-9 * rho


def test_smallest_diagonal_is_the_spectral_absolute_value_where_that_fits():
    Z = np.array([[0.2, 0.1], [0.1, -0.3]])
    small, rho = smallest_diagonal(Z, np.eye(2), 1.0)
    np.testing.assert_allclose(small @ small, Z @ Z, atol=1e-14)
    assert rho == 1.0


@pytest.mark.parametrize("seed", range(6))
def test_smallest_diagonal_is_nearly_the_least_trace(seed):
    cp = pytest.importorskip("cvxpy")
    d = 4
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((2 * d, 3))
    factor /= np.linalg.norm(factor, axis=1, keepdims=True)
    K = factor @ factor.T
    Z, V = 0.5 * (K[:d, d:] + K[d:, :d]), 0.5 * (K[:d, :d] + K[d:, d:])
    np.fill_diagonal(V, 1.0)
    W = cp.Variable((d, d), symmetric=True)
    least = cp.Problem(cp.Minimize(cp.trace(W)), [W + Z >> 0, W - Z >> 0, cp.diag(W) <= 1]).solve(solver=cp.CLARABEL)
    small, _ = smallest_diagonal(Z, V, 1.0)
    assert np.trace(small) == pytest.approx(least, rel=0.01)


def test_a_diagonal_that_cannot_shrink_is_kept_or_reached():
    # One sign outer product: V = Z is the only feasible point.
    q = np.array([1.0, -1.0, 1.0])
    small, rho = smallest_diagonal(np.outer(q, q), np.outer(q, q), 1.0)
    np.testing.assert_allclose(small, np.outer(q, q), atol=1e-12)
    assert rho == pytest.approx(1.0)
    small, rho = smallest_diagonal(np.zeros((3, 3)), np.eye(3), 1.0)
    assert not small.any()


@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
@pytest.mark.parametrize(("levels", "activation"), [(2, None), (3, "relu")])
def test_several_outputs_have_a_covariance_each(levels, activation, loss):
    problem = random_vector_problem(3, 3, 12, 3, loss, beta=0.02, levels=levels, activation=activation)
    relaxation = qsdp.solve_relaxation(problem)
    covariances = qsdp.shape_covariance(relaxation)
    assert isinstance(covariances, list)
    assert len(covariances) == 3
    N = problem.size
    for k, covariance in enumerate(covariances):
        scale = covariance.rho or 1.0
        np.testing.assert_allclose(np.arcsin(covariance.Q[:N, N:]), GAMMA * relaxation.Z[k] / scale, atol=1e-12)
        assert covariance.rho == pytest.approx(relaxation.rho[k], rel=0.02)
        assert np.linalg.eigvalsh(covariance_of_replicas(covariance)[0])[0] >= -1e-12
