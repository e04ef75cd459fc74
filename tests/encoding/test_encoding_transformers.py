"""The encoders as transformers of scikit-learn: all kinds of tables, missing entries, weights, and errors."""

import enum
import json
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import qsdp
from qsdp.encoding import Encoding, TableEncoder
from qsdp.exceptions import InvalidInputError, InvalidTypeError, QSDPWarning

NUMBERS = arrays(
    np.float64,
    st.tuples(st.integers(2, 30), st.integers(1, 3)),
    elements=st.one_of(st.floats(-1e6, 1e6, width=32), st.just(np.nan), st.sampled_from([0.0, 1.0])),
)
EVERY = [
    TableEncoder("thresholds", bits="bipolar", strategy="uniform"),
    *(TableEncoder(name, bits=bits) for name in ("standard", "both", "thresholds") for bits in ("binary", "bipolar")),
]


def frame():
    return pd.DataFrame(
        {
            "age": [20.0, 30.0, np.nan, 50.0, 60.0, 70.0],
            "city": ["Rome", "Oslo", None, "Rome", "Paris", "Oslo"],
            "smokes": [True, False, True, True, False, False],
            "grade": pd.Categorical([3, 1, 2, 1, 2, 3]),
            "children": pd.array([0, 1, None, 2, 2, 3], dtype="Int64"),
            "same": [5] * 6,
            "empty": [np.nan] * 6,
        }
    )


@pytest.mark.parametrize("encoder", EVERY[:4], ids=repr)
def test_check_estimator(encoder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = check_estimator(encoder, on_skip=None, on_fail=None)
    failed = [outcome["check_name"] for outcome in outcomes if outcome["status"] == "failed"]
    assert failed == []
    assert sum(outcome["status"] == "passed" for outcome in outcomes) >= 50


@settings(max_examples=40, deadline=None)
@given(X=NUMBERS, n_thresholds=st.integers(1, 6))
def test_thermometers_are_monotone(X, n_thresholds):
    encoder = TableEncoder("thresholds", n_thresholds=n_thresholds).fit(X)
    for position in range(X.shape[1]):
        of_column = [e.position == position and e.kind == "above" for e in encoder.expressions_]
        bits = encoder.transform(X)[:, of_column]
        assert np.all(np.diff(bits, axis=1) <= 0.0)
        known = ~np.isnan(X[:, position])
        order = np.argsort(X[known, position])
        assert np.all(np.diff(bits[known][order], axis=0) >= 0.0)


@pytest.mark.parametrize("encoder", EVERY, ids=repr)
@settings(max_examples=15, deadline=None)
@given(X=NUMBERS, seed=st.integers(0, 99))
def test_encodings_survive_storage_and_do_not_depend_on_the_order_of_rows(encoder, X, seed):
    fitted = clone(encoder).fit(X)
    encoded = fitted.transform(X)
    assert np.all(np.isfinite(encoded))
    state = json.loads(json.dumps(fitted.encoding_.to_state(), allow_nan=False))
    back = Encoding.from_state(state)
    assert back == fitted.encoding_
    np.testing.assert_array_equal(back.encode(list(X.T)), encoded)
    order = np.random.default_rng(seed).permutation(len(X))
    other = clone(encoder).fit(X[order])
    np.testing.assert_allclose(other.transform(X), encoded, rtol=1e-7, atol=1e-9)


def test_standardised_numbers_are_those_of_scikit_learn():
    X = np.random.default_rng(0).standard_normal((50, 4)) * [1.0, 1e3, 1e-3, 1.0] + [0.0, 5.0, 0.0, 1e3]
    weights = np.random.default_rng(1).integers(0, 3, 50).astype(float)
    for given_weights in (None, weights):
        encoder = TableEncoder("standard").fit(X, sample_weight=given_weights)
        expected = StandardScaler().fit(X, sample_weight=given_weights).transform(X)
        np.testing.assert_allclose(encoder.transform(X), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("unit", [2.0**-200, 2.0**40, 2.0**60, 2.0**200])
def test_the_unit_of_weights_does_not_matter(unit):
    rng = np.random.default_rng(0)
    # A column far from zero whose deviation is not a rounding error, and one whose deviation is.
    X = np.column_stack([1e4 + rng.standard_normal(50), 0.1 + np.spacing(0.1) * (np.arange(50) % 2)])
    weights = rng.uniform(0.5, 2.0, 50)
    one, other = (TableEncoder("standard").fit(X, sample_weight=scale * weights).encoding_ for scale in (1.0, unit))
    assert other == one


def test_columns_of_wild_scale_are_safe():
    X = np.random.default_rng(0).standard_normal((40, 3)) * [1e300, 1e-300, 1.0]
    encoded = TableEncoder("standard").fit_transform(X)
    np.testing.assert_allclose(encoded.std(axis=0), 1.0)
    near = np.column_stack([1e15 + np.arange(40) % 2, np.full(40, 0.1)])
    assert np.abs(TableEncoder().fit_transform(near)).max() <= 1.0 + 1e-9


def test_a_frame_of_pandas():
    encoder = TableEncoder(n_thresholds=2).set_output(transform="pandas").fit(frame())
    encoded = encoder.transform(frame())
    assert list(encoded.columns) == [
        "age", "age > 40", "age > 55", "age is missing",
        "city == Oslo", "city == Paris", "city == Rome", "city is missing",
        "smokes == True", "grade == 1", "grade == 2", "grade == 3",
        "children", "children > 1.5", "children > 2.5", "children is missing",
    ]  # fmt: skip
    assert encoder.dropped_ == {"same": "constant", "empty": "no values"}
    assert encoded["smokes == True"].tolist() == [1.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    assert encoded["age is missing"].tolist() == [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    assert encoded.loc[2, ["city == Oslo", "city == Paris", "city == Rome", "city is missing"]].tolist() == [0, 0, 0, 1]
    assert encoded.loc[2, ["age > 40", "age > 55"]].tolist() == [1.0, 0.0]  # as for the median, 50


def test_a_frame_of_polars():
    polars = pytest.importorskip("polars")
    pandas = frame().drop(columns=["grade"])
    columns = {name: [None if pd.isna(x) else x for x in pandas[name]] for name in pandas}
    columns["grade"] = polars.Series([3, 1, 2, 1, 2, 3]).cast(polars.String).cast(polars.Categorical)
    table = polars.DataFrame(columns)
    encoder = TableEncoder(n_thresholds=2).set_output(transform="polars")
    encoded = encoder.fit_transform(table)
    assert isinstance(encoded, polars.DataFrame)
    expected = TableEncoder(n_thresholds=2).fit(pandas)
    names = expected.get_feature_names_out().tolist()
    assert encoded.columns == [*names, "grade == 1", "grade == 2", "grade == 3"]
    np.testing.assert_array_equal(encoded.select(names).to_numpy(), expected.transform(pandas))
    with pytest.raises(InvalidTypeError, match=r"got a LazyFrame of polars: use X\.collect\(\)"):
        encoder.transform(table.lazy())


def test_lists_and_arrays_of_objects():
    rows = [[1.0, "a"], [2.0, "b"], [None, "c"], [4.0, "a"]]
    expected = ["x0", "x0 is missing", "x1 == a", "x1 == b", "x1 == c"]
    for X in (rows, np.array(rows, dtype=object)):
        assert TableEncoder("standard").fit(X).get_feature_names_out().tolist() == expected


@pytest.mark.parametrize("chosen", [[1], ["b"], [False, True]])
def test_categories_by_choice(chosen):
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [7, 8, 9]})
    encoder = TableEncoder("standard", categorical_features=chosen).fit(X)
    assert encoder.get_feature_names_out().tolist() == ["a", "b == 7", "b == 8", "b == 9"]
    assert encoder.transform(X.assign(b=X["b"].astype(float)))[:, 1:].tolist() == np.eye(3).tolist()


def test_rare_categories_have_no_bit():
    X = np.array([["a"], ["a"], ["b"], ["b"], ["c"]], dtype=object)
    encoder = TableEncoder(max_categories=2, handle_unknown="ignore").fit(X)
    assert encoder.get_feature_names_out().tolist() == ["x0 == b"]
    assert encoder.transform(X).ravel().tolist() == [0.0, 0.0, 1.0, 1.0, 0.0]


def test_unknown_categories():
    encoder = TableEncoder().fit(np.array([["a"], ["b"], ["c"]], dtype=object))
    new = np.array([["a"], ["z"]], dtype=object)
    with pytest.warns(QSDPWarning, match=r"set none of the bits: 'x0' 1 \(such as 'z'\)"):
        assert encoder.transform(new).tolist() == [[1, 0, 0], [0, 0, 0]]
    with pytest.raises(InvalidInputError, match="'x0' 1"):
        encoder.set_params(handle_unknown="error").transform(new)


def test_missing_entries_that_fit_did_not_see_stand_for_the_median():
    X = np.array([[1.0], [2.0], [3.0], [4.0], [10.0]])
    encoder = TableEncoder(n_thresholds=4).fit(X)
    np.testing.assert_array_equal(encoder.transform([[np.nan]]), encoder.transform([[3.0]]))


def test_bits_of_a_byte():
    X = np.random.default_rng(0).standard_normal((100, 5))
    bits = TableEncoder("thresholds", n_thresholds=4, bits="bipolar", dtype=np.int8).fit_transform(X)
    assert bits.dtype == np.int8
    assert bits.nbytes == 100 * 20
    assert set(np.unique(bits)) == {-1, 1}
    assert TableEncoder("thresholds").fit(X).is_binary_
    assert not TableEncoder().fit(X).is_binary_


def test_columns_without_information():
    X = np.column_stack([np.ones(10), np.arange(10.0)])
    assert TableEncoder("standard").fit(X).get_feature_names_out().tolist() == ["x1"]
    nothing = TableEncoder().fit(X[:, :1])
    assert nothing.transform(X[:, :1]).tolist() == [[0.0]] * 10
    assert nothing.dropped_ == {"x0": "constant"}
    text = np.full((3, 1), "a", dtype=object)
    assert TableEncoder().fit_transform(text).tolist() == [[0.0]] * 3


def test_weight_zero_is_a_row_left_out():
    X = frame()
    kept = TableEncoder().fit(X.iloc[1:])
    assert TableEncoder().fit(X, sample_weight=[0, 1, 1, 1, 1, 1]).encoding_ == kept.encoding_


@pytest.mark.parametrize("extreme", [1e4, -1e20, 1e308])
def test_extreme_numbers_have_no_say_in_units_where_columns_are_cut(extreme):
    X = np.random.default_rng(0).standard_normal((400, 1))
    plain = TableEncoder(encoding="standard", cut=3.0).fit(X).transform(X)
    X[0] = extreme
    encoded = TableEncoder(encoding="standard", cut=3.0).fit(X).transform(X)
    assert encoded[0, 0] == pytest.approx(np.copysign(3.0, extreme))
    np.testing.assert_allclose(encoded[1:], plain[1:], atol=0.2)
    assert np.ptp(TableEncoder(encoding="standard").fit(X).transform(X)[1:]) < 0.1


def test_extreme_numbers_are_counted_by_weight():
    rng = np.random.default_rng(0)
    X, counts = rng.standard_normal((60, 2)), rng.integers(1, 5, size=60)
    X[:3] *= 1e6
    weighted, repeated = (
        TableEncoder(encoding="standard", cut=3.0).fit(rows, sample_weight=weights).transform(X)
        for rows, weights in ((X, counts), (np.repeat(X, counts, axis=0), None))
    )
    np.testing.assert_allclose(weighted, repeated, rtol=1e-12)


WRONG = {
    "encoding must be one of 'both', 'standard', 'thresholds'; got 'boht'": {"encoding": "boht"},
    "n_thresholds must be an integer >= 1; got 0": {"n_thresholds": 0},
    "strategy must be one of 'quantile', 'uniform'": {"strategy": "kmeans"},
    "bits must be one of 'binary', 'bipolar'": {"bits": "gray"},
    "max_categories must be an integer >= 2": {"max_categories": 1},
    "handle_unknown must be one of": {"handle_unknown": "error?"},
    "categorical_features must be one of 'from_dtype'": {"categorical_features": "all"},
    "categorical_features must have 2 entries as a mask; got 1": {"categorical_features": [True]},
    "categorical_features names 'z', which is not a column": {"categorical_features": ["z"]},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_parameters(message):
    with pytest.raises(InvalidInputError, match=message):
        TableEncoder(**WRONG[message]).fit([[1.0, 2.0], [3.0, 4.0]])


def test_columns_that_are_declared_numbers():
    table = pd.DataFrame({"kind": ["a", "b", "a"], "code": pd.Categorical(["1", "2", "2"]), "none": [None] * 3})
    encoder = TableEncoder("standard", categorical_features=["kind"]).fit(table)
    assert list(encoder.get_feature_names_out()) == ["kind == b", "code"]
    with pytest.raises(InvalidTypeError, match="'kind' must hold numbers, or be among categorical_features; got text"):
        TableEncoder(categorical_features=["code"]).fit(table)


def test_wrong_tables():
    encoder = TableEncoder().fit(frame())
    ages = [1.0, 2.0, "old", 3.0, 4.0, 5.0]
    with pytest.warns(QSDPWarning, match="column 'age' holds numbers, but 1 of 6 entries .* 'old' in row 2"):
        encoder.transform(frame().assign(age=ages))
    with pytest.raises(InvalidInputError, match="column 'age' holds numbers, but 1 of 6 entries are not numbers"):
        TableEncoder(handle_unknown="error").fit(frame()).transform(frame().assign(age=ages))
    with pytest.raises(InvalidInputError, match="column 'age' contains infinity"):
        encoder.transform(frame().assign(age=np.inf))
    with pytest.raises(InvalidInputError, match="the data frame has no column 'age'; it has 'years'"):
        encoder.transform(frame().rename(columns={"age": "years"}))
    with pytest.raises(InvalidTypeError, match=r"column 'when' of X: every entry .* must be a string or a number"):
        TableEncoder().fit(frame().assign(when=1j))
    dates = pd.Series(pd.date_range("2020-01-01", periods=6))
    numeric = TableEncoder().fit(frame())
    for when in (dates, dates.astype("datetime64[s]"), dates.dt.tz_localize("UTC")):
        with pytest.raises(InvalidTypeError, match=r"column 'age' holds dates, such as .* where numbers are expected"):
            numeric.transform(frame().assign(age=when))
    with pytest.raises(InvalidInputError, match="must have at least one row and one column"):
        TableEncoder().fit(frame().iloc[:0])
    with pytest.raises(InvalidInputError, match="sample_weight must be >= 0"):
        TableEncoder().fit(frame(), sample_weight=[-1, 1, 1, 1, 1, 1])


class Size(str, enum.Enum):
    SMALL = "s"
    LARGE = "l"


def objects(entries):
    column = np.empty(len(entries), dtype=object)
    column[:] = entries
    return column


LENGTHS = [0.125, 2.5, -3.0, 7.25, 0.5, 1.5]
NUMERIC = {
    "decimal": objects([Decimal(one) for one in LENGTHS]),
    "fraction": objects([Fraction(one) for one in LENGTHS]),
    "several types": objects([Decimal("0.125"), Fraction(5, 2), -3, np.float32(7.25), 0.5, 1.5]),
    "Float64": pd.array(LENGTHS, dtype="Float64"),
    "decimals of arrow": pd.Series([Decimal(str(one)) for one in LENGTHS], dtype=pd.ArrowDtype(pa.decimal128(6, 3))),
    "decimals of polars": pl.Series([Decimal(str(one)) for one in LENGTHS]),
}


@pytest.mark.parametrize("numbers", NUMERIC.values(), ids=NUMERIC)
def test_numbers_of_any_type_are_numbers(numbers):
    make = pl.DataFrame if isinstance(numbers, pl.Series) else pd.DataFrame
    tables = [make({"length": numbers})]
    if isinstance(numbers, np.ndarray):
        tables.append(numbers[:, None])
    for encoder in (TableEncoder(n_thresholds=2), TableEncoder("thresholds")):
        expected = clone(encoder).fit_transform(np.array(LENGTHS)[:, None])
        for table in tables:
            np.testing.assert_array_equal(clone(encoder).fit_transform(table), expected)


@pytest.mark.parametrize(
    "missing", [None, np.nan, np.float32("nan"), pd.NA, pd.NaT, Decimal("NaN"), Decimal("sNaN"), np.datetime64("NaT")]
)
def test_missing_entries_of_any_type_are_missing(missing):
    numbers, expected = objects([Decimal(1), missing, Decimal(4)]), np.array([[1.0], [np.nan], [4.0]])
    for encoder in (TableEncoder(), TableEncoder("thresholds")):
        np.testing.assert_array_equal(
            clone(encoder).fit_transform(numbers[:, None]), clone(encoder).fit_transform(expected)
        )


DAYS = pd.Series(pd.to_datetime(["2020-01-05", "2020-01-01", "2020-01-05", "2020-01-03"]))
SYMBOLIC = {
    "intervals": (pd.cut([1.0, 5.0, 9.0, 2.0], [0, 3, 6, 9]), ("(0, 3]", "(3, 6]", "(6, 9]")),
    "members that are text": (objects([Size.SMALL, "l", "s", Size.LARGE]), ("l", "s")),
    "truths with gaps": (pd.array([True, None, False, True], dtype="boolean"), (False, True, None)),
    "decimals": (pd.Categorical(objects([Decimal("2.50"), Decimal(10**20 + 1), 3])), (str(10**20 + 1), "2.50", "3")),
    "infinities": (pd.Categorical(objects([np.inf, 1.0, np.inf, 1.0])), ("1.0", "inf")),
    "complex": (pd.Categorical([1j, 2j, 1j, 2j]), ("1j", "2j")),
    "days": (DAYS.astype("category"), ("2020-01-01 00:00:00", "2020-01-03 00:00:00", "2020-01-05 00:00:00")),
    "text of arrow": (pd.Series(["a", None, "b", "a"], dtype="string[pyarrow]"), ("a", "b", None)),
    "truths of arrow": (pd.Series([True, None, False, True], dtype="bool[pyarrow]"), (False, True, None)),
    "enumeration of polars": (pl.Series(["b", "a", "b", None], dtype=pl.Enum(["b", "a"])), ("a", "b", None)),
    "categories of polars": (pl.Series(["b", "a", "b", None], dtype=pl.Categorical), ("a", "b", None)),
    "truths of polars": (pl.Series([True, False, None, True]), (False, True, None)),
}


@pytest.mark.parametrize(("column", "categories"), SYMBOLIC.values(), ids=SYMBOLIC)
def test_categories_of_any_type_are_their_text(column, categories):
    make = pl.DataFrame if isinstance(column, pl.Series) else pd.DataFrame
    table = make({"what": column, "x": np.arange(len(column)) + 1.0})
    encoder = TableEncoder("standard").fit(table)
    assert encoder.encoding_.columns[0].categories == categories
    inputs = encoder.transform(table)
    assert len(np.unique(inputs[:, :-1], axis=0)) == len(categories)
    # The encoding is stored as JSON; the same objects are the same categories after it is read again.
    encoder.encoding_ = Encoding.from_state(json.loads(json.dumps(encoder.encoding_.to_state())))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(encoder.transform(table), inputs)


def test_days_are_the_same_categories_in_every_unit():
    texts = {
        TableEncoder(categorical_features=["day"]).fit(pd.DataFrame({"day": days})).encoding_.columns
        for days in (DAYS, DAYS.astype("datetime64[ns]"), DAYS.astype("datetime64[s]"), DAYS.astype(object))
    }
    assert len(texts) == 1


def test_columns_of_lists_and_records_of_polars_are_refused():
    for column in (
        pl.Series([[1], [2]]),
        pl.Series([{"a": 1}, {"a": 2}]),
        pl.Series([[1], [2]], dtype=pl.Array(int, 1)),
    ):
        with pytest.raises(InvalidTypeError, match=r"column 'what' of X: .*\.astype\(str\)"):
            TableEncoder().fit(pl.DataFrame({"what": column}))
    with pytest.raises(InvalidInputError, match="column 'what' contains infinity"):
        TableEncoder().fit(pd.DataFrame({"what": objects([10**400, Decimal(1)])}))


def test_texts_that_identify_rows_have_no_inputs():
    names = [f"n{k}" for k in range(100)]
    frequent = [f"c{k % 60}" for k in range(100)]
    encoder = TableEncoder().fit(pd.DataFrame({"name": names, "x": np.arange(100.0), "city": frequent}))
    assert encoder.dropped_ == {"name": "an identifier: 100 texts are distinct"}
    assert {one.column for one in encoder.expressions_} == {"x", "city"}
    # In few rows, all of which may differ by chance, texts are categories.
    assert not TableEncoder().fit(pd.DataFrame({"name": names[:20]})).dropped_


@pytest.mark.parametrize("as_objects", [False, True])
def test_periods_are_refused_with_the_remedy(as_objects: bool) -> None:
    months = pd.Series(pd.period_range("2024-01", periods=24, freq="M"), name="month")
    table = pd.DataFrame({"month": months.astype(object) if as_objects else months, "x": range(24)})
    dated = table.assign(month=months.dt.to_timestamp())
    encoder = TableEncoder().fit(dated)
    model = qsdp.QuantizedNetworkClassifier(4, refine="none", random_state=0).fit(dated, [0, 1] * 12)
    for call in (encoder.transform, model.predict, TableEncoder().fit, lambda X: clone(model).fit(X, [0, 1] * 12)):
        with pytest.raises(InvalidTypeError, match=r"column 'month' of X holds periods.*to_timestamp\(\)"):
            call(table)


def test_offsets_of_dates_may_be_hours_alone() -> None:
    texts = ["2024-01-05 10:00:00+01", "2024-01-05 10:00:00+0100", "2024-01-05T10:00:00+01:00", "2024-01-05 09:00Z"]
    column = pd.DataFrame({"when": [*texts, "2024-01-07"]})
    inputs = TableEncoder("standard").fit_transform(column)[:, 0]
    assert_allclose(inputs, [-0.5, -0.5, -0.5, -0.5, 2.0], rtol=1e-9)
