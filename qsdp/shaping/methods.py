"""The shaping methods: covariance of one output by "krivine", "adaptive" and "sdp"."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.numeric import EPS, ROUNDING
from qsdp._utils.parallel import chunks
from qsdp._utils.tuning import MANY_STEPS, MOST_STEPS, ROUGH, SMALL
from qsdp._utils.validation import FloatArray
from qsdp.relaxation.backends.conic import was_interrupted
from qsdp.relaxation.repair import project_psd
from qsdp.shaping.completion import largest_constant, weighted_absolute

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["ACCURACY", "GAMMA", "SHAPINGS", "scaled_block", "shape_triple", "shaping_program", "smallest_diagonal"]

#: Krivine's constant, ln(1 + sqrt 2) = asinh(1).
GAMMA = math.asinh(1.0)

#: Relative accuracy of covariances: the error of a solver that is allowed in user-supplied matrices, and the distance
#: of the adaptive constant below the largest. With replicas that is larger, which lowers the variance.
ACCURACY = 1e-5


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


class _Shaped(NamedTuple):
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


def shape_triple(Z: FloatArray, V: FloatArray, W: FloatArray, rho: float, method: str) -> _Shaped:
    """Compute the covariance of binary neurons for any feasible triple, with asymmetric Z and different V and W."""
    N, binary = len(Z), np.ones(2 * len(Z), dtype=np.intp)
    if method == "sdp":
        return _sdp(Z, V, rho, binary[:N])
    P, R, constant = np.sinh(GAMMA * (V / rho)), np.sinh(GAMMA * (W / rho)), GAMMA
    if method == "adaptive":
        # For T = [0 Z; Z' 0], the smallest P with P +- sin(c T) semidefinite is block diagonal, and P + sin(c T) is Q.
        zero = np.zeros((N, N))
        found = largest_constant(
            np.block([[zero, scaled_block(Z, rho)], [scaled_block(Z, rho).T, zero]]), GAMMA, ACCURACY
        )
        if found is not None:
            constant, both = found
            P, R = both[:N, :N].copy(), both[N:, N:].copy()
    S = np.sin(constant * scaled_block(Z, rho))
    for block in (P, R):
        np.fill_diagonal(block, 1.0)
    return _Shaped(np.block([[P, S], [S.T, R]]), np.ones(2 * N), constant, rho)


def _krivine(Z: FloatArray, V: FloatArray, rho: float, replicas: npt.NDArray[np.intp]) -> _Shaped:
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
    return _Shaped(Q, np.concatenate([within, within]), GAMMA, rho)


def _adaptive(Z: FloatArray, V: FloatArray, rho: float, replicas: npt.NDArray[np.intp]) -> _Shaped:
    scaled = scaled_block(Z, rho)
    tolerance = ROUGH if replicas.max() > 1 else ACCURACY
    found = largest_constant(scaled, GAMMA, tolerance)
    if found is None:
        return _krivine(Z, V, rho, replicas)
    constant, P = found
    within = _replica_correlation(P.diagonal(), replicas)
    Q = _covariance(lambda rows: (P[rows], np.sin(constant * scaled[rows])), len(Z))
    return _Shaped(Q, np.concatenate([within, within]), constant, rho)


def shaping_program(Z: FloatArray, rho: float, replicas: npt.NDArray[np.intp]) -> tuple[cp.Problem, cp.Variable]:
    """Build the semidefinite program (27) for a matrix Z; return it and its variable Q.

    Q is the covariance of the means over replicas, since exchangeable replicas suffice; its diagonal is in [0, 1].
    """
    import cvxpy as cp

    N = len(Z)
    Q = cp.Variable((2 * N, 2 * N), PSD=True, name="Q")
    single = np.concatenate([replicas, replicas]) == 1
    diagonal = [cp.diag(Q) == 1] if single.all() else [cp.diag(Q) <= 1]
    if single.any() and not single.all():
        diagonal.append(cp.diag(Q)[single] == 1)
    target = cp.Constant(np.sin(GAMMA * scaled_block(Z, rho)), name="sin(gamma Z)")
    return cp.Problem(cp.Minimize(cp.sum_squares(Q[:N, N:] - target)), diagonal), Q


def _sdp(Z: FloatArray, V: FloatArray, rho: float, replicas: npt.NDArray[np.intp]) -> _Shaped:
    if deadline.over():
        return _krivine(Z, V, rho, replicas)
    import cvxpy as cp

    if rho > 0.0 and replicas.max() > 1:
        _, rho = smallest_diagonal(Z, V, rho)
    counts = np.concatenate([replicas, replicas])
    single = counts == 1
    program, Q = shaping_program(Z, rho, replicas)
    options = {"eps_abs": ROUNDING, "eps_rel": ROUNDING, "max_iters": MANY_STEPS}
    if deadline.left() < math.inf:
        # For SCS, zero means no limit.
        options["time_limit_secs"] = max(deadline.left(), EPS)
    data, chain, inverse = program.get_problem_data(cp.SCS, solver_opts=options)
    answer = chain.solve_via_data(program, data, False, False, options)
    if was_interrupted(answer):
        raise KeyboardInterrupt
    with warnings.catch_warnings():
        # Time may run out before the solution is accurate; the residual shows this.
        warnings.simplefilter("ignore", UserWarning)
        program.unpack_results(answer, chain, inverse)
    if Q.value is None:
        return _krivine(Z, V, rho, replicas)
    repaired = project_psd(0.5 * (Q.value + Q.value.T))
    scale = np.sqrt(np.where(single, repaired.diagonal(), np.maximum(repaired.diagonal(), 1.0)))
    repaired /= np.outer(scale, scale)
    within = np.where(single, 1.0, (counts * repaired.diagonal() - 1.0) / np.maximum(counts - 1, 1))
    np.fill_diagonal(repaired, 1.0)
    return _Shaped(repaired, within, GAMMA, rho)


SHAPINGS = {"krivine": _krivine, "adaptive": _adaptive, "sdp": _sdp}
