"""Comparison of several methods over several data sets by mean ranks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import f as f_distribution
from scipy.stats import friedmanchisquare, rankdata, studentized_range

from qsdp._utils.validation import FloatArray, check_matrix, check_real
from qsdp.exceptions import InvalidInputError

__all__ = [
    "RankComparison",
    "compare",
    "friedman",
    "holm",
    "nemenyi_difference",
    "pairwise_wilcoxon",
    "ranks_of",
    "signed_rank_p",
]


@dataclass(frozen=True)
class RankComparison:
    """Mean ranks of methods over data sets, with tests of their differences.

    Attributes
    ----------
    methods : tuple of str
        From best to worst.
    mean_ranks : ndarray of shape (k,)
        In the same order; 1 is best.
    n_sets : int
        Number N of data sets.
    friedman_p : float
        P-value of the hypothesis that all methods are equal, with the correction of Iman and Davenport.
    difference : float
        Critical difference of mean ranks by Nemenyi's test.
    p_values : ndarray of shape (k, k)
        Wilcoxon's signed-rank tests of all pairs, adjusted by Holm's method.
    level : float
        Level of all tests.
    """

    methods: tuple[str, ...]
    mean_ranks: FloatArray
    n_sets: int
    friedman_p: float
    difference: float
    p_values: FloatArray
    level: float

    def differ(self, first: str, second: str) -> bool:
        """Return whether two methods differ by the adjusted pairwise test."""
        i, j = self.methods.index(first), self.methods.index(second)
        return bool(self.p_values[i, j] < self.level)

    def groups(self) -> list[tuple[int, int]]:
        """Return first and last position of the maximal runs of methods, in order of rank, without a differing pair."""
        k = len(self.methods)
        runs: list[tuple[int, int]] = []
        for first in range(k):
            last = first
            while last + 1 < k and np.all(self.p_values[first : last + 1, last + 1] >= self.level):
                last += 1
            if last > first and not any(last <= end for _, end in runs):
                runs.append((first, last))
        return runs


def compare(scores: Any, methods: Sequence[str], level: float = 0.05) -> RankComparison:
    """Compare methods by their scores.

    Parameters
    ----------
    scores : array-like of shape (N, k)
        One row per data set, one column per method; larger is better.
    methods : sequence of str
    level : float, default=0.05
        Level of all tests, between 0 and 1.

    Returns
    -------
    RankComparison

    Notes
    -----
    J. Demsar. Statistical comparisons of classifiers over multiple data sets. JMLR 7, 1-30, 2006. Pairs by Wilcoxon and
    Holm: A. Benavoli, G. Corani, F. Mangili. Should we really use post-hoc tests based on mean-ranks? JMLR 17, 1-10,
    2016.

    Examples
    --------
    >>> comparison = compare([[0.9, 0.8, 0.7], [0.8, 0.7, 0.6], [0.9, 0.7, 0.8]], ["a", "b", "c"])
    >>> comparison.methods, comparison.mean_ranks.round(2).tolist()
    (('a', 'b', 'c'), [1.0, 2.33, 2.67])
    """
    table = check_matrix("scores", scores, n_columns=len(methods))
    if len(set(methods)) != len(methods):
        raise InvalidInputError(f"methods must be distinct; got {list(methods)!r:.60}")
    if len(methods) < 2 or len(table) < 2:
        raise InvalidInputError(f"scores must have at least two rows and two columns; got shape {table.shape}")
    if not 0.0 < check_real("level", level) < 1.0:
        raise InvalidInputError(f"level must be between 0 and 1; got {level:g}")
    ranks = ranks_of(table).mean(axis=0)
    order = np.argsort(ranks, kind="stable")
    return RankComparison(
        tuple(methods[index] for index in order),
        ranks[order],
        len(table),
        friedman(table),
        nemenyi_difference(len(methods), len(table), level),
        holm(pairwise_wilcoxon(table))[np.ix_(order, order)],
        float(level),
    )


def ranks_of(scores: FloatArray) -> FloatArray:
    """Return the ranks in each row, 1 for the largest; ties share the mean of their ranks."""
    ranks: FloatArray = rankdata(-scores, axis=1)
    return ranks


def friedman(scores: FloatArray) -> float:
    r"""Return the p-value of the hypothesis that all methods are equal.

    Friedman's statistic :math:`\chi^2`, corrected for ties, in the form of Iman and Davenport
    :math:`F = (N - 1) \chi^2 / (N (k - 1) - \chi^2)`, which has an F distribution of :math:`k - 1` and
    :math:`(k - 1)(N - 1)` degrees of freedom.
    """
    n, k = scores.shape
    if np.all(scores == scores[:, :1]):
        return 1.0
    if k == 2:
        return float(pairwise_wilcoxon(scores)[0, 1])
    statistic = float(friedmanchisquare(*scores.T).statistic)
    rest = n * (k - 1) - statistic
    if rest <= 1e-9 * n * k:
        return 0.0
    return float(f_distribution.sf((n - 1) * statistic / rest, k - 1, (k - 1) * (n - 1)))


def nemenyi_difference(n_methods: int, n_sets: int, level: float = 0.05) -> float:
    r"""Return the critical difference of mean ranks :math:`q_\alpha \sqrt{k (k + 1) / (6 N)}`.

    :math:`q_\alpha` is the quantile of the studentized range of k values and infinitely many degrees of freedom,
    divided by :math:`\sqrt 2`.
    """
    quantile = float(studentized_range.ppf(1.0 - level, n_methods, np.inf)) / np.sqrt(2.0)
    return float(quantile * np.sqrt(n_methods * (n_methods + 1) / (6.0 * n_sets)))


def pairwise_wilcoxon(scores: FloatArray) -> FloatArray:
    """Return the p-values (k, k) of Wilcoxon's signed-rank tests."""
    k = scores.shape[1]
    p_values = np.ones((k, k))
    for i, j in itertools.combinations(range(k), 2):
        p_values[i, j] = p_values[j, i] = signed_rank_p(scores[:, i] - scores[:, j])
    return p_values


def signed_rank_p(differences: FloatArray) -> float:
    """Return the two-sided p-value of Wilcoxon's signed-rank test, exact also with ties and zeros.

    Zeros have ranks (Pratt) but no sign. Twice the mid-ranks are integers, so the sum of the positive ones has few
    values over all signs, whose distribution takes :math:`O(N^3)` operations.
    """
    ranks = np.rint(2.0 * rankdata(np.abs(differences))).astype(np.intp)
    signed = differences != 0.0
    shares = np.zeros(int(ranks[signed].sum()) + 1)
    shares[0] = 1.0
    for rank in ranks[signed]:
        shifted = np.zeros_like(shares)
        shifted[rank:] = shares[: len(shares) - rank]
        shares = 0.5 * (shares + shifted)
    positive = int(ranks[differences > 0.0].sum())
    tail = min(float(shares[: positive + 1].sum()), float(shares[positive:].sum()))
    return min(1.0, 2.0 * tail)


def holm(p_values: FloatArray) -> FloatArray:
    """Return p-values (k, k) of pairs adjusted for all pairs by Holm's step-down method."""
    rows, columns = np.triu_indices(len(p_values), 1)
    raw = p_values[rows, columns]
    order: npt.NDArray[np.intp] = np.argsort(raw, kind="stable")
    stepped = np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1))
    adjusted = np.ones_like(p_values)
    adjusted[rows[order], columns[order]] = adjusted[columns[order], rows[order]] = np.minimum(stepped, 1.0)
    return adjusted
