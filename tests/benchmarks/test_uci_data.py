"""Sets, splits and validation of the suite."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks.uci import data as data_module
from benchmarks.uci.data import load, prepare, validation_splits
from qsdp.datasets import load_bundled
from qsdp.exceptions import DatasetError, InvalidInputError


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


def test_columns_that_are_constant_in_training_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=60), np.full(60, 0.1), np.zeros(60), rng.normal(size=60)])
    made = {"name": "made", "X": X, "y": np.repeat([-1.0, 1.0], 30), "target_names": ("no", "yes"), "task": "binary"}
    data = replace(load_bundled("iris"), **made)
    monkeypatch.setattr(data_module, "load", lambda name: data)
    split = prepare("made", 0)
    assert (split.X.shape, split.X_test.shape) == ((48, 2), (12, 2))
    np.testing.assert_allclose(split.X.std(axis=0), 1.0, rtol=1e-12)


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


@pytest.mark.parametrize(("n", "folds"), [(60, 5), (500, 5), (501, 3), (2000, 3), (2001, 1)])
def test_validation_has_more_parts_for_fewer_rows(n: int, folds: int) -> None:
    y = np.arange(n) % 3
    splits = validation_splits(y, 0)
    assert len(splits) == folds
    for train, test in splits:
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(n))
        assert set(y[train]) == set(y[test]) == {0, 1, 2}
    if folds > 1:
        np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in splits])), np.arange(n))
    else:
        assert len(splits[0][1]) == pytest.approx(n / 5, abs=1)
    again = validation_splits(y, 0)
    assert all(np.array_equal(one[1], other[1]) for one, other in zip(splits, again, strict=True))


def test_small_classes_are_in_every_training_part_without_a_warning() -> None:
    y = np.array([0] * 50 + [1] * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(set(y[train]) == {0, 1} for train, _ in validation_splits(y, 0))
    with pytest.raises(InvalidInputError, match="at least two training rows"):
        validation_splits(np.array([0] * 50 + [1]), 0)


def test_a_set_without_its_files_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    load.cache_clear()
    monkeypatch.setenv("QSDP_DATA", str(tmp_path))
    with pytest.raises(DatasetError, match="set 'heart': "):
        load("heart")
