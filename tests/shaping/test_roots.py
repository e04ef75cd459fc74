"""Roots of covariances and their smallest eigenvalues, by eigenvectors and by triangular factors."""

import numpy as np
import pytest
import scipy.linalg

import qsdp
from qsdp.relaxation.scaled import RawSolution, ScaledProblem
from qsdp.relaxation.solution import finish
from qsdp.shaping import GAMMA, roots, shape
from qsdp.shaping.roots import halves, root_of, smallest_eigenvalue

pytestmark = pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning")


@pytest.fixture
def triangular(monkeypatch):
    """No side is small enough for eigenvectors."""
    monkeypatch.setattr(roots, "QUICK_SIDE", 0)


def covariance_matrix(N, rank, symmetric=True):
    """[P S; S P] whose halves have a rank each, or one of other diagonal blocks."""
    rng = np.random.default_rng(N + rank)
    A, B = rng.normal(size=(2, N, rank))
    plus, minus = A @ A.T, B @ B.T
    P, S = 0.5 * (plus + minus), 0.5 * (plus - minus)
    Q = np.block([[P, S], [S, P]])
    if not symmetric:
        Q[:N, :N] *= 2.0
    return Q


def matrix_of(root):
    return root.products(np.eye(root.side)).T


@pytest.mark.parametrize("symmetric", [True, False])
def test_root_is_the_symmetric_one(symmetric):
    Q = covariance_matrix(5, 3, symmetric)
    assert len(halves(Q)) == 1 + symmetric
    values = np.concatenate([np.linalg.eigvalsh(half) for half in halves(Q)])
    np.testing.assert_allclose(np.sort(values), np.linalg.eigvalsh(Q), atol=1e-12)
    root = matrix_of(root_of(Q))
    np.testing.assert_allclose(root, root.T, atol=1e-12)
    np.testing.assert_allclose(root @ root, Q, atol=1e-12)
    assert np.linalg.eigvalsh(root).min() >= -1e-12


@pytest.mark.usefixtures("triangular")
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(("N", "rank"), [(2, 1), (5, 3), (7, 7), (40, 12), (30, 60)])
def test_triangular_root_of_any_rank(N, rank, symmetric):
    Q = covariance_matrix(N, rank, symmetric)
    found = root_of(Q)
    assert len(found.factors) == 1 + symmetric
    for factor in found.factors:
        np.testing.assert_array_equal(factor, np.tril(factor))
        assert np.all(factor.diagonal() > 0.0)
    root = matrix_of(found)
    # Both are shifted by four roundings of the side's sums.
    np.testing.assert_allclose(root @ root.T, Q, rtol=0.0, atol=50.0 * N * np.finfo(float).eps * np.abs(Q).max())


@pytest.mark.usefixtures("triangular")
@pytest.mark.parametrize(("N", "rank"), [(2, 1), (5, 3), (7, 7), (40, 12), (30, 60)])
def test_smallest_eigenvalue_without_decomposition(N, rank):
    Q = covariance_matrix(N, rank)
    largest = np.abs(Q).max()
    assert smallest_eigenvalue(Q) == pytest.approx(np.linalg.eigvalsh(Q)[0], rel=1e-5, abs=1e-13 * N * largest)


@pytest.mark.usefixtures("triangular")
def test_indefinite_matrices_are_decomposed():
    Q = covariance_matrix(6, 6)
    lowest = np.linalg.eigvalsh(Q)[0]
    Q -= (lowest + 0.5) * np.eye(12)
    assert smallest_eigenvalue(Q) == pytest.approx(-0.5, rel=1e-12)
    root = matrix_of(root_of(Q))
    values, vectors = np.linalg.eigh(Q)
    np.testing.assert_allclose(root @ root, (vectors * np.maximum(values, 0.0)) @ vectors.T, atol=1e-12)


def relaxation_of(N, rank, outputs=1):
    """A feasible point of a low rank and a padded diagonal, as few rows give it, without a solve."""
    rng = np.random.default_rng(N)
    blocks = []
    for _ in range(outputs):
        factor = rng.standard_normal((2 * N, rank))
        K = factor @ factor.T
        Z, V = 0.5 * (K[:N, N:] + K[N:, :N]), 0.5 * (K[:N, :N] + K[N:, N:])
        np.fill_diagonal(V, V.diagonal().max())
        blocks.append((Z, V))
    Z, V = (np.stack(parts) for parts in zip(*blocks, strict=True))
    X = rng.standard_normal((6, N))
    problem = qsdp.TrainingProblem(X, X[:, :outputs] if outputs > 1 else X[:, 0], beta=1e-3)
    return finish(ScaledProblem.from_problem(problem), RawSolution(Z, V, V), solver="none", tol=1e-6, stretch=False)


def test_wide_data_are_sampled_without_eigenvectors(monkeypatch):
    relaxation = relaxation_of(600, 4)

    def refuse(*args, **options):
        raise AssertionError("eigenvectors of a wide matrix")

    with monkeypatch.context() as patch:
        for name in ("eigh", "eigvalsh"):
            patch.setattr(scipy.linalg, name, refuse)
            patch.setattr(np.linalg, name, refuse)
        covariance = qsdp.shape_covariance(relaxation, "krivine")
        network = qsdp.sample_network(covariance, 20, random_state=0)
    assert covariance.min_eigenvalue == pytest.approx(np.linalg.eigvalsh(covariance.Q)[0], rel=1e-5, abs=1e-11)
    again = qsdp.sample_network(covariance, 10, random_state=0)
    np.testing.assert_array_equal(again.U, network.U[:10])
    np.testing.assert_array_equal(again.V, network.V[:10])


def test_levels_of_wide_data_have_the_same_moments(monkeypatch):
    # The same covariance by both roots: each a sample of 40,000, entries of E[w w'] within six standard errors.
    relaxation = relaxation_of(4, 2).with_levels(3)
    covariance = qsdp.shape_covariance(relaxation)
    moments = []
    for largest in (500, 0):
        monkeypatch.setattr(roots, "QUICK_SIDE", largest)
        network = qsdp.sample_network(covariance, 40_000, random_state=1)
        w = np.hstack([network.U, network.V]).astype(float)
        moments.append((w.T @ w / len(w), w))
    (first, w), (second, other) = moments
    assert not np.array_equal(w, other)
    deviation = np.sqrt((np.square(w).T @ np.square(w) / len(w) - np.square(first)) / len(w))
    assert np.all(np.abs(first - second) <= 6.0 * np.sqrt(2.0) * deviation + 1e-12)


def test_a_short_limit_takes_the_closed_form():
    relaxation = relaxation_of(6, 3)
    closed = qsdp.shape_covariance(relaxation, "krivine")
    found = qsdp.shape_covariance(relaxation, time_limit=1e-9)
    assert (found.method, found.constant) == ("krivine, because the time limit ended the search", GAMMA)
    np.testing.assert_array_equal(found.Q, closed.Q)
    unlimited = qsdp.shape_covariance(relaxation, time_limit=1e6)
    assert unlimited.method == "adaptive"
    assert unlimited.residual < 1e-12
    assert unlimited.constant > GAMMA


def test_the_constant_of_wide_data_is_not_searched(monkeypatch):
    relaxation = relaxation_of(6, 3)
    monkeypatch.setattr(shape, "LARGEST_SIDE", 5)
    found, closed = qsdp.shape_covariance(relaxation), qsdp.shape_covariance(relaxation, "krivine")
    assert (found.method, closed.method) == ("krivine, because the side of Z exceeds 5", "krivine")
    np.testing.assert_array_equal(found.Q, closed.Q)
