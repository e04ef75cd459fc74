"""What the interior-point method costs."""

from __future__ import annotations

import math

from qsdp.relaxation.instance import Instance

__all__ = ["operations"]

_ITERATIONS = 12

#: Side of the largest linear system that memory and patience allow.
_LARGEST = 10_000


def operations(instance: Instance) -> float:
    """Return about how many floating-point operations a solve takes; infinity beyond the largest system."""
    n, N, C = instance.map.n_rows, instance.size, instance.n_blocks
    p = N * (N + 1) // 2
    coupled = C if instance.loss.coupled else 1
    side = min(n, p) * coupled
    if side > _LARGEST:
        return math.inf
    # Cholesky, forming the matrix (memory-bound, so counted higher), and decompositions of N x N matrices.
    step = side**3 / 3 + 30.0 * side**2 + 60.0 * N**3 * coupled + 2.0 * n * N * N * coupled
    once = 0.0
    if n > p:
        gram = float(n) * p * p
        if instance.loss.name == "squared":
            once = gram
        else:
            step += gram * coupled
    else:
        step += 4.0 * n * n * N * coupled
    return once + _ITERATIONS * step * (C / coupled)
