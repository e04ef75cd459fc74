"""The shaping methods: covariance of one output by "krivine" and "adaptive"."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.parallel import chunks
from qsdp._utils.tuning import MOST_STEPS, ROUGH, SMALL
from qsdp._utils.validation import FloatArray
from qsdp.shaping.completion import largest_constant, weighted_absolute

__all__ = ["GAMMA", "SHAPINGS", "Shaped", "scaled_block", "smallest_diagonal"]

#: Krivine's constant, ln(1 + sqrt 2) = asinh(1).
GAMMA = math.asinh(1.0)

#: Relative distance of the adaptive constant below the largest. With replicas it is larger, which lowers the variance.
_ACCURACY = 1e-5


def _identity(size: int) -> FloatArray:
    """Return a read-only identity matrix as views of one row, which saves 1.2 GB for the zero point of 6000 inputs."""
    row = np.zeros(2 * size - 1)
    row[size - 1] = 1.0
    identity: FloatArray = np.lib.stride_tricks.sliding_window_view(row, size)[::-1]
    return identity


def smallest_diagonal(Z: FloatArray, V: FloatArray, rho: float) -> tuple[FloatArray, float]:
    r"""Compute V of nearly minimal trace with V +- Z positive semidefinite and diagonal at most rho.

    A time limit is checked before each reweighting.

    Parameters
    ----------
    Z, V : ndarray of shape (N, N)
        V is feasible with diagonal `rho`.
    rho : float

    Returns
    -------
    V : ndarray of shape (N, N)
    rho : float
        Largest entry of its diagonal, which exceeds the argument `rho` only slightly.

    Notes
    -----
    Without the bound on the diagonal, the spectral :math:`|Z|` is optimal. With weights w on the diagonal,
    :math:`w^{-1/2} |w^{1/2} Z w^{1/2}| w^{-1/2}` is. The weights are the multipliers of the bound and are raised where
    it is exceeded. The remaining excess enters rho, and therefore the regulariser of the sampled network.
    """
    weights, largest = np.ones(len(Z)), math.inf
    for _ in deadline.in_time(range(2 * MOST_STEPS)):
        absolute, _, _ = weighted_absolute(Z, weights)
        excess = absolute.diagonal() / rho
        largest = float(absolute.diagonal().max())
        if excess.max() <= 1.0 + SMALL:
            break
        weights = np.maximum(weights * np.square(excess), 1.0)
    if largest > rho * (1.0 + 2.0 * ROUGH):
        return V, rho
    return absolute, max(rho, largest)


class Shaped(NamedTuple):
    """Covariance Q, correlations of replicas within coordinates, constant c and rho."""

    Q: FloatArray
    within: FloatArray
    constant: float
    rho: float


def scaled_block(Z: FloatArray, rho: float) -> FloatArray:
    """Return Z / rho with entries clipped to [-1, 1], or Z if rho is 0."""
    return np.clip(Z / rho, -1.0, 1.0) if rho > 0.0 else Z


def _replica_correlation(diagonal: FloatArray, replicas: npt.NDArray[np.intp]) -> FloatArray:
    # A coordinate's diagonal entry is the mean over all pairs of its replicas, including the ones.
    correlation = (replicas * diagonal - 1.0) / np.maximum(replicas - 1, 1)
    return np.where(replicas > 1, np.clip(correlation, -1.0, 1.0), 1.0)


def _covariance(rows_of: Callable[[slice], tuple[FloatArray, FloatArray]], N: int) -> FloatArray:
    """Return [P S; S P] with ones on the diagonal of P; `rows_of` returns rows of the symmetric P and S."""
    # V and Z of a Relaxation are symmetric, and W is V. Work in place and by rows to save memory for wide data.
    Q = np.empty((2 * N, 2 * N))
    for rows in chunks(N, N):
        Q[rows, :N], Q[rows, N:] = rows_of(rows)
    Q[:N, :N].flat[:: N + 1] = 1.0
    Q[N:, :N], Q[N:, N:] = Q[:N, N:], Q[:N, :N]
    return Q


def _krivine(Z: FloatArray, V: FloatArray, rho: float, replicas: npt.NDArray[np.intp]) -> Shaped:
    if rho > 0.0 and replicas.max() > 1:
        V, rho = smallest_diagonal(Z, V, rho)
    diagonal = V.diagonal() / rho if rho > 0.0 else np.ones(len(Z))
    within = np.sinh(GAMMA * _replica_correlation(diagonal, replicas))
    if rho > 0.0:
        Q = _covariance(
            lambda rows: (np.sinh(GAMMA * (V[rows] / rho)), np.sin(GAMMA * scaled_block(Z[rows], rho))),
            len(Z),
        )
    else:
        Q = _identity(2 * len(Z))
    return Shaped(Q, np.concatenate([within, within]), GAMMA, rho)


def _adaptive(Z: FloatArray, V: FloatArray, rho: float, replicas: npt.NDArray[np.intp]) -> Shaped:
    scaled = scaled_block(Z, rho)
    tolerance = ROUGH if replicas.max() > 1 else _ACCURACY
    found = largest_constant(scaled, GAMMA, tolerance)
    if found is None:
        return _krivine(Z, V, rho, replicas)
    constant, P = found
    within = _replica_correlation(P.diagonal(), replicas)
    Q = _covariance(lambda rows: (P[rows], np.sin(constant * scaled[rows])), len(Z))
    return Shaped(Q, np.concatenate([within, within]), constant, rho)


SHAPINGS = {"krivine": _krivine, "adaptive": _adaptive}
