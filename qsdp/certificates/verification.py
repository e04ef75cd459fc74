"""The lower bound that a dual vector and bounds on its pricing values prove, for any rounding; see `qsdp.roundoff`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from qsdp._utils.numeric import ROUNDING, SAFE
from qsdp._utils.validation import FloatArray
from qsdp.certificates.proof import check_tree, tree_bound
from qsdp.data_map import COLUMNS, SAMPLES
from qsdp.forms import FormMap
from qsdp.lifting import QuadraticMap
from qsdp.losses import DataFit
from qsdp.pricing import BoundTree
from qsdp.problem import TrainingProblem
from qsdp.relaxation.bounds import best_scale, entry_size, pricing_roundings
from qsdp.relaxation.instance import Instance
from qsdp.roundoff import ATTEMPTS, PackedRows, ScaledRows

__all__ = ["proven_bound"]

#: Unit of the smallest dual vectors; scaled to one, they keep the penalty clear of overflow and underflow.
_SMALLEST = 2.0**-450

#: Smallest penalty next to which products that underflow vanish, for data up to 1e100.
_CLEAR = 2.0**-300


def proven_bound(
    problem: TrainingProblem,
    nu: FloatArray,
    trees: Sequence[BoundTree],
    uppers: Sequence[float | None] | None = None,
) -> tuple[float, FloatArray, FloatArray]:
    r"""Compute the best lower bound on :math:`p_b^*` that multiples of a dual vector prove, at least 0.

    Parameters
    ----------
    problem : TrainingProblem
        Its data are taken as exact; sums that stand for samples have a stated rounding.
    nu : ndarray of shape (n, C)
        Dual vector. It is projected onto the domain of the conjugate.
    trees : sequence of BoundTree
        Trees that bound :math:`\max_{u,v} |u^T M_\nu v|`, as in a `Proof`.
    uppers : sequence of float or None, optional
        Bounds of the trees, where an oracle has just proven them for the same matrices in floats.

    Returns
    -------
    bound : float
    nu : ndarray of shape (n, C)
        The dual vector, projected onto the domain of the conjugate.
    scales : ndarray of shape (C,)
        Its multiples that prove the bound, one per output if the loss is a sum over outputs.
    """
    for tree in trees:
        check_tree(tree, problem.size)
    fit = problem.data_fit
    # Overflow proves nothing, and shows as infinity or NaN.
    with np.errstate(all="ignore"):
        inside = fit.admissible(nu)
        relative = _relative_uppers(problem, inside, np.abs(inside - nu), trees, uppers)
        fits = fit.parts
        columns = (np.split(array, len(fits), axis=-1) for array in (inside, relative))
        parts = [
            _best(problem, part, np.ascontiguousarray(nu), float(own.max()))
            for part, nu, own in zip(fits, *columns, strict=True)
        ]
    values, scales = zip(*parts, strict=True)
    # A single number needs no sum, which would be rounded.
    total = values[0] if len(values) == 1 else math.nextafter(math.fsum(values), -math.inf)
    return max(0.0, total), inside, np.repeat(scales, len(relative) // len(fits))


def _best(problem: TrainingProblem, fit: DataFit, nu: FloatArray, upper: float) -> tuple[float, float]:
    """Compute the best proven dual value of feasible multiples of `nu`, at least 0, and the multiple.

    No pricing value of `nu` exceeds the penalty times `upper`. If that is at most one, `nu` itself is feasible.
    """
    largest = SAFE / upper if upper > 0.0 else math.inf
    scale = best_scale(fit, nu, max(1.0, largest) if upper <= 1.0 else largest)
    for _ in range(ATTEMPTS):
        if SAMPLES in problem.map.offers:
            value = fit.verified_dual_value(scale * nu)
        else:
            # What sums leave out is known to a few digits only, so a larger allowance costs nothing.
            value = fit.guarded_dual_value(scale * nu) - problem.map.value_loss(scale * nu, fit.target)
        if value > -math.inf:
            break
        # Rounding moved a boundary point out of the domain, which is convex and contains zero.
        scale *= SAFE
    return (value, scale) if value > 0.0 else (0.0, 0.0)


def _relative_uppers(
    problem: TrainingProblem,
    nu: FloatArray,
    moved: FloatArray,
    trees: Sequence[BoundTree],
    known: Sequence[float | None] | None,
) -> FloatArray:
    r"""Bound :math:`\tau_k / (\beta D)` from above for each output, also for rounded multiples of the dual vector.

    A known bound is that of a matrix in floats, of a dual vector from which `nu` was moved, by the rounding of numbers
    that may be large. As the tree is of the other matrix, its bound grows by up to the side of its shifts times half of
    the sum of the changes of entries. If that is more than rounding, a tree of one leaf is evaluated again.
    """
    instance, R = Instance.of(problem), problem.map.n_blocks
    radius = math.nextafter(SAFE * problem.beta * problem.dimension, 0.0)
    changes = (problem.size + 1.0) * entry_size(problem.map, moved)
    settled = [
        upper is not None and radius > _CLEAR and (len(tree.leaves) > 1 or change <= ROUNDING * upper)
        for tree, upper, change in zip(trees, known or [None] * len(trees), changes.tolist(), strict=True)
    ]
    # Both the matrix in floats and that of a check differ from the exact one.
    roundings = changes + 2.0 * pricing_roundings(instance, nu) if any(settled) else changes
    matrices, uppers = _Matrices(problem, nu), []
    for k in range(nu.shape[1]):
        own = slice(k * R, (k + 1) * R)
        if known is not None and all(settled[own]):
            totals = (np.array(known[own], dtype=np.float64) + roundings[own]) / SAFE / radius
        else:
            totals = np.array(matrices.relative(k, trees[own], radius))
        # Unlike `max`, this is NaN if any of them is.
        uppers.append(np.max(totals))
    return np.nan_to_num(np.array(uppers), nan=math.inf)


class _Matrices:
    """Matrices of dual vectors with bounds on their errors."""

    def __init__(self, problem: TrainingProblem, nu: FloatArray) -> None:
        data = problem.map
        self._nu, self._losses = nu, data.pricing_losses(nu)
        self._defects = problem.data_fit.row_defects(nu)
        self._rows: ScaledRows | PackedRows | None
        if COLUMNS in data.offers:
            X, columns = problem.X, cast(QuadraticMap, data)
            self._rows = ScaledRows.of(X, problem.levels, columns.coefficients, columns.lifted, _exponent(X))
        else:
            forms = cast(FormMap, data)
            self._rows = PackedRows(data.layout, forms.rows, math.frexp(data.largest_stored)[1], forms.scales)

    def relative(self, k: int, trees: Sequence[BoundTree], radius: float) -> list[float]:
        """Bound the pricing values of an output relative to the dual radius, by trees for its blocks."""
        column = self._nu[:, k]
        unit = _exponent(column)
        if not np.any(column):
            return [0.0]
        room = math.nextafter(float(np.ldexp(radius, -unit)), 0.0)
        if self._rows is None or math.ldexp(1.0, unit) < _SMALLEST or not room > 0.0:
            return [math.inf]
        matrices = self._rows.matrices(np.ldexp(column, -unit), np.ldexp(self._defects, -unit))
        losses = np.ldexp(self._losses[k * len(trees) : (k + 1) * len(trees)], -unit).tolist()
        # Errors count twice, so that a check that recomputes the matrix and allows for its rounding agrees.
        return [
            (max(0.0, tree_bound(M, tree, unit)) + 2.0 * (r + loss)) / SAFE / room
            for (M, r), tree, loss in zip(matrices, trees, losses, strict=True)
        ]


def _exponent(array: FloatArray) -> int:
    return math.frexp(float(np.abs(array).max()))[1]
