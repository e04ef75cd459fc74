"""Ranks and tests of several methods over several sets, and their picture."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from qsdp.bench.uci import compare, draw_comparison
from qsdp.bench.uci import picture as picture_module
from qsdp.bench.uci.critical_difference import (
    RankComparison,
    friedman,
    holm,
    nemenyi_difference,
    pairwise_wilcoxon,
    ranks_of,
    signed_rank_p,
)
from qsdp.exceptions import InvalidInputError


def scores(n: int, k: int, spread: float = 2.5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, k)) + np.linspace(spread, 0.0, k)


def test_ranks_begin_with_the_largest_and_share_ties() -> None:
    ranks = ranks_of(np.array([[0.9, 0.8, 0.7], [0.5, 0.9, 0.5], [1.0, 1.0, 1.0]]))
    np.testing.assert_array_equal(ranks, [[1, 2, 3], [2.5, 1, 2.5], [2, 2, 2]])


@pytest.mark.parametrize(
    ("k", "quantile"),
    [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (6, 2.850), (7, 2.949), (8, 3.031), (9, 3.102), (10, 3.164)],
)
def test_nemenyi_quantiles_are_those_of_demsars_table_5(k: int, quantile: float) -> None:
    assert nemenyi_difference(k, 1) / np.sqrt(k * (k + 1) / 6) == pytest.approx(quantile, abs=1.1e-3)


def test_critical_difference_of_demsars_example() -> None:
    # Four methods on 14 sets: 1.25 at 5 %, with q = 2.291 1.12 at 10 %.
    assert nemenyi_difference(4, 14) == pytest.approx(1.25, abs=0.005)
    assert nemenyi_difference(4, 14, 0.1) == pytest.approx(1.12, abs=0.005)


def test_friedman_without_ties_is_the_formula() -> None:
    table = scores(14, 4, 1.0)
    mean_ranks = ranks_of(table).mean(axis=0)
    chi2 = 12 * 14 / (4 * 5) * (np.sum(mean_ranks**2) - 4 * 5**2 / 4)
    statistic = 13 * chi2 / (14 * 3 - chi2)
    assert friedman(table) == pytest.approx(stats.f.sf(statistic, 3, 3 * 13), rel=1e-10)


def test_friedman_at_its_ends() -> None:
    assert friedman(np.ones((5, 3))) == 1.0
    assert friedman(np.arange(3.0) + np.arange(5.0)[:, None]) == 0.0
    table = scores(9, 2)
    assert friedman(table) == pairwise_wilcoxon(table)[0, 1]


def test_wilcoxon_of_pairs() -> None:
    table = scores(10, 3, 1.0)
    table[:, 2] = table[:, 1]
    p_values = pairwise_wilcoxon(table)
    assert p_values[0, 1] == p_values[1, 0] == pytest.approx(stats.wilcoxon(table[:, 0] - table[:, 1]).pvalue)
    assert p_values[1, 2] == p_values[2, 1] == 1.0
    np.testing.assert_array_equal(p_values.diagonal(), 1.0)


@pytest.mark.parametrize("n", [2, 9, 25, 60])
def test_signed_ranks_without_ties_are_scipys(n: int) -> None:
    differences = np.random.default_rng(n).normal(0.3, 1.0, n)
    expected = stats.wilcoxon(differences, method="exact").pvalue
    assert signed_rank_p(differences) == pytest.approx(expected, rel=1e-10)
    assert signed_rank_p(-differences) == pytest.approx(expected, rel=1e-10)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9))
def test_signed_ranks_with_ties_and_zeros_by_all_signs(values: list[int]) -> None:
    differences = np.array(values, dtype=float)
    ranks = stats.rankdata(np.abs(differences)) * (differences != 0)
    sums = np.array([np.dot(ranks, signs) for signs in itertools.product([0, 1], repeat=len(values))])
    positive = ranks[differences > 0].sum()
    expected = min(1.0, 2.0 * min(np.mean(sums <= positive), np.mean(sums >= positive)))
    assert signed_rank_p(differences) == pytest.approx(expected, rel=1e-12)


def test_signed_ranks_of_nothing_but_zeros() -> None:
    assert signed_rank_p(np.zeros(7)) == 1.0
    assert signed_rank_p(np.ones(17)) == pytest.approx(2.0**-16)


def test_holm_by_hand() -> None:
    # Three pairs, 0.01, 0.04, 0.03: times 3, then 2 (of 0.03), then 1, never falling.
    p_values = np.array([[1, 0.01, 0.04], [0.01, 1, 0.03], [0.04, 0.03, 1]])
    np.testing.assert_allclose(holm(p_values), [[1, 0.03, 0.06], [0.03, 1, 0.06], [0.06, 0.06, 1]], rtol=1e-15)
    assert holm(np.array([[1, 0.9], [0.9, 1]]))[0, 1] == 0.9
    assert holm(np.full((3, 3), 0.5)).max() == 1.0


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 6), st.integers(0, 10**6))
def test_holm_lies_between_the_raw_values_and_bonferroni(k: int, seed: int) -> None:
    raw = np.triu(np.random.default_rng(seed).uniform(size=(k, k)) ** 4, 1)
    raw = raw + raw.T + np.eye(k)
    adjusted = holm(raw)
    pairs = k * (k - 1) // 2
    assert np.all(adjusted >= raw)
    assert np.all(adjusted <= np.minimum(1.0, pairs * raw) + 1e-15)
    np.testing.assert_array_equal(adjusted, adjusted.T)
    upper = np.triu_indices(k, 1)
    assert np.all(np.diff(adjusted[upper][np.argsort(raw[upper])]) >= 0)


def test_compare_orders_methods_and_their_tests() -> None:
    table = scores(17, 6)[:, ::-1]
    comparison = compare(table, list("fedcba"))
    assert np.all(np.diff(comparison.mean_ranks) >= 0)
    assert comparison.mean_ranks.sum() == pytest.approx(6 * 7 / 2)
    adjusted = holm(pairwise_wilcoxon(table))
    for first, second in itertools.permutations("abcdef", 2):
        value = adjusted["fedcba".index(first), "fedcba".index(second)]
        assert comparison.differ(first, second) == (value < 0.05)
    assert comparison.friedman_p < 1e-6
    assert comparison.n_sets == 17


def made(p_values: Any) -> RankComparison:
    k = len(p_values)
    return RankComparison(tuple("abcdefgh"[:k]), np.arange(1.0, k + 1), 9, 0.5, 1.0, np.array(p_values), 0.05)


def test_groups_are_maximal_runs_without_a_difference() -> None:
    same, differ = 0.5, 0.01
    assert made(np.full((4, 4), same)).groups() == [(0, 3)]
    assert made(np.full((4, 4), differ)).groups() == []
    p_values = np.full((4, 4), same)
    p_values[0, 3] = p_values[3, 0] = differ
    assert made(p_values).groups() == [(0, 2), (1, 3)]
    p_values[0, 1] = p_values[1, 0] = differ
    # "a" and "c" do not differ, but "b" between them does.
    assert made(p_values).groups() == [(1, 3)]


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 8), st.integers(0, 10**6))
def test_groups_by_enumeration(k: int, seed: int) -> None:
    p_values = np.random.default_rng(seed).choice([0.01, 0.5], size=(k, k), p=[0.3, 0.7])
    p_values = np.triu(p_values, 1) + np.triu(p_values, 1).T + np.eye(k)
    fine = [
        (i, j)
        for i, j in itertools.combinations(range(k), 2)
        if all(p_values[pair] >= 0.05 for pair in itertools.combinations(range(i, j + 1), 2))
    ]
    maximal = [
        run for run in fine if not any(other != run and other[0] <= run[0] <= run[1] <= other[1] for other in fine)
    ]
    assert made(p_values).groups() == maximal


@pytest.mark.parametrize(
    ("table", "methods", "level", "message"),
    [
        ([[1.0, 2.0]], "ab", 0.05, "at least two rows and two columns"),
        ([[1.0], [2.0]], "a", 0.05, "at least two rows and two columns"),
        ([[1.0, 2.0], [2.0, 3.0]], "abc", 0.05, "scores must have 3 columns"),
        ([[1.0, 2.0], [2.0, np.nan]], "ab", 0.05, "scores"),
        ([[1.0, 2.0], [2.0, 3.0]], "aa", 0.05, "methods must be distinct"),
        ([[1.0, 2.0], [2.0, 3.0]], "ab", 1.0, "level must be between 0 and 1; got 1"),
        ([[1.0, 2.0], [2.0, 3.0]], "ab", 0.0, "level must be between 0 and 1; got 0"),
    ],
)
def test_bad_tables_are_refused(table: Any, methods: str, level: float, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        compare(table, list(methods), level)


# --- the picture ---------------------------------------------------------------------------------


def drawn(comparison: RankComparison, path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Draw, and return the figure."""
    from matplotlib.figure import Figure

    kept = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda figure, *args, **options: (kept.append(figure), save(figure, *args)))
    draw_comparison(comparison, path, "title")
    return kept[0]


@pytest.mark.parametrize(("n", "k", "spread"), [(17, 15, 2.5), (4, 3, 1.0), (2, 2, 0.0), (30, 24, 6.0), (17, 16, 0.0)])
def test_nothing_in_the_picture_overlaps(
    n: int, k: int, spread: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"method-{number:02d}-longer"[:18] for number in range(k)]
    comparison = compare(scores(n, k, spread), names)
    figure = drawn(comparison, tmp_path / "picture.png", monkeypatch)
    assert (tmp_path / "picture.png").read_bytes()[:4] == b"\x89PNG"
    (ax,) = figure.axes
    boxes = [text.get_window_extent() for text in ax.texts]
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other)
    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)
    assert all(figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1 for box in boxes)
    labels = [text.get_text() for text in ax.texts if text.get_gid() == "label"]
    assert sorted(label.split()[label.startswith(tuple("0123456789"))] for label in labels) == sorted(names)
    bars = [line for line in ax.lines if line.get_gid() == "group"]
    assert len(bars) == len(comparison.groups())
    for one, other in itertools.combinations(bars, 2):
        same_line = one.get_ydata()[0] == other.get_ydata()[0]
        assert not same_line or one.get_xdata()[1] < other.get_xdata()[0] or other.get_xdata()[1] < one.get_xdata()[0]
    # Bars end before the first label, and methods hang where their rank is.
    label_tops = max(text.get_position()[1] for text in ax.texts if text.get_gid() == "label")
    assert all(bar.get_ydata()[0] > label_tops for bar in bars)


def test_bars_take_the_first_free_line() -> None:
    assert picture_module._lanes([(0, 2), (1, 3), (3, 5), (4, 6)]) == [0, 1, 0, 1]
    assert picture_module._lanes([]) == []
