"""Repair the output of any solver to a feasible point of the relaxation."""

from __future__ import annotations

import numpy as np

from qsdp._utils.numeric import EPS
from qsdp._utils.symmetric import diagonal_of, lower_factor, positive_part, symmetric_part
from qsdp._utils.tuning import MODERATE
from qsdp._utils.validation import FloatArray
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.scaled import RawSolution
from qsdp.relaxation.spectra import decomposed

__all__ = ["along_gradient", "repair"]


def repair(instance: Instance, raw: RawSolution, *, stretch: bool = True) -> tuple[FloatArray, ...]:
    r"""Repair a solver's blocks to a feasible point ``(Z, V, rho, weights)`` of the relaxation.

    Z is averaged with its transpose and V with W; the data matrices are symmetric, so predictions stay the same and
    nothing grows. ``rho`` is set to the largest diagonal entry of V, with its rounding, and the diagonal is padded to
    it. Where triangular factors show that this is not enough, the negative eigenvalues of ``V + Z`` and ``V - Z`` are
    clipped before. Unless `stretch` is False, everything is rescaled by the non-negative factor that minimises the
    objective along the ray. Blocks that are missing, of another shape or not finite give the zero point. Z and V, of
    shape (K, N, N), are symmetric, and every ``[[V, Z], [Z, V]]`` is positive semidefinite with constant diagonal
    `rho`, of shape (K,). Real weights, of shape (C, p), are feasible as they are.
    """
    shape = (instance.n_matrices, instance.size, instance.size)
    Z_even, V_even, rho, weights = np.zeros(shape), np.zeros(shape), np.zeros(instance.n_matrices), instance.no_weights
    Z, V, W = raw.Z, raw.V, raw.W
    if Z is None or V is None or W is None:
        return Z_even, V_even, rho, weights
    matrices = (Z, V) if W is V else (Z, V, W)
    real = weights if raw.weights is None else raw.weights
    if not all(np.shape(M) == shape and np.isfinite(M).all() for M in matrices) or real.shape != weights.shape:
        return Z_even, V_even, rho, weights
    if np.isfinite(real).all():
        weights = real
    for k in range(instance.n_matrices):
        if Z[k].any():
            pair = symmetric_part(Z[k]), symmetric_part(0.5 * (V[k] + W[k]))
            Z_even[k], V_even[k], rho[k] = _padded_block(*pair) or _clipped_block(*pair)
    if not stretch or not ((rho > 0.0).any() or weights.any()):
        return Z_even, V_even, rho, weights
    cost = instance.cost(rho, weights)
    scale = _best_stretch(instance, instance.predictions(Z_even, weights), cost)
    Z_even *= scale
    V_even *= scale
    return Z_even, V_even, scale * rho, scale * weights


def along_gradient(instance: Instance) -> RawSolution:
    r"""Compute the best point along minus the gradient at zero.

    The point is Z = s M and V = s |M| for :math:`M = \sum_i \nu_i \mathcal{X}_i`, with real weights s m.
    """
    nu = instance.zero_dual
    M, weights = instance.map.pull(nu)
    V = np.zeros_like(M)
    for k, (matrix, dual) in enumerate(zip(M, instance.duals_of_matrices(nu), strict=True)):
        values, vectors = decomposed(instance.map, matrix, dual, np.ones(instance.size))
        V[k] = (vectors * np.abs(values)) @ vectors.T
    cost = instance.cost(V.diagonal(0, 1, 2).max(axis=1, initial=0.0), 2.0 * weights)
    scale = _best_stretch(instance, instance.predictions(M, 2.0 * weights), cost)
    return RawSolution(scale * M, scale * V, scale * V, weights=2.0 * scale * weights)


def _clipped_block(Z: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    A, B = (positive_part(M) for M in (V + Z, V - Z))
    V = 0.5 * (A + B)
    rho = float(V.diagonal().max())
    np.fill_diagonal(V, rho)
    return 0.5 * (A - B), V, rho


def _padded_block(Z: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray, float] | None:
    """Pad the diagonal of a block; return None if an eigenvalue is negative beyond rounding."""
    V = V.copy()
    diagonal = diagonal_of(V)
    rho = (1.0 + 2.0 * len(V) * EPS) * float(diagonal.max())
    diagonal[...] = rho
    try:
        for M in (V + Z, V - Z):
            lower_factor(M, overwrite=True)
    except np.linalg.LinAlgError:
        return None
    return Z, V, rho


def _best_stretch(instance: Instance, prediction: FloatArray, cost: float) -> float:
    r"""Minimise :math:`\ell(s \hat y, y) + s\,\mathrm{cost}` over s >= 0."""
    if instance.fit.quadratic:
        weighted = instance.fit.weighted(prediction)
        size = float(np.vdot(weighted, prediction))
        best = (float(np.vdot(weighted, instance.fit.target)) - 0.5 * cost) / size if size else 0.0
        return min(max(0.0, best), MODERATE)

    best = instance.fit.line_minimum(np.zeros_like(prediction), prediction, cost)
    trials = (0.0, 1.0, min(max(0.0, best), MODERATE))
    return min(trials, key=lambda s: instance.fit.value(s * prediction) + s * cost)
