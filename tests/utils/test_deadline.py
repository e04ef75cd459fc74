"""Scopes of the clock, which stands where it is put: time left, fractions, outer scopes, interrupts, threads."""

from __future__ import annotations

import math
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from qsdp._utils import deadline
from qsdp._utils.deadline import TimeOver
from qsdp._utils.parallel import in_threads
from qsdp.exceptions import InvalidInputError


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds of the clock, to be set."""
    now = [0.0]
    monkeypatch.setattr(deadline.time, "monotonic", lambda: now[0])
    return now


def test_time_runs_out(clock: list[float]) -> None:
    with deadline.after(10) as scope:
        assert (deadline.left(), scope.elapsed, deadline.over()) == (10.0, 0.0, False)
        clock[0] = 4.0
        deadline.check()
        assert (deadline.left(), scope.elapsed) == (6.0, 4.0)
        clock[0] = 11.0
        assert (deadline.left(), deadline.over()) == (0.0, True)
        with pytest.raises(TimeOver):
            deadline.check()
    assert deadline.left() == math.inf


def test_an_inner_scope_ends_with_the_outer_one(clock: list[float]) -> None:
    with deadline.within(8.0) as whole:
        clock[0] = 4.0
        with deadline.fraction(0.5) as half:
            assert deadline.left() == 2.0
            clock[0] = 5.0
            assert (half.left, half.elapsed, whole.left) == (1.0, 1.0, 3.0)
            with deadline.after(100.0):
                assert (deadline.left(), deadline.limit()) == (1.0, 100.0)
            assert deadline.limit() == 2.0
            whole.expire()
            assert deadline.over()
    with deadline.fraction(0.25):
        assert deadline.left() == deadline.limit() == math.inf


def test_what_must_be_finished_has_no_limit(clock: list[float]) -> None:
    with deadline.after(1.0):
        clock[0] = 2.0
        with deadline.unlimited():
            deadline.check()
            with deadline.after(5.0):
                assert deadline.left() == 5.0
        assert deadline.over()


def test_without_a_limit_no_time_is_lost(clock: list[float]) -> None:
    with deadline.after(None) as scope:
        clock[0] = 1e9
        assert (deadline.left(), deadline.over()) == (math.inf, False)
        scope.expire()
        assert deadline.over()


def test_a_scope_ends_with_an_error() -> None:
    with pytest.raises(ZeroDivisionError), deadline.within(0.0):
        raise ZeroDivisionError
    assert not deadline.over()


def test_an_interrupt_ends_it(clock: list[float]) -> None:
    answers = iter([False, True, True])
    with deadline.after(10.0, interrupted=lambda: next(answers)):
        assert deadline.left() == 10.0
        with deadline.after(None):
            assert deadline.over()
        assert deadline.over()


def test_threads_and_processes_can_take_it_along() -> None:
    lefts: list[float] = []
    with deadline.within(1e6):
        in_threads(lambda _: lefts.append(deadline.left()), range(40), n_jobs=2)
        taken = pickle.loads(pickle.dumps(deadline.carried(deadline.left)))
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(taken).result() <= 1e6
            assert pool.submit(deadline.left).result() == math.inf
    assert len(lefts) == 40
    assert all(9e5 < left <= 1e6 for left in lefts)


@pytest.mark.parametrize("seconds", [0, -1.0, math.nan])
def test_limits_are_positive(seconds: float) -> None:
    with pytest.raises(InvalidInputError, match="time_limit must be a finite number > 0"), deadline.after(seconds):
        pass
