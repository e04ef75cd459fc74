"""The data sets of the experiments, split; the functions that split return ``X, X_test, y, y_test``."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

import numpy as np

import qsdp
from benchmarks.data.uci_sets import load_uci
from qsdp.lifting import append_constant

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def standardised(name: str, seed: int) -> Split:
    """Return a UCI set, split as in the paper and standardised, without a constant column."""
    X, X_test, y, y_test = load_uci(name).split(random_state=seed)
    return *scaled(X, X_test), y, y_test


def quarter(X: np.ndarray, y: np.ndarray, seed: int, *, classes: bool = True) -> Split:
    """Split off a quarter for testing, stratified by class; columns and real targets are standardised."""
    from sklearn.model_selection import train_test_split

    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, stratify=y if classes else None, random_state=seed)
    return *scaled(X, X_test), *((y, y_test) if classes else scaled(y, y_test))


def planted(n: int, d: int, seed: int) -> Split:
    """Return n Gaussian samples of d columns for training and n for testing, with targets of ten binary neurons."""
    X, y = qsdp.datasets.make_planted(2 * n, d, n_neurons=10, random_state=seed)
    return X[:n], X[n:], y[:n], y[n:]


def planted_batches(sizes: Iterable[int], d: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield batches of Gaussian samples, with targets of ten binary neurons and noise of a tenth of their deviation."""
    network = qsdp.datasets.make_planted(2, d, n_neurons=10, random_state=0).network
    rng = np.random.default_rng(0)
    for size in sizes:
        X = rng.standard_normal((size, d))
        y = network.predict(X)
        yield X, y + 0.1 * np.std(y) * rng.standard_normal(size)


def digits() -> Split:
    """Return scikit-learn's digits, 1437 for training and 360 for testing, stratified, with pixels in [0, 1]."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / 16.0, y, test_size=360, stratify=y, random_state=0)
    return X, X_test, y, y_test


@functools.lru_cache(maxsize=1)
def images(name: str = "mnist", n: int = 60_000, *, validation: bool = False) -> Split:
    """Return the first n training images of MNIST or "fashion_mnist" and the test images, with pixels in [0, 1].

    With `validation`, images 50 000 to 60 000 of the training set replace the test images.
    """
    load = {"mnist": qsdp.datasets.load_mnist, "fashion_mnist": qsdp.datasets.load_fashion_mnist}[name]
    X, y = load("train")
    X_test, y_test = (X[50_000:], y[50_000:]) if validation else load("test")
    return X[:n] / 255.0, X_test / 255.0, y[:n], y_test


def scaled(X: np.ndarray, X_test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both parts with mean 0 and deviation 1 over the first; constant columns are only centred."""
    mean, deviation = X.mean(axis=0), np.asarray(X.std(axis=0))
    deviation[deviation == 0.0] = 1.0
    return (X - mean) / deviation, (X_test - mean) / deviation


def pooled(images: np.ndarray, side: int) -> np.ndarray:
    """Return square images of 28 x 28 pixels, reduced to side x side block means."""
    block = 28 // side
    return images.reshape(-1, side, block, side, block).mean(axis=(2, 4)).reshape(-1, side * side)


def targets_of(y: np.ndarray) -> np.ndarray:
    """Return the targets of networks: signs unchanged, classes as one-hot rows."""
    return np.eye(int(y.max()) + 1)[y] if y.dtype.kind == "i" else y


def signs_of(y: np.ndarray) -> np.ndarray:
    """Return classes as one-hot rows of -1 and 1."""
    return 2.0 * targets_of(y) - 1.0


def first_class(y: np.ndarray, k: int = 0) -> np.ndarray:
    """Return signs unchanged, and several classes as one against the rest."""
    return np.where(y == k, 1.0, -1.0) if y.dtype.kind == "i" else y


def with_constant(*parts: np.ndarray) -> tuple[np.ndarray, ...]:
    """Append a column of ones to each part."""
    return tuple(append_constant(part) for part in parts)
