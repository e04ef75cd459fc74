"""Thresholds: parts of equal weight, merged where they divide alike, at short decimals between neighbours."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from qsdp.encoding.binning import STRATEGIES, Distribution

COLUMNS = arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e300, 1e300, width=64))
TIED = arrays(np.float64, st.integers(1, 60), elements=st.integers(-4, 4).map(float))


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=60, deadline=None)
@given(values=st.one_of(COLUMNS, TIED), n_thresholds=st.integers(1, 10))
def test_parts_are_never_empty_and_never_too_many(strategy, values, n_thresholds):
    thresholds = Distribution.from_entries(values).thresholds(n_thresholds, strategy)
    distinct = len(np.unique(values))
    assert len(thresholds) <= min(n_thresholds, distinct - 1)
    if distinct - 1 <= n_thresholds:
        assert len(thresholds) == distinct - 1
    parts = np.searchsorted(thresholds, np.unique(values), side="left")
    assert set(parts) == set(range(len(thresholds) + 1))
    assert np.all(np.diff(thresholds) > 0.0)


@settings(max_examples=60, deadline=None)
@given(values=TIED, data=st.data())
def test_a_weight_is_as_many_equal_values(values, data):
    weights = data.draw(arrays(np.float64, len(values), elements=st.integers(1, 4).map(float)))
    repeated = np.repeat(values, weights.astype(int))
    weighted, expected = Distribution.from_entries(values, weights), Distribution.from_entries(repeated)
    for strategy in STRATEGIES:
        assert weighted.thresholds(3, strategy) == expected.thresholds(3, strategy)
    assert weighted.median() == expected.median() == np.median(repeated)


def test_quantiles_of_a_continuous_column_have_equal_weight():
    values = np.random.default_rng(0).standard_normal(10_000)
    thresholds = Distribution.from_entries(values).thresholds(7, "quantile")
    shares = np.bincount(np.searchsorted(thresholds, values)) / 10_000
    np.testing.assert_allclose(shares, 1 / 8, atol=1e-3)


def test_the_rest_of_a_column_with_one_heavy_value_is_divided_too():
    rng = np.random.default_rng(0)
    values = np.where(rng.random(1000) < 0.9, 0.0, rng.exponential(size=1000))
    thresholds = Distribution.from_entries(values).thresholds(7, "quantile")
    assert 5 <= len(thresholds) <= 7
    assert 0.0 <= thresholds[0] < np.sort(values[values > 0.0])[3]


def test_uniform_thresholds_divide_the_range():
    values = np.arange(101.0) ** 2
    np.testing.assert_allclose(
        Distribution.from_entries(values).thresholds(3, "uniform"), [2500, 5000, 7500], rtol=0.02
    )


@pytest.mark.parametrize(
    ("values", "threshold"),
    [([42.0, 43.0], 42.5), ([2.4, 2.5], 2.45), ([0.1, 0.2], 0.15), ([1.0, 1000.0], 500.0), ([-1.0, 1.0], 0.0)],
)
def test_thresholds_are_short_decimals(values, threshold):
    assert Distribution.from_entries(np.array(values)).thresholds(5, "quantile") == [threshold]


def test_quantiles_are_the_smallest_values_with_the_weight():
    spread = Distribution.from_entries(np.array([3.0, 1.0, 2.0, 2.0]))
    assert [spread.quantile(share) for share in (0.0, 0.25, 0.26, 0.75, 0.76, 1.0)] == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    weighted = Distribution.from_entries(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 1.0]))
    assert [weighted.quantile(share) for share in (0.25, 0.26, 0.75, 0.76)] == [1.0, 2.0, 2.0, 3.0]


def test_neighbouring_floats_are_divided():
    values = np.array([1.0, np.nextafter(1.0, 2.0), 2.0])
    first, _ = Distribution.from_entries(values).thresholds(5, "quantile")
    assert values[0] <= first < values[1]


@pytest.mark.parametrize(
    ("entries", "limits"),
    [
        # Quartiles 1 and 3; 0 and 1 at the twentieths; at the hundredths.
        ([0.0, 1.0, 2.0, 3.0], (0.0 - 4.4 * 2.0, 2.0 + 4.4 * 2.0)),
        ([0.0] * 90 + [1.0] * 10, (-1.5, 2.5)),
        ([0.0] * 97 + [1.0] * 3, (-0.9, 1.9)),
        ([0.0] * 999 + [1.0], (-np.inf, np.inf)),
        ([2.0], (-np.inf, np.inf)),
        ([-1.5e308, -1.5e308, 1.5e308, 1.5e308], (-np.inf, np.inf)),
    ],
)
def test_fences_stand_by_the_first_quantiles_that_differ(entries, limits):
    np.testing.assert_allclose(Distribution.from_entries(np.array(entries)).fences(), limits, rtol=1e-15)
