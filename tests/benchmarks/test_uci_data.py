"""Sets, splits and validation of the suite."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks.uci.data import load, prepare


@pytest.mark.parametrize(("name", "seed"), [("iris", 0), ("iris", 3), ("wine", 1), ("breast-cancer-wisconsin", 0)])
def test_parts_are_stratified_and_scaled_by_training_rows_alone(name: str, seed: int) -> None:
    split, (X, y) = prepare(name, seed), load(name)
    codes = np.unique(y, return_inverse=True)[1]
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed, stratify=codes)
    scaler = StandardScaler().fit(X[train])
    np.testing.assert_allclose(split.X, scaler.transform(X[train]), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(split.X_test, scaler.transform(X[test]), rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(split.y, codes[train])
    np.testing.assert_array_equal(split.y_test, codes[test])
    assert split.n_classes == len(np.unique(y))
    shares = np.bincount(codes) / len(codes)
    np.testing.assert_allclose(np.bincount(split.y_test) / len(split.y_test), shares, atol=1 / len(split.y_test))


def test_splits_depend_on_the_seed_alone() -> None:
    np.testing.assert_array_equal(prepare("wine", 2).X, prepare("wine", 2).X)
    assert not np.array_equal(prepare("wine", 2).X, prepare("wine", 3).X)


@pytest.mark.usefixtures("uci_available")
def test_categorical_columns_are_one_hot() -> None:
    split = prepare("credit-approval", 0)
    X, train = load("credit-approval").X, split.X
    assert X.shape == (690, 51)
    assert 45 < train.shape[1] <= 51
    np.testing.assert_allclose(train.std(axis=0), 1.0, rtol=1e-9)
    # A column of two values stays one of two values.
    assert sum(len(np.unique(np.round(column, 9))) == 2 for column in train.T) >= 40
