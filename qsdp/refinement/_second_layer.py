"""Second-layer steps of the coordinate descent: one magnitude per output, or free weights; real weights of columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.numeric import EPS, HALF_DIGITS, ROUNDING
from qsdp._utils.parallel import LARGE_FLOATS
from qsdp._utils.tuning import MAX_STEPS, PATIENCE, SMALL
from qsdp._utils.validation import FloatArray
from qsdp.column_generation.restricted import is_solvable, solve_restricted
from qsdp.refinement._descent import LARGEST_BATCH, CoordinateDescent
from qsdp.refinement._models import block_minimum, cross_curvatures, sampled_curvature

__all__ = [
    "adjust_columns",
    "alternate",
    "random_sides",
    "rescale",
    "rescale_to_optimum",
    "resolve",
    "revive",
    "reweight",
]

#: Factor on the diagonal of the curvature in the model of a batch, since neurons may be nearly linearly dependent.
_STIFFER = 1.05

#: Minimum penalty, which keeps weights bounded for a tiny beta, relative to the smallest that makes zero optimal.
_SMALLEST_PENALTY = 1e-7

#: Maximum number of multiplications per iteration of the convex problem.
_WORK = 2e9


def rescale(descent: CoordinateDescent, shrinkage: float = SMALL) -> None:
    """Optimise the shared magnitude of each output; an optimum of zero, where polishing would get stuck, is replaced.

    The magnitude becomes the fraction `shrinkage` of what it was.
    """
    counts = (descent.prices * np.abs(descent.alpha)).sum(axis=0)
    # If neurons cancel, their sum is a rounding error, not a direction, even if a multiple of it lowered the loss.
    rounding = EPS * counts * descent.data.largest_image
    f, alpha, parts = descent.f.copy(), descent.alpha.copy(), descent.fit.parts
    # What neurons contribute: real weights do not move.
    of_neurons = f
    if len(descent.weights):
        of_neurons = descent.predictions(alpha, np.zeros_like(descent.weights))
    for k in np.flatnonzero(np.abs(of_neurons).max(axis=0) > rounding):
        # Outputs that do not interact are separate problems of one column.
        fit, columns = (parts[k], [k]) if len(parts) == len(counts) else (parts[0], np.arange(len(counts)))
        now = f[:, columns]
        direction = np.where(np.equal(columns, k), of_neurons[:, columns], 0.0)
        base, price = now - direction, descent.penalty * float(counts[k])
        t = fit.line_minimum(base, direction, price) or shrinkage
        moved, scaled = base + t * direction, t * alpha[:, k]
        # Skip a product that underflows or a step within rounding.
        falls = fit.value(moved) + price * (abs(t) - 1.0) < fit.value(now)
        if falls and np.array_equal(scaled != 0.0, alpha[:, k] != 0.0):
            f[:, columns], alpha[:, k] = moved, scaled
    if not np.array_equal(alpha, descent.alpha):
        descent.alpha = alpha
        descent.accept(f, descent.fit.value(f))


def reweight(descent: CoordinateDescent) -> None:
    r"""Improve free second-layer weights by proximal Newton steps, one neuron after the other.

    A step minimises the quadratic model of the loss plus :math:`\beta D \|\alpha_j\|_1`, and is shortened until the
    objective itself falls. On large data all neurons of a batch step together.
    """
    typical = float(np.mean(np.abs(descent.alpha))) if len(descent.alpha) else 0.0
    for rows in descent.batches():
        images = descent.images(rows).T
        eye = np.eye(descent.alpha.shape[1])
        scale = typical * float(np.sqrt(descent.data.mean(np.square(images))))
        curvature = sampled_curvature(descent.fit, descent.f, eye, scale)
        if descent.data.large:
            cross = cross_curvatures(images, curvature, descent.data.dtype)
            np.einsum("cjj->cj", cross)[:] *= _STIFFER
            _step(descent, descent.alpha, descent.prices, rows, images, cross, typical)
            continue
        curvatures = (np.square(images) @ curvature.T)[:, :, None, None]
        for j, cross in enumerate(deadline.in_time(curvatures)):
            k = rows.start + j
            _step(descent, descent.alpha, descent.prices, slice(k, k + 1), images[j : j + 1], cross, typical)


def adjust_columns(descent: CoordinateDescent) -> None:
    """Improve the real weights of columns by proximal Newton steps of batches, until they hardly help."""
    weights, fit = descent.weights, descent.fit
    limited = not (fit.quadratic or fit.loss.has_curvature)
    for _ in range(PATIENCE if len(weights) else 0):
        before = descent.objective
        slopes = descent.data.map.sums(descent.gradient)[descent.data.map.layout.weight_entries]
        active = np.any((weights != 0.0) | (np.abs(slopes) > descent.penalty * descent.column_prices), axis=1)
        some = np.flatnonzero(active)
        typical = float(np.abs(weights[some]).mean()) if len(some) else 0.0
        for start in deadline.in_time(range(0, len(some), LARGEST_BATCH)):
            rows = some[start : start + LARGEST_BATCH]
            images = descent.data.columns(rows)
            scale = typical * float(np.sqrt(descent.data.mean(np.square(images))))
            curvature = sampled_curvature(fit, descent.f, np.eye(weights.shape[1]), scale)
            cross = cross_curvatures(images, curvature)
            np.einsum("cjj->cj", cross)[:] *= 1.0 + ROUNDING if fit.quadratic else _STIFFER
            limit = typical if limited else None
            _step(descent, weights, descent.column_prices, rows, images, cross, limit)
        if not before - descent.objective > ROUNDING * abs(before):
            break


def rescale_to_optimum(descent: CoordinateDescent) -> None:
    """Optimise the magnitudes and the real weights of columns in turns until neither helps."""
    rescale(descent, EPS)
    for _ in range(MAX_STEPS if len(descent.weights) else 0):
        before = descent.objective
        adjust_columns(descent)
        rescale(descent, EPS)
        if not before - descent.objective > ROUNDING * abs(before) or deadline.over():
            break


def _step(
    descent: CoordinateDescent,
    layer: FloatArray,
    prices: FloatArray,
    rows: slice | npt.NDArray[np.intp],
    images: FloatArray,
    cross: FloatArray,
    typical: float | None,
) -> None:
    """Move rows of a layer of weights to the minimum of one quadratic model, with curvatures `cross` (C, B, B).

    The step is limited by typical weights, unless there is None.
    """
    alpha, slopes = layer[rows], images @ descent.gradient
    penalties = descent.penalty * prices[rows]
    diagonals = np.einsum("cjj->jc", cross)
    if typical is not None:
        # Far from every kink a piecewise linear loss has no curvature, so limit the step to a few typical weights.
        reach = 4.0 * np.maximum(np.abs(alpha), typical if typical > 0.0 else 1.0)
        np.maximum(diagonals, (np.abs(slopes) + penalties) / reach, out=diagonals)
    if np.all(diagonals > 0.0):
        _take(descent, layer, prices, rows, images, block_minimum(slopes, cross, alpha, penalties))


def _take(
    descent: CoordinateDescent,
    layer: FloatArray,
    prices: FloatArray,
    rows: slice | npt.NDArray[np.intp],
    images: FloatArray,
    step: FloatArray,
) -> None:
    """Take a step of weights with backtracking; no step if the objective does not decrease."""
    alpha = layer[rows]
    for _ in range(4):
        f = descent.f + images.T @ step
        value = descent.fit.value(f)
        penalty = descent.penalty * float(np.sum(prices[rows] * (np.abs(alpha + step) - np.abs(alpha))))
        if descent.value - value - penalty > descent.tolerance:
            layer[rows] = alpha + step
            descent.accept(f, value)
            return
        step = 0.25 * step


def revive(descent: CoordinateDescent, rng: np.random.Generator) -> None:
    r"""Turn neurons without second-layer weight towards the steepest descent.

    They change no prediction, so their bits are free. Alternating :math:`u = \mathrm{sign}(M_\nu v)` and
    :math:`v = \mathrm{sign}(M_\nu u)` raises :math:`u^T M_\nu v`, where :math:`\nu` is minus the loss gradient.
    """
    dead = np.flatnonzero(~np.any(descent.alpha, axis=1))
    if not len(dead):
        return
    gradient = descent.gradient
    outputs = dead % gradient.shape[1]
    for k in np.unique(outputs):
        N = len(descent.largest)
        matrices = descent.data.adjoint(-gradient[:, k]).reshape(-1, N, N)
        for r in np.unique(descent.block[dead[outputs == k]]):
            rows = dead[(outputs == k) & (descent.block[dead] == r)]
            U, V = alternate(matrices[r], descent.largest, random_sides(rng, len(rows), descent.largest))
            fixed, alone = descent.fixed(descent.U[rows]), descent.fixed(descent.V[rows])
            # In a linear block, whose matrix is diagonal, the products of the signs are those of u.
            descent.U[rows] = np.where(fixed, 0, np.where(alone, U * V, U))
            descent.V[rows] = np.where(alone, 0, V)


def random_sides(rng: np.random.Generator, count: int, largest: np.ndarray) -> FloatArray:
    """Draw sides of neurons (count, N) with random signs and largest magnitudes."""
    sides: FloatArray = rng.choice([-1.0, 1.0], size=(count, len(largest))) * largest
    return sides


def alternate(M: FloatArray, largest: np.ndarray, V: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Maximise u'Mv by sign alternation from V (count, N); return U and V with u'Mv >= 0."""
    U = V
    for _ in range(PATIENCE):
        U = np.where(V @ M < 0.0, -1.0, 1.0) * largest
        following: FloatArray = np.where(U @ M < 0.0, -1.0, 1.0) * largest
        if np.array_equal(following, V):
            break
        V = following
    return U, V


def resolve(descent: CoordinateDescent) -> bool:
    """Solve the convex problem of a free second layer and real weights; return whether the objective fell.

    It is not solved if it is too large.
    """
    fit, (m, outputs), p = descent.fit, descent.alpha.shape, len(descent.weights)
    together = outputs // len(fit.parts)
    n, k = len(descent.f), 2 * (m + p) * together
    if n * k > LARGE_FLOATS or n * k * min(n, k) > _WORK or deadline.over() or not is_solvable(fit.loss):
        return False
    images, prices = descent.images(), descent.prices[:, 0]
    if p:
        images = np.hstack([images, descent.data.columns(np.arange(p)).T])
        prices = np.concatenate([prices, descent.column_prices[:, 0]])
    columns = np.hstack([images, -images])
    # With hardly a penalty, weights of neurons that cancel are unbounded.
    slope = fit.gradient(np.zeros_like(fit.target))
    smallest = _SMALLEST_PENALTY * float(np.abs(images.T @ slope).max(initial=0.0))
    smallest = max(smallest, float(np.finfo(np.float64).tiny))
    penalties = np.tile(np.maximum(descent.penalty * prices, smallest), 2)
    which = np.repeat(np.arange(together), columns.shape[1]) if together > 1 else None
    columns, penalties = np.tile(columns, together), np.tile(penalties, together)
    solved = [solve_restricted(columns, part, penalties, outputs=which).weights for part in fit.parts]
    weights = np.concatenate(solved).reshape(outputs, 2, m + p)
    alpha, real = np.split((weights[:, 0] - weights[:, 1]).T, [m])
    # Weights of interior points are hardly ever zero.
    real = np.where(np.abs(real) > HALF_DIGITS * np.abs(real).max(initial=0.0), real, 0.0)
    # The images may be in single precision, whose errors would count as a fall in every other sweep.
    f = descent.predictions(alpha, real)
    value = fit.value(f)
    objective = value + descent.cost(alpha, real)
    if not descent.objective - objective > ROUNDING * abs(descent.objective):
        return False
    descent.alpha, descent.weights = alpha, real
    descent.accept(f, value)
    return True
