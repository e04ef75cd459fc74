"""The picture of the README shows the numbers of the records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

overview = pytest.importorskip("benchmarks.overview", reason="not in the installed package")
main = pytest.importorskip("benchmarks.__main__")

RESULTS = main.HERE / "results"


@pytest.fixture(scope="module")
def records():
    stored = main.stored(RESULTS, ["small_models", "fig1"])
    return {experiment.name: results.of(list(experiment.cases(False))) for experiment, results, _ in stored}


def test_curves_are_those_of_the_records(records):
    figure = overview.plot(records["small_models"], records["fig1"])
    left, right = figure.axes
    wanted = {}
    for record in records["small_models"]:
        for name, measured in record.measured["models"].items():
            wanted.setdefault(name, {}).setdefault(record.case["set"], []).append((measured["bits"], measured["test"]))
    lines = dict(
        zip([*overview.SIZES.values(), *((name,) for name in overview.CHOSEN.values())], left.lines, strict=True)
    )
    assert len(lines) == 7
    for names, line in lines.items():
        points = []
        for name in names:
            means = np.array([np.mean(one, axis=0) for one in wanted[name].values()])
            points.append((np.exp(np.mean(np.log(means[:, 0]))) / 8, 100 * np.mean(means[:, 1])))
        np.testing.assert_allclose(np.transpose(line.get_data()), sorted(points), rtol=1e-12)
    bound = np.median([record.measured["lower_bound"] for record in records["fig1"]])
    assert len(right.lines) == 3
    assert min(line.get_ydata().min() for line in right.lines) > bound


def test_without_records_there_is_no_picture(records, tmp_path: Path):
    path = tmp_path / "overview.png"
    path.write_bytes(b"old")
    main.draw_overview({"small_models": records["small_models"]}, path)
    assert not path.exists()
    main.draw_overview(records, path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_missing_curve_leaves_no_picture(records):
    """Quick runs do not train all networks."""
    for name in overview.OBJECTIVES.values():
        some = [
            replace(one, measured={"networks": [found for found in one.measured["networks"] if found["name"] != name]})
            for one in records["fig1"]
        ]
        assert overview.plot(records["small_models"], some) is None
