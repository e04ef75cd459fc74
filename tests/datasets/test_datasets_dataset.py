import numpy as np
import pytest

from qsdp.datasets import load_bundled, make_planted
from qsdp.exceptions import InvalidInputError, InvalidTypeError


@pytest.fixture
def iris():
    return load_bundled("iris")


def test_dataset_unpacks(iris):
    X, y = iris
    assert X is iris.X
    assert y is iris.y
    assert iris.network is None


@pytest.mark.parametrize(("n", "n_train"), [(286, 228), (351, 280), (690, 552), (846, 676), (2, 1), (5, 4), (10, 8)])
def test_split_sizes(n, n_train):
    X_train, X_test, y_train, y_test = make_planted(n, 2).split()
    assert X_train.shape == (n_train, 2)
    assert X_test.shape == (n - n_train, 2)
    assert y_train.shape == (n_train,)
    assert y_test.shape == (n - n_train,)


def test_split_is_the_documented_permutation(iris):
    order = np.random.default_rng(3).permutation(150)
    X_train, X_test, y_train, y_test = iris.split(3)
    np.testing.assert_array_equal(X_train, iris.X[order[:120]])
    np.testing.assert_array_equal(X_test, iris.X[order[120:]])
    np.testing.assert_array_equal(y_train, iris.y[order[:120]])
    np.testing.assert_array_equal(y_test, iris.y[order[120:]])
    np.testing.assert_array_equal(iris.split()[0], iris.split(0)[0])
    assert not np.array_equal(iris.split(0)[0], iris.split(1)[0])


def test_split_refuses_a_single_row_and_what_is_no_seed(iris):
    with pytest.raises(InvalidInputError, match="'planted' must have at least 2 rows to be split; it has 1"):
        make_planted(n=1).split()
    with pytest.raises(InvalidTypeError, match="random_state"):
        iris.split("seed")
