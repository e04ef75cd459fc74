"""The reading rule: kinds of columns, stored in training, and what is not of a kind."""

from __future__ import annotations

import datetime
import warnings
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qsdp
from qsdp.encoding import TableEncoder
from qsdp.exceptions import InvalidInputError, InvalidTypeError, QSDPWarning

DAY = 86400.0


def fitted(column: Any) -> TableEncoder:
    """Return an encoder of a column without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", QSDPWarning)
        return TableEncoder("standard").fit(pd.DataFrame({"x": column}))


def kind_of(column: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QSDPWarning)
        return TableEncoder("standard").fit(pd.DataFrame({"x": column})).encoding_.columns[0].kind


def numbers_of(column: Any) -> list[float]:
    """Return the numbers as which a column is read, from its standardised values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QSDPWarning)
        encoder = TableEncoder("standard", missing="fill").fit(pd.DataFrame({"x": column}))
        (one,) = encoder.expressions_
        return (encoder.transform(pd.DataFrame({"x": column}))[:, 0] * one.scale + one.center).tolist()


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "-2.5", "3e2", ".5", "5.", "+1E-3"], "number"),
        (["0", "0.5", "-0", "10"], "number"),
        (["2024", "2025"], "number"),
        (["007", "12"], "category"),
        (["1", "-01"], "category"),
        (["00.5", "1"], "category"),
        (["1_000", "2"], "category"),
        (["\N{FULLWIDTH DIGIT THREE}", "4"], "category"),
        (["\N{MINUS SIGN}3", "4"], "category"),
        (["1e999", "1"], "category"),
        (["nan", "inf"], "category"),
        (["2024-01-31", "2024-02", "2024-01-31T10", "2024-01-31 10:30:00.123456789+05:30"], "date"),
        (["2024-01-05 10:00:00+01", "2024-01-05 10:00:00+0100", "20240105T100000Z"], "date"),
        (["2024-02-30", "2024-02-28"], "category"),
        (["2024/01/31", "2024/02/01"], "category"),
        (["31.1.2024", "1.2.2024"], "category"),
        (["now", "today"], "category"),
        (["true", "FALSE", "True"], "boolean"),
        (["true", "yes"], "category"),
        (["yes", "no"], "category"),
        (["1:30:00", "2:00:00"], "category"),
        (["Oslo", "Rome"], "category"),
        (["?", "NA", ""], "number"),
    ],
)
def test_text_has_the_kind_of_all_its_entries(texts: list[str], kind: str) -> None:
    for column in (texts, pd.array(texts, dtype="string[pyarrow]"), pd.Series(texts, dtype=object)):
        assert kind_of(column) == kind
    # Missing entries and blanks change nothing.
    assert kind_of(pd.Series([f" {text} " for text in texts] + [None, "N/A", " - "], dtype=object)) == kind


@pytest.mark.parametrize(
    "texts", [["1", "2.5"], ["2024-01-01", "2024-01-02"], ["true", "false"], ["Oslo", "Rome"]], ids=str
)
def test_texts_that_mean_missing_do_so_in_every_kind_and_row(texts: list[str]) -> None:
    absent = [fitted([*texts[:place], None, *texts[place:]]) for place in range(3)]
    missing = absent[2].transform(pd.DataFrame({"x": [*texts, None]}))[-1]
    for number, mark in enumerate(["", "NA", "n/A", "NaN", "none", "NULL", "NaT", "?", "-", ".", " ? ", None]):
        place = number % 3
        encoder = fitted([*texts[:place], mark, *texts[place:]])
        assert encoder.encoding_ == absent[place].encoding_, mark
        assert "x is missing" in encoder.get_feature_names_out()
        # In a later table, too, even alone.
        alone = pd.DataFrame({"x": pd.Series([mark], dtype=object)})
        np.testing.assert_array_equal(absent[2].transform(alone)[0], missing, err_msg=str(mark))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(-1e15, 1e15, allow_nan=False), min_size=2, max_size=20, unique=True))
def test_numbers_in_text_are_rounded_correctly(values: list[float]) -> None:
    assert fitted([repr(value) for value in values]).encoding_ == fitted(values).encoding_


@settings(deadline=None, max_examples=15)
@given(
    st.lists(
        st.datetimes(datetime.datetime(2, 1, 1), datetime.datetime(9998, 1, 1)), min_size=2, max_size=9, unique=True
    )
)
def test_dates_are_days_since_1970_whatever_their_type(times: list[datetime.datetime]) -> None:
    typed = fitted(pd.Series(times, dtype="datetime64[us]")).encoding_
    zone = datetime.timezone(datetime.timedelta(hours=-3, minutes=-30))
    for column in (
        [time.isoformat() for time in times],
        [time.isoformat(" ") + "Z" for time in times],
        [time.replace(tzinfo=datetime.timezone.utc).astimezone(zone).isoformat() for time in times],
        pd.Series(times, dtype=object),
        pd.Series(times, dtype="datetime64[us]").dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"),
        pd.Series(times, dtype="timestamp[us][pyarrow]"),
    ):
        assert fitted(column).encoding_ == typed
    days = [(time - datetime.datetime(1970, 1, 1)) / datetime.timedelta(days=1) for time in times]
    assert typed.columns[0].fill == pytest.approx(np.median(days), abs=1e-9)
    assert typed.columns[0].kind == "date"


def test_the_precision_of_one_date_does_not_change_others() -> None:
    texts = ["1500-01-01", "2024-01-05 10:00:00.123456789", "9999-12-31", "2024-01-05 10:00:00.1234569"]
    days = numbers_of(texts)
    np.testing.assert_allclose(days, [-171664.0, 19727.0 + 36000.123456 / DAY, 2932896.0, 19727.0 + 36000.123456 / DAY])
    assert days[1] == days[3]


# -- odd entries -------------------------------------------------------------------------------------------


def test_a_few_entries_without_a_digit_are_missing_and_quoted_once() -> None:
    for what, texts in (
        ("numbers", [str(k) for k in range(97)]),
        ("dates", [f"2024-{k // 28 + 1:02}-{k % 28 + 1:02}" for k in range(97)]),
    ):
        column = [*texts, "tbd", "see note", "n/a"]
        message = (
            f"column 'x' holds {what}, but 2 of 100 entries are not {what}, such as 'tbd' in row 97; they count as"
        )
        with pytest.warns(QSDPWarning) as caught:
            encoder = TableEncoder("standard").fit(pd.DataFrame({"x": column, "y": np.arange(100.0)}))
        assert [str(one.message) for one in caught] == [f"{message} missing: 'tbd', 'see note'"]
        assert encoder.get_feature_names_out().tolist() == ["x", "x is missing", "y"]
        model = qsdp.QuantizedNetworkRegressor(4, refine="none", random_state=0)
        with pytest.warns(QSDPWarning) as caught:
            model.fit(pd.DataFrame({"x": column}), np.arange(100.0) % 7)
        assert sum(message in str(one.message) for one in caught) == 1
        # More than one in twenty, or with a digit, they make categories.
        for other in ([*texts[:47], "tbd", "see note", "soon"], [*texts, "about 7"]):
            with pytest.warns(QSDPWarning, match="column 'x' is read as categories, because of entries such as '"):
                assert TableEncoder("standard").fit(pd.DataFrame({"x": other})).encoding_.columns[0].kind == "category"


@pytest.mark.parametrize(
    ("texts", "shown", "remedy"),
    [
        (["12,34,567", "1,23,456"], "12,34,567", 'thousands=","'),
        (["1,234.5", "2,345"], "1,234.5", 'thousands=","'),
        (["1,234", "5,678"], "1,234", 'decimal="," or thousands=","'),
        (["1,5", "2,25"], "1,5", 'decimal=","'),
        (["1.234,5", "7,0"], "1.234,5", 'decimal="," and thousands="."'),
        (["$ -", "$ 1,200"], "$ -", "price-parser"),
        (["1.234,50 €", "3 €"], "1.234,50 €", "price-parser"),
        (["USD 5", "USD 7"], "USD 5", "price-parser"),
        (["12 kg", "13.5 kg"], "12 kg", "pint"),
        (["(12)", "13"], "(12)", "pandas.to_numeric"),
        (["5%", "7%"], "5%", "pandas.to_numeric"),
        (["<0.1", "5"], "<0.1", "pandas.to_numeric"),
        (["007", "12"], "007", "pandas.to_numeric"),
        (["1_000", "2"], "1_000", "pandas.to_numeric"),
        (["2h 54m", "1h 2m"], "2h 54m", "pandas.to_timedelta"),
        (["1:30", "2:45"], "1:30", "pandas.to_timedelta"),
        (["31.1.2024", "1.2.2024"], "31.1.2024", "pandas.to_datetime"),
        (["31 Jan 2024", "1 Feb 2024"], "31 Jan 2024", "pandas.to_datetime"),
    ],
)
def test_what_looks_like_numbers_is_categories_with_one_warning_and_a_remedy(
    texts: list[str], shown: str, remedy: str
) -> None:
    frame = pd.DataFrame({"amount": texts * 20, "x": range(40)})
    with pytest.warns(QSDPWarning) as caught:
        encoder = TableEncoder().fit(frame)
    messages = [str(one.message) for one in caught if "'amount'" in str(one.message)]
    assert len(messages) == 1
    assert f"column 'amount' is read as categories, because of entries such as {shown!r}" in messages[0]
    assert remedy in messages[0]
    assert encoder.encoding_.columns[0].categories == tuple(sorted(texts))


@pytest.mark.filterwarnings("ignore:column 'x' is read as categories")
def test_long_entries_take_no_longer_than_their_length_allows() -> None:
    for text in ("1" * 300_000 + "x", "-" * 300_000 + "x", "1," * 150_000, "12 " * 100_000 + "x", "$" * 300_000):
        assert TableEncoder().fit(pd.DataFrame({"x": [text, "a", "a"]})).encoding_.columns[0].kind == "category"


def test_words_and_codes_have_no_warning() -> None:
    for texts in (["red", "blue"], ["Q1", "Q2"], ["id-1", "id-2"], ["Yes", "No"], ["a", "7", "b", "c"]):
        assert fitted(texts).encoding_.columns[0].kind == "category"


# -- types -------------------------------------------------------------------------------------------------


def objects(*entries: Any) -> pd.Series:
    return pd.Series(list(entries), dtype=object)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pd.array([1, None, 3], dtype="Int64"), "number"),
        (pd.array([1.5, None, 3.0], dtype="Float64"), "number"),
        (pd.array([1, None, 3], dtype="int64[pyarrow]"), "number"),
        (objects(Decimal("1.5"), Fraction(1, 3), 2, np.float32(7.25), None), "number"),
        (objects(1, 2.5, Decimal("0.25"), "4.5", " n/a"), "number"),
        (objects(True, 2.5), "number"),
        (pd.array([True, None, False], dtype="boolean"), "boolean"),
        (pd.array([True, None, False], dtype="bool[pyarrow]"), "boolean"),
        (objects(True, None, np.False_), "boolean"),
        (objects("TRUE", False, None), "boolean"),
        (objects(datetime.date(2024, 1, 1), None, pd.Timestamp("2024-01-02 12:00")), "date"),
        (objects(np.datetime64("2024-01-01"), "2024-01-02"), "date"),
        (pd.array([datetime.date(2024, 1, 1), None], dtype="date32[pyarrow]"), "date"),
        (pd.Categorical([3, 10, 3]), "category"),
        (pd.cut([1.0, 5.0, 9.0, 2.0], [0, 3, 6, 9]), "category"),
        (objects("seven", 7, "eight"), "category"),
        (objects(None, np.nan, pd.NA, pd.NaT), "number"),
    ],
)
def test_types_decide_the_kind(column: Any, kind: str) -> None:
    encoder = fitted(column)
    assert encoder.encoding_.columns[0].kind == kind
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(encoder.transform(pd.DataFrame({"x": column}))) == len(column)


def test_categorical_types_have_the_text_of_their_categories() -> None:
    for column, categories in (
        (pd.Categorical([3, 10, 3]), ("10", "3")),
        (pd.cut([1.0, 5.0, 9.0], [0, 3, 6, 9]), ("(0, 3]", "(3, 6]", "(6, 9]")),
        (pd.Categorical(["a", None, " b "]), ("a", "b", None)),
        (pd.Categorical(["?", "007", "?"]), ("007", "?")),
        (pd.Series(pd.to_datetime(["2020-01-05", "2020-01-01"])).astype("category"),
         ("2020-01-01 00:00:00", "2020-01-05 00:00:00")),
        (pd.array(["a", "b"], dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))), ("a", "b")),
    ):  # fmt: skip
        assert fitted(column).encoding_.columns[0].categories == categories
    for dtype in (pl.Categorical, pl.Enum(["b", "a"])):
        encoder = TableEncoder().fit(pl.DataFrame({"x": pl.Series(["b", None, "a"], dtype=dtype)}))
        assert encoder.encoding_.columns[0].categories == ("a", "b", None)


class Other:
    """An object that is neither text nor a number."""


@pytest.mark.parametrize(
    "entry",
    [
        (1, 2), [1], {"a": 1}, b"x", 1j, Other(), pd.Interval(0, 1), datetime.time(1), datetime.timedelta(1),
        np.timedelta64(1, "s"), pd.Period("2024-01"),
    ],
    ids=lambda entry: type(entry).__name__,
)  # fmt: skip
def test_other_objects_are_one_error_with_a_remedy(entry: Any) -> None:
    remedy = {"Period": "to_timestamp()", "timedelta": ".dt.total_seconds()", "timedelta64": ".dt.total_seconds()"}
    encoder = fitted([1.0, 2.0])
    for call in (TableEncoder().fit, encoder.transform):
        column = pd.Series([None, None], dtype=object)
        column[0] = entry
        with pytest.raises(InvalidTypeError, match="column 'x' of X") as caught:
            call(pd.DataFrame({"x": column}))
        assert remedy.get(type(entry).__name__, ".astype(str)") in str(caught.value)
    with pytest.raises(InvalidTypeError, match="column 'x' of X holds dates beside numbers; convert it to one kind"):
        TableEncoder().fit(pd.DataFrame({"x": objects(datetime.date(2024, 1, 1), 5)}))
    with pytest.raises(InvalidTypeError, match="total_seconds"):
        TableEncoder().fit(pd.DataFrame({"x": pd.to_timedelta([1, 2], unit="s")}))


# -- later tables ------------------------------------------------------------------------------------------

TRAINING = {
    "number": [1.0, 2.5, 4.0],
    "date": pd.to_datetime(["2024-01-01", "2024-01-03", "2024-01-04"]),
    "boolean": [True, False, True],
    "category": pd.Series(["Oslo", "7", "Rome"], dtype=object),
}


@pytest.mark.filterwarnings("ignore:entries outside the categories")
@pytest.mark.parametrize("kind", TRAINING)
def test_later_columns_are_read_in_the_kind_of_training_even_one_row(kind: str) -> None:
    texts = {
        "number": ["1.0", "2.5", "4"],
        "date": ["2024-01-01", "2024-01-03", "2024-01-04T00Z"],
        "boolean": ["TRUE", "false", "True"],
        "category": ["Oslo", "7", "Rome"],
    }[kind]
    training = pd.DataFrame({"x": TRAINING[kind]})
    encoder = fitted(training["x"])
    assert encoder.encoding_.columns[0].kind == kind
    expected = encoder.transform(training)
    for row, text in enumerate(texts):
        for one in ([text], pd.array([text], dtype="string"), pd.array([text], dtype="string[pyarrow]")):
            np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"x": one})), expected[[row]])
        np.testing.assert_array_equal(encoder.transform(pl.DataFrame({"x": [text]})), expected[[row]])
    # A type without entries has no kind.
    for nothing in ([np.nan], [None], [pd.NaT], pd.array([None], dtype="boolean")):
        assert encoder.transform(pd.DataFrame({"x": nothing})).shape == expected[:1].shape


@pytest.mark.filterwarnings("ignore:entries outside the categories")
@pytest.mark.parametrize("kind", TRAINING)
def test_a_type_of_another_kind_is_one_error(kind: str) -> None:
    encoder = fitted(TRAINING[kind])
    plural = {"number": "numbers", "date": "dates", "boolean": "true/false", "category": "categories"}
    others = {
        "number": [pd.Series([1, 2]), pd.array([1.5, None], dtype="Float64"), pd.array([1, 2], dtype="int8[pyarrow]")],
        "date": [TRAINING["date"], pd.array([datetime.date(2024, 1, 1), None], dtype="date32[pyarrow]")],
        "boolean": [pd.Series([True, False]), pd.array([True, None], dtype="boolean")],
        "category": [pd.Categorical(["Oslo", "7"]), pd.Categorical([1, 2])],
    }
    for other, columns in others.items():
        for column in columns if other != kind else []:
            with pytest.raises(
                InvalidTypeError, match=f"column 'x' holds {plural[other]}, such as .* where {plural[kind]} are"
            ):
                encoder.transform(pd.DataFrame({"x": column}))
    if kind != "category":
        example = {"number": "1234.5", "date": "2024-01-31", "boolean": "true"}[kind]
        message = f"holds {plural[kind]} written like '{example}', in which most of its entries here cannot be read"
        with pytest.raises(InvalidInputError, match=message):
            encoder.transform(pd.DataFrame({"x": ["so", "what"]}))


def test_half_of_the_entries_must_be_readable() -> None:
    encoder = fitted(["1", "2", "3"])
    with pytest.warns(QSDPWarning, match="2 of 4 entries .*'1,5' in row 2; they count as missing"):
        inputs = encoder.transform(pd.DataFrame({"x": ["1", "2", "1,5", "007"]}))
    np.testing.assert_array_equal(inputs, encoder.transform(pd.DataFrame({"x": ["1", "2", None, None]})))
    with pytest.raises(InvalidInputError, match="most of its entries here cannot be read, such as '1,5' in row 1"):
        encoder.transform(pd.DataFrame({"x": ["1", "1,5", "007"]}))
    with pytest.raises(InvalidInputError, match="they count as missing"):
        encoder.set_params(handle_unknown="error").transform(pd.DataFrame({"x": ["1", "2", "x"]}))


def test_categories_that_training_did_not_see_are_counted_in_one_warning() -> None:
    rows = pd.DataFrame({"a": ["u", "v", "w"] * 20, "b": ["p", "q", "r"] * 20, "x": range(60)})
    model = qsdp.QuantizedNetworkRegressor(4, refine="none", encoding="standard", random_state=0).fit(
        rows, rows["x"] % 7.0
    )
    later = rows.assign(a=["new"] * 5 + ["u"] * 55, b=["q"] * 58 + [None, "other"])
    with pytest.warns(QSDPWarning) as caught:
        predictions = model.predict(later)
    (message,) = (str(one.message) for one in caught)
    assert "'a' 5 (such as 'new'), 'b' 2" in message
    assert len(predictions) == 60


def test_declared_categories_may_have_any_type() -> None:
    for column in (
        [3, 1, 2, 1],
        [3.0, 1.0, 2.0, np.nan],
        ["3", "1", "2", "1"],
        pd.to_datetime(["2020-01-05", "2020-01-01"] * 2),
    ):
        encoder = TableEncoder(categorical_features=["x"]).fit(pd.DataFrame({"x": column}))
        assert encoder.encoding_.columns[0].kind == "category"
    encoder = TableEncoder(categorical_features=["x"]).fit(pd.DataFrame({"x": [3, 1, 2, 1]}))
    for column in ([3, 1], [3.0, 1.0], ["3", "1"], pd.Categorical(["3", "1"])):
        np.testing.assert_array_equal(
            encoder.transform(pd.DataFrame({"x": column})), encoder.transform(pd.DataFrame({"x": [3, 1]}))
        )
