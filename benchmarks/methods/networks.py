"""Networks trained by gradients and networks derived from them, each with its own hyper-parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.machinery.common import timed

Predict = Callable[[np.ndarray], np.ndarray]


def outputs_of(model: Any, network: Any) -> Predict:
    """Return the prediction function of a network derived from a model, which may add inputs of its own."""
    inputs = getattr(model, "network_inputs", None)
    return lambda X: network.predict(X if inputs is None else inputs(X))


def fourth(y: np.ndarray, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the rows to fit to and the held-out fourth for choices, as a list of one fold."""
    from sklearn.model_selection import StratifiedShuffleSplit

    split = StratifiedShuffleSplit(1, test_size=0.25, random_state=seed)
    return list(split.split(np.zeros((len(y), 1)), y))


def fourth_of(n: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the same fold for n rows without classes."""
    from sklearn.model_selection import ShuffleSplit

    return list(ShuffleSplit(1, test_size=0.25, random_state=seed).split(np.zeros((n, 1))))


def fits(
    model: Any,
    X: np.ndarray,
    y: np.ndarray,
    fit: Callable[[Any, np.ndarray, np.ndarray], Any] = lambda model, X, y: model.fit(X, y),
) -> Callable[[dict[str, Any]], tuple[Any, float]]:
    """Return a function that fits a model with given parameters, once for each choice, and returns the seconds."""
    from sklearn.base import clone

    known: dict[tuple[Any, ...], tuple[Any, float]] = {}

    def fitted(parameters: dict[str, Any]) -> tuple[Any, float]:
        key = tuple(sorted(parameters.items()))
        if key not in known:
            known[key] = timed(lambda: fit(clone(model).set_params(**parameters), X, y))
        return known[key]

    return fitted
