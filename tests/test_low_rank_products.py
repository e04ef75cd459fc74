"""Products of data maps with columns, and in single precision, against the map's values and adjoint."""

import numpy as np
import pytest

import qsdp
from qsdp.data_map import DataMap
from qsdp.forms import FormMap
from qsdp.lifting import QuadraticMap

MAPS = [((1.0, 0.0, 0.0), False), ((-0.7, 0.0, 0.0), False), ((0.5, 0.4, -0.3), True), ((0.0, 1.0, 0.3), True)]


def quadratic_map(coefficients, lifted, n=23, d=6) -> QuadraticMap:
    return QuadraticMap(np.random.default_rng(0).standard_normal((n, d)), coefficients, lifted)


def columns(data: DataMap, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((data.size, 5))


MIXING = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [0.0, -1.0]])


@pytest.mark.parametrize(("coefficients", "lifted"), MAPS)
@pytest.mark.parametrize(("dtype", "accuracy"), [(np.float64, 1e-12), (np.float32, 1e-5)])
class TestPrecisions:
    def both(self, coefficients, lifted, dtype) -> tuple[QuadraticMap, QuadraticMap]:
        data = quadratic_map(coefficients, lifted)
        return data, data.in_precision(dtype)

    def test_forward(self, coefficients, lifted, dtype, accuracy):
        data, quick = self.both(coefficients, lifted, dtype)
        assert quick.X.dtype == dtype
        T = columns(data, 1) @ columns(data, 2).T
        values = quick.forward(T)
        assert values.dtype == np.float64
        np.testing.assert_allclose(values, data.forward(T), rtol=0, atol=accuracy * np.abs(data.forward(T)).max())

    def test_adjoint(self, coefficients, lifted, dtype, accuracy):
        data, quick = self.both(coefficients, lifted, dtype)
        nu = np.random.default_rng(2).standard_normal(data.n_rows)
        M = data.adjoint(nu)
        assert quick.adjoint(nu).dtype == np.float64
        np.testing.assert_allclose(quick.adjoint(nu), M, rtol=0, atol=accuracy * np.abs(M).max() * 10)

    def test_several_matrices_and_vectors_at_once(self, coefficients, lifted, dtype, accuracy):
        data, quick = self.both(coefficients, lifted, dtype)
        T = np.stack([columns(data, seed) @ columns(data, seed + 1).T for seed in (1, 2, 3)])
        expected = np.stack([data.forward(matrix) for matrix in T], axis=1)
        assert quick.forwards(T).dtype == np.float64
        np.testing.assert_allclose(quick.forwards(T), expected, rtol=0, atol=accuracy * np.abs(expected).max())
        nu = np.random.default_rng(2).standard_normal((data.n_rows, 3))
        M = np.stack([data.adjoint(column) for column in nu.T])
        computed = quick.adjoints(nu)
        np.testing.assert_array_equal(computed, computed.swapaxes(1, 2))
        np.testing.assert_allclose(computed, M, rtol=0, atol=accuracy * np.abs(M).max() * 10)

    def test_values_of_pairs_of_columns(self, coefficients, lifted, dtype, accuracy):
        data, quick = self.both(coefficients, lifted, dtype)
        E, F = columns(data, 3), columns(data, 4)
        expected = data.products(E.T, F.T) @ MIXING
        values = quick.pair_values(quick.image(E), quick.image(F), MIXING)
        assert values.dtype == np.float64
        np.testing.assert_allclose(values, expected, rtol=0, atol=10 * accuracy * np.abs(expected).max())

    def test_adjoint_of_columns(self, coefficients, lifted, dtype, accuracy):
        data, quick = self.both(coefficients, lifted, dtype)
        E, F = columns(data, 3), columns(data, 4)
        nu, mu = np.random.default_rng(5).standard_normal((2, data.n_rows, 2))
        expected = np.zeros_like(E)
        for weights, factors in ((nu, E), (mu, F)):
            for c in range(2):
                expected += data.adjoint(weights[:, c]) @ (factors * MIXING[:, c])
        terms = [(quick.column_weights(weights), quick.image(factors)) for weights, factors in ((nu, E), (mu, F))]
        computed = quick.adjoint_columns(terms, MIXING)
        assert computed.dtype == np.float64
        np.testing.assert_allclose(computed, expected, rtol=0, atol=10 * accuracy * np.abs(expected).max())


def test_columns_of_blocks():
    rng = np.random.default_rng(0)
    blocks = qsdp.Blocks(rng.standard_normal((7, 9)), sizes=[3, 3], kinds=["quadratic", "linear"], omega=[1.0, 0.5])
    data = FormMap.from_blocks(blocks)
    # Two outputs of two blocks each.
    E, F, mixing = columns(data, 1), columns(data, 2), rng.choice([-1.0, 0.0, 1.0], (5, 4))
    T = np.einsum("jk,aj,bj->kab", mixing, E, F)
    expected = data.forwards(0.5 * (T + T.swapaxes(1, 2)))
    np.testing.assert_allclose(data.pair_values(data.image(E), data.image(F), mixing), expected, rtol=0, atol=1e-12)
    nu = rng.standard_normal((7, 2))
    expected = np.einsum("jk,kab,bj->aj", mixing, data.adjoints(nu), E)
    computed = data.adjoint_columns([(data.column_weights(nu), data.image(E))], mixing)
    np.testing.assert_allclose(computed, expected, rtol=0, atol=1e-12)
    assert data.in_precision(np.float32) is data


def test_chunks_change_nothing(monkeypatch):
    data = quadratic_map((1.0, 0.0, 0.0), False, n=50).in_precision(np.float32)
    T, nu = np.eye(data.size), np.linspace(-1.0, 1.0, data.n_rows)
    both, two = np.stack([T, np.ones_like(T)]), np.stack([nu, nu**2], axis=1)
    forwards, adjoints = data.forwards(both), data.adjoints(two)
    monkeypatch.setattr("qsdp._utils.parallel.WORK_FLOATS", 7 * data.size)
    monkeypatch.setattr("qsdp.lifting.WORK_FLOATS", 7 * data.size)
    np.testing.assert_allclose(data.forwards(both), forwards, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(data.adjoints(two), adjoints, rtol=0, atol=1e-4)
