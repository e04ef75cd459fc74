"""Grothendieck sampling: moments by z-tests, Theorem 3's decay, reproducibility, bounded memory.

Each statistical test states its false-alarm rate; seeds are fixed, so a pass stays a pass.
"""

import tracemalloc

import numpy as np
import pytest
from brute_force import random_problem
from scipy import stats

import qsdp
from qsdp import sampling
from qsdp.exceptions import InvalidInputError, InvalidTypeError


@pytest.fixture(scope="module")
def relaxation():
    return qsdp.solve_relaxation(random_problem(21, 6, 40, beta=0.5))


@pytest.fixture(scope="module")
def covariance(relaxation):
    return qsdp.shape_covariance(relaxation)


def z_scores(samples, mean):
    """Standardised deviations of the mean of +-1 samples (rows) from `mean`, entry by entry."""
    deviation = np.sqrt((1 - mean**2) / len(samples))
    return (samples.mean(axis=0) - mean) / deviation


def largest_z(count, alarm):
    """Bound that the largest of `count` standard normals passes with probability `alarm` at most."""
    return stats.norm.isf(alarm / (2 * count))


def test_grothendieck_identity(covariance):
    # 66 distinct entries of E[w w'] = (2 / pi) arcsin(Q), w = [u; v]; false alarm below 1e-6.
    network = qsdp.sample_network(covariance, 200_000, random_state=0)
    w = np.hstack([network.U, network.V]).astype(float)
    first, second = np.triu_indices(w.shape[1], k=1)
    expected = 2 / np.pi * np.arcsin(covariance.Q[first, second])
    scores = z_scores(w[:, first] * w[:, second], expected)
    assert np.abs(scores).max() < largest_z(len(scores), 1e-6)
    # The test has teeth: erratum 3's identity without the factor 2 / pi is far outside.
    wrong = z_scores(w[:, first] * w[:, second], np.clip(np.arcsin(covariance.Q[first, second]), -0.99, 0.99))
    assert np.abs(wrong).max() > 20


def test_signs_are_fair_coins(covariance):
    network = qsdp.sample_network(covariance, 100_000, random_state=1)
    scores = z_scores(np.hstack([network.U, network.V]).astype(float), np.zeros(12))
    assert np.abs(scores).max() < largest_z(12, 1e-6)


@pytest.mark.parametrize("method", ["krivine", "sdp"])
def test_mean_of_the_network_is_twice_z(relaxation, method):
    # 36 entries of E[sum alpha u v'] = 2 Z; false alarm below 1e-6.
    covariance = qsdp.shape_covariance(relaxation, method=method)
    network = qsdp.sample_network(covariance, 200_000, random_state=2)
    products = (network.U[:, :, None] * network.V[:, None, :]).reshape(len(network.U), -1).astype(float)
    total = network.alpha.sum()
    scores = z_scores(products, (2 * relaxation.Z / total).ravel())
    assert np.abs(scores).max() < largest_z(36, 1e-6)


def test_spectral_error_falls_as_one_over_the_root_of_m(relaxation, covariance):
    # Slope of a log-log fit over m = 2^5 .. 2^14, 40 networks each. Its standard error, from the spread of
    # the errors, is about 0.01: the interval is 6 of them wide on each side.
    sizes = 2 ** np.arange(5, 15)
    rng = np.random.default_rng(3)
    errors = [
        [
            np.linalg.norm((n.U.T * n.alpha) @ n.V.astype(float) - 2 * relaxation.Z, 2)
            for n in (qsdp.sample_network(covariance, int(m), rng) for _ in range(40))
        ]
        for m in sizes
    ]
    fit = stats.linregress(np.log(sizes), np.log(np.mean(errors, axis=1)))
    assert fit.slope == pytest.approx(-0.5, abs=0.06)
    assert fit.rvalue**2 > 0.99


def test_neurons_are_int8_signs_with_one_alpha(covariance):
    network = qsdp.sample_network(covariance, 1000, random_state=4)
    assert network.U.dtype == network.V.dtype == np.int8
    assert set(np.unique(network.U)) == set(np.unique(network.V)) == {-1, 1}
    assert network.shared_alpha
    assert network.alpha.sum() == pytest.approx(covariance.total_weight, rel=1e-12)


def test_degenerate_gaussians_give_no_zeros():
    # beta so large that rho = 0, and rank one: perfectly correlated signs.
    with pytest.warns(qsdp.QSDPWarning):
        zero = qsdp.solve_relaxation(random_problem(0, 3, 8, beta=1e9))
    network = qsdp.sample_network(qsdp.shape_covariance(zero), 50, random_state=0)
    assert np.abs(network.U).min() == 1
    assert not network.alpha.any()
    one = qsdp.solve_relaxation(qsdp.TrainingProblem([[1.0], [2.0]], [3.0, 12.0], beta=1e-3))
    network = qsdp.sample_network(qsdp.shape_covariance(one), 50, random_state=0)
    assert np.abs(network.V).min() == 1


def test_random_state_decides_everything(covariance):
    def draw(state, m=64):
        network = qsdp.sample_network(covariance, m, state)
        return np.hstack([network.U, network.V])

    np.testing.assert_array_equal(draw(7), draw(7))
    np.testing.assert_array_equal(draw(np.random.default_rng(7)), draw(7))
    np.testing.assert_array_equal(draw(np.random.RandomState(7)), draw(np.random.RandomState(7)))
    assert (draw(7) != draw(8)).any()
    assert (draw(None) != draw(None)).any()
    np.testing.assert_array_equal(draw(7, 200)[:64], draw(7))


def test_global_random_state_is_left_alone(covariance):
    np.random.seed(0)  # noqa: NPY002 (the legacy state is the subject)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    qsdp.sample_network(covariance, 10)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_chunks_do_not_change_the_sample(covariance, monkeypatch):
    whole = qsdp.sample_network(covariance, 500, random_state=5)
    monkeypatch.setattr(sampling, "_CHUNK_FLOATS", 12 * 7)
    pieces = qsdp.sample_network(covariance, 500, random_state=5)
    np.testing.assert_array_equal(pieces.U, whole.U)
    np.testing.assert_array_equal(pieces.V, whole.V)


def test_memory_is_bounded_by_the_chunk_and_the_result(covariance, monkeypatch):
    monkeypatch.setattr(sampling, "_CHUNK_FLOATS", 2**16)
    m = 400_000
    tracemalloc.start()
    try:
        qsdp.sample_network(covariance, m, random_state=6)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The int8 neurons, checked copies and alpha take 12 + 12 + 16 + a few bytes a neuron; the Gaussians of
    # all neurons at once would take 12 * 8 = 96 and their product with the root as much again.
    assert peak < 70 * m


@pytest.mark.parametrize("bad", [0, -3, 2.5, "10", None, True, float("nan")])
def test_sizes_that_are_no_positive_integers_are_refused(covariance, bad):
    with pytest.raises(InvalidInputError, match="n_neurons must be an integer from 1"):
        qsdp.sample_network(covariance, bad)


@pytest.mark.parametrize("bad", [-1, 1.5, "seed", True])
def test_bad_random_states_are_refused(covariance, bad):
    with pytest.raises(InvalidInputError, match="random_state"):
        qsdp.sample_network(covariance, 5, bad)


def test_other_kinds_are_refused():
    with pytest.raises(InvalidTypeError, match="must be a SignCovariance.*got ndarray"):
        qsdp.sample_network(np.eye(4))
