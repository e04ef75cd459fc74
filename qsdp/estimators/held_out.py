"""Held-out predictions of coarse relaxations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.tuning import ROUGH
from qsdp._utils.validation import FloatArray
from qsdp.choosing.distinct_rows import Cells, DistinctRows
from qsdp.problem import TrainingProblem
from qsdp.relaxation.scaled import Settings
from qsdp.relaxation.solve import solve_with

__all__ = ["held_out_folds", "held_out_predictions"]

#: Number of folds. Up to this many distinct samples, all are held out in turn; with more, only the first two are.
_FOLDS, _MANY = 4, 1000

#: Largest number of distinct samples used: with thousands, results do not depend on a few. With more, only the first
#: fold is held out.
_MAX_SAMPLES = 5000


def held_out_predictions(problem: TrainingProblem) -> Iterator[tuple[TrainingProblem, FloatArray]]:
    """Yield the held-out samples of every fold and the outputs (n, C) of a coarse relaxation of the other samples.

    Rows, also equal ones, are dealt to the folds one by one: if rows repeat, new rows will have been seen before. Folds
    depend neither on the order of the samples nor on whether a row is repeated or has an integer weight; see `Cells`.
    Beta of a training set is smaller by its share of the weight, since the loss is a sum. If there are too few distinct
    samples for folds, one fold trains and predicts on all samples. After a time limit, only the first fold is started.
    """
    for k, (training, held_out, share) in enumerate(held_out_folds(problem) or [(problem, problem, 1.0)]):
        if k == 0 or not deadline.over():
            yield held_out, _predicted(training.with_beta(share * problem.beta), held_out)


def _predicted(training: TrainingProblem, held_out: TrainingProblem) -> FloatArray:
    """Return the outputs of a coarse relaxation of a training set for held-out samples."""
    relaxation = solve_with(training, "auto", Settings(ROUGH), quiet=True)
    prediction = relaxation.outputs(held_out.X)
    loss = training.loss
    if loss.for_classes:
        return prediction
    # Far from the data, a quadratic function can take any value; no target is beyond those seen.
    return np.clip(prediction, training.targets.min(axis=0), training.targets.max(axis=0))


def held_out_folds(problem: TrainingProblem) -> list[tuple[TrainingProblem, TrainingProblem, float]]:
    """Return training set, held-out samples and share of the weight that trains; none if distinct samples are few."""
    rows = DistinctRows.from_rows(problem.X)
    n = rows.count
    if n < 2 * _FOLDS:
        return []
    cells = Cells.from_problem(problem, rows)
    rank = np.random.default_rng(0).permutation(n)[cells.group]
    used = rank < _MAX_SAMPLES
    order = np.argsort(rank, kind="stable")
    ends = np.empty(len(order), dtype=np.int64)
    ends[order] = np.cumsum(cells.counts[order])
    folds = []
    for k in range(_FOLDS if n <= _MANY else 2 if n <= _MAX_SAMPLES else 1):
        # Number of rows of the cell among every fourth row, counted from row k on.
        held_out = (ends + _FOLDS - 1 - k) // _FOLDS - (ends - cells.counts + _FOLDS - 1 - k) // _FOLDS
        rest = np.where(used, 1.0 - held_out / cells.counts, 0.0)[cells.cell]
        training, weight = _part(problem, rest)
        folds.append((training, _part(problem, np.where(used, held_out / cells.counts, 0.0)[cells.cell])[0], weight))
    return folds


def _part(problem: TrainingProblem, shares: FloatArray) -> tuple[TrainingProblem, float]:
    """Return the problem of a share of every sample, and its share of the weight."""
    weights = np.ones(problem.n_samples) if problem.sample_weight is None else problem.sample_weight
    some = shares > 0.0
    part = problem.take(some)
    if np.any(shares[some] < 1.0):
        part = part.reweighted((shares * weights)[some])
    return part, float(shares @ weights / weights.sum())
