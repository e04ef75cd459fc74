"""Classifiers of scikit-learn's digits, which tests of several exports share."""

from functools import cache

import numpy as np
from sklearn.datasets import load_digits

from qsdp import QuantizedNetworkClassifier
from qsdp.encoding import Patches


def digits():
    """Return images of bytes and their digits."""
    return (15 * load_digits().images).astype(np.uint8), load_digits().target


@cache
def digit_classifier(loss, n_classes=10):
    """Return a classifier of the first classes, fitted to 200 images."""
    X, y = (part[digits()[1] < n_classes] for part in digits())
    names = np.array([f"digit {k}" for k in range(10)])[y]
    return QuantizedNetworkClassifier(
        n_neurons=60, encoding=Patches(3, regions=2), loss=loss, beta="3%", refine="none", random_state=0
    ).fit(X[:200], names[:200])
