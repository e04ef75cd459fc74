"""Weights of the rows of a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.estimators.classes import class_factors, weighted_by_class
from qsdp.exceptions import InvalidInputError
from qsdp.tabular._reading import DataTable
from qsdp.tabular._target import Target


@dataclass(frozen=True)
class Weighting:
    """Weighting of the training rows: by a column, by class, or both.

    Attributes
    ----------
    column : str or None
        Column of sample weights.
    class_weight : {None, "balanced"}
    """

    column: str | None = None
    class_weight: str | None = None

    def read(self, table: DataTable) -> FloatArray | None:
        """Return the column of weights, shape (n,), or raise one error that names it and counts the invalid rows."""
        if self.column is None:
            return None
        table.require([self.column])
        weights = table.all_numbers(self.column)
        for fault, rows in (("no weight", np.isnan(weights)), ("a negative weight", weights < 0.0)):
            if np.any(rows):
                raise InvalidInputError(
                    f"{table.path!r}, column {self.column!r}: {int(rows.sum())} of {len(table)} rows have {fault}, the "
                    f"first in {table.unit} {table.lines[int(rows.argmax())]}; weights must be numbers >= 0"
                )
        return weights

    def counting(self, table: DataTable) -> DataTable:
        """Return the table with the rows of positive weight."""
        weights = self.read(table)
        return table if weights is None else table.take(np.flatnonzero(weights > 0.0).tolist())

    def weights(self, table: DataTable, target: Target) -> FloatArray | None:
        """Return the weights for training on rows of positive weight with a target, shape (n,); None if each is one."""
        if target.classes is None:
            return self.read(table)
        codes, given = target.truth(table).astype(np.intp), self.read(table)
        return weighted_by_class(class_factors(self.class_weight, list(target.classes), codes, given), codes, given)
