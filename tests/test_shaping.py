"""Theorem 2: the shaped covariance proves itself, in closed form and by the paper's program."""

import numpy as np
import pytest
from brute_force import random_problem
from hypothesis import given, settings
from hypothesis import strategies as st

import qsdp
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.relaxation.solution import RawSolution, finish
from qsdp.shaping import GAMMA

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
