"""What both oracles check."""

from __future__ import annotations

from typing import Any

import numpy as np

from qsdp._utils.validation import FloatArray, check_numbers
from qsdp.exceptions import InvalidInputError
from qsdp.pricing.scaling import Scaled

__all__ = ["check_rows", "check_seed"]


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
