"""Restricted problem of smooth losses, which are linearised in every step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.numeric import EPS
from qsdp._utils.validation import FloatArray
from qsdp.column_generation.restricted._best import Best, RestrictedSolution
from qsdp.column_generation.restricted._linear import MAX_ITERATIONS, TO_BOUNDARY, cholesky, reach_of
from qsdp.losses import Curvature, DataFit

__all__ = ["curvature_matrix", "sampling_chances", "solve_smooth"]

#: Maximum number of steps along the central path if the primal-dual method fails, that is, if its gap exceeds this.
_PATH_STEPS, _ACCURATE = 200, 1e-9


def solve_smooth(
    F: FloatArray,
    fit: DataFit,
    penalties: FloatArray,
    outputs: npt.NDArray[np.intp] | None,
    tol: float,
) -> RestrictedSolution:
    k = F.shape[1]
    best = Best(F, fit, penalties, outputs)
    row = float(np.abs(F).sum(axis=1).mean()) or 1.0
    a = np.full(k, 1.0 / row)
    slope = penalties + best.correlations(fit.gradient(best.predict(a)))
    # Small values would reach the boundary at once where the first slopes are negative.
    s = np.maximum(slope, max(float(np.abs(slope).max()), float(penalties.max())))
    for iteration in range(MAX_ITERATIONS):
        prediction = best.predict(a)
        gradient = fit.gradient(prediction)
        mu = float(a @ s) / k
        if best.update(a, -gradient, iteration, mu) <= tol or best.stalled or deadline.over():
            break
        slope = penalties + best.correlations(gradient)
        solve = _newton_system(F, fit.curvature(prediction), outputs, s / a)
        if solve is None:
            break
        # Complementarity means little while s differs from the slope, because the curvature changes on the way.
        away = mu + float(np.abs(a * (slope - s)).sum()) / k
        da = solve(-slope)
        ds = -s - s / a * da
        reach = min(1.0, reach_of(a, da), reach_of(s, ds))
        sigma = max((1.0 - reach) ** 3, 1e-3)
        # If the step is short, the corrector would correct for a change that does not occur.
        centre = sigma * away - (da * ds if reach > 0.5 else 0.0)
        da = solve(-slope + centre / a)
        ds = (centre - s * da) / a - s
        if not (np.all(np.isfinite(da)) and np.all(np.isfinite(ds))):
            break
        reach = TO_BOUNDARY * min(reach_of(a, da), reach_of(s, ds))
        length = _backtrack(best, a, s, da, ds, min(1.0, reach), sigma * away)
        a, s = a + length * da, s + length * ds
    if best.relative_gap > max(10.0 * tol, _ACCURATE):
        _follow_path(best, tol)
    return best.solution()


def _follow_path(best: Best, tol: float) -> None:
    r"""Continue by Newton's method on :math:`f(a) - \mu \sum_j \log a_j` where the primal-dual method cycles.

    This is slower, but every step lowers a convex function, so it cannot cycle.
    """
    k = len(best.weights)
    penalty = float(best.penalties.sum())
    # Penalties may be negligible compared with the loss, and be zero in its units.
    unit = best.objective / penalty if penalty > EPS * best.objective else max(float(best.weights.max()), 1.0)
    a = np.maximum(best.weights, 1e-6 * unit)
    mu = max(best.objective - best.bound, tol * best.objective) / k
    for iteration in range(_PATH_STEPS):
        prediction = best.predict(a)
        gradient = best.fit.gradient(prediction)
        if best.update(a, -gradient, iteration, mu) <= tol or deadline.over():
            return
        slope = best.penalties + best.correlations(gradient) - mu / a
        solve = _newton_system(best.F, best.fit.curvature(prediction), best.outputs, mu / a**2)
        if solve is None:
            return
        da = solve(-slope)
        decrement = -float(slope @ da)
        if not decrement > 0.0:
            return
        a = a + _descent(best, a, da, mu, decrement) * da
        if decrement <= 0.1 * mu:
            mu *= 0.1


def _descent(best: Best, a: FloatArray, da: FloatArray, mu: float, decrement: float) -> float:
    """Find a step length that satisfies the Armijo condition for the barrier function."""

    def barrier(a: FloatArray) -> float:
        loss = best.fit.value(best.predict(a))
        return loss + float(best.penalties @ a) - mu * float(np.log(a).sum())

    length = min(1.0, TO_BOUNDARY * reach_of(a, da))
    before = barrier(a)
    for _ in range(40):
        if barrier(a + length * da) <= before - 1e-4 * length * decrement:
            break
        length *= 0.5
    return length


def _backtrack(
    best: Best, a: FloatArray, s: FloatArray, da: FloatArray, ds: FloatArray, length: float, mu: float
) -> float:
    """Halve the step until the residual of the central path's conditions does not grow much."""

    def residual(a: FloatArray, s: FloatArray) -> float:
        gradient = best.fit.gradient(best.predict(a))
        stationarity = best.penalties + best.correlations(gradient) - s
        return float(np.linalg.norm(stationarity)) + float(np.linalg.norm(a * s - mu)) / (float(a.mean()) or 1.0)

    before = residual(a, s)
    for _ in range(6):
        if residual(a + length * da, s + length * ds) <= 2.0 * before:
            break
        length *= 0.5
    return length


def _newton_system(
    F: FloatArray, curvature: Curvature, outputs: npt.NDArray[np.intp] | None, E: FloatArray
) -> Callable[[FloatArray], FloatArray] | None:
    """Factor ``Diag(E) + F' W F`` with the curvature W of the loss; return a solver of systems."""
    n, k = F.shape
    if outputs is not None or k <= n:
        H = curvature_matrix(F, curvature, outputs)
        H[np.diag_indices(k)] += E
        return cholesky(H)
    G = F * np.sqrt(curvature.diagonal)
    root = G / np.sqrt(E)
    small = root @ root.T
    small[np.diag_indices(n)] += 1.0
    inner = cholesky(small)
    if inner is None:
        return None

    def solve(b: FloatArray) -> FloatArray:
        x = np.zeros_like(b)
        for _ in range(2):
            r = b - E * x - G.T @ (G @ x)
            x = x + (r - G.T @ inner(G @ (r / E))) / E
        return x

    return solve


def curvature_matrix(F: FloatArray, curvature: Curvature, outputs: npt.NDArray[np.intp] | None) -> FloatArray:
    """Compute F' W F with the curvature W of the loss, for columns F that feed `outputs`, or a single output."""
    if outputs is None:
        G = F * np.sqrt(curvature.diagonal)
        return G.T @ G
    H = np.zeros((len(outputs),) * 2)
    if curvature.coupling is not None:
        products = F * curvature.coupling[:, outputs]
        H -= products.T @ products
    for output, diagonal in enumerate(curvature.diagonal.T):
        mine = np.flatnonzero(outputs == output)
        H[np.ix_(mine, mine)] += F[:, mine].T @ (diagonal[:, None] * F[:, mine])
    return H


def sampling_chances(sizes: FloatArray, count: int) -> FloatArray:
    """Return the chances with which to draw about `count` samples in proportion to their sizes, at most one each."""
    if count >= len(sizes):
        return np.ones(len(sizes))
    # Samples of size zero keep a small chance, so that rounding of sizes cannot exclude any.
    shares = sizes + 1e-3 * (sizes.mean() or 1.0)
    ordered = np.sort(shares)[::-1]
    # With the k largest drawn for certain, the others share the remaining chances.
    rest = np.cumsum(ordered[::-1])[::-1]
    certain = int(np.argmax(ordered * (count - np.arange(len(ordered))) <= rest))
    chances: FloatArray = np.minimum(1.0, shares * ((count - certain) / rest[certain]))
    return chances
