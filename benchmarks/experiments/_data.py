"""The data sets of the experiments, split: all functions return ``X, X_test, y, y_test``."""

from __future__ import annotations

import functools

import numpy as np
from sklearn import datasets as sets
from sklearn.model_selection import train_test_split

import qsdp
from qsdp.lifting import append_constant

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def standardised(name: str, seed: int) -> Split:
    """Return a UCI set in the paper's shares, standardised, without a constant column."""
    X, X_test, y, y_test = qsdp.datasets.load_uci(name).split(random_state=seed)
    return *scaled(X, X_test), y, y_test


def quarter(X: np.ndarray, y: np.ndarray, seed: int, *, classes: bool = True) -> Split:
    """Return a quarter for testing, stratified by classes; columns are standardised, and real targets too."""
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, stratify=y if classes else None, random_state=seed)
    return *scaled(X, X_test), *((y, y_test) if classes else scaled(y, y_test))


def planted(n: int, d: int, seed: int) -> Split:
    """Return n Gaussian samples of d columns for training and n for the test, targets of ten binary neurons."""
    X, y = qsdp.datasets.make_planted(2 * n, d, n_neurons=10, random_state=seed)
    return X[:n], X[n:], y[:n], y[n:]


def digits() -> Split:
    """Return scikit-learn's digits, 1437 and 360 stratified, pixels in [0, 1]."""
    X, y = sets.load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / 16.0, y, test_size=360, stratify=y, random_state=0)
    return X, X_test, y, y_test


@functools.lru_cache(maxsize=1)
def images(name: str = "mnist", n: int = 60_000, *, validation: bool = False) -> Split:
    """Return the first n training images of MNIST or "fashion_mnist" and the test images, pixels in [0, 1].

    With `validation`, images 50 000 to 60 000 of the training set stand in for the test images.
    """
    load = {"mnist": qsdp.datasets.load_mnist, "fashion_mnist": qsdp.datasets.load_fashion_mnist}[name]
    X, y = load("train")
    X_test, y_test = (X[50_000:], y[50_000:]) if validation else load("test")
    return X[:n] / 255.0, X_test / 255.0, y[:n], y_test


def scaled(X: np.ndarray, X_test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both parts with mean zero and deviation one over the first; constant columns have deviation zero."""
    mean, deviation = X.mean(axis=0), np.asarray(X.std(axis=0))
    deviation[deviation == 0.0] = 1.0
    return (X - mean) / deviation, (X_test - mean) / deviation


def pooled(images: np.ndarray, side: int) -> np.ndarray:
    """Return square images of 28 x 28 pixels as means of blocks, side x side of them."""
    block = 28 // side
    return images.reshape(-1, side, block, side, block).mean(axis=(2, 4)).reshape(-1, side * side)


def targets_of(y: np.ndarray) -> np.ndarray:
    """Return what networks are fitted to: signs as they are, classes as rows of ones and zeros."""
    return np.eye(int(y.max()) + 1)[y] if y.dtype.kind == "i" else y


def first_class(y: np.ndarray, k: int = 0) -> np.ndarray:
    """Return signs as they are, and of several classes one against the rest."""
    return np.where(y == k, 1.0, -1.0) if y.dtype.kind == "i" else y


def with_constant(*parts: np.ndarray) -> tuple[np.ndarray, ...]:
    """Append the column of ones."""
    return tuple(append_constant(part) for part in parts)
