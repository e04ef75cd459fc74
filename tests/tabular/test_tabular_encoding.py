"""Columns to numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tabular_data import table

from qsdp.encoding import EncodingRule, InputColumn
from qsdp.exceptions import InvalidInputError, QSDPWarning
from qsdp.tabular import DataTable, TabularEncoder


def test_numbers_are_standardised_with_the_median_for_missing_ones_and_a_bit_that_says_so() -> None:
    encoder = TabularEncoder.fit(table({"a": ["1", None, "3", "8"]}), ["a"])
    filled = np.array([1.0, 3.0, 3.0, 8.0])
    assert encoder.columns == (InputColumn("a", fill=3.0, notation="number"),)
    assert encoder.encoding.names == ("a", "a is missing")
    encoded = encoder.encode(table({"a": ["1", None, "3", "8"]}))
    np.testing.assert_allclose(encoded[:, 0], (filled - filled.mean()) / filled.std(), rtol=1e-12)
    assert encoded[:, 1].tolist() == [0.0, 1.0, 0.0, 0.0]


def test_categories_are_sorted_columns_and_missing_is_one_of_them() -> None:
    known = table({"a": ["y", "x", None, "x"], "b": ["no", "yes", "no", "yes"], "c": ["k", None, "k", "k"]})
    encoder = TabularEncoder.fit(known, ["a", "b", "c"])
    assert [column.categories for column in encoder.columns] == [("x", "y", None), ("no", "yes"), ("k", None)]
    assert encoder.encoding.names == ("a == x", "a == y", "a is missing", "b == yes", "c is missing")
    expected = [[0, 1, 0, 0, 0], [1, 0, 0, 1, 1], [0, 0, 1, 0, 0], [1, 0, 0, 1, 0]]
    np.testing.assert_array_equal(encoder.encode(known), expected)


def test_another_rule() -> None:
    known = table({"a": ["1", "2", "3", "9"], "b": ["no", "yes", "no", "yes"]})
    encoder = TabularEncoder.fit(known, ["a", "b"], rule=EncodingRule.recommended("thresholds", 2))
    assert encoder.encoding.names == ("a > 1.5", "a > 2.5", "a > 6", "b == yes")
    assert encoder.encode(known)[2].tolist() == [1.0, 1.0, 0.0, 0.0]


def test_unseen_categories_are_zeros_and_counted() -> None:
    known = table({"a": ["x", "y", "z"], "b": ["p", "q", "q"]})
    encoder = TabularEncoder.fit(known, ["a", "b"])
    with pytest.warns(QSDPWarning, match=r"4 entries.*'a' 2 \(such as 'new'\), 'b' 2 \(such as '\(missing\)'"):
        encoded = encoder.encode(table({"b": [None, "r", "q"], "a": ["x", "new", None]}))
    np.testing.assert_array_equal(encoded, [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]])


def test_columns_without_information_are_dropped_with_the_reason() -> None:
    read = table(
        {
            "none": [None] * 4,
            "number": ["0.1"] * 4,
            "written": ["1", "1.0", "1e0", "1"],
            "text": ["x"] * 4,
            "kept": ["1", "2", "3", "4"],
        }
    )
    encoder = TabularEncoder.fit(read, read.columns)
    assert [column.name for column in encoder.columns] == ["kept"]
    assert encoder.dropped == {
        "none": "no values",
        "number": "constant",
        "written": "constant",
        "text": "constant",
    }


def test_what_a_column_is_does_not_depend_on_the_held_out_rows() -> None:
    read = table({"a": ["1", "2", "3", "word"]})
    assert TabularEncoder.fit(read, ["a"], [0, 1, 2]).columns == (InputColumn("a", categories=("1", "2", "3")),)


@pytest.mark.parametrize("entry", ["inf", "-Infinity", "1e999", "1e200"])
def test_numbers_that_are_not_finite_name_line_and_column(entry: str) -> None:
    read = table({"a": ["1", "2", entry]})
    with pytest.raises(InvalidInputError, match=rf"line 4, column 'a': expected a finite .* got '{entry}'"):
        TabularEncoder.fit(read, ["a"])
    encoder = TabularEncoder.fit(table({"a": ["1", "2"]}), ["a"])
    with pytest.raises(InvalidInputError, match="line 4, column 'a'"):
        encoder.encode(read)


def test_words_that_look_like_infinity_are_words_in_a_column_of_text() -> None:
    encoder = TabularEncoder.fit(table({"a": ["inf", "sup", "inf"]}), ["a"])
    assert encoder.columns == (InputColumn("a", categories=("inf", "sup")),)


def test_a_word_where_training_had_numbers() -> None:
    encoder = TabularEncoder.fit(table({"a": ["1", "2"]}), ["a"])
    with pytest.warns(QSDPWarning, match="1 of 2 entries are no numbers and count as missing, such as 'two' in line 3"):
        encoded = encoder.encode(table({"a": ["1", "two"]}))
    np.testing.assert_array_equal(encoded, encoder.encode(table({"a": ["1", None]})))


def test_a_number_that_overflows_when_standardised() -> None:
    encoder = TabularEncoder.fit(table({"a": ["1e-90", "2e-90"]}), ["a"])
    with pytest.raises(InvalidInputError, match="line 2, column 'a': expected a number of the order"):
        encoder.encode(table({"a": ["1e90"]}))


def test_thousands_with_underscores_are_no_numbers() -> None:
    encoder = TabularEncoder.fit(table({"a": ["1_000", "2", "3"]}), ["a"])
    assert encoder.columns[0].categories == ("1_000", "2", "3")


def test_all_columns_with_too_many_values_are_in_one_error() -> None:
    wide: list[str | None] = [f"v{i}" for i in range(51)]
    read = table({"id": wide, "full name": wide, "ok": [*wide[:50], "v0"], "n": [str(i) for i in range(51)]})
    with pytest.raises(InvalidInputError, match=r"--drop id --drop 'full name'$") as caught:
        TabularEncoder.fit(read, read.columns)
    assert "'id' (51, such as 'v0')" in str(caught.value)
    assert "'ok'" not in str(caught.value)


def test_columns_are_found_by_name_whatever_their_order_and_company() -> None:
    known = table({"a": ["1", "2"], "b": ["x", "y"]})
    encoder = TabularEncoder.fit(known, ["a", "b"])
    other = table({"extra": ["?", "?"], "b": ["x", "y"], "a": ["1", "2"]})
    np.testing.assert_array_equal(encoder.encode(other), encoder.encode(known))
    with pytest.raises(InvalidInputError, match="no columns 'a', 'b'"):
        encoder.encode(table({"c": ["1"]}))


entries = st.one_of(st.none(), st.sampled_from(["x", "y", "zz", "1", "2.5", "-3e2"]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(entries, entries), min_size=1, max_size=12))
def test_the_encoder_survives_json(rows: list[tuple[str | None, str | None]]) -> None:
    read = DataTable.of_rows("any.csv", ("a", "b"), rows, range(2, len(rows) + 2))
    encoder = TabularEncoder.fit(read, ["a", "b"])
    encoded = encoder.encode(read)
    assert encoded.shape == (len(rows), encoder.width)
    assert np.all(np.isfinite(encoded))
    restored = TabularEncoder.from_state(json.loads(json.dumps(encoder.state())))
    assert restored == encoder
    np.testing.assert_array_equal(restored.encode(read), encoded)
