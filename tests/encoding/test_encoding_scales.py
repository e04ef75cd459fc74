"""Scales: powers of two that bring rows to a size, and pass through encodings."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qsdp.encoding import TableEncoder, row_scale
from qsdp.exceptions import InvalidInputError


def is_power_of_two(scales):
    return np.all(np.frexp(scales)[0] == 0.5)


@given(exponent=st.integers(-150, 150), norm=st.floats(0.1, 10.0))
@settings(max_examples=30, deadline=None)
def test_rows_have_the_norm_whatever_the_units(exponent, norm):
    X = np.random.default_rng(0).standard_normal((20, 3)) * 2.0**exponent
    scale = row_scale(X, norm=norm)
    assert is_power_of_two(scale)
    present = np.sqrt(np.mean(np.sum((scale * X) ** 2, axis=1)))
    assert norm / np.sqrt(2.0) * (1.0 - 1e-9) <= present <= norm * np.sqrt(2.0) * (1.0 + 1e-9)


def test_rows_of_all_sizes():
    assert row_scale(np.zeros((3, 2))) == 1.0
    assert row_scale([[1e308, 1e308]], norm=1.0) == 2.0**-1024
    X = np.random.default_rng(0).standard_normal((10, 2)) * np.arange(1, 11)[:, None]
    repeated = np.repeat(X, np.arange(10), axis=0)
    assert row_scale(X, sample_weight=np.arange(10.0)) == row_scale(repeated)


def test_an_encoding_takes_scales():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.standard_normal(80), "b": rng.choice(["u", "v", "w"], 80)})
    encoder = TableEncoder(n_thresholds=2).fit(X)
    scales = 2.0 ** np.arange(encoder.encoding_.width)
    table = [X["a"].to_numpy(), X["b"].to_numpy(dtype=object)]
    np.testing.assert_array_equal(encoder.encoding_.scaled(scales).encode(table), encoder.transform(X) * scales)


def test_wrong_arguments():
    with pytest.raises(InvalidInputError, match="norm must be a finite number > 0; got 0"):
        row_scale([[1.0]], norm=0.0)
