"""Numbers as READMEs quote them."""

from __future__ import annotations

import math

import pytest

from benchmarks.machinery import common, quotes


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.00514, "5.1 ms"), (0.0996, "100 ms"), (0.1, "0.1 s"), (9.94, "9.9 s"), (250.3, "250 s"), (817.3, "14 minutes")],
)
def test_durations(seconds: float, text: str) -> None:
    assert common.duration(seconds) == text


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="nan is not a time"):
        common.duration(math.nan)


@pytest.mark.parametrize(("bits", "text"), [(743, "0.7 kbit"), (9_949, "9.9 kbit"), (10_012, "10 kbit")])
def test_kilobits(bits: int, text: str) -> None:
    assert common.kilobits(bits) == text


@pytest.mark.parametrize(("number", "text"), [(1e-4, "1e-4"), (3.8e-8, "4e-8"), (5e-11, "5e-11")])
def test_small_numbers(number: float, text: str) -> None:
    assert common.small(number) == text


def test_a_quoted_table_replaces_itself() -> None:
    table = "| a | b |\n|---|---|\n| 1 | 2 |"
    begun = quotes.filled("<!-- measured: a.b -->\n<!-- end -->\n", lambda name, part: table)
    assert begun == f"<!-- measured: a.b -->\n{table}\n<!-- end -->\n"
    assert quotes.filled(begun, lambda name, part: table) == begun


def test_a_number_is_not_parted_from_its_per_cent() -> None:
    text = quotes.filled("<!-- measured: a.b -->\n<!-- end -->\n", lambda name, part: "x" * 116 + " 95 % of all")
    assert text == f"<!-- measured: a.b -->\n{'x' * 116}\n95 % of all\n<!-- end -->\n"
