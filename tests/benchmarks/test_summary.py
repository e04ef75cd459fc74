"""Tables of all that was measured, made without a word of what it is."""

from __future__ import annotations

from typing import Any

from benchmarks.machinery.summary import summary
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
