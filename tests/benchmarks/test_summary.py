"""Tables of all that was measured, made without a word of what it is."""

from __future__ import annotations

from typing import Any

from benchmarks.machinery.summary import crossed, summary
from benchmarks.runner import Record


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


def test_kinds_and_what_differs_in_its_measurements_are_apart() -> None:
    found = summary(
        [record({"a": 1}, kind="first"), record({"b": {"x": 1e-9}}, kind="second"), record({"c": 1}, kind="second")]
    )
    assert [table.title for table in found] == ["first", "second", "second"]
    assert (found[1].headings, found[1].rows) == (["x"], [["1e-09"]])
    assert found[1].note.endswith("what b.")


def test_a_measurement_is_shown_by_two_parameters() -> None:
    cases = [(m, name, split) for m in (1, 2) for name in "ab" for split in range(2 if name == "a" else 1)]
    records = [record({"gap": 0.5 * m + split}, m=m, name=name, split=split) for m, name, split in cases]
    table = crossed("gaps", records[:-1], ("m",), "name", lambda record: record.measured["gap"])
    assert (table.headings, table.rows) == (["m", "a", "b"], [["1", "1 ± 0.71", "0.5"], ["2", "1.5 ± 0.71", ""]])
    assert crossed("gaps", [], ("m",), "name", lambda record: 0.0).rows == []
