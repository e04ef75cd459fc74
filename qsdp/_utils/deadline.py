"""Time limits: one monotonic deadline, passed down."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable

import numpy as np

from qsdp._utils.validation import check_real

__all__ = ["EIGENVALUES", "EIGENVECTORS", "FACTOR", "NEVER", "Deadline", "TimeOver"]

#: Excess, as a share of the limit and in seconds, after which work that must follow the end, such as a certificate,
#: takes its cheapest form. It is half of what a time limit may be exceeded by.
_GRACE_SHARE, _GRACE = 0.05, 0.25

#: By how much a time limit may be exceeded, as a share of it and in seconds.
_EXCESS_SHARE, _EXCESS = 0.1, 0.5

#: Operations for the eigenvectors of a symmetric matrix, for its eigenvalues alone, and for a triangular factor, as
#: multiples of the cube of its side.
EIGENVECTORS, EIGENVALUES, FACTOR = 25.0, 5.0, 1.0

#: Side and number of the products that measure the speed of the machine, in a few milliseconds, and the share of their
#: rate that factorisations of moderate matrices reach.
_SIDE, _PRODUCTS, _FACTORISATION = 300, 5, 0.5


class TimeOver(Exception):  # noqa: N818 (a reason to stop, caught by whoever made the deadline, and no error)
    """The time limit ended in the middle of a computation without partial results."""


class Deadline:
    """End of a time limit, created where the limit is an argument and passed down.

    Parameters
    ----------
    limit : float, default=inf
        Seconds from now, >= 0.
    parent : Deadline, optional
        A deadline that also ends this one.
    wish : callable, optional
        Polled; once it returns true, no time is left.
    """

    def __init__(
        self, limit: float = math.inf, *, parent: Deadline | None = None, wish: Callable[[], bool] | None = None
    ) -> None:
        self._start, self._limit, self._parent, self._wish = time.monotonic(), limit, parent, wish
        self._given = limit

    @classmethod
    def after(cls, seconds: object = None, *, wish: Callable[[], bool] | None = None) -> Deadline:
        """Return the deadline for the argument `time_limit`: seconds from now, > 0, or None for never.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            `seconds` is not such a number.
        """
        return cls(math.inf if seconds is None else check_real("time_limit", seconds, strict=True), wish=wish)

    @property
    def elapsed(self) -> float:
        """Seconds since the deadline was created."""
        return time.monotonic() - self._start

    @property
    def left(self) -> float:
        """Seconds left, never negative; infinite without a limit."""
        if self._wish is not None and self._wish():
            return 0.0
        left = max(0.0, self._limit - self.elapsed)
        return left if self._parent is None else min(left, self._parent.left)

    @property
    def time_limit(self) -> float | None:
        """Seconds left as an argument `time_limit`, at least a millisecond, or None without a limit."""
        return None if self.left == math.inf else max(self.left, 1e-3)

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self._limit < math.inf or (self._parent is not None and self._parent.limited)

    @property
    def over(self) -> bool:
        """Whether no time is left."""
        return self.left == 0.0

    @property
    def grace(self) -> float:
        """Seconds until it is `late`, when remaining work must take its cheapest form; negative after that."""
        own = (1.0 + _GRACE_SHARE) * self._limit + _GRACE - self.elapsed
        return own if self._parent is None else min(own, self._parent.grace)

    @property
    def late(self) -> bool:
        """Whether the deadline passed so long ago that remaining work must take its cheapest form."""
        return self.grace < 0.0

    def share(self, part: float) -> Deadline:
        """Return a deadline after a share of the time left."""
        return Deadline(part * self.left, parent=self)

    def before(self, seconds: float) -> Deadline:
        """Return a deadline that is earlier by `seconds`, to reserve them for later work."""
        return Deadline(max(0.0, self.left - seconds), parent=self)

    def expire(self) -> None:
        """Leave no time, as after an interrupt."""
        self._limit = 0.0

    def seconds(self, operations: float) -> float:
        """Estimate the seconds for a number of floating-point operations; return 0 if there is no limit."""
        return operations / _operations_per_second() if self.limited else 0.0

    def affords(self, operations: float) -> bool:
        """Return whether uninterruptible work of that many floating-point operations would end in time."""
        return not self.limited or (not self.over and self.seconds(operations) <= self.left)

    def tolerates(self, operations: float) -> bool:
        """Return whether work that must follow the end keeps the outermost limit, including the allowed excess.

        The limit is the one given at first, so that an interrupt leaves time for such work.
        """
        if self._parent is not None:
            return self._parent.tolerates(operations)
        return self.seconds(operations) <= (1.0 + _EXCESS_SHARE) * self._given + _EXCESS - self.elapsed

    def require(self, operations: float) -> None:
        """Raise TimeOver if that many operations would end too late."""
        if not self.affords(operations):
            raise TimeOver

    def check(self) -> None:
        """Raise TimeOver if no time is left."""
        if self.over:
            raise TimeOver


@functools.cache
def _operations_per_second() -> float:
    """Return the rate of a factorisation, measured once: about half the rate of a matrix product."""
    matrix = np.ones((_SIDE, _SIDE))
    matrix @ matrix
    times = []
    for _ in range(_PRODUCTS):
        count, seconds, start = 0, 0.0, time.perf_counter()
        # The clock may be coarser than the time of a product.
        while seconds == 0.0:
            matrix @ matrix
            count += 1
            seconds = time.perf_counter() - start
        times.append(seconds / count)
    return _FACTORISATION * 2.0 * _SIDE**3 / min(times)


#: Deadline without a limit, which must not be expired.
NEVER = Deadline()
