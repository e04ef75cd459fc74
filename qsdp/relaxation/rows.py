"""Which samples are the same row, and how many rows a sample stands for: what is held out are rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray
from qsdp.problem import TrainingProblem

__all__ = ["Cells", "DistinctRows"]

#: Larger sums of whole numbers are not known to the last one.
_LARGEST = 2.0**53


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """The distinct rows of a table of numbers.

    Attributes
    ----------
    first : ndarray of int of shape (k,)
        Where each of them stands for the first time, in an order that does not depend on that of the rows.
    group : ndarray of int of shape (n,)
        Which of them every row is.
    """

    first: npt.NDArray[np.intp]
    group: npt.NDArray[np.intp]

    @classmethod
    def of(cls, rows: FloatArray) -> DistinctRows:
        """Return those of an array of shape (n, k)."""
        _, first, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        return cls(first, group.ravel())

    @property
    def count(self) -> int:
        """Number of distinct rows k."""
        return len(self.first)


@dataclass(frozen=True, eq=False)
class Cells:
    """The samples of a problem with equal rows and equal targets, with the number of rows that they are.

    A sample is as many rows as its entry of `TrainingProblem.repetitions`, or else its weight, if all of these are
    whole numbers, and one row if not. Numbers of rows that have a common divisor are divided by it: data and their
    double are the same.

    Attributes
    ----------
    cell : ndarray of int of shape (n,)
        Of every sample.
    group : ndarray of int of shape (c,)
        The distinct row of every cell, not decreasing; the order of cells does not depend on that of the samples.
    counts : ndarray of int of shape (c,)
        The number of rows in every cell, at least one.
    rows : ndarray of shape (n,)
        The number of rows that every sample is, of which `counts` are the sums; it may be a fraction.
    """

    cell: npt.NDArray[np.intp]
    group: npt.NDArray[np.intp]
    counts: npt.NDArray[np.int64]
    rows: FloatArray

    @classmethod
    def of(cls, problem: TrainingProblem, rows: DistinctRows) -> Cells:
        """Return those of a problem whose samples are, by these or other inputs, the `rows`."""
        keys = np.column_stack([rows.group, problem.y])
        distinct, cell = np.unique(keys, axis=0, return_inverse=True)
        cell = cell.ravel()
        numbers = problem.sample_weight if problem.repetitions is None else problem.repetitions
        if numbers is None or not np.all(numbers == np.rint(numbers)) or numbers.sum() >= _LARGEST:
            numbers = np.ones(problem.n_samples)
        counts = np.bincount(cell, numbers).astype(np.int64)
        divisor = np.gcd.reduce(counts)
        return cls(cell, distinct[:, 0].astype(np.intp), counts // divisor, numbers / divisor)
