"""Search for the largest c such that sin(c Z) is the off-diagonal block of a covariance with unit diagonal."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.numeric import EPS, ROUNDING
from qsdp._utils.tuning import EIGEN, INNER, MAX_STEPS, SECOND, SMALL
from qsdp._utils.validation import FloatArray

__all__ = ["largest_constant"]

#: Ratio of the next target for the gap between the two bounds to the gap.
_SHRINKAGE = 0.2


class _Bounds(NamedTuple):
    """Bounds on the diagonal of a completion of S = sin(c Z), computed from weights w of sum one.

    Attributes
    ----------
    P : ndarray of shape (N, N)
        P +- S are positive semidefinite.
    lower : float
        Lower bound on the largest diagonal entry of every P: the sum of all :math:`w_i P_{ii}`.
    slope : float
        Derivative of `lower` with respect to c.
    eigenvalues, vectors : ndarray
        Eigenvalues and eigenvectors of :math:`w^{1/2} S w^{1/2}`.
    """

    P: FloatArray
    lower: float
    slope: float
    eigenvalues: FloatArray
    vectors: FloatArray


def largest_constant(Z: FloatArray, smallest: float, tolerance: float) -> tuple[float, FloatArray] | str:
    r"""Find the largest c >= `smallest` for which sin(c Z) has a completion, and the completion.

    Parameters
    ----------
    Z : ndarray of shape (N, N)
        Symmetric, its entries in [-1, 1].
    smallest : float
        A constant known to be feasible, at most pi / 2.
    tolerance : float
        Relative accuracy of c, from below.

    Returns
    -------
    c : float
        Less than :math:`\pi / (2 \max |Z|)` by a thousandth, so that arcsin(sin(c Z)) is c Z up to rounding. If a time
        limit ends the search, the largest constant so far; a step that would probably exceed the limit is not begun.
    P : ndarray of shape (N, N)
        P +- sin(c Z) are positive semidefinite, and no diagonal entry is larger than 1. If there is none, the
        reason is returned instead of both.

    Notes
    -----
    The feasible constants form an interval: sin(t arcsin x) has non-negative Taylor coefficients for t <= 1 and is at
    most 1 at 1, so it maps a completion for c to one for t c.

    For weights w of sum 1, the nuclear norm f(w, c) of :math:`w^{1/2} \sin(c Z) w^{1/2}` is concave in w, and its
    gradient is the diagonal of P(w). The constant c is feasible if and only if the maximum of f is at most 1. The
    search solves :math:`P_{ii} + \epsilon / (N w_i) = 1` for w and c (then f is :math:`1 - \epsilon`). This is the
    optimality condition with a logarithmic barrier. At its solution, the diagonal is below 1 for every
    :math:`\epsilon`, and c misses the largest constant by :math:`\epsilon` over the slope of f. Each step is a Newton
    step in w for this c and one in c (the maximum over w has the slope of f). :math:`\epsilon` shrinks whenever the
    diagonal is at most 1.
    """
    N = len(Z)
    with np.errstate(divide="ignore", over="ignore"):
        highest = float((1.0 - SMALL) * 0.5 * math.pi / np.abs(Z).max())
    if not math.isfinite(highest):
        return "Z is zero"
    weights, gap, c, reached = np.full(N, 1.0 / N), INNER, smallest, None
    # Estimated duration of a step: of its eigendecomposition at first, later that of the step before.
    seconds, reason = EIGEN * N**3 / SECOND, f"no completion was reached in {MAX_STEPS} steps"
    for _ in range(MAX_STEPS):
        if deadline.left() <= seconds:
            reason = "the time limit ended the search"
            break
        start = time.monotonic()
        P, lower, slope, eigenvalues, vectors = _bounds(Z, weights, c)
        if P.diagonal().max() <= 1.0:
            smallest, reached, gap = c, (c, P), _SHRINKAGE * (1.0 - lower)
        if lower > 1.0:
            highest = min(highest, c)
        # The constant at which the lower bound, continued along its tangent, reaches 1.
        reach = min(c + (1.0 - lower) / slope, highest) if slope > 0.0 else highest
        if reach - smallest <= tolerance * smallest or gap < 4.0 * ROUNDING:
            break
        curvature = _curvature(eigenvalues, vectors)
        step = _newton_step(weights, P.diagonal(), curvature, gap / N)
        gain = float((weights * P.diagonal() - 0.5 * curvature @ step) @ step)
        weights = weights * (1.0 + step)
        weights /= weights.sum()
        c = c + (1.0 - gap - lower - gain) / slope if slope > 0.0 else 0.5 * (smallest + highest)
        c = min(max(c, smallest), highest)
        seconds = time.monotonic() - start
    return reason if reached is None else reached


def _bounds(Z: FloatArray, weights: FloatArray, c: float) -> _Bounds:
    r"""Compute :math:`P = w^{-1/2} |w^{1/2} S w^{1/2}| w^{-1/2}` for S = sin(c Z), and what follows from it.

    Among all P for which P +- S are semidefinite, it has the smallest :math:`\sum_i w_i P_{ii}`, which is the nuclear
    norm of :math:`w^{1/2} S w^{1/2}`.
    """
    root = np.sqrt(weights)
    scale = np.outer(root, root)
    S = np.sin(c * Z) * scale
    eigenvalues, vectors = np.linalg.eigh(S)
    # The positive part R suffices, as |S| = 2 R - S; its projection gives the sign in the same way. `positive_part`
    # would decompose S again: the slope and the curvature need the eigenvectors, too.
    start = int(np.searchsorted(eigenvalues, 0.0))
    ups = vectors[:, start:]
    P = 2.0 * ((ups * eigenvalues[start:]) @ ups.T) - S
    # Raise the eigenvalues by more than their rounding, which tiny weights would magnify in P +- S.
    P.flat[:: len(S) + 1] += 8.0 * len(S) * EPS * np.abs(eigenvalues).max()
    P /= scale
    change = Z * np.cos(c * Z) * scale
    slope = 2.0 * float(np.vdot(ups @ ups.T, change)) - float(np.trace(change))
    return _Bounds(0.5 * (P + P.T), float(np.abs(eigenvalues).sum()), slope, eigenvalues, vectors)


def _curvature(eigenvalues: FloatArray, vectors: FloatArray) -> FloatArray:
    r"""Compute minus the second derivative of the lower bound with respect to w, times the weights of row and column.

    It is :math:`4 \sum_{a, b} \kappa_{ab} (v_a \circ v_b)(v_a \circ v_b)^T` over pairs of opposite signs, where
    :math:`\kappa_{ab}` is the harmonic sum :math:`|\lambda_a \lambda_b| / (|\lambda_a| + |\lambda_b|)`. Pairs of equal
    signs contribute nothing, because |.| is linear there. The matrix :math:`\kappa` is close to one of low rank, six to
    eight for any N, so the sum takes as many products of N x N matrices.
    """
    positive, negative = eigenvalues > 0.0, eigenvalues < 0.0
    curvature = np.zeros_like(vectors)
    if not positive.any() or not negative.any():
        return curvature
    a, b = eigenvalues[positive][:, None], -eigenvalues[negative]
    left, values, right = np.linalg.svd(4.0 * a * (b / (a + b)), full_matrices=False)
    ups, downs = vectors[:, positive], vectors[:, negative]
    rank = int(np.count_nonzero(values > SMALL * values[0]))
    for value, x, y in zip(values[:rank], left.T, right, strict=False):
        curvature += ((ups * (value * x)) @ ups.T) * ((downs * y) @ downs.T)
    return curvature


def _newton_step(weights: FloatArray, diagonal: FloatArray, curvature: FloatArray, barrier: float) -> FloatArray:
    """Compute the Newton step, relative to the weights, for f + barrier * sum(log w) at constant sum of w."""
    system = curvature + barrier * np.eye(len(weights))
    ascent, constraint = np.linalg.solve(system, np.stack([weights * diagonal + barrier, weights], axis=1)).T
    step: FloatArray = ascent - constraint * ((weights @ ascent) / (weights @ constraint))
    # No weight falls by more than nine tenths in one step.
    return step / max(1.0, float(np.abs(step).max()) / (1.0 - INNER))
