"""Rows of a table with known targets, and what a model of a table makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray
from qsdp.estimators.classes import choose_classes
from qsdp.exceptions import InvalidInputError
from qsdp.networks import BilinearNetwork
from qsdp.tabular import DataTable, TabularModel

__all__ = ["ScoredRows", "scored_rows"]


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows with known targets.

    Attributes
    ----------
    name : str
        Name of the rows, such as "test rows".
    X : ndarray
        Inputs of networks.
    truth : ndarray of shape (n,)
        True targets, coded as for `Target.score`.
    weights : ndarray of shape (n,) or None
    """

    name: str
    model: TabularModel
    X: FloatArray
    truth: FloatArray
    weights: FloatArray | None

    @classmethod
    def of(cls, name: str, model: TabularModel, table: DataTable, X: FloatArray | None = None) -> ScoredRows:
        """Return the rows of a table, given their inputs if they are known."""
        inputs = model.inputs(table) if X is None else X
        weighted = model.weighting.column in table.columns
        weights = model.weighting.read(table) if weighted else None
        return cls(name, model, inputs, model.target.truth(table), weights)

    @cached_property
    def outputs(self) -> FloatArray:
        """Outputs of the model's network."""
        return self.model.network.predict(self.X)

    def score(self, network: BilinearNetwork) -> float:
        """Return the accuracy or R^2 of a network."""
        outputs = self.outputs if network is self.model.network else network.predict(self.X)
        return self.model.target.score(outputs, self.truth, self.weights)

    def values(self) -> FloatArray:
        """Return the predicted class scores, or the predicted numbers in the units of the target."""
        return self.model.target.values(self.outputs)

    def true_values(self) -> FloatArray:
        """Return the true numbers, in the units of the target."""
        return self.model.target.values(self.truth)

    def confusion(self) -> npt.NDArray[np.intp]:
        """Return numbers of rows by true and by predicted class, (C, C), without rows of unknown classes."""
        classes = self.model.target.classes
        assert classes is not None
        counts = np.zeros((len(classes), len(classes)), dtype=np.intp)
        truth = self.truth.astype(np.intp)
        known = truth >= 0
        np.add.at(counts, (truth[known], choose_classes(self.values())[known]), 1)
        return counts

    def common_share(self) -> float:
        """Return the (weighted) share of the most frequent class."""
        weights = np.ones(len(self.truth)) if self.weights is None else self.weights
        totals = [float(weights[self.truth == code].sum()) for code in np.unique(self.truth[self.truth >= 0.0])]
        return max(totals, default=0.0) / float(weights.sum())


def scored_rows(model: TabularModel, table: DataTable) -> tuple[list[ScoredRows], bool]:
    """Return training and test rows if the model was trained on the table, else all rows; and whether it was."""
    table.require([model.target.name])
    trained = model.is_trained_on(table)
    if trained:
        named = dict(zip(("training rows", "test rows"), model.split(table), strict=True))
    else:
        named = {"rows": table.known(model.target.name)}
        if not len(named["rows"]):
            raise InvalidInputError(f"{table.path!r} has no row in which the target {model.target.name!r} is known")
    return [ScoredRows.of(name, model, part) for name, part in named.items() if len(part)], trained
