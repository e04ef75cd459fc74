"""Accuracy against bytes: fronts by brute force, what a user would choose, and pictures and page of the records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.machinery import accuracy_bytes as fronts

#: Few different sizes and accuracies, so that ties occur.
MODELS = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=8)


def panel(models: dict[str, list[tuple[int, int]]], data: dict[str, str] | None = None) -> Any:
    series = []
    for name, own in models.items():
        origin = fronts.OURS if name.startswith("ours") else fronts.MEASURED
        series.append(fronts.Series(origin, name, [fronts.Point(*one) for one in own], data=(data or {}).get(name, "")))
    return fronts.Panel("title", "setting", series)


@given(MODELS, MODELS)
def test_a_model_is_on_the_front_if_none_as_small_is_as_accurate(ours: Any, theirs: Any) -> None:
    everything = set(ours) | set(theirs)
    expected = sorted(
        (size, accuracy)
        for size, accuracy in everything
        if not any(s <= size and a >= accuracy and (s, a) != (size, accuracy) for s, a in everything)
    )
    [front] = panel({"ours": ours, "theirs": theirs}).fronts()
    assert [tuple(point) for point, _ in front] == expected


def test_rows_say_how_far_the_package_is_behind_on_the_same_data() -> None:
    models = {"ours": [(10, 80.0)], "theirs": [(5, 70.0), (20, 83.5)], "ours too": [(1, 99.0)]}
    rows = panel(models, {"ours too": "other data"}).rows()
    assert [row[:2] for row in rows] == [("5", "70.0"), ("10", "80.0"), ("20", "83.5"), ("1", "99.0")]
    assert [row[3:] for row in rows] == [("none", ""), ("80.0", ""), ("80.0", "3.5"), ("99.0", "")]


def test_the_answer_says_where_the_package_is_not_on_the_front() -> None:
    ahead = replace(panel({"ours": [(10, 80.0)], "theirs": [(20, 70.0)]}), title="A")
    behind = replace(panel({"ours": [(10, 80.0)], "theirs": [(10, 81.0)]}), title="B")
    said = fronts.answer({"tables": [ahead, behind], "images": []})
    assert said.startswith("In 1 of 2 comparisons, a model of this package is on the front: ")
    assert "There is none for B. A: this package is on the front" in said
