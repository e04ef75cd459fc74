"""Time that is left, grace after it, and parents that end earlier, on a clock that stands where it is put."""

from __future__ import annotations

import math
import time

import pytest

from qsdp._utils import deadline as deadlines
from qsdp._utils.deadline import NEVER, Deadline


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds of the clock, to be set."""
    now = [0.0]
    monkeypatch.setattr(deadlines.time, "monotonic", lambda: now[0])
    return now


def test_grace_ends_a_twentieth_and_a_quarter_of_a_second_after_the_limit(clock: list[float]) -> None:
    deadline = Deadline(10.0)
    assert deadline.grace == 10.75
    clock[0] = 10.5
    assert deadline.over
    assert deadline.grace == 0.25
    assert not deadline.late
    clock[0] = 10.8
    assert deadline.grace < 0.0
    assert deadline.late


def test_grace_is_that_of_the_parent_where_that_ends_earlier(clock: list[float]) -> None:
    parent = Deadline(1.0)
    clock[0] = 0.5
    child = Deadline(100.0, parent=parent)
    assert child.grace == pytest.approx(0.8)
    clock[0] = 2.0
    assert child.late
    assert NEVER.grace == math.inf
    assert not NEVER.late


def test_speed_is_measured_by_clocks_coarser_than_a_product(monkeypatch: pytest.MonkeyPatch) -> None:
    fine, step = time.perf_counter, 1 / 64
    deadlines._operations_per_second.cache_clear()
    monkeypatch.setattr(deadlines.time, "perf_counter", lambda: math.floor(fine() / step) * step)
    try:
        assert 0.0 < Deadline(1.0).seconds(1e9) < math.inf
    finally:
        deadlines._operations_per_second.cache_clear()
