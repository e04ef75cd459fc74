"""Tables of all that was measured, made without a word of what it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.runner import Record

summary = pytest.importorskip("benchmarks.machinery.summary", reason="not in the installed package").summary


def record(measured: dict[str, Any], **case: Any) -> Record:
    return Record(case, measured, 1.0)


def test_repetitions_are_means_and_shared_parameters_a_note() -> None:
    records = [
        record(
            {"test": 0.4 + 0.1 * m + 0.1 * split, "bits": 2000, "right": split > 0, "none": None}, m=m, n=7, split=split
        )
        for m in (1, 2)
        for split in range(2)
    ]
    (table,) = summary(records)
    assert table.headings == ["m", "test accuracy, %"]
    assert table.rows == [["1", "55 ± 7.1"], ["2", "65 ± 7.1"]]
    assert table.note == (
        "Means and deviations over repetitions. In all rows: n 7, bits 2,000, right 1 of 2, repetitions 2."
    )


def test_entries_have_tables_of_their_own() -> None:
    networks = {"sampled": {"gap": 0.5, "solver": "auto"}, "polished": {"gap": 0.25, "solver": "own"}}
    points = [{"size": 3, "seconds": [1.0, 3.0]}, {"size": 4, "seconds": []}]
    tables = {table.title: table for table in summary([record({"networks": networks, "points": points})], "size")}
    assert tables["networks"].rows == [["sampled", "0.5", "auto"], ["polished", "0.25", "own"]]
    assert tables["points"].headings == ["seconds"]
    assert tables["points"].rows == [["2"]]


def test_accuracies_are_in_percent_and_truth_is_a_word() -> None:
    (table,) = summary([record({"best_train_accuracy": 0.875, "test": 1.5, "peak_mib": 3, "right": True})])
    assert table.headings == ["best training accuracy, %", "test", "peak MiB", "right"]
    assert table.rows == [["87.5", "1.5", "3", "yes"]]


def test_kinds_and_what_differs_in_its_measurements_are_apart() -> None:
    found = summary(
        [record({"a": 1}, kind="first"), record({"b": {"x": 1e-9}}, kind="second"), record({"c": 1}, kind="second")]
    )
    assert [table.title for table in found] == ["first", "second", "second"]
    assert (found[1].headings, found[1].rows) == (["x"], [["1e-09"]])
    assert found[1].note.endswith("what b.")


def test_fresh_measurements_are_shown_like_those_of_a_file() -> None:
    (table,) = summary([record({"a": np.array([1.0, 3.0]), "b": np.float64(2.0), "c": (1, 2), "d": np.zeros(0)})])
    assert (table.headings, table.rows) == (["a", "b", "c"], [["2", "2", "1.5"]])


def test_no_records_no_table() -> None:
    assert summary([]) == []


def test_long_texts_and_rounding_are_cut() -> None:
    records = [
        record({"says": "y" * 50, "a": 0.1 + split * 1e-15, "b": 1e4 + 3e3 * split}, split=split) for split in (0, 1)
    ]
    (table,) = summary(records)
    assert table.rows == [["y" * 40 + "…", "0.1", "11,500 ± 2,121", "2"]]
