"""Accuracy against bytes: fronts by brute force, what a user would choose, and pictures and page of the records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import __main__ as main
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


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), max_size=8))
def test_models_are_chosen_by_other_images_than_those_shown(found: list[tuple[int, int]]) -> None:
    # Test accuracy falls as the accuracy on images for the choice rises: the choice must not see it.
    entries = [{"bytes": size, "choice_accuracy": a, "test_accuracy": 1.0 - a / 10} for size, a in found]
    best: dict[int, int] = {}
    for limit in range(1, 7):
        fits = [a for size, a in found if size <= limit]
        if fits and max(fits) > max(best.values(), default=0):
            best[limit] = max(fits)
    points = fronts.chosen(entries)
    assert [point.size for point in points] == list(best)
    assert [point.accuracy for point in points] == pytest.approx([100.0 - 10.0 * a for a in best.values()])


def test_the_front_of_the_tables_is_that_of_their_experiment() -> None:
    known = main.stored(None, ["small_models"])
    records = main.records_of(known)
    study = main.module_of("small_models")
    points = study.points_of(study.grid_of(records["small_models"]))
    expected = [(points[name][0] / 8, 100.0 * points[name][1]) for name in study.front_of(points)]
    [first] = fronts.tables(records)
    [front] = first.fronts()
    np.testing.assert_allclose([tuple(point) for point, _ in front], expected, rtol=1e-12)
    assert fronts.quotes(records)["tables"].startswith(f"{first.title}: ")
