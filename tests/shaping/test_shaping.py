"""Theorem 2: the shaped covariance proves itself, in closed form and by the paper's program."""

import tracemalloc

import cvxpy as cp
import numpy as np
import pytest
from brute_force import random_problem, random_vector_problem
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import qsdp
from qsdp.activations import get_activation
from qsdp.relaxation.scaled import RawSolution, ScaledProblem
from qsdp.relaxation.solution import finish
from qsdp.shaping import GAMMA, SHAPINGS, completion, shape_matrix

pytestmark = pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning")


def relaxation_of(seed, d, n=20, beta=0.1):
    return qsdp.solve_relaxation(random_problem(seed, d, n, beta=beta))


def test_gamma_is_krivines_constant():
    assert pytest.approx(np.log(1 + np.sqrt(2)), rel=1e-15) == GAMMA
    assert np.sinh(GAMMA) == pytest.approx(1.0, rel=1e-15)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_both_methods_are_exact_for_any_feasible_point(seed, d):
    # Not only at optima: any factor with unit rows gives a feasible point of the relaxation.
    rng = np.random.default_rng(seed)
    problem = random_problem(seed, d, 10, beta=1e-3)
    factor = rng.standard_normal((2 * d, rng.integers(1, 2 * d + 1)))
    factor /= np.linalg.norm(factor, axis=1, keepdims=True)
    K = factor @ factor.T
    relaxation = finish(
        ScaledProblem.from_problem(problem),
        RawSolution(K[None, :d, d:], K[None, :d, :d], K[None, d:, d:]),
        solver="none",
        tol=1e-6,
    )
    assert_proven(qsdp.shape_covariance(relaxation, "krivine"), relaxation, residual=1e-14, eigenvalue=-1e-13)
    adaptive = qsdp.shape_covariance(relaxation)
    assert_proven(adaptive, relaxation, residual=1e-12, eigenvalue=-1e-13)
    assert adaptive.constant >= GAMMA


@pytest.mark.parametrize("d", [1, 2, 5, 12])
@pytest.mark.parametrize("method", SHAPINGS)
def test_every_method_proves_itself(method, d):
    relaxation = relaxation_of(d, d)
    covariance = qsdp.shape_covariance(relaxation, method=method)
    assert covariance.method == method
    assert_proven(covariance, relaxation, residual=1e-12, eigenvalue=-1e-13)


def assert_proven(covariance, relaxation, *, residual, eigenvalue):
    Q, d = covariance.Q, relaxation.problem.dimension
    assert Q.shape == (2 * d, 2 * d)
    np.testing.assert_array_equal(Q, Q.T)
    scaled = relaxation.Z[0][0] / relaxation.rho[0, 0] if relaxation.rho[0, 0] else np.zeros((d, d))
    error = np.abs(np.arcsin(Q[:d, d:]) - covariance.constant * scaled).max()
    # What it says of itself is what is true, and what is true is small.
    assert covariance.residual == pytest.approx(error, abs=1e-15)
    assert covariance.residual <= residual
    assert covariance.diagonal_error == np.abs(Q.diagonal() - 1).max() <= 1e-14
    assert covariance.min_eigenvalue == pytest.approx(np.linalg.eigvalsh(Q)[0], abs=1e-12)
    assert covariance.min_eigenvalue >= eigenvalue


def test_weights_add_up_to_rho_pi_over_gamma():
    relaxation = relaxation_of(0, 4)
    covariance = qsdp.shape_covariance(relaxation, "krivine")
    assert covariance.total_weight == pytest.approx(relaxation.rho[0, 0] * np.pi / np.log(1 + np.sqrt(2)), rel=1e-15)
    # The sampled regulariser is K_G times that of the relaxation: pi / (2 gamma) of 2 beta D rho.
    assert covariance.total_weight / (2 * relaxation.rho[0, 0]) == pytest.approx(1.7822, abs=1e-4)


@pytest.mark.parametrize("method", ["krivine", "adaptive"])
def test_zero_point_gives_independent_signs(method):
    problem = random_problem(0, 3, 8, beta=1e9)
    covariance = qsdp.shape_covariance(qsdp.solve_relaxation(problem), method=method)
    np.testing.assert_array_equal(covariance.Q, np.eye(6))
    assert covariance.method == ("krivine, because Z is zero" if method == "adaptive" else "krivine")
    assert covariance.total_weight == 0.0
    assert (covariance.min_eigenvalue, covariance.residual) == (1.0, 0.0)


def test_the_covariance_of_the_zero_point_takes_no_memory():
    N = 1500
    tracemalloc.start()
    covariance = shape_matrix(np.zeros((N, N)), np.zeros((N, N)), 0.0, levels=2, activation=None, method="krivine")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Four matrices of zeros, two of them given; the covariance itself has the size of four.
    assert peak < 5 * 8 * N**2
    assert covariance.Q.shape == (2 * N, 2 * N)
    network = qsdp.sample_network(covariance, 4, random_state=0)
    assert np.array_equal(np.unique(network.U), [-1, 1])


# Several levels, lifts, several outputs


KINDS = [
    (3, None),
    (4, None),
    (2, "relu_like"),
    (3, "relu_like"),
    (4, (-0.5, 1.0, 0.25)),
    (128, None),
    (128, "relu_like"),
]
kinds = pytest.mark.parametrize(("levels", "activation"), KINDS, ids=str)


def levels_relaxation(levels, activation, beta=0.02):
    # All replicas are written out.
    d = 4 if levels < 100 else 2
    return qsdp.solve_relaxation(random_problem(21, d, 25, beta=beta, activation=activation, levels=levels))


def covariance_of_replicas(covariance):
    """Every replica of every coordinate of [u; v], written out."""
    owner = np.repeat(np.arange(len(covariance.Q)), covariance.replicas)
    full = covariance.Q[np.ix_(owner, owner)].copy()
    same = owner[:, None] == owner[None, :]
    full[same] = np.broadcast_to(covariance.replica_correlation[owner][:, None], full.shape)[same]
    np.fill_diagonal(full, 1.0)
    return full, owner


@pytest.mark.parametrize("method", SHAPINGS)
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
        np.arcsin(covariance.Q[:N, N:]), covariance.constant * relaxation.Z[0][0] / covariance.rho, atol=1e-8
    )
    assert covariance.residual <= 1e-8
    assert covariance.diagonal_error <= 1e-14
    assert covariance.rho == relaxation.rho[0, 0]
    assert covariance.constant > GAMMA if method == "adaptive" else covariance.constant == GAMMA
    assert covariance.total_weight == pytest.approx(covariance.rho * np.pi / covariance.constant, rel=1e-15)
    assert np.all(covariance.replica_correlation <= 1.0)
    several = covariance.replicas > 1
    assert np.all(
        covariance.replica_correlation[several] >= -1 / np.maximum(covariance.replicas[several] - 1, 1) - 1e-12
    )


@pytest.mark.parametrize("seed", [0, 3, 6])
@kinds
def test_smallest_eigenvalue_is_that_of_all_replicas(levels, activation, seed):
    d = 4 if levels < 100 else 2
    problem = random_problem(seed, d, 40, beta=1e-3, activation=activation, levels=levels)
    covariance = qsdp.shape_covariance(qsdp.solve_relaxation(problem))
    full, _ = covariance_of_replicas(covariance)
    assert covariance.min_eigenvalue == pytest.approx(np.linalg.eigvalsh(full)[0], abs=1e-12 * len(full))


@pytest.mark.parametrize("method", SHAPINGS)
def test_zero_point_of_several_levels_gives_independent_signs(method):
    problem = random_problem(0, 2, 8, beta=1e9, activation="relu_like", levels=3)
    covariance = qsdp.shape_covariance(qsdp.solve_relaxation(problem), method=method)
    np.testing.assert_allclose(covariance.Q[:3, 3:], 0.0, atol=1e-8)
    assert covariance.total_weight == 0.0


@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
@pytest.mark.parametrize(("levels", "activation"), [(2, None), (3, "relu_like")])
def test_several_outputs_have_a_covariance_each(levels, activation, loss):
    problem = random_vector_problem(3, 3, 12, 3, loss, beta=0.02, levels=levels, activation=activation)
    relaxation = qsdp.solve_relaxation(problem)
    covariances = qsdp.shape_covariance(relaxation)
    assert isinstance(covariances, list)
    assert len(covariances) == 3
    N = problem.size
    for k, covariance in enumerate(covariances):
        expected = covariance.constant * relaxation.Z[0][k] / (covariance.rho or 1.0)
        np.testing.assert_allclose(np.arcsin(covariance.Q[:N, N:]), expected, atol=1e-12)
        assert covariance.rho == relaxation.rho[k, 0]
        assert np.linalg.eigvalsh(covariance_of_replicas(covariance)[0])[0] >= -1e-12


# The adaptive constant

#: Relative errors of the adaptive constant by the number of levels; at pi / 2 the search misses twice its accuracy.
TOLERANCES = {2: 3e-3, 3: 2e-2}


def random_point(seed, size, outputs=1):
    """Blocks Z and V of feasible points with rho = 1, from few degrees of freedom to many, shape (outputs, ...)."""
    rng = np.random.default_rng(seed)
    blocks = []
    for _ in range(outputs):
        factor = rng.standard_normal((2 * size, rng.integers(1, 2 * size + 1)))
        kind = rng.integers(4)
        if kind == 1:
            factor = np.where(factor < 0.0, -1.0, 1.0)
        elif kind == 2:
            factor = factor * (rng.random(factor.shape) < 0.4) + 1e-9 * factor
        elif kind == 3:
            factor[size:] = factor[:size] * rng.choice([-1.0, 1.0], (size, 1))
        factor /= np.linalg.norm(factor, axis=1, keepdims=True)
        K = factor @ factor.T
        V, Z = 0.5 * (K[:size, :size] + K[size:, size:]), 0.5 * (K[:size, size:] + K[size:, :size])
        np.fill_diagonal(V, 1.0)
        blocks.append((rng.choice([1.0, 1.0, 1e-4]) * np.clip(Z, -1.0, 1.0), V))
    return np.stack([Z for Z, _ in blocks]), np.stack([V for _, V in blocks])


def least_diagonal_bound(S):
    """The least r for which a P with P +- S semidefinite and diag(P) <= r exists, by a solver."""
    P, r = cp.Variable(S.shape, symmetric=True), cp.Variable()
    return cp.Problem(cp.Minimize(r), [P + S >> 0, P - S >> 0, cp.diag(P) <= r]).solve(solver=cp.CLARABEL)


def largest_constant_by_a_solver(Z, accuracy=1e-5):
    low, high = GAMMA, 0.5 * np.pi / np.abs(Z).max()
    while high - low > accuracy * low:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if least_diagonal_bound(np.sin(middle * Z)) <= 1.0 else (low, middle)
    return low


def adaptive(Z, V=None, rho=1.0, *, levels=2, activation=None):
    V = rho * np.eye(len(Z)) if V is None else V
    return shape_matrix(Z, V, rho, levels=levels, activation=activation, method="adaptive")


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 9),
    st.sampled_from([2, 3, 6]),
    st.sampled_from([None, "relu_like"]),
    st.sampled_from([1, 3]),
)
def test_adaptive_is_exact_and_no_worse_than_krivine(seed, d, levels, activation, outputs):
    if outputs == 1:
        problem = random_problem(seed, d, 10, beta=1e-3, activation=activation, levels=levels)
    else:
        problem = random_vector_problem(
            seed, d, 10, outputs, "squared", beta=1e-3, levels=levels, activation=activation
        )
    N = problem.size
    Z, V = random_point(seed, N, outputs)
    relaxation = finish(
        ScaledProblem.from_problem(problem), RawSolution(Z, V, V), solver="none", tol=1e-6, stretch=False
    )
    found, krivine = (qsdp.shape_covariance(relaxation, method=method) for method in ("adaptive", "krivine"))
    found, krivine = (found, krivine) if outputs > 1 else ([found], [krivine])
    for one, other, Z, rho in zip(found, krivine, relaxation.Z_stack, relaxation.rho_stack, strict=True):
        assert one.constant >= GAMMA
        assert one.rho == rho
        assert one.total_weight <= other.total_weight
        # What it says of itself is true and small.
        # Zero is the better point of some problems, and has no scale.
        scaled = np.clip(Z / (rho or 1.0), -1, 1)
        assert one.residual == np.abs(np.arcsin(one.Q[:N, N:]) - one.constant * scaled).max() < 1e-12
        assert one.diagonal_error == np.abs(one.Q.diagonal() - 1).max() == 0.0
        full, _ = covariance_of_replicas(one)
        assert np.linalg.eigvalsh(full)[0] >= -3e-14 * len(full)
        assert one.min_eigenvalue >= -1e-15 * len(full)
        np.testing.assert_array_equal(one.Q, one.Q.T)
        np.testing.assert_array_equal(one.replica_correlation[one.replicas == 1], 1.0)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_adaptive_constant_is_the_largest_that_a_solver_finds(seed, size):
    # The solver's own error, about 1e-8 of the diagonal, costs the more of c the flatter the bound is in c.
    Z = random_point(seed, size)[0][0]
    assume(np.any(Z))  # of zero every constant is right
    expected = largest_constant_by_a_solver(Z)
    assert adaptive(Z).constant == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize(("seed", "activation"), [(0, None), (1, None), (2, "relu_like"), (3, (-0.5, 1.0, 0.25))])
@pytest.mark.parametrize("levels", [2, 3])
def test_adaptive_constant_of_solved_problems(seed, activation, levels):
    relaxation = qsdp.solve_relaxation(random_problem(seed, 5, 25, beta=0.1, activation=activation, levels=levels))
    expected = largest_constant_by_a_solver(np.clip(relaxation.Z[0][0] / relaxation.rho[0, 0], -1.0, 1.0))
    constant = qsdp.shape_covariance(relaxation, method="adaptive").constant
    assert expected * (1.0 - (1e-2 if levels > 2 else 1e-3)) <= constant <= expected * (1.0 + 1e-4)


@pytest.mark.parametrize("rho", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("size", [1, 2, 7, 40])
@pytest.mark.parametrize(("levels", "activation"), [(2, None), (3, None), (3, "relu_like")])
def test_adaptive_constant_of_one_outer_product_is_half_pi(size, levels, activation, rho):
    sigma = get_activation(activation)
    q = np.where(np.random.default_rng(size).random(size + (sigma is not None)) < 0.5, -1.0, 1.0)
    Z = rho * np.outer(q, q)
    for sign in (1.0, -1.0):
        covariance = adaptive(sign * Z, np.outer(q, q) * rho, rho, levels=levels, activation=sigma)
        assert np.pi / 2 * (1.0 - TOLERANCES[levels]) <= covariance.constant < np.pi / 2
        assert covariance.residual < 1e-12
        assert covariance.min_eigenvalue >= -1e-13
    if levels == 2:
        # No noise is left: all neurons are q, up to the signs of the pair.
        network = qsdp.sample_network(covariance, 200, random_state=0)
        np.testing.assert_allclose(network.alpha.sum(), 2.0 * rho, rtol=3e-3)
        np.testing.assert_allclose((network.U.T * network.alpha) @ network.V, -2.0 * Z, rtol=0.05)


def test_adaptive_constant_exceeds_half_pi_where_rho_is_not_tight():
    # sin(c Z) = [[0, sin(c / 2)], [sin(c / 2), 0]] completes with P = I for every c; arcsin ends at c = pi.
    Z = np.array([[0.0, 0.5], [0.5, 0.0]])
    covariance = adaptive(Z)
    assert covariance.constant == pytest.approx(np.pi, rel=2e-3)
    np.testing.assert_allclose(np.arcsin(covariance.Q[:2, 2:]), covariance.constant * Z, atol=1e-12)


@pytest.mark.parametrize("size", [0.0, 5e-324, 1e-300, 1e-100, 1e-8])
def test_adaptive_constant_of_tiny_points(size):
    covariance = adaptive(size * random_point(5, 4)[0][0])
    assert covariance.constant >= GAMMA
    assert np.isfinite(covariance.total_weight)
    assert covariance.residual < 1e-12
    assert covariance.min_eigenvalue >= -1e-14
    if size == 0.0:
        np.testing.assert_array_equal(covariance.Q, np.eye(8))
        assert covariance.constant == GAMMA


def test_coordinates_without_a_part_in_z_stay_independent():
    Z = np.zeros((5, 5))
    Z[:3, :3] = random_point(1, 3)[0][0]
    covariance = adaptive(Z)
    np.testing.assert_allclose(covariance.Q[3:5, :3], 0.0, atol=1e-12)
    assert covariance.constant == pytest.approx(adaptive(Z[:3, :3]).constant, rel=1e-3)


def test_adaptive_constant_follows_permutations_signs_and_levels():
    rng = np.random.default_rng(2)
    Z = random_point(2, 6)[0][0]
    constant = adaptive(Z).constant
    order, signs = rng.permutation(6), rng.choice([-1.0, 1.0], 6)
    assert adaptive(Z[np.ix_(order, order)]).constant == pytest.approx(constant, rel=1e-3)
    assert adaptive(Z * np.outer(signs, signs)).constant == pytest.approx(constant, rel=1e-3)
    assert adaptive(-Z).constant == pytest.approx(constant, rel=1e-3)
    # Several levels stop a hundredth earlier, for the sake of the levels between.
    for levels in (3, 6, 128):
        several = adaptive(Z, levels=levels)
        assert constant * 0.99 <= several.constant <= constant * (1.0 + 1e-3)
        assert several.replica_correlation.min() < 1.0 - 1e-3


@pytest.mark.parametrize("steps", range(6))
def test_adaptive_search_may_be_cut_short(steps, monkeypatch):
    # Whatever the number of steps, what is returned is feasible, and the closed form where nothing was found.
    relaxation = relaxation_of(0, 6)
    monkeypatch.setattr(completion, "MAX_STEPS", steps)
    covariance = qsdp.shape_covariance(relaxation, method="adaptive")
    assert covariance.constant >= GAMMA
    assert_proven(covariance, relaxation, residual=1e-12, eigenvalue=-1e-13)


@pytest.mark.parametrize("levels", [2, 3])
def test_adaptive_falls_back_on_the_closed_form(levels, monkeypatch):
    relaxation = levels_relaxation(levels, "relu_like")
    monkeypatch.setattr(completion, "MAX_STEPS", 0)
    found, closed = (qsdp.shape_covariance(relaxation, method=method) for method in ("adaptive", "krivine"))
    reason = "krivine, because no completion was reached in 0 steps"
    assert (found.method, found.constant, found.rho) == (reason, GAMMA, closed.rho)
    np.testing.assert_array_equal(found.Q, closed.Q)
    np.testing.assert_array_equal(found.replica_correlation, closed.replica_correlation)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.floats(-9, 0))
def test_bounds_of_a_weighting_hold_and_have_their_derivatives(seed, size, exponent):
    rng = np.random.default_rng(seed)
    Z = random_point(seed, size)[0][0]
    weights = 10.0 ** (exponent * rng.random(size))
    weights /= weights.sum()
    P, lower, _, *eigen = completion._bounds(Z, weights, 1.0)
    curvature = completion._curvature(*eigen)
    S = np.sin(Z)
    for sign in (1.0, -1.0):
        assert np.linalg.eigvalsh(P + sign * S)[0] >= -1e-14 * size
    assert weights @ P.diagonal() == pytest.approx(lower, abs=1e-12)
    # No point has a smaller weighted trace: the blocks of a feasible point, scaled to sin(Z) by sinh.
    V = np.sinh(random_point(seed, size)[1][0])
    assert lower <= weights @ V.diagonal() + 1e-12
    # Homogeneous of degree one in w, and concave.
    np.testing.assert_allclose(curvature.sum(axis=0), 0.0, atol=1e-12)
    assert np.linalg.eigvalsh(curvature)[0] >= -1e-3 * np.abs(curvature).max() - 1e-12


def test_derivatives_of_the_lower_bound_are_those_of_differences():
    rng = np.random.default_rng(4)
    Z = random_point(11, 5)[0][0]
    weights = rng.random(5) + 0.2
    weights /= weights.sum()
    P, _, slope, *eigen = completion._bounds(Z, weights, 1.0)
    curvature = completion._curvature(*eigen)
    h, change = 1e-6, rng.standard_normal(5)

    def moved(step, c=1.0):
        return completion._bounds(Z, weights * (1.0 + step * change), c)

    assert slope == pytest.approx((moved(0.0, 1 + h).lower - moved(0.0, 1 - h).lower) / (2 * h), rel=1e-7)
    first = (moved(h).lower - moved(-h).lower) / (2 * h)
    assert first == pytest.approx(weights * change @ P.diagonal(), rel=1e-7)
    second = weights * change @ (moved(h).P.diagonal() - moved(-h).P.diagonal()) / (2 * h)
    # It is accurate to the part of the sum that is left out.
    assert second == pytest.approx(-change @ curvature @ change, rel=1e-2)
