"""Work memory and threads: blocks cover everything once, threads change nothing, temporaries stay small."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from brute_force import neuron_values

import qsdp
from qsdp import BilinearNetwork
from qsdp.exceptions import InvalidInputError, InvalidTypeError

ACTIVATIONS = [None, (1.0, 0.0, 0.0), (0.5, 1.0, -2.0)]


def peak_of(work: Callable[[], object]) -> int:
    """Return the bytes that `work` allocates at most at a time."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def network(m: int, d: int, outputs: int | None, activation: object = None, seed: int = 0) -> BilinearNetwork:
    rng = np.random.default_rng(seed)
    D = d + (activation is not None and any(activation[1:]))  # type: ignore[index]
    U, V = rng.choice(np.array([-1, 1], dtype=np.int8), size=(2, m, D))
    return BilinearNetwork(
        U, V, rng.standard_normal(m if outputs is None else (m, outputs)), levels=2, activation=activation
    )


@pytest.mark.parametrize("outputs", [None, 1, 3])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("m", "d"), [(40, 6), (5, 140), (300, 130)])
def test_predictions_do_not_depend_on_blocks_and_threads(m, d, outputs, activation, monkeypatch):
    net = network(m, d, outputs, activation)
    X = np.random.default_rng(1).standard_normal((41, d))
    whole = net.predict(X)
    problem = qsdp.TrainingProblem(X, np.ones(41), beta=1.0, activation=activation)
    products = neuron_values(problem, net.U.astype(float), net.V.astype(float))
    np.testing.assert_allclose(whole, products @ net.alpha, rtol=1e-11, atol=1e-11 * np.abs(products).max() * m)
    polynomial = net.to_polynomial()
    np.testing.assert_allclose(polynomial.predict(X), whole, rtol=1e-9, atol=1e-10 * np.abs(products).max() * m)
    monkeypatch.setattr("qsdp._utils.parallel.WORK_FLOATS", 7 * d)
    for one in (net, polynomial):
        fresh = (
            BilinearNetwork(one.U, one.V, one.alpha, levels=2, activation=one.activation)
            if one is net
            else net.to_polynomial()
        )
        alone = fresh.predict(X)
        np.testing.assert_allclose(alone, whole, rtol=1e-9, atol=1e-10 * np.abs(products).max() * m)
        np.testing.assert_array_equal(fresh.predict(X, n_jobs=2), alone)
        np.testing.assert_array_equal(fresh.predict(X, n_jobs=-1), alone)


@pytest.mark.parametrize(("m", "outputs"), [(20_000, None), (20_000, 2), (12, None), (40, 4)])
def test_memory_of_predictions(m, outputs, monkeypatch):
    monkeypatch.setattr("qsdp._utils.parallel.WORK_FLOATS", 2**14)
    n, d = 20_000, 60
    X = np.random.default_rng(0).standard_normal((n, d))
    net = network(m, d, outputs)
    # One array of n x d floats takes 9.6 MB, one of m x d as much, one of n x m 3.2 GB.
    results = 8 * n * (outputs or 1)
    assert peak_of(lambda: net.predict(X)) < 4 * results + 2e6
    assert peak_of(lambda: net.predict(X, n_jobs=2)) < 4 * results + 3e6


def test_memory_of_polynomial_networks(monkeypatch):
    monkeypatch.setattr("qsdp._utils.parallel.WORK_FLOATS", 2**14)
    net = network(20_000, 60, None)
    polynomial = net.to_polynomial()
    assert peak_of(lambda: polynomial.to_quadratic_form()) < 2e6
    # Two neurons for each, and what sorts and merges them.
    wide = network(4000, 600, None)
    assert peak_of(lambda: wide.to_polynomial()) < 14 * wide.U.nbytes


def test_weights_that_cannot_change_are_shared():
    net = network(50, 6, None)
    again = BilinearNetwork(net.U, net.V, 2.0 * net.alpha)
    assert np.shares_memory(again.U, net.U)
    # A view, or what its owner may write to, is copied.
    for other in (net.U[1:], net.U.copy()):
        assert not np.shares_memory(BilinearNetwork(other, other, np.ones(len(other))).U, other)


@pytest.mark.parametrize("bad", [0, 1.5, "2", True, [2]])
def test_bad_numbers_of_jobs_are_refused(bad):
    net = network(5, 3, None)
    kind = InvalidInputError if bad == 0 and bad is not False else InvalidTypeError
    for work in (net.predict, net.to_polynomial().predict, net.to_quadratic_form().predict):
        with pytest.raises(kind, match="n_jobs must be None or an integer other than 0; got"):
            work(np.ones((2, 3)), n_jobs=bad)
