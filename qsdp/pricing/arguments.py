"""What both oracles check and watch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from qsdp._utils.validation import FloatArray, check_numbers, check_real
from qsdp.exceptions import InvalidInputError
from qsdp.pricing.scaling import Scaled

__all__ = ["Stop", "check_rows", "check_seed"]


def check_rows(starts: Any, size: int) -> FloatArray:
    """Return starting vectors of shape (k, size)."""
    given = check_numbers("starts", starts, f"(k, {size})")
    if given.ndim != 2 or given.shape[1] != size:
        raise InvalidInputError(f"starts must have shape (k, {size}); got {given.shape}")
    return given


def check_seed(shift: Any, scaled: Scaled) -> FloatArray | None:
    """Return a shift in the units and coordinates of the scaled matrix."""
    if shift is None:
        return None
    seed = check_numbers("shift", shift, "(N,)")
    if seed.shape != (scaled.size,):
        raise InvalidInputError(f"shift must have shape {(scaled.size,)}; got {seed.shape}")
    inside: FloatArray = np.ldexp(seed[scaled.support], -scaled.exponent)
    return inside


class Stop:
    """Tells whether to stop, by time or at the caller's wish.

    Parameters
    ----------
    time_limit : float, optional
        Seconds from now.
    interrupted : callable, optional
    """

    def __init__(self, time_limit: float | None = None, interrupted: Callable[[], bool] | None = None) -> None:
        self.deadline = math.inf
        if time_limit is not None:
            self.deadline = time.monotonic() + check_real("time_limit", time_limit, strict=True)
        self.interrupted = interrupted

    def __call__(self) -> bool:
        """Return whether to stop."""
        return (self.interrupted is not None and bool(self.interrupted())) or self.left() < 0.0

    def left(self) -> float:
        """Return the seconds left."""
        return self.deadline - time.monotonic()
