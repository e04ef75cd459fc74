"""Time limits as nested scopes, checked between the steps of long computations.

A function with an argument `time_limit` opens a scope, ``with deadline.after(time_limit):``. Whatever runs inside asks
`over` or calls `check` between its steps, so no function passes a clock to another one. Work is never interrupted: the
step that runs when a limit passes is finished.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

from qsdp._utils.validation import check_real

__all__ = [
    "Deadline",
    "TimeOver",
    "after",
    "carried",
    "check",
    "checks",
    "elapsed",
    "ended",
    "fraction",
    "in_time",
    "left",
    "limit",
    "note_end",
    "over",
    "unlimited",
    "within",
]


_Item = TypeVar("_Item")


class TimeOver(Exception):  # noqa: N818 (a reason to stop, caught by whoever opened the scope, and no error)
    """Raised when a time limit passes during a computation without partial results."""


class Deadline:
    """End of a scope: `limit` seconds or `checks` checks from now, when `outer` ends, or if `interrupted` returns True.

    Attributes
    ----------
    ended : list of str
        Stages that a limit ended early, shared by the scopes of a call; see `note_end`.
    """

    def __init__(
        self,
        limit: float = math.inf,
        outer: Deadline | None = None,
        interrupted: Callable[[], bool] | None = None,
        checks: float = math.inf,
    ) -> None:
        self._start, self._limit, self._outer, self._interrupted = time.monotonic(), limit, outer, interrupted
        self._checks = checks
        self.ended: list[str] = [] if outer is None or outer is _ROOT else outer.ended

    @property
    def limit(self) -> float:
        """Seconds for which the scope was opened, regardless of the time left in enclosing scopes."""
        return self._limit

    @property
    def elapsed(self) -> float:
        """Seconds since the scope was opened."""
        return time.monotonic() - self._start

    def checked(self) -> float:
        """Count a check, and return the seconds left, never negative; infinity without a limit."""
        # A loop, not recursion: a small solve asks a hundred times.
        left = math.inf
        scope: Deadline | None = self
        while scope is not None:
            if scope._interrupted is not None and scope._interrupted():
                return 0.0
            scope._checks -= 1
            if scope._checks < 0:
                return 0.0
            if scope._limit < math.inf:
                left = min(left, max(0.0, scope._limit - scope.elapsed))
            scope = scope._outer
        return left

    @property
    def checks_left(self) -> float:
        """Checks left; infinite unless their number is limited."""
        return self._checks if self._outer is None else min(self._checks, self._outer.checks_left)

    def expire(self) -> None:
        """End the scope at the next check, as after an interrupt."""
        self._limit = 0.0


Scope = AbstractContextManager[Deadline]

_ROOT = Deadline()
_current: ContextVar[Deadline] = ContextVar("deadline", default=_ROOT)


@contextmanager
def _scope(deadline: Deadline) -> Iterator[Deadline]:
    token = _current.set(deadline)
    try:
        yield deadline
    finally:
        _current.reset(token)


def after(time_limit: object, *, interrupted: Callable[[], bool] | None = None) -> Scope:
    """Open the scope of an argument `time_limit`: seconds from now, > 0, or None for no additional limit.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        `time_limit` is not such a number.
    """
    limit = math.inf if time_limit is None else check_real("time_limit", time_limit, strict=True)
    return _scope(Deadline(limit, _current.get(), interrupted))


def within(seconds: float) -> Scope:
    """Open a scope of `seconds` seconds, possibly zero, inside the current one."""
    return _scope(Deadline(seconds, _current.get()))


def checks(count: int) -> Scope:
    """Open a scope that ends after a number of checks, so that what it stops does not depend on the machine's speed."""
    return _scope(Deadline(outer=_current.get(), checks=count))


def fraction(part: float) -> Scope:
    """Open a scope for the fraction `part` of the time left, and of the checks left."""
    outer = _current.get()
    return _scope(Deadline(part * left(), outer, checks=part * outer.checks_left))


def unlimited() -> Scope:
    """Open a scope without a limit, for work that must be completed even after enclosing limits."""
    return _scope(Deadline())


def left() -> float:
    """Count a check, and return the seconds left, never negative; infinity without a limit."""
    return _current.get().checked()


def limit() -> float:
    """Return the seconds for which the innermost scope was opened; infinity if it has no limit."""
    return _current.get().limit


def elapsed() -> float:
    """Return the seconds since the innermost scope was opened."""
    return _current.get().elapsed


def over() -> bool:
    """Whether a limit has passed."""
    return _current.get().checked() == 0.0


def note_end(stage: str) -> None:
    """Record that a limit ended a stage early, for a warning that names the cause; see `ended`."""
    if _current.get() is not _ROOT:
        _current.get().ended.append(stage)


def ended() -> list[str]:
    """Return and clear the stages recorded by `note_end`, so that only one warning names them."""
    stages = list(_current.get().ended)
    _current.get().ended.clear()
    return stages


def check() -> None:
    """Raise TimeOver if a limit has passed."""
    if over():
        raise TimeOver


def in_time(items: Iterable[_Item]) -> Iterator[_Item]:
    """Yield items until they are exhausted or a limit has passed."""
    for item in items:
        if over():
            return
        yield item


def carried(function: Callable[..., Any]) -> Callable[..., Any]:
    """Bind the current scope to a function, so that its time limits apply in another thread or process."""
    return partial(_carried, _current.get(), function)


def _carried(deadline: Deadline, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    with _scope(deadline):
        return function(*arguments, **options)
