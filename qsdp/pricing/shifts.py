r"""Diagonal shifts: upper bounds on quadratic forms over sign vectors with some coordinates fixed.

If F are the first k entries of u, fixed at s, and R the rest, :math:`u^T M v = x^T B x` for :math:`x = (1, v, u_R)`,

.. math::

    B = \frac12 \begin{bmatrix} 0 & c^T & 0 \\ c & 0 & M_{\cdot R} \\ 0 & M_{R \cdot} & 0 \end{bmatrix},
    \qquad c = M_{\cdot F}\, s, \qquad
    x^T B x \le \sum_j z_j + \dim(B) \max(0, -\lambda_{\min}(\mathrm{Diag}(z) - B)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dposv, dpotrf, dpotri

from qsdp._utils.numeric import EPS, HALF_DIGITS, MARGIN, ROUNDING
from qsdp._utils.tuning import GAIN, INNER, NEGLIGIBLE, PATIENCE, SMALL
from qsdp._utils.validation import FloatArray
from qsdp.inner_problem import grothendieck_bound, uninterrupted
from qsdp.roundoff import semidefinite_shift

__all__ = ["free_matrix", "homogenized", "root_shift", "shift_bound", "tighten"]


def homogenized(c: FloatArray, K: FloatArray) -> FloatArray:
    """Build ``[[0, c'/2], [c/2, K]]``; a `c` shorter than K is padded with zeros."""
    B = np.zeros((len(K) + 1,) * 2)
    B[1:, 1:] = K
    B[0, 1 : 1 + len(c)] = 0.5 * c
    B[1:, 0] = B[0, 1:]
    return B


def free_matrix(rows: FloatArray) -> FloatArray:
    """Build the symmetric matrix of ``v' rows' u`` in (v, u), for rows of shape (r, N)."""
    r, N = rows.shape
    K = np.zeros((N + r,) * 2)
    K[N:, :N] = 0.5 * rows
    K[:N, N:] = 0.5 * rows.T
    return K


def shift_bound(B: FloatArray, z: FloatArray) -> float:
    r"""Compute :math:`\sum_j z_j` plus the trace of a diagonal that makes ``Diag(z) - B`` semidefinite.

    No :math:`x^T B x` with :math:`x_j^2 = 1` exceeds it, with the rounding of this computation included.
    """
    A = -B
    A[np.diag_indices(len(A))] += z
    shift = semidefinite_shift(A)
    # The sums, and differences on the diagonal, are rounded.
    size = float(np.abs(z).sum() + shift.sum() + np.abs(B.diagonal()).sum())
    return float(z.sum() + shift.sum()) + 2.0 * EPS * len(z) * size


def root_shift(M: FloatArray) -> FloatArray:
    """Compute the best shift of a root node, for u and v stacked.

    Raises
    ------
    KeyboardInterrupt
        The bound, which catches this exception, was interrupted.
    """
    return uninterrupted(grothendieck_bound(M, tol=GAIN)).z


def tighten(
    K: FloatArray,
    c: FloatArray,
    z: FloatArray,
    target: float,
) -> FloatArray:
    r"""Improve the shift z by Newton steps to a shift of `homogenized` (c, K), of shape (1 + p,).

    Minimises :math:`\sum_j z_j + \tfrac14 c^T (\mathrm{Diag}(z) - K)^{-1} c`, whose second part is the first entry
    of the shift, with a logarithmic barrier that vanishes as the bound nears the target.

    Parameters
    ----------
    K : ndarray of shape (p, p)
    c : ndarray of shape (q,), q <= p
    z : ndarray of shape (p,)
        A shift with ``Diag(z) > K``.
    target : float
        Stop once the bound is below this value, or clearly will not be.

    Notes
    -----
    Nodes need a few steps from their parent's shift. Roots use `root_shift`: this barrier, started at the edge of the
    cone, stayed 25 per cent above the best value where that stays 11 (N = 33, the gradient of a training problem), in
    three times the time. Whole proofs take a fifth fewer leaves with it, and less time from N = 40 on.
    """
    p, q = len(K), len(c)
    state = _evaluate(K, c, z)
    while state is None:
        z = np.abs(z) * MARGIN + ROUNDING * max(float(np.abs(z).max()), float(np.abs(K).max()))
        state = _evaluate(K, c, z)
    size = abs(state.value) + float(np.abs(K).max())
    mu = SMALL * size / p
    for _ in range(PATIENCE):
        gap = state.value - target
        if gap <= 0.0:
            break
        smallest_mu = NEGLIGIBLE * size / p
        mu = max(smallest_mu, min(mu, INNER * gap / p))
        inverse = dpotri(state.factor, lower=True)[0]
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        W = inverse[:, :q] @ c
        gradient = 1.0 - 0.25 * W * W - mu * inverse.diagonal()
        hessian = inverse * (0.5 * np.outer(W, W) + mu * inverse)
        # A unit diagonal helps because the entries of z differ by orders of magnitude near the edge of the cone.
        unit = 1.0 / np.sqrt(hessian.diagonal())
        _, solved, info = dposv(hessian * np.outer(unit, unit), unit * gradient, lower=True)
        step = -unit * solved
        decrease = -float(gradient @ step)
        if info != 0 or not 0.0 < decrease < np.inf:
            break
        if gap > 2.0 * (decrease + p * mu) and decrease < INNER * gap:
            break
        t, moved = 1.0, _evaluate(K, c, z + step)
        limit = state.merit(mu)
        while t > HALF_DIGITS and (moved is None or moved.merit(mu) > limit - GAIN * t * decrease):
            t *= 0.5
            moved = _evaluate(K, c, z + t * step)
        if t > HALF_DIGITS and moved is not None:
            z, state = z + t * step, moved
        elif mu <= smallest_mu:
            break
        if t <= HALF_DIGITS or decrease < 0.5 * p * mu:
            if mu <= smallest_mu:
                break
            mu *= INNER
    return np.concatenate([[state.border], z])


@dataclass(frozen=True, eq=False)
class _Point:
    """Cholesky factor of ``Diag(z) - K``, the shift's first entry, the bound and the barrier's value."""

    factor: FloatArray
    border: float
    value: float
    barrier: float

    def merit(self, mu: float) -> float:
        return self.value - mu * self.barrier


def _evaluate(K: FloatArray, c: FloatArray, z: FloatArray) -> _Point | None:
    """Evaluate a shift; return None outside the domain."""
    A = -K
    A[np.diag_indices(len(A))] += z
    L, info = dpotrf(A, lower=True, clean=True)
    if info != 0:
        return None
    border = 0.0
    if c.any():
        part = np.zeros(len(A))
        part[: len(c)] = c
        solved = scipy.linalg.solve_triangular(L, part, lower=True, check_finite=False)
        border = 0.25 * float(solved @ solved)
    barrier = 2.0 * float(np.log(L.diagonal()).sum())
    return _Point(L, border, float(z.sum()) + border, barrier)
