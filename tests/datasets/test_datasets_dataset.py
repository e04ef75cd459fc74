import dataclasses

import numpy as np
import pandas as pd
import pytest

from qsdp.datasets import Dataset, load_bundled, paper_split
from qsdp.exceptions import InvalidInputError, InvalidTypeError


@pytest.fixture
def iris():
    return load_bundled("iris")


def test_dataset_unpacks_and_has_aliases(iris):
    X, y = iris
    assert X is iris.X is iris.data
    assert y is iris.y is iris.target
    assert repr(iris) == "Dataset('iris', X (150, 4), y (150,), multiclass)"
    assert iris.network is None


def test_dataset_is_frozen_and_compares_by_identity(iris):
    with pytest.raises(dataclasses.FrozenInstanceError):
        iris.name = "other"
    assert iris == iris
    assert iris != load_bundled("iris")
    assert len({iris, load_bundled("iris")}) == 2


@pytest.mark.parametrize(("n", "n_train"), [(286, 228), (351, 280), (690, 552), (846, 676), (2, 1), (5, 4), (10, 8)])
def test_split_sizes(n, n_train):
    X_train, X_test, y_train, y_test = paper_split(np.arange(2.0 * n).reshape(n, 2), np.arange(n))
    assert X_train.shape == (n_train, 2)
    assert X_test.shape == (n - n_train, 2)
    assert y_train.shape == (n_train,)
    assert y_test.shape == (n - n_train,)


def test_split_is_the_documented_permutation(iris):
    order = np.random.default_rng(3).permutation(150)
    X_train, X_test, y_train, y_test = paper_split(iris, random_state=3)
    np.testing.assert_array_equal(X_train, iris.X[order[:120]])
    np.testing.assert_array_equal(X_test, iris.X[order[120:]])
    np.testing.assert_array_equal(y_train, iris.y[order[:120]])
    np.testing.assert_array_equal(y_test, iris.y[order[120:]])
    for mine, method in zip(paper_split(iris), iris.split(), strict=True):
        np.testing.assert_array_equal(mine, method)
    assert not np.array_equal(iris.split(0)[0], iris.split(1)[0])


def test_split_returns_copies(iris):
    before = iris.X.copy()
    for part in iris.split():
        part[:] = -1
    np.testing.assert_array_equal(iris.X, before)


def test_split_takes_frames_labels_and_matrices_of_targets():
    frame = pd.DataFrame({"a": range(5), "b": range(5)})
    assert paper_split(frame, pd.Series(list("vwxyz")))[2].shape == (4,)
    assert paper_split(frame, np.eye(5))[3].shape == (1, 5)
    assert paper_split(frame, np.arange(5, dtype=np.int8))[2].dtype == np.int8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones((4, 2)),), "y is missing"),
        ((np.ones((4, 2)), np.ones(3)), "y must have 4 entries"),
        ((np.ones((4, 2)), np.ones((4, 1, 1))), "y must have shape"),
        ((np.ones((4, 2)), 7), "y must have shape"),
        ((np.ones((4, 2)), [[1], [1, 2], [1], [1]]), "y must be an array"),
        ((np.ones((1, 2)), np.ones(1)), "at least 2 rows"),
        ((np.ones(4), np.ones(4)), "X must"),
    ],
)
def test_split_refuses(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        paper_split(*arguments)


def test_split_refuses_targets_beside_a_dataset(iris):
    with pytest.raises(InvalidInputError, match="X is a Dataset"):
        paper_split(iris, iris.y)
    with pytest.raises(InvalidTypeError, match="random_state"):
        iris.split("seed")


def test_dataset_can_be_made_by_hand():
    mine = Dataset("mine", np.ones((3, 2)), np.ones(3), ("a", "b"), ("y",), "regression", "by hand")
    assert mine.split()[0].shape == (2, 2)
