"""Held-out rows that depend neither on the order of the rows nor on how repeated rows are written."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.choosing.regression import Cells, DistinctRows
from qsdp.problem import TrainingProblem

__all__ = ["held_out_folds"]

#: Number of folds. Up to this many distinct samples, all are held out in turn; with more, only the first two are.
_FOLDS, _MANY = 4, 1000

#: Largest number of distinct samples used: with thousands, results do not depend on a few.
_MAX_SAMPLES = 5000


def held_out_folds(problem: TrainingProblem) -> Iterator[tuple[TrainingProblem, TrainingProblem, float]]:
    """Yield training set, held-out samples and fraction of the weight that trains; none if distinct samples are few.

    Rows, also equal ones, are dealt to the folds one by one: if rows repeat, new rows will have been seen before. Folds
    depend neither on the order of the samples nor on whether a row is repeated or has an integer weight; see `Cells`.
    """
    rows = DistinctRows.from_rows(problem.X)
    n = rows.count
    if n < 2 * _FOLDS:
        return
    cells = Cells.from_problem(problem, rows)
    rank = np.random.default_rng(0).permutation(n)[cells.group]
    used = rank < _MAX_SAMPLES
    order = np.argsort(rank, kind="stable")
    ends = np.empty(len(order), dtype=np.int64)
    ends[order] = np.cumsum(cells.counts[order])
    for k in range(_FOLDS if n <= _MANY else 2):
        # Number of rows of the cell among every fourth row, counted from row k on.
        held_out = (ends + _FOLDS - 1 - k) // _FOLDS - (ends - cells.counts + _FOLDS - 1 - k) // _FOLDS
        rest = np.where(used, 1.0 - held_out / cells.counts, 0.0)[cells.cell]
        training, weight = _part(problem, rest)
        yield training, _part(problem, np.where(used, held_out / cells.counts, 0.0)[cells.cell])[0], weight


def _part(problem: TrainingProblem, fractions: FloatArray) -> tuple[TrainingProblem, float]:
    """Return the problem of a fraction of every sample, and its fraction of the weight."""
    weights = np.ones(problem.n_samples) if problem.sample_weight is None else problem.sample_weight
    some = fractions > 0.0
    part = problem.take(some)
    if np.any(fractions[some] < 1.0):
        part = part.reweighted((fractions * weights)[some])
    return part, float(fractions @ weights / weights.sum())
