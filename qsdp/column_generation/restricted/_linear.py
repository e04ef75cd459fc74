"""Dense positive definite systems, and steps inside the positive orthant."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg

from qsdp._utils.validation import FloatArray

__all__ = ["MAX_ITERATIONS", "TO_BOUNDARY", "cholesky", "reach_of"]

MAX_ITERATIONS = 100

#: Fraction of the distance to the boundary of the positive orthant that a step may cover.
TO_BOUNDARY = 0.995


def cholesky(N: FloatArray) -> Callable[[FloatArray], FloatArray] | None:
    """Return a solver of ``N x = b`` for a positive definite N, or None if N is not nearly positive definite."""
    # With a unit diagonal, a tiny shift costs no accuracy and saves the last iterations.
    scale: FloatArray = 1.0 / np.sqrt(np.maximum(N.diagonal(), np.finfo(np.float64).tiny))
    N = N * np.outer(scale, scale)
    for shift in (0.0, 1e-14, 1e-12, 1e-10):
        N[np.diag_indices(len(N))] += shift
        try:
            factor = scipy.linalg.cho_factor(N, check_finite=False)
        except scipy.linalg.LinAlgError:
            continue
        return lambda b: scale * scipy.linalg.cho_solve(factor, scale * b, check_finite=False)
    return None


def reach_of(x: FloatArray, dx: FloatArray) -> float:
    """Return the largest multiple of dx, at most 1 / TO_BOUNDARY, that keeps x non-negative."""
    falling = dx < 0.0
    if not np.any(falling):
        return 1.0 / TO_BOUNDARY
    return min(1.0 / TO_BOUNDARY, float((-x[falling] / dx[falling]).min()))
