"""Reduction of all rows to a few rows with the same squared loss."""

from __future__ import annotations

import numpy as np

from qsdp._utils.numeric import EPS
from qsdp._utils.validation import FloatArray, read_only
from qsdp.activations import PolynomialActivation
from qsdp.block_layout import Layout, single_block
from qsdp.forms import FormMap
from qsdp.roundoff import SumRounding
from qsdp.statistics.basis import Basis
from qsdp.statistics.moments import CHANGE_ROUNDINGS, PackedSums, Root, changed, n_monomials, root
from qsdp.training_data import QuadraticModel

__all__ = ["reduced_blocks", "reduced_rows"]


def reduced_rows(
    basis: Basis, sums: PackedSums, d: int, activation: PolynomialActivation | None, n_samples: int
) -> QuadraticModel:
    """Compute k rows of monomials of d columns, and targets (k, C), with the same squared loss as all rows, from sums.

    They are a pivoted Cholesky factor of the sums with unit diagonal, transformed back to the original columns.
    """
    # Dividing by the scale of the largest column keeps the fourth powers of the others representable.
    unit = int(np.where(basis.centre == 0.0, basis.exponent, np.frexp(basis.centre)[1])[:d].max())
    plain = Basis(np.zeros(len(basis.centre)), np.where(np.arange(len(basis.centre)) < d, unit, 0))
    sizes, change = sums.sizes(), basis.change(plain)
    pivoted = root(sums.triangle(), sizes)
    W = changed(pivoted.W, d, *change)
    lifted = activation is not None and activation.lifted
    a, b, c = (1.0, 0.0, 0.0) if activation is None else activation.coefficients
    first, second = np.triu_indices(d + 1)
    kinds = (first == d).astype(int) + (second == d)
    parts = np.array([a, 0.5 * np.ldexp(b, -unit), np.ldexp(c, -2 * unit)])[kinds]
    chosen = np.flatnonzero(second < d + lifted)
    rows, target = read_only(np.ascontiguousarray(W[:, chosen] * parts[chosen])), W[:, n_monomials(d) :]
    # Combinations that cancel keep the errors of their terms.
    original = changed(sizes[None], d, *map(np.abs, change))[0]
    form_sizes, target_sizes = original[chosen] * np.abs(parts[chosen]), original[n_monomials(d) :]
    rounding = _rounding(sums, pivoted, sizes, form_sizes, target_sizes, target)
    factor = float(np.ldexp(1.0, 2 * unit))
    data = FormMap(single_block(d + lifted), rows, factor, None, lifted, n_samples, rounding=rounding)
    return QuadraticModel(data, target)


def reduced_blocks(layout: Layout, sums: PackedSums, n_samples: int) -> QuadraticModel:
    """Compute k rows of packed blocks, and targets (k, C), with the same squared loss as all rows, from sums."""
    sizes, p = sums.sizes(), layout.n_entries
    pivoted = root(sums.triangle(), sizes)
    # All entries and targets may be zero.
    W = pivoted.W if len(pivoted.W) else np.zeros((1, len(sizes)))
    rows, target = read_only(np.ascontiguousarray(W[:, :p])), W[:, p:]
    # Squares of small numbers underflow, and their sums then have few digits; larger sizes are valid, too.
    largest = np.abs(rows).max(axis=0)
    norms = np.linalg.norm(rows / np.where(largest > 0.0, largest, 1.0), axis=0) * largest
    form_sizes = np.maximum(
        sizes[:p], np.where(norms > 0.0, norms + 4.0 * np.finfo(np.float64).smallest_subnormal, 0.0)
    )
    rounding = _rounding(sums, pivoted, sizes, form_sizes, sizes[p:], target)
    return QuadraticModel(FormMap.in_blocks(layout, rows, n_samples, rounding), target)


def _rounding(
    sums: PackedSums,
    pivoted: Root,
    sizes: FloatArray,
    form_sizes: FloatArray,
    target_sizes: FloatArray,
    target: FloatArray,
) -> SumRounding:
    """Return the rounding of the sums and of their factor, with sizes of the columns of forms and targets."""
    gamma = sums.rounding + pivoted.rounding + CHANGE_ROUNDINGS * EPS
    pivots = pivoted.order[: len(pivoted.W)]
    table = pivoted.W[:, pivots] / sizes[pivots]
    # In smaller directions, what a combination of columns leaves of a dual vector costs less than its errors.
    small = np.flatnonzero(np.square(table.diagonal()) <= gamma)
    k = int(small[0]) if len(small) else len(pivots)
    norms = np.linalg.norm(target, axis=0)
    with np.errstate(divide="ignore"):
        ratio = np.where(target_sizes > 0.0, target_sizes / np.where(target_sizes > 0.0, norms, 1.0), 1.0).max()
    return SumRounding(gamma, read_only(table[:k, :k].copy()), read_only(form_sizes.copy()), max(1.0, float(ratio)))
