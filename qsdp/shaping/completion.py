"""Search for the largest c such that sin(c Z) is the off-diagonal block of a covariance with diagonal at most one."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.linalg

from qsdp._utils import deadline
from qsdp._utils.numeric import EPS, HALF_DIGITS, ROUNDING
from qsdp._utils.tuning import GAIN, INNER, MOST_STEPS
from qsdp._utils.validation import FloatArray

__all__ = ["largest_constant", "weighted_absolute"]

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
    curvature : ndarray of shape (N, N)
        Minus the second derivative of `lower` with respect to w, times the weights of row and column.
    """

    P: FloatArray
    lower: float
    slope: float
    curvature: FloatArray


def weighted_absolute(S: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Compute :math:`P = w^{-1/2} |w^{1/2} S w^{1/2}| w^{-1/2}` for symmetric S; P +- S are semidefinite.

    Among these, it has the smallest :math:`\sum_i w_i P_{ii}`, the nuclear norm of :math:`w^{1/2} S w^{1/2}`.

    Returns
    -------
    P : ndarray of shape (N, N)
    eigenvalues, vectors : ndarray
        Eigenvalues and eigenvectors of :math:`w^{1/2} S w^{1/2}`.
    """
    root = np.sqrt(weights)
    scale = np.outer(root, root)
    eigenvalues, vectors = scipy.linalg.eigh(S * scale, check_finite=False)
    magnitudes = np.abs(eigenvalues)
    # Raise the eigenvalues by more than their rounding, which tiny weights would magnify in P +- S.
    magnitudes += 8.0 * len(S) * EPS * magnitudes.max()
    P = (vectors * magnitudes) @ vectors.T / scale
    return 0.5 * (P + P.T), eigenvalues, vectors


def largest_constant(Z: FloatArray, least: float, tolerance: float) -> tuple[float, FloatArray] | None:
    r"""Find the largest c >= `least` for which sin(c Z) has a completion, and the completion.

    A time limit is checked before each step; after it, the largest constant so far is returned.

    Parameters
    ----------
    Z : ndarray of shape (N, N)
        Symmetric, its entries in [-1, 1].
    least : float
        A constant known to be feasible, at most pi / 2.
    tolerance : float
        Relative accuracy of c, from below.

    Returns
    -------
    c : float
        At most :math:`\pi / (2 \max |Z|)`, so that arcsin(sin(c Z)) is c Z.
    P : ndarray of shape (N, N)
        P +- sin(c Z) are positive semidefinite, and no diagonal entry is larger than 1. None is returned instead of
        both if Z is zero or the search failed.

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
        highest = float((1.0 - GAIN) * 0.5 * math.pi / np.abs(Z).max())
    if not math.isfinite(highest):
        return None
    weights, gap, c, found = np.full(N, 1.0 / N), INNER, least, None
    for _ in deadline.in_time(range(MOST_STEPS)):
        P, lower, slope, curvature = _bounds(Z, weights, c)
        if P.diagonal().max() <= 1.0:
            least, found, gap = c, (c, P), _SHRINKAGE * (1.0 - lower)
        if lower > 1.0:
            highest = min(highest, c)
        # The constant at which the lower bound, continued along its tangent, reaches 1.
        reach = min(c + (1.0 - lower) / slope, highest) if slope > 0.0 else highest
        if reach - least <= tolerance * least or gap < 4.0 * ROUNDING:
            break
        step = _newton_step(weights, P.diagonal(), curvature, gap / N)
        gain = float((weights * P.diagonal() - 0.5 * curvature @ step) @ step)
        weights = weights * (1.0 + step)
        weights /= weights.sum()
        c = c + (1.0 - gap - lower - gain) / slope if slope > 0.0 else 0.5 * (least + highest)
        c = min(max(c, least), highest)
    return found


def _bounds(Z: FloatArray, weights: FloatArray, c: float) -> _Bounds:
    root = np.sqrt(weights)
    P, eigenvalues, vectors = weighted_absolute(np.sin(c * Z), weights)
    sign = (vectors * np.sign(eigenvalues)) @ vectors.T
    slope = float(np.vdot(sign, Z * np.cos(c * Z) * np.outer(root, root)))
    return _Bounds(P, float(np.abs(eigenvalues).sum()), slope, _curvature(eigenvalues, vectors))


def _curvature(eigenvalues: FloatArray, vectors: FloatArray) -> FloatArray:
    r"""Compute :math:`4 \sum_{a, b} \kappa_{ab} (v_a \circ v_b)(v_a \circ v_b)^T` over pairs of opposite signs.

    :math:`\kappa_{ab}` is the harmonic sum :math:`|\lambda_a \lambda_b| / (|\lambda_a| + |\lambda_b|)`. Pairs of equal
    signs contribute nothing, because |.| is linear there. The matrix :math:`\kappa` has a numerical rank of about 20
    for any N, so the sum takes as many products of N x N matrices.
    """
    positive, negative = eigenvalues > 0.0, eigenvalues < 0.0
    curvature = np.zeros_like(vectors)
    if not positive.any() or not negative.any():
        return curvature
    a, b = eigenvalues[positive][:, None], -eigenvalues[negative]
    left, values, right = scipy.linalg.svd(4.0 * a * (b / (a + b)), full_matrices=False, check_finite=False)
    ups, downs = vectors[:, positive], vectors[:, negative]
    for value, x, y in zip(values, left.T, right, strict=True):
        if value > HALF_DIGITS * values[0]:
            curvature += ((ups * (value * x)) @ ups.T) * ((downs * y) @ downs.T)
    return curvature


def _newton_step(weights: FloatArray, diagonal: FloatArray, curvature: FloatArray, barrier: float) -> FloatArray:
    """Compute the Newton step, relative to the weights, for f + barrier * sum(log w) at constant sum of w."""
    system = curvature + barrier * np.eye(len(weights))
    ascent, constraint = np.linalg.solve(system, np.stack([weights * diagonal + barrier, weights], axis=1)).T
    step: FloatArray = ascent - constraint * ((weights @ ascent) / (weights @ constraint))
    # No weight falls by more than nine tenths in one step.
    return step / max(1.0, float(np.abs(step).max()) / (1.0 - INNER))
