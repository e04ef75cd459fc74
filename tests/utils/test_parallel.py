"""Work memory and threads: blocks cover everything once, threads change nothing, temporaries stay small."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import qsdp
from qsdp import BilinearNetwork
from qsdp._utils import parallel
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.lifting import QuadraticMap, quadratic_values

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


@pytest.mark.parametrize(("count", "floats", "memory"), [(10, 3, 9), (10, 3, 1), (1, 5, 100), (9, 0, 4), (12, 2, 8)])
def test_blocks_cover_everything_once(count, floats, memory, monkeypatch):
    monkeypatch.setattr(parallel, "WORK_FLOATS", memory)
    slices = list(parallel.chunks(count, floats))
    assert [i for one in slices for i in range(count)[one]] == list(range(count))
    assert all((one.stop - one.start) * floats <= memory or one.stop - one.start == 1 for one in slices)


def test_no_blocks_of_nothing():
    assert list(parallel.chunks(0, 3)) == []


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_every_item_is_worked_on_and_drawn_in_order(n_jobs):
    drawn: list[int] = []
    done = np.zeros(50, dtype=int)

    def items() -> Iterator[int]:
        for i in range(50):
            drawn.append(i)
            yield i

    def work(i: int) -> None:
        done[i] += 1

    parallel.in_threads(work, items(), n_jobs)
    assert drawn == list(range(50))
    np.testing.assert_array_equal(done, 1)


def test_errors_of_threads_are_passed_on():
    def work(i: int) -> None:
        raise ZeroDivisionError(i)

    with pytest.raises(ZeroDivisionError):
        parallel.in_threads(work, range(4), 2)


@pytest.mark.parametrize("outputs", [None, 1, 3])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("m", "d"), [(2, 30), (40, 6), (5, 140), (300, 130)])
def test_predictions_do_not_depend_on_blocks_and_threads(m, d, outputs, activation, monkeypatch):
    net = network(m, d, outputs, activation)
    X = np.random.default_rng(1).standard_normal((41, d))
    whole = net.predict(X)
    products = QuadraticMap(X, *((net.activation.coefficients, net.lifted) if net.activation else ())).products(
        net.U, net.V
    )
    np.testing.assert_allclose(whole, products @ net.alpha, rtol=1e-11, atol=1e-11 * np.abs(products).max() * m)
    polynomial = net.to_polynomial()
    np.testing.assert_allclose(polynomial.predict(X), whole, rtol=1e-9, atol=1e-10 * np.abs(products).max() * m)
    monkeypatch.setattr(parallel, "WORK_FLOATS", 7 * d)
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


@pytest.mark.parametrize("d", [5, 127, 128, 129, 600])
def test_quadratic_values_of_matrices_that_are_not_symmetric(d):
    rng = np.random.default_rng(2)
    X, S = rng.standard_normal((50, d)), rng.standard_normal((d, d))
    expected = np.array([x @ S @ x for x in X])
    np.testing.assert_allclose(quadratic_values(X, S), expected, rtol=1e-10, atol=1e-10 * d)
    # Whatever the order of memory.
    np.testing.assert_allclose(quadratic_values(np.asfortranarray(X), S.T), expected, rtol=1e-10, atol=1e-10 * d)


def test_adjoints_do_not_depend_on_blocks(monkeypatch):
    rng = np.random.default_rng(3)
    data = QuadraticMap(rng.standard_normal((40, 6)), (0.5, 1.0, 2.0), True)
    nu, z = rng.standard_normal(40), rng.uniform(0.5, 2.0, size=7)
    adjoint, bounds = data.adjoint(nu), data.row_bounds(z)
    monkeypatch.setattr(parallel, "WORK_FLOATS", 7 * 6)
    np.testing.assert_allclose(data.adjoint(nu), adjoint, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(data.row_bounds(z), bounds, rtol=1e-13)


@pytest.mark.parametrize(("m", "outputs"), [(20_000, None), (20_000, 2), (12, None), (40, 4)])
def test_memory_of_predictions(m, outputs, monkeypatch):
    monkeypatch.setattr(parallel, "WORK_FLOATS", 2**14)
    n, d = 20_000, 60
    X = np.random.default_rng(0).standard_normal((n, d))
    net = network(m, d, outputs)
    # One array of n x d floats takes 9.6 MB, one of m x d as much, one of n x m 3.2 GB.
    results = 8 * n * (outputs or 1)
    assert peak_of(lambda: net.predict(X)) < 4 * results + 2e6
    assert peak_of(lambda: net.predict(X, n_jobs=2)) < 4 * results + 3e6


def test_memory_of_polynomial_networks(monkeypatch):
    monkeypatch.setattr(parallel, "WORK_FLOATS", 2**14)
    net = network(20_000, 60, None)
    polynomial = net.to_polynomial()
    assert peak_of(lambda: polynomial.to_quadratic_form()) < 2e6
    # Two neurons for each, and what sorts and merges them.
    wide = network(4000, 600, None)
    assert peak_of(lambda: wide.to_polynomial()) < 14 * wide.U.nbytes


def test_memory_of_maps(monkeypatch):
    monkeypatch.setattr(parallel, "WORK_FLOATS", 2**14)
    rng = np.random.default_rng(0)
    data = QuadraticMap(rng.standard_normal((20_000, 60)))
    nu = rng.standard_normal(20_000)
    assert peak_of(lambda: data.adjoint(nu)) < 2e6
    assert peak_of(lambda: data.row_bounds(np.ones(60))) < 2e6
    assert peak_of(data.mean_size) < 2e6


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


def test_jobs_are_counted_as_joblib_does():
    assert qsdp._utils.parallel.count_jobs(None) == 1
    assert qsdp._utils.parallel.count_jobs(3) == 3
    assert qsdp._utils.parallel.count_jobs(-1) >= 1
