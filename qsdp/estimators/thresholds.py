"""Thresholds of columns to choose from: quantiles, or splits of boosted regression trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeRegressor

from qsdp._utils import deadline
from qsdp._utils.validation import FloatArray
from qsdp.choosing.distinct_rows import DistinctRows
from qsdp.choosing.regression import MAX_ROWS, MAX_TRAINED, LeftOut
from qsdp.encoding import Encoding
from qsdp.encoding.binning import Distribution
from qsdp.encoding.expressions import Expression
from qsdp.encoding.fitting import MAX_BITS, thresholds_of
from qsdp.problem import TrainingProblem

__all__ = [
    "FEWEST",
    "MANY",
    "MAX_INPUTS",
    "affordable_thresholds",
    "distributions",
    "numbers_of",
    "thresholds_per_column",
    "with_splits",
    "with_thresholds",
]

#: Candidate numbers of thresholds per column, the smallest first.
FEWEST, _MORE = 5, 20

#: Number of distinct rows above which splits are compared: trees train on those that no regression leaves out.
MANY = 4000

#: Number of inputs that thresholds of as many rows may bring an encoding to: solves factor a matrix of half its square.
MAX_INPUTS = 100

#: First candidate number of splits of all columns.
_SPLITS = 60

#: Maximum estimate of the operations of a solve (a few seconds): time versus accuracy.
_MAX_WORK = 4.2e8

#: Number of quantiles of each column among which trees split.
_QUANTILES = 64

#: Number of trees, of leaves of each, and the fraction of its predictions that is subtracted before the next.
_TREES, _LEAVES, _RATE = 30, 8, 0.3

#: Number of entries of the table, times outputs, on which trees are fitted in about two seconds, and fewest rows of
#: trees. The 26 outputs of letters do not allow as many: there, fits with splits took 44 s in place of 28.
_MAX_ENTRIES, _FEWEST_ROWS = 2**19, 2000


def with_thresholds(
    standard: Encoding,
    table: list[Any],
    columns: FloatArray,
    spread: dict[int, Distribution],
    counts: list[int],
) -> Iterator[tuple[Encoding, FloatArray, int]]:
    """Yield the standard encoding and its `columns` with more and more thresholds, and the number of these."""
    for count in counts:
        yield *_beside(standard, table, columns, thresholds_of(standard, spread, count)), count


def with_splits(
    standard: Encoding,
    table: list[Any],
    columns: FloatArray,
    spread: dict[int, Distribution],
    most: int,
    problem: TrainingProblem,
    rows: DistinctRows,
) -> Iterator[tuple[Encoding, FloatArray, int]]:
    """Yield the same with the best splits of trees, twice as many each time, and the most of a column.

    The trees predict the targets of the `problem` of the standard encoding, on rows that no regression leaves out.
    """
    trained = _MAX_ENTRIES // (len(spread) * problem.n_outputs)
    if trained < _FEWEST_ROWS:
        return
    used = LeftOut.from_problem(problem, rows, trained=min(MAX_TRAINED, MAX_ROWS + trained))
    # Regressions leave out the first rows. If splits depended on them, these would be no rows to compare encodings on.
    own = slice(MAX_ROWS, None)
    entries = [column[used.samples[own]] for column in table]
    found = _best_splits(standard, entries, spread, used.means[own], used.row_weights[own])
    count, total = 0, min(most, len(found))
    while count < total:
        count = min(2 * count or _SPLITS, total)
        splits = tuple(sorted(found[:count], key=lambda one: (one.position, one.value)))
        yield *_beside(standard, table, columns, splits), max(Counter(one.position for one in splits).values())


def _beside(
    standard: Encoding, table: list[Any], columns: FloatArray, expressions: tuple[Expression, ...]
) -> tuple[Encoding, FloatArray]:
    """Return the standard encoding with more expressions, and its `columns` with theirs."""
    both = replace(standard, expressions=standard.expressions + expressions)
    return both, np.hstack([columns, replace(standard, expressions=expressions).encode(table)])


def numbers_of(encoding: Encoding) -> list[int]:
    """List the positions of the columns whose numbers are inputs."""
    return [one.position for one in encoding.expressions if one.kind == "value"]


def distributions(encoding: Encoding, table: list[Any], weights: FloatArray | None) -> dict[int, Distribution]:
    """Return the distributions of the numeric columns with more than two values, by position."""
    spread = {}
    for position in numbers_of(encoding):
        known = ~np.isnan(table[position])
        spread[position] = Distribution.from_entries(
            table[position][known], None if weights is None else weights[known]
        )
    return {position: one for position, one in spread.items() if len(one.values) > 2}


def affordable_thresholds(width: int, n_numbers: int, n_outputs: int, n_distinct: int) -> int:
    """Return how many thresholds of `n_numbers` columns may be added to `width` inputs.

    The number N of inputs is limited by the operations of a solve, of the order of C N^2 (n + 10 N) for C outputs and n
    rows, to at most N (N + 1) / 2 of which the squared loss is reduced, and by the size of a network. If rows are many,
    it is also limited by the factorisations, but not to less than five thresholds per column.
    """

    def work(N: int) -> int:
        return n_outputs * N**2 * (min(n_distinct, N * (N + 1) // 2) + 10 * N)

    affordable = max(sum(work(N) <= _MAX_WORK for N in range(width, width + MAX_BITS + 1)) - 1, 0)
    return affordable if n_distinct <= MANY else min(affordable, max(MAX_INPUTS - width, FEWEST * n_numbers))


def thresholds_per_column(n_numbers: int, most: int) -> list[int]:
    """List candidate numbers of thresholds of each of some columns, of which all together may have `most`."""
    if not n_numbers:
        return []
    most //= n_numbers
    counts = [count for count in (FEWEST, _MORE) if count <= most]
    if not counts or (counts[-1] < _MORE and most >= 2 * counts[-1]):
        counts.append(most)
    return [count for count in counts if count > 0]


def _best_splits(
    encoding: Encoding,
    table: list[Any],
    spread: Mapping[int, Distribution],
    targets: FloatArray,
    weights: FloatArray,
) -> list[Expression]:
    """Return inputs ``column > threshold``, the most useful first, from the splits of boosted regression trees.

    Each of a few small trees is fitted to the residuals of those before. A threshold is as useful as the squared error
    that its splits remove in all trees.

    Parameters
    ----------
    encoding : Encoding
    table : list of ndarray of shape (n,)
        Columns of some rows.
    spread : mapping of int to Distribution
        Distributions of the numeric columns on all rows, by position.
    targets : ndarray of shape (n, C)
    weights : ndarray of shape (n,)
        Positive weights.
    """
    candidates = [thresholds_of(encoding, {position: one}, _QUANTILES) for position, one in spread.items()]
    codes = np.zeros((len(targets), len(candidates)), dtype=np.float32)
    for column, own in zip(codes.T, candidates, strict=True):
        column[:] = replace(encoding, expressions=own).encode(table).sum(axis=1)
    gains = np.zeros((len(candidates), _QUANTILES))
    residuals = targets - np.average(targets, axis=0, weights=weights)
    for _ in range(_TREES):
        if deadline.over():
            break
        model = DecisionTreeRegressor(max_leaf_nodes=_LEAVES, random_state=0).fit(codes, residuals, weights)
        tree = model.tree_
        residuals -= _RATE * tree.value[:, :, 0][tree.apply(codes)]
        errors = tree.impurity * tree.weighted_n_node_samples
        inner = np.flatnonzero(tree.children_left >= 0)
        removed = errors[inner] - errors[tree.children_left[inner]] - errors[tree.children_right[inner]]
        np.add.at(gains, (tree.feature[inner], tree.threshold[inner].astype(int)), removed)
    order = np.argsort(-gains, axis=None, kind="stable")[: np.count_nonzero(gains > 0.0)]
    return [candidates[column][place] for column, place in zip(*np.unravel_index(order, gains.shape), strict=True)]
