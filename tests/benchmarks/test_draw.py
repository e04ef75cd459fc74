"""Figures of a part of the records."""

from __future__ import annotations

import io

import pytest

from benchmarks.machinery import draw


def test_panels_without_points_are_left_out() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    figure = draw.curves({"one": {"a": {1: 2.0, 2: 3.0}}, "none": {"a": {}}}, "x", "y", "xy")
    assert [axis.get_title() for axis in figure.axes] == ["one"]
    figure.savefig(io.BytesIO())
    assert draw.curves({"none": {"a": {}}}, "x", "y") is None
