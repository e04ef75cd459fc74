"""Notations of text: the same numbers, dates and truth values, however a file writes them."""

from __future__ import annotations

import datetime
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qsdp.encoding import TableEncoder
from qsdp.encoding.columns import as_numbers
from qsdp.encoding.notation import DATES, DURATIONS, ambiguous, example_of, is_notation, notation_of, parsed
from qsdp.exceptions import InvalidInputError, QSDPWarning


@pytest.mark.parametrize(
    ("texts", "notation", "numbers"),
    [
        (["1", "-2.5", "3e2", ".5"], "number", [1.0, -2.5, 300.0, 0.5]),
        (["1,234.5", "12", "1,234,567"], "thousands", [1234.5, 12.0, 1234567.0]),
        (["1,5", "0,25", "7"], "comma", [1.5, 0.25, 7.0]),
        (["1.234,5", "7,0"], "comma", [1234.5, 7.0]),
        (["5%", "12.5 %", "-3%"], "number in %", [0.05, 0.125, -0.03]),
        (["37,1%", "5 %", "1.000,5 %"], "comma in %", [0.371, 0.05, 10.005]),
        (["0:57:53", "12:00:00.25"], "duration", [3473.0, 43200.25]),
        (["7:30", "23:05"], "duration", [27000.0, 83100.0]),
        (["0 days 00:00:01.500000", "-1 days +23:00:00", "1 day, 0:00:02"], "duration", [1.5, -3600.0, 86402.0]),
        (["1970-01-02", "1969-12-31"], "date", [1.0, -1.0]),
        (["1970-01-01T12:00:00Z", "1970-01-02 00:00+06:00"], "date", [0.5, 0.75]),
        (["1970-01-01 00:00:00.5"], "date", [0.5 / 86400.0]),
        (["1970/1/2", "1970/01/03 12:00"], "year first", [1.0, 2.5]),
        (["2.1.1970", "01.02.1970"], "day first", [1.0, 31.0]),
        (["02.01.70", "31.12.69"], "day first", [1.0, -1.0]),
        (["13/1/1970", "1/2/1970"], "day first", [12.0, 31.0]),
        (["1/13/1970 6:00 PM", "2/1/70 12:00 AM"], "month first", [12.75, 31.0]),
        (["1,234", "900", "12.5"], "thousands", [1234.0, 900.0, 12.5]),
        (["1.234.567", "2.500", "999,00"], "comma", [1234567.0, 2500.0, 999.0]),
        (["1,5e-3", "2,0E+3"], "comma", [0.0015, 2000.0]),
        (["1 234,5", "2\u202f000", "7"], "comma", [1234.5, 2000.0, 7.0]),
        (["1'234.50", "1\u2009000", "\N{MINUS SIGN}3"], "number", [1234.5, 1000.0, -3.0]),
        (["$1,234.50", "-$3", "$-0.5", "($7)"], "thousands in $", [1234.5, -3.0, -0.5, -7.0]),
        (["1.234,50 €", "-3,1€"], "comma in €", [1234.5, -3.1]),
        (["-£3", "£1.5"], "number in £", [-3.0, 1.5]),
        (["USD 12", "USD 1,300.25"], "thousands in USD", [12.0, 1300.25]),
        (["(1,234)", "5.50", "900", "12-"], "thousands", [-1234.0, 5.5, 900.0, -12.0]),
        (["12 kg", "13.5kg"], "number in kg", [12.0, 13.5]),
        (["35°C", "-2 °C"], "number in °C", [35.0, -2.0]),
        (["5 sq ft", "6.5 sq ft"], "number in sq ft", [5.0, 6.5]),
        (["2‰", "2.5‰"], "number in ‰", [0.002, 0.0025]),
        (["2 Jan 1970", "1st February 1970", "Sat, 03 Jan 1970 12:00"], "month name", [1.0, 31.0, 2.5]),
        (["Jan 2, 1970", "December 31st, 1969", "Feb. 1 1970"], "month name", [1.0, -1.0, 31.0]),
        (["02-Jan-70", "31-DEC-69 6:00 PM"], "month name", [1.0, -0.25]),
        (["02JAN1970", "1FEB1970"], "month name", [1.0, 31.0]),
        (["Jan 1970", "February 1970"], "month name", [0.0, 31.0]),
        (["1970-01", "1970-02"], "month", [0.0, 31.0]),
        # Years of schools.
        (["2010-11", "2011-12"], None, None),
        (["2012-13", "2011-12"], None, None),
        (["PT1H30M", "P1DT0.5S", "-PT2M", "P2D"], "duration", [5400.0, 86400.5, -120.0, 172800.0]),
        (["2h 54m", "45 min", "-1 d 2 hours 0.5 s"], "duration", [10440.0, 2700.0, -93600.5]),
        (["30 min", "1 day", "2 days"], "duration", [1800.0, 86400.0, 172800.0]),
        # In a single unit, these are quantities.
        (["30 min", "45 min"], "number in min", [30.0, 45.0]),
        (["5 m", "-7.5 m"], "number in m", [5.0, -7.5]),
        (["5d5", "6d7"], None, None),
        (["10 m 20 cm", "1 m 5 cm"], None, None),
        # Numbers in several units are categories, even if their commas have two readings.
        (["1,234 CR", "5,678 DR"], None, None),
        (["2:30 PM", "12:05 am", "12:00:01.5 p.m."], "time of day", [52200.0, 300.0, 43201.5]),
        (["2pm", "11 AM"], "time of day", [50400.0, 39600.0]),
        (["1970-01-02 00:00:00 UTC", "1970-01-01 00:00:00.5 +0100"], "date", [1.0, (0.5 - 3600.0) / 86400.0]),
        (["true", "False", "TRUE"], "boolean", None),
        # One unit and one way to write the time of day for the whole column.
        (["12 kg", "13 lb"], None, None),
        (["12 kg", "13"], None, None),
        (["$5", "5 €"], None, None),
        (["2:30 PM", "14:30"], None, None),
        # Codes, ranges, ordinals, and units with numbers.
        (["Q1", "Q2"], None, None),
        (["10-20", "20-30"], None, None),
        (["1st", "2nd"], None, None),
        (["--5", "4"], None, None),
        (["-5-", "4"], None, None),
        (["$4", "-$-5"], None, None),
        (["5 of 6", "4 of 6"], None, None),
        (["P", "PT"], None, None),
        (["(5", "6"], None, None),
        (["31 Feb 2024", "2 Jan 2024"], None, None),
        (["red", "5", "blue"], None, None),
        (["5%", "10%", "none"], None, None),
        (["1_000", "2"], None, None),
        # Ratios and addresses.
        (["16:9", "4:3"], None, None),
        (["12:34:56:78", "12:99"], None, None),
        (["nan", "inf"], None, None),
        # Versions of software, and days that no calendar has.
        (["1.2.10", "1.2.11"], None, None),
        (["13/13/2024"] * 3, None, None),
    ],
)
def test_notations(texts, notation, numbers):
    assert notation_of(texts) == notation
    if numbers is not None:
        np.testing.assert_array_equal(parsed(texts, notation), numbers)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["1,234", "5,678"], "commas separate thousands or decimals, such as '1,234'"),
        (["03/04/2024", "05/06/2024"], "day and month are not certain, such as '03/04/2024'; write them as 2024"),
        (["13/02/2024", "02/13/2024"], "day and month are not certain"),
        (["1,234%", "5,678 %"], "commas separate thousands or decimals, such as '1,234%'"),
        (["1,234", "5000"], "commas separate thousands or decimals"),
        (["1,234 €", "5,678 €"], "commas separate thousands or decimals, such as '1,234 €'"),
    ],
)
def test_what_cannot_be_told_is_refused_with_a_remedy(texts, message):
    with pytest.raises(InvalidInputError, match=f"column 'x' holds .*{message}"):
        TableEncoder().fit(pd.DataFrame({"x": texts}))


@pytest.mark.parametrize(
    ("texts", "beside", "notation"),
    [
        # The separators of a table are the same in all columns.
        (["1,234", "5,678"], ["0.5", "2"], "thousands"),
        (["1,234", "5,678"], ["1,000,000", "2"], "thousands"),
        (["1,234", "5,678"], ["$1,200", "$2"], "thousands"),
        (["1,234", "5,678"], ["0,5", "2"], "comma"),
        (["1,234 €", "5,678 €"], ["0,5 %", "2 %"], "comma in €"),
        (["64.544", "6.253", "999"], ["0,5", "2"], "comma"),
        (["64.544", "6.253", "999"], ["1.234.567", "2"], "comma"),
        (["64.544", "6.253", "0.5"], ["0,5", "2"], "number"),
        (["64.544", "6.253"], ["a", "b"], "number"),
        (["64.544", "6.253"], ["64.544", "6.25"], "number"),
        # So is the order of day and month.
        (["03/04/2024", "05/06/2024"], ["13/02/2024"] * 2, "day first"),
        (["03/04/2024", "05/06/2024"], ["02/13/24 2:30 PM"] * 2, "month first"),
    ],
)
def test_other_columns_decide_about_two_readings(texts, beside, notation):
    beside = [*beside, *[None] * (len(texts) - len(beside))]
    for frame in (pd.DataFrame({"x": texts, "y": beside}), pd.DataFrame({"y": beside, "x": texts})):
        columns = {column.name: column for column in TableEncoder("standard").fit(frame).encoding_.columns}
        assert columns["x"].notation == notation


def test_columns_that_contradict_each_other_decide_nothing():
    rivals = pd.DataFrame({"x": ["1,234", "5,678"], "a": ["0,5", "1"], "b": ["0.5", "1"]})
    with pytest.raises(InvalidInputError, match="commas separate thousands or decimals"):
        TableEncoder("standard").fit(rivals)


def test_amounts_of_dollars_and_pounds_have_separators_of_thousands():
    assert notation_of(["$1,234", "-$5,678"]) == "thousands in $"
    assert notation_of(["£1,234", "£567"]) == "thousands in £"
    np.testing.assert_array_equal(parsed(["$1,234", "-$5,678"], "thousands in $"), [1234.0, -5678.0])
    assert notation_of(["$1,23", "$5,6"]) == "comma in $"


@settings(deadline=None)
@given(st.lists(st.dates(datetime.date(1970, 1, 1), datetime.date(2068, 12, 31)), min_size=1, max_size=20))
def test_days_are_the_same_in_every_order_of_their_numbers(days):
    numbers = [float((day - datetime.date(1970, 1, 1)).days) for day in days]
    written = {
        "date": "%Y-%m-%d", "year first": "%Y/%m/%d", "day first": "%d/%m/%Y", "month first": "%m/%d/%y",
    }  # fmt: skip
    for notation, form in written.items():
        texts = [day.strftime(form) for day in days]
        np.testing.assert_array_equal(parsed(texts, notation), numbers)
        # What is read without doubt is read right.
        assert notation_of(texts) in {notation, None}
    typed = TableEncoder("standard").fit(pd.DataFrame({"x": pd.to_datetime(days)}))
    text = TableEncoder("standard").fit(pd.DataFrame({"x": [day.isoformat() for day in days]}))
    assert typed.encoding_ == text.encoding_


@settings(deadline=None)
@given(st.lists(st.floats(-1e15, 1e15, allow_nan=False), min_size=1, max_size=20))
def test_numbers_are_rounded_correctly(values):
    for notation, write in (
        ("number", repr),
        ("thousands", lambda value: f"{value:,}"),
        ("comma", lambda value: f"{value:,}".translate(str.maketrans(",.", ".,"))),
        ("comma in €", lambda value: f"{value:,}".translate(str.maketrans(",.", "\u202f,")) + " €"),
        ("number in %", lambda value: f"{value!r}%"),
    ):
        exact = [float(Fraction(repr(value)) / 100) for value in values] if "%" in notation else values
        np.testing.assert_array_equal(parsed([write(value) for value in values], notation), exact)


def test_a_few_odd_entries_of_a_number_column_are_missing_and_named():
    column = [str(k) for k in range(97)] + ["tbd", "see note", "n/a"]
    with pytest.warns(QSDPWarning, match="2 of 100 entries are not numbers, such as 'tbd' in row 97; they count"):
        encoder = TableEncoder("standard").fit(pd.DataFrame({"x": column, "y": np.arange(100.0)}))
    assert encoder.get_feature_names_out().tolist() == ["x", "x is missing", "y"]
    for kind, entries in (
        ("dates", [f"2024-01-{k:02}" for k in range(1, 31)]),
        ("durations", [f"{k}:00" for k in range(30)]),
    ):
        with pytest.warns(
            QSDPWarning, match=f"column 'x' holds {kind}, but 1 of 31 entries are not {kind}, such as 'soon'"
        ):
            TableEncoder("standard").fit(pd.DataFrame({"x": [*entries, "soon"]}))
    # In a column of few numbers, other entries make categories.
    few = TableEncoder().fit(pd.DataFrame({"x": ["1", "2", "none of them", "1", "2"]}))
    assert few.encoding_.columns[0].categories == ("1", "2", "none of them")


@pytest.mark.parametrize("mark", [".", "?", "n/a", "-", " NA "])
def test_markers_of_missing_entries_count_among_numbers_only(mark):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numbers = TableEncoder("standard").fit(pd.DataFrame({"x": ["1", mark, "2", mark, mark]}))
    column = numbers.encoding_.columns[0]
    assert (column.notation, column.fill, column.categories) == ("number", 1.5, None)
    assert numbers.get_feature_names_out().tolist() == ["x", "x is missing"]
    text = TableEncoder().fit(pd.DataFrame({"x": ["a", mark, "b", "a", mark]}))
    assert mark in text.encoding_.columns[0].categories


WRITTEN = {
    "comma": ([f"{k}.234,5" for k in range(1, 9)], [f"{k},234.5" for k in range(1, 9)], "1.234,5"),
    "number": ([str(k) for k in range(8)], [f"no {k}" for k in range(8)], "1234.5"),
    "number in kg": ([f"{k} kg" for k in range(8)], [f"{k} lb" for k in range(8)], "1234.5 kg"),
    "day first": ([f"{k}.1.2024" for k in range(13, 21)], [f"1/{k}/2024" for k in range(13, 21)], "31.1.2024"),
    "duration": ([f"{k}:30" for k in range(8)], [f"{k + 1} PM" for k in range(8)], "1:30:00"),
}


@pytest.mark.parametrize("notation", WRITTEN)
@pytest.mark.parametrize("handle_unknown", ["warn", "ignore"])
def test_another_notation_than_in_training_is_an_error_with_a_remedy(notation, handle_unknown):
    train, other, example = WRITTEN[notation]
    encoder = TableEncoder("standard", handle_unknown=handle_unknown).fit(pd.DataFrame({"x": train}))
    assert encoder.encoding_.columns[0].notation == notation
    message = f"column 'x' holds .* like '{example}'.* such as '{other[0]}' in row 0; write the column as in training"
    with pytest.raises(InvalidInputError, match=message):
        encoder.transform(pd.DataFrame({"x": other}))
    half = pd.DataFrame({"x": [*train[:4], *other[:4]]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QSDPWarning)
        np.testing.assert_array_equal(encoder.transform(half)[:4], encoder.transform(pd.DataFrame({"x": train}))[:4])
    with pytest.raises(InvalidInputError, match="cannot be read"):
        encoder.transform(half.iloc[1:])


PARTS = [*"0123456789.,-+eE ()%€$:/TPMHDkg°'\u2009\N{MINUS SIGN}", "12", "1,234", "2024-01-31", "31 Jan", "AM", "inf"]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(st.sampled_from(PARTS), max_size=5).map("".join), min_size=1, max_size=4))
def test_any_text_has_a_notation_in_which_it_can_be_read_or_none(texts):
    notation = notation_of(texts)
    if notation is None:
        assert ambiguous(texts) is None or isinstance(ambiguous(texts), str)
    elif notation != "boolean":
        assert is_notation(notation)
        assert example_of(notation)
        assert not np.any(np.isnan(parsed(texts, notation)))
        # A later file may have any of these entries alone.
        assert [parsed([text], notation)[0] for text in texts] == parsed(texts, notation).tolist()


def test_examples_of_notations_are_read_in_them():
    for notation in ("number", "comma", "thousands in kg", "comma in €", "number in %", *sorted(DATES | DURATIONS)):
        assert not np.isnan(parsed([example_of(notation)], notation)[0])


def test_names_of_notations_are_checked():
    assert all(map(is_notation, ["comma in US$", "date", "time of day", "thousands in sq ft", "number in %"]))
    wrong = ("boolean", "percent", "comma in ", "comma in 5", "date in kg", "comma in a\nb", "number in " + "k" * 20)
    assert not any(map(is_notation, wrong))


def test_numbers_beside_text_are_numbers_if_the_text_is():
    values = [1, 2.5, np.int64(7), Decimal("0.25"), "4.5", " n/a", None, 1e-7]
    column = TableEncoder("standard").fit(pd.DataFrame({"x": pd.Series(values, dtype=object)})).encoding_.columns[0]
    assert (column.notation, column.categories) == ("number", None)
    np.testing.assert_array_equal(
        as_numbers(pd.Series(values, dtype=object), "x"), [1.0, 2.5, 7.0, 0.25, 4.5, np.nan, np.nan, 1e-7]
    )
    for other in ("red", "4.5 kg", True):
        mixed = pd.DataFrame({"x": pd.Series([1, 2, "3", other], dtype=object)})
        assert TableEncoder().fit(mixed).encoding_.columns[0].categories is not None


def test_rows_are_encoded_alike_whatever_other_rows_a_table_has():
    train = pd.DataFrame({"share": ["5%", "10%", "none"] * 5, "size": ["1,5", "2,25", "3"] * 5})
    encoder = TableEncoder("standard").fit(train)
    whole = encoder.transform(train)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for row in range(3):
            np.testing.assert_array_equal(encoder.transform(train.iloc[[row]]), whole[[row]])
        np.testing.assert_array_equal(encoder.transform(train.iloc[:2]), whole[:2])


@settings(deadline=None)
@given(st.lists(st.timedeltas(datetime.timedelta(-10000), datetime.timedelta(10000)), min_size=1, max_size=20))
def test_durations_are_the_same_as_text_and_as_objects(spans):
    exact = [span / datetime.timedelta(seconds=1) for span in spans]
    for texts in (list(map(str, spans)), pd.Series(pd.to_timedelta(spans)).astype(str).tolist()):
        if any(":" in text for text in texts):
            np.testing.assert_array_equal(
                parsed([text for text in texts if ":" in text], "duration"),
                [one for one, text in zip(exact, texts, strict=True) if ":" in text],
            )
    np.testing.assert_array_equal(as_numbers(pd.Series(spans, dtype=object), "x", "duration"), exact)


@settings(deadline=None)
@given(st.lists(st.times(), min_size=1, max_size=20))
def test_times_of_day_are_the_same_as_text_and_as_objects(times):
    numbers = as_numbers(pd.Series(times, dtype=object), "x", "duration")
    np.testing.assert_array_equal(parsed(list(map(str, times)), "duration"), numbers)


def test_text_and_typed_columns_of_a_table_make_the_same_inputs():
    days = pd.date_range("2024-02-27", periods=6, freq="D")
    typed = pd.DataFrame(
        {
            "number": [1.5, 2.0, np.nan, 4.0, 5.25, 6.0],
            "whole": [1, 2, 3, 4, 5, 9],
            "day": days,
            "wait": pd.to_timedelta([90, 5.5, None, 86401, -3, 7], unit="s"),
            "hour": [datetime.time(7, 5 * k, 1) for k in range(6)],
            "flag": [True, False, True, True, False, True],
            "city": ["Oslo", "Rome", "Oslo", "Bonn", None, "Rome"],
        }
    )
    text = pd.DataFrame(
        {
            "number": ["1.5", "2", None, "4.0", "5.25", "6"],
            "whole": [str(value) for value in typed.whole],
            "day": [str(day.date()) for day in days],
            "wait": ["0:01:30", "0 days 00:00:05.500000", None, "1 day, 0:00:01", "-1 days +23:59:57", "0:00:07"],
            "hour": [str(one) for one in typed.hour],
            "flag": ["True", "false", "true", "TRUE", "False", "true"],
            "city": typed.city,
        }
    )
    dates = typed.assign(day=[datetime.date(2024, 2, 27) + datetime.timedelta(k) for k in range(6)])
    first = TableEncoder().fit(typed)
    inputs = first.transform(typed)
    for one in (typed, text, dates):
        encoder = TableEncoder().fit(one)
        assert encoder.encoding_.expressions == first.encoding_.expressions
        for other in (typed, text, dates):
            np.testing.assert_array_equal(encoder.transform(other), inputs)


def test_notations_are_stored():
    encoder = TableEncoder().fit(pd.DataFrame({"x": ["1,5", "2,5", "0,1"], "y": ["a", "b", "a"]}))
    stored = type(encoder.encoding_).from_state(encoder.encoding_.to_state())
    assert [column.notation for column in stored.columns] == ["comma", None]
