"""What all experiments use."""

from __future__ import annotations

import itertools

import pytest

common = pytest.importorskip("benchmarks.machinery.common", reason="not in the installed package")


def test_what_is_shorter_than_the_step_of_a_clock_takes_that() -> None:
    # Ten readings to a step of a sixteenth of a second.
    readings = itertools.count()

    def coarse() -> float:
        return next(readings) // 10 / 16

    answer, seconds = common.timed(lambda: "done", coarse)
    assert (answer, seconds) == ("done", 1 / 16)


def test_longer_work_takes_what_the_clock_says() -> None:
    readings = itertools.chain([0.0, 0.5, 1.0, 4.0])
    assert common.timed(lambda: None, lambda: next(readings)) == (None, 3.0)
