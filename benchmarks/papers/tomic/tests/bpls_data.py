"""Data of the paper and of the specification's tables."""

from __future__ import annotations

import functools

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

TRAIN, TEST = np.array([[1.0], [3.0], [5.0], [7.0], [9.0]]), np.array([[2.0], [4.0], [6.0], [8.0], [10.0]])


def linear_targets(X: np.ndarray) -> np.ndarray:
    """The paper's linear toy: y1 = 2 - x/3, y2 = 2x - 1."""
    return np.column_stack([2.0 - X[:, 0] / 3.0, 2.0 * X[:, 0] - 1.0])


@functools.cache
def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The split of A.12: 1437 training and 360 test images, pixels in [0, 1]."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / 16, y, test_size=360, stratify=y, random_state=0)
    return X, X_test, y, y_test
