"""Constants of double precision."""

from __future__ import annotations

import numpy as np

__all__ = ["EPS"]

#: Distance from 1.0 to the next larger float, 2.2e-16; rounding is at most half of it relative to the result.
EPS = float(np.finfo(np.float64).eps)
