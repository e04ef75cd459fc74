"""The pictures of the README show the numbers of the records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

overview = pytest.importorskip("benchmarks.overview", reason="not in the installed package")
main = pytest.importorskip("benchmarks.__main__")
models = pytest.importorskip("benchmarks.experiments.accuracy.small_models")

RESULTS = main.HERE / "results"


@pytest.fixture(scope="module")
def records() -> Any:
    return main.records_of(main.stored(None, ["small_models", "fig1"]))


def test_accuracies_are_those_of_the_records(records: Any) -> None:
    [axis] = overview.accuracy(records).axes
    assert [text.get_text() for text in axis.texts] == [words for words, _, _ in overview.SIZES.values()]
    wanted: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for record in records["small_models"]:
        for name, measured in record.measured["models"].items():
            wanted.setdefault(name, {}).setdefault(record.case["set"], []).append((measured["bits"], measured["test"]))
    points = {}
    for name, found in wanted.items():
        means = np.array([np.mean(one, axis=0) for one in found.values()])
        points[name] = (np.exp(np.mean(np.log(means[:, 0]))) / 8, 100 * np.mean(means[:, 1]))
    default = sorted(points[name] for name in (models.DEFAULT, *(f"{models.DEFAULT} {m}" for m in models.SIZES)))
    np.testing.assert_allclose(np.transpose(axis.lines[0].get_data()), default, rtol=1e-12)
    for line in axis.lines:
        for point in np.transpose(line.get_data()):
            assert any(np.allclose(point, other, rtol=1e-12) for other in points.values())


def test_objectives_are_above_the_bound(records: Any) -> None:
    [axis] = overview.objectives(records).axes
    bound = np.median([record.measured["lower_bound"] for record in records["fig1"]])
    assert len(axis.lines) == len(overview.OBJECTIVES)
    assert min(line.get_ydata().min() for line in axis.lines) > bound


def test_without_records_there_is_no_picture(records: Any, tmp_path: Path) -> None:
    for name in overview.PICTURES:
        (tmp_path / f"overview_{name}.png").write_bytes(b"old")
    overview.draw({"small_models": records["small_models"]}, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["overview_accuracy.png"]
    overview.draw(records, tmp_path)
    for name in overview.PICTURES:
        assert (tmp_path / f"overview_{name}.png").read_bytes().startswith(b"\x89PNG")


def test_a_missing_curve_leaves_no_picture(records: Any) -> None:
    """Quick runs do not train all networks."""
    for name in overview.OBJECTIVES:
        some = [
            replace(one, measured={"networks": [found for found in one.measured["networks"] if found["name"] != name]})
            for one in records["fig1"]
        ]
        assert overview.objectives({"fig1": some}) is None
