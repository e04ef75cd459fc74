"""Data sets of the suite, their splits and validation folds."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.data.uci_sets import load_uci
from qsdp._utils.validation import FloatArray
from qsdp.datasets import load_bundled
from qsdp.datasets._bundled import SPECS as BUNDLED
from qsdp.datasets._dataset import Dataset
from qsdp.exceptions import DatasetError, InvalidInputError

__all__ = ["LARGE", "SETS", "Split", "load", "prepare", "split_cases", "validation_splits"]

#: Sets from small to large, without the regression set "diabetes" and the joint set "wine-quality" of both colours.
_NAMES = (
    "iris wine heart glass breast-cancer banknote pima ionosphere breast-cancer-wisconsin credit-approval vehicle "
    "wine-quality-red wine-quality-white digits spambase letter adult"
)
SETS = tuple(_NAMES.split())

#: Sets measured last, where a case can take minutes.
LARGE = frozenset({"digits", "spambase", "letter", "adult"})

Indices = npt.NDArray[np.intp]


def split_cases(splits: Mapping[str, int], name: str, values: Iterable[Any]) -> list[dict[str, Any]]:
    """Return one case per data set, split, and value of the parameter `name`.

    Small sets come first, and all values of a split together, so that an interrupted run has complete splits.
    """
    values = list(values)
    return [
        {"set": one, "seed": seed, name: value}
        for large in (False, True)
        for seed in range(max(splits.values()))
        for one in splits
        if (one in LARGE) == large and seed < splits[one]
        for value in values
    ]


@dataclass(frozen=True)
class Split:
    """Training set and test set, standardised by the training set, with classes 0, 1, ..."""

    #: Of shape (n, d) and (n_test, d). Columns have mean 0 and standard deviation 1 over the training set; columns that
    #: are constant there are left out.
    X: FloatArray
    X_test: FloatArray
    #: Of shape (n,) and (n_test,).
    y: Indices
    y_test: Indices
    n_classes: int


@functools.lru_cache(maxsize=2)
def load(name: str) -> Dataset:
    """Return a set of the suite with one-hot encoded categorical columns."""
    try:
        return load_bundled(name) if name in BUNDLED else load_uci(name, encoding="onehot")
    except DatasetError as error:
        raise DatasetError(f"set {name!r}: {error}") from None


def prepare(name: str, seed: int, test_size: float = 0.2) -> Split:
    """Split a data set, stratified by class, and standardise it by the moments of the training set."""
    from sklearn.model_selection import train_test_split

    data = load(name)
    classes, codes = np.unique(data.y, return_inverse=True)
    train, test = train_test_split(np.arange(len(codes)), test_size=test_size, random_state=seed, stratify=codes)
    mean, deviation = data.X[train].mean(axis=0), data.X[train].std(axis=0)
    # A smaller deviation is the rounding error of a constant column.
    kept = deviation > 1e-12 * np.abs(data.X[train]).max(axis=0, initial=0.0)
    X, X_test = ((data.X[rows][:, kept] - mean[kept]) / deviation[kept] for rows in (train, test))
    return Split(X, X_test, codes[train], codes[test], len(classes))


def validation_splits(y: Indices, seed: int) -> list[tuple[Indices, Indices]]:
    """Return the folds of the training rows on which every method chooses its hyper-parameters.

    Five stratified folds up to 500 rows, three up to 2000, one held-out fifth beyond.
    """
    from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

    if np.bincount(y).min() < 2:
        raise InvalidInputError("every class must have at least two training rows, one of them for validation")
    if len(y) > 2000:
        splitter: Any = StratifiedShuffleSplit(1, test_size=0.2, random_state=seed)
    else:
        splitter = StratifiedKFold(5 if len(y) <= 500 else 3, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        # A class with fewer rows than folds is missing only in some held-out parts, never in a training part.
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        return list(splitter.split(np.zeros(len(y)), y))
