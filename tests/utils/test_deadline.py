"""Deadlines on a clock that stands where it is put: time left, fractions, parents, interrupts."""

from __future__ import annotations

import math

import pytest

from qsdp._utils import deadline as deadlines
from qsdp._utils.deadline import NEVER, Deadline, TimeOver
from qsdp.exceptions import InvalidInputError


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds of the clock, to be set."""
    now = [0.0]
    monkeypatch.setattr(deadlines.time, "monotonic", lambda: now[0])
    return now


def test_time_runs_out(clock: list[float]) -> None:
    deadline = Deadline.after(10)
    assert (deadline.left, deadline.time_limit, deadline.elapsed, deadline.over) == (10.0, 10.0, 0.0, False)
    clock[0] = 4.0
    deadline.check()
    assert (deadline.left, deadline.elapsed) == (6.0, 4.0)
    clock[0] = 11.0
    # A limit of zero seconds would not be allowed as an argument.
    assert (deadline.left, deadline.time_limit, deadline.over) == (0.0, 1e-3, True)
    with pytest.raises(TimeOver):
        deadline.check()


def test_a_fraction_is_one_of_the_time_left_and_ends_with_the_whole(clock: list[float]) -> None:
    whole = Deadline(8.0)
    clock[0] = 4.0
    half = whole.fraction(0.5)
    assert half.left == 2.0
    clock[0] = 5.0
    assert (half.left, half.elapsed, whole.left) == (1.0, 1.0, 3.0)
    whole.expire()
    assert half.over
    assert NEVER.fraction(0.25).left == math.inf


def test_without_a_limit_no_time_is_lost(clock: list[float]) -> None:
    deadline = Deadline.after(None)
    clock[0] = 1e9
    assert (deadline.left, deadline.time_limit, deadline.over) == (math.inf, None, False)
    deadline.expire()
    assert deadline.over


def test_an_interrupt_expires_it(clock: list[float]) -> None:
    answers = iter([False, True, True])
    deadline = Deadline.after(10.0, interrupted=lambda: next(answers))
    assert deadline.left == 10.0
    assert Deadline(parent=deadline).over
    assert deadline.over


@pytest.mark.parametrize("seconds", [0, -1.0, math.nan])
def test_limits_are_positive(seconds: float) -> None:
    with pytest.raises(InvalidInputError, match="time_limit must be a finite number > 0"):
        Deadline.after(seconds)
