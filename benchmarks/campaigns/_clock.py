"""A clock that ends every time limit at a given look at it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

__all__ = ["LIMIT", "LOOKS", "Clock", "ended_at"]

#: The time limit that the clock ends, in its seconds, and looks at most that a call has before.
LIMIT, LOOKS = 1.0, 1000

#: Seconds by which the clock goes on with every look after that: work that must follow the end is done, or is left.
_STEPS = {"just over": 1e-3, "long over": 1e3}


class Clock:
    """It stands still for so many looks; then the limit is over."""

    def __init__(self, looks: int, step: float) -> None:
        self.looks, self._last, self._step = 0, looks, step

    def __call__(self) -> float:
        """Return the seconds."""
        self.looks += 1
        after = self.looks - self._last
        return 0.0 if after <= 0 else LIMIT + after * self._step


@contextmanager
def ended_at(looks: int, end: str = "just over") -> Iterator[Clock]:
    """Have time limits of `LIMIT` seconds end after so many looks at the clock."""
    clock = Clock(looks, _STEPS[end])
    with mock.patch.object(time, "monotonic", clock):
        yield clock
