"""Time limits: one cooperative deadline, passed down and checked between the steps of long computations."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from qsdp._utils.validation import check_real

__all__ = ["NEVER", "Deadline", "TimeOver"]


class TimeOver(Exception):  # noqa: N818 (a reason to stop, caught by whoever made the deadline, and no error)
    """The time limit ended in the middle of a computation without partial results."""


class Deadline:
    """End of a time limit, created where the limit is an argument and passed down.

    Work is not interrupted: the step that runs when the limit passes is finished, and the next check stops the work.

    Parameters
    ----------
    limit : float, default=inf
        Seconds from now, >= 0.
    parent : Deadline, optional
        A deadline that also ends this one.
    interrupted : callable, optional
        Polled with the clock; returning True expires the deadline.
    """

    def __init__(
        self, limit: float = math.inf, *, parent: Deadline | None = None, interrupted: Callable[[], bool] | None = None
    ) -> None:
        self._start, self._limit, self._parent, self._interrupted = time.monotonic(), limit, parent, interrupted

    @classmethod
    def after(cls, seconds: object = None, *, interrupted: Callable[[], bool] | None = None) -> Deadline:
        """Return the deadline for the argument `time_limit`: seconds from now, > 0, or None for never.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            `seconds` is not such a number.
        """
        limit = math.inf if seconds is None else check_real("time_limit", seconds, strict=True)
        return cls(limit, interrupted=interrupted)

    @property
    def elapsed(self) -> float:
        """Seconds since the deadline was created."""
        return time.monotonic() - self._start

    @property
    def left(self) -> float:
        """Seconds left, never negative; infinite without a limit."""
        if self._interrupted is not None and self._interrupted():
            return 0.0
        left = max(0.0, self._limit - self.elapsed)
        return left if self._parent is None else min(left, self._parent.left)

    @property
    def time_limit(self) -> float | None:
        """Seconds left as an argument `time_limit`, at least a millisecond, or None without a limit."""
        left = self.left
        return None if left == math.inf else max(left, 1e-3)

    @property
    def over(self) -> bool:
        """Whether the deadline has passed."""
        return self.left == 0.0

    def check(self) -> None:
        """Raise TimeOver if the deadline has passed."""
        if self.over:
            raise TimeOver

    def fraction(self, part: float) -> Deadline:
        """Return a deadline after a fraction of the remaining time."""
        return Deadline(part * self.left, parent=self)

    def expire(self) -> None:
        """Expire the deadline, as after an interrupt."""
        self._limit = 0.0


#: Deadline without a limit, which must not be expired.
NEVER = Deadline()
