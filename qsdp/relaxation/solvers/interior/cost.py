"""Operation counts of the interior-point method, and the coordinates in which they are lower."""

from __future__ import annotations

import math

from qsdp.relaxation.instance import Instance

__all__ = ["operations", "takes_factor"]

#: Iterations of a solve, typical of all losses.
_ITERATIONS = 12

#: Side of the largest linear system: 0.8 GB, and seconds for each factorisation.
_LARGEST = 10_000


def takes_factor(n: int, N: int) -> bool:
    """Return whether a squared loss of n samples of N weights is cheaper through a factor of its Gram matrix.

    That has p = N(N + 1)/2 rows at most, but its kernel takes two products of p x p matrices, while the kernel of the
    samples costs next to nothing beside its Cholesky factorisation: up to nearly 2 p samples they are the better way.
    """
    p = N * (N + 1) // 2
    if n <= p or n > _LARGEST:
        return n > p
    return _factor_step(p) + float(n) * p * p / _ITERATIONS < _samples_step(n, N)


def operations(instance: Instance) -> float:
    """Return about how many floating-point operations a solve takes; infinity beyond the largest system."""
    n, N, C = instance.map.n_rows, instance.size, instance.n_blocks
    p = N * (N + 1) // 2
    coupled = C if instance.loss.coupled else 1
    if min(n, p) * coupled > _LARGEST:
        return math.inf
    # Decompositions of N x N matrices, and passes over the data.
    step = (60.0 * N**3 + 2.0 * n * N * N) * coupled
    once = 0.0
    if instance.fit.quadratic and takes_factor(n, N):
        once = float(n) * p * p
        step += _factor_step(p)
    elif n > p and not instance.fit.quadratic:
        step += float(n) * p * p * coupled + _cholesky(p * coupled)
    else:
        step += _samples_step(n, N, coupled)
    return once + _ITERATIONS * step * (C / coupled)


def _factor_step(p: int) -> float:
    return 2.0 * float(p) ** 3 + _cholesky(p)


def _samples_step(n: int, N: int, coupled: int = 1) -> float:
    return 4.0 * n * n * N * coupled + _cholesky(n * coupled)


def _cholesky(side: int) -> float:
    """Return the operations of a factorisation, with those of filling the matrix: memory-bound, so counted higher."""
    return side**3 / 3.0 + 30.0 * side**2
