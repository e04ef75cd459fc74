"""Products with dense matrices and with columns, against the map."""

import numpy as np
import pytest

import qsdp
from qsdp.lifting import QuadraticMap
from qsdp.relaxation.products import Products

MAPS = [((1.0, 0.0, 0.0), False), ((-0.7, 0.0, 0.0), False), ((0.5, 0.4, -0.3), True), ((0.0, 1.0, 0.3), True)]


def quadratic_map(coefficients, lifted, n=23, d=6) -> QuadraticMap:
    return QuadraticMap(np.random.default_rng(0).standard_normal((n, d)), coefficients, lifted)


def columns(data: QuadraticMap, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((data.size, 5))


MIXING = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [0.0, -1.0]])


@pytest.mark.parametrize(("coefficients", "lifted"), MAPS)
@pytest.mark.parametrize(("dtype", "accuracy"), [(np.float64, 1e-12), (np.float32, 1e-5)])
class TestAgainstTheMap:
    def both(self, coefficients, lifted, dtype) -> tuple[QuadraticMap, Products]:
        data = quadratic_map(coefficients, lifted)
        return data, Products(data, dtype)

    def test_forward(self, coefficients, lifted, dtype, accuracy):
        data, products = self.both(coefficients, lifted, dtype)
        T = columns(data, 1) @ columns(data, 2).T
        values = products.forward(T)
        assert values.dtype == np.float64
        np.testing.assert_allclose(values, data.forward(T), rtol=0, atol=accuracy * np.abs(data.forward(T)).max())

    def test_adjoint(self, coefficients, lifted, dtype, accuracy):
        data, products = self.both(coefficients, lifted, dtype)
        nu = np.random.default_rng(2).standard_normal(data.n_rows)
        M = data.adjoint(nu)
        np.testing.assert_allclose(products.adjoint(nu), M, rtol=0, atol=accuracy * np.abs(M).max() * 10)

    def test_several_matrices_and_vectors_at_once(self, coefficients, lifted, dtype, accuracy):
        data, products = self.both(coefficients, lifted, dtype)
        T = np.stack([columns(data, seed) @ columns(data, seed + 1).T for seed in (1, 2, 3)])
        expected = np.stack([data.forward(matrix) for matrix in T], axis=1)
        assert products.forwards(T).dtype == np.float64
        np.testing.assert_allclose(products.forwards(T), expected, rtol=0, atol=accuracy * np.abs(expected).max())
        nu = np.random.default_rng(2).standard_normal((data.n_rows, 3))
        M = np.stack([data.adjoint(column) for column in nu.T])
        found = products.adjoints(nu)
        np.testing.assert_array_equal(found, found.swapaxes(1, 2))
        np.testing.assert_allclose(found, M, rtol=0, atol=accuracy * np.abs(M).max() * 10)

    def test_values_of_pairs_of_columns(self, coefficients, lifted, dtype, accuracy):
        data, products = self.both(coefficients, lifted, dtype)
        E, F = columns(data, 3), columns(data, 4)
        expected = data.products(E.T, F.T) @ MIXING
        found = products.pair(products.image(E), products.image(F), MIXING)
        np.testing.assert_allclose(found, expected, rtol=0, atol=10 * accuracy * np.abs(expected).max())

    def test_adjoint_of_columns(self, coefficients, lifted, dtype, accuracy):
        data, products = self.both(coefficients, lifted, dtype)
        E, F = columns(data, 3), columns(data, 4)
        nu, mu = np.random.default_rng(5).standard_normal((2, data.n_rows, 2))
        expected = np.zeros_like(E)
        for weights, factors in ((nu, E), (mu, F)):
            for c in range(2):
                expected += data.adjoint(weights[:, c]) @ (factors * MIXING[:, c])
        found = products.pull([(nu, products.image(E)), (mu, products.image(F))], MIXING)
        np.testing.assert_allclose(found, expected, rtol=0, atol=10 * accuracy * np.abs(expected).max())

    def test_moments_and_gram(self, coefficients, lifted, dtype, accuracy):
        data, products = self.both(coefficients, lifted, dtype)
        rows = np.hstack([data.X, np.ones((data.n_rows, 1))]) if lifted else data.X
        np.testing.assert_allclose(products.moments(), rows.T @ rows, rtol=0, atol=100 * accuracy)
        E, weights = columns(data, 6), np.arange(1.0, data.n_rows + 1.0)
        a, b, _ = data.coefficients
        slopes = a * data.X @ E[: data.X.shape[1]] + (0.5 * b * E[-1] if lifted else 0.0)
        expected = (slopes[:, 1:4].T * weights) @ slopes[:, 1:4] / data.n_rows
        found = products.gram(products.image(E), slice(1, 4), weights)
        np.testing.assert_allclose(found, expected, rtol=0, atol=10 * accuracy * max(1.0, np.abs(expected).max()))

    def test_image_in_another_precision(self, coefficients, lifted, dtype, accuracy):
        data, products = self.both(coefficients, lifted, dtype)
        exact = Products(data, np.float64)
        E, scales = columns(data, 7), np.array([1.0, 2.0, 0.5, 0.0, 3.0])
        image = products.cast(exact.image(E).scaled(scales, exact))
        expected = data.products((E * scales).T, (E * scales).T) @ MIXING
        found = products.pair(image, image, MIXING)
        np.testing.assert_allclose(found, expected, rtol=0, atol=10 * accuracy * np.abs(expected).max())


def test_blocks_change_nothing(monkeypatch):
    data = quadratic_map((1.0, 0.0, 0.0), False, n=50)
    whole = Products(data)
    monkeypatch.setattr("qsdp._utils.parallel.WORK_FLOATS", 7 * data.size)
    cut = Products(data)
    T, nu = np.eye(data.size), np.linspace(-1.0, 1.0, data.n_rows)
    np.testing.assert_allclose(cut.forward(T), whole.forward(T), rtol=1e-14)
    np.testing.assert_allclose(cut.adjoint(nu), whole.adjoint(nu), rtol=0, atol=1e-13)
    both, two = np.stack([T, np.ones_like(T)]), np.stack([nu, nu**2], axis=1)
    np.testing.assert_allclose(cut.forwards(both), whole.forwards(both), rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(cut.adjoints(two), whole.adjoints(two), rtol=0, atol=1e-13)


def test_read_only_data_are_taken():
    X = np.ones((3, 2))
    X.flags.writeable = False
    problem = qsdp.TrainingProblem(X, [1.0, 2.0, 3.0], beta=1.0)
    assert Products(problem.map).forward(np.eye(2)).tolist() == [2.0, 2.0, 2.0]
