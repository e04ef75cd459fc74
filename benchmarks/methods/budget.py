"""One budget for all methods in a comparison: training epochs, and size and limits of hyper-parameter searches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.methods.choice import Choice, choose
from qsdp._utils.validation import FloatArray

__all__ = ["BUDGET", "Budget", "Folds", "chosen_by"]

#: Pairs of training rows and held-out rows.
Folds = Sequence[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]


@dataclass(frozen=True)
class Budget:
    """Limits of training and of hyper-parameter search, the same for every method in a comparison."""

    #: For training by gradients, which stops if the held-out samples have not improved for `patience` epochs.
    n_epochs: int = 300
    patience: int = 50
    validation_fraction: float = 0.2
    #: Number of additional combinations of hyper-parameters, tried if the choice lies at an edge of the grid.
    n_more: int = 12
    #: Smallest and largest values of hyper-parameters.
    limits: Mapping[str, tuple[float, float]] = field(
        default_factory=lambda: {"learning_rate": (1e-4, 10.0), "beta": (1e-4, 1e4)}
    )

    @property
    def training(self) -> dict[str, Any]:
        """Training parameters for estimators of `qsdp.baselines` that use automatic differentiation."""
        return {name: getattr(self, name) for name in ("n_epochs", "patience", "validation_fraction")}

    def fit(self, estimator: Any, X: FloatArray, y: npt.NDArray[Any]) -> Any:
        """Return an estimator fitted to all samples.

        Estimators of `qsdp.baselines` hold out samples only in searches. Here they train on all samples for all epochs
        and keep the network with the smallest objective. Stopping at the best epoch of the search is often too early.
        """
        from sklearn.base import clone

        if getattr(estimator, "validation_fraction", 0.0):
            estimator = clone(estimator).set_params(validation_fraction=0.0, patience=None)
        return clone(estimator).fit(X, y)

    def choose(self, grid: Mapping[str, Sequence[float]], score: Callable[[dict[str, float]], float]) -> Choice:
        """Return the values with the highest score, found by `choose` within these limits."""
        return choose(grid, score, limits=self.limits, n_more=self.n_more)


BUDGET = Budget()


def chosen_by(
    measures: Mapping[str, Callable[[Any, FloatArray, npt.NDArray[Any]], float]],
    estimator: Any,
    grid: Mapping[str, Sequence[float]],
    X: FloatArray,
    y: npt.NDArray[Any],
    folds: Folds,
    budget: Budget = BUDGET,
) -> dict[str, Choice]:
    """Choose hyper-parameters by each of several measures, averaged over folds; one fit serves all measures.

    ``measure(model, X, y)`` scores a fitted model on held-out rows; larger is better.
    """
    from sklearn.base import clone

    known: dict[tuple[float, ...], dict[str, float]] = {}

    def scores(values: dict[str, float]) -> dict[str, float]:
        key = tuple(values.values())
        if key not in known:
            found = []
            for rows, held in folds:
                model = clone(estimator).set_params(**values).fit(X[rows], y[rows])
                found.append([measure(model, X[held], y[held]) for measure in measures.values()])
            known[key] = dict(zip(measures, np.mean(found, axis=0).tolist(), strict=True))
        return known[key]

    def by(name: str) -> Choice:
        return budget.choose(grid, lambda values: scores(values)[name])

    return {name: by(name) for name in measures}
