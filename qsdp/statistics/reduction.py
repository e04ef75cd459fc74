"""Reduction of all rows to a few with the same squared loss."""

from __future__ import annotations

import numpy as np

from qsdp._utils.numeric import EPS
from qsdp._utils.validation import FloatArray, read_only
from qsdp.activations import PolynomialActivation
from qsdp.blocks import Layout, one_block
from qsdp.forms import FormMap
from qsdp.gram import FactorRounding, column_norms
from qsdp.statistics.basis import Basis
from qsdp.statistics.moments import PackedSums, changed, n_monomials, root, root_rounding

__all__ = ["reduced_blocks", "reduced_rows"]

#: Allowance, in units of EPS, for the rounding of the changes of centres themselves, at most one for each doubling.
_CHANGES = 64


def reduced_rows(
    basis: Basis, sums: PackedSums, d: int, activation: PolynomialActivation | None, n_samples: int
) -> tuple[FormMap, FloatArray]:
    """Return rows for the forms of d columns, and targets (k, C), from the sums of products of columns in a basis.

    They are a pivoted Cholesky factor of the sums with unit diagonal, transformed back to the original columns.
    """
    # Dividing by the scale of the largest column keeps the fourth powers of the others representable.
    unit = int(np.where(basis.centre == 0.0, basis.exponent, np.frexp(basis.centre)[1])[:d].max())
    plain = Basis(np.zeros(len(basis.centre)), np.where(np.arange(len(basis.centre)) < d, unit, 0))
    factor, change = root(sums.triangle()), basis.change(plain)
    W = changed(factor, d, *change)
    # What the errors of the sums are in the centred and become in the original columns, relative to their norms.
    sizes = sums.sizes()
    centred = _largest_ratio(sizes, column_norms(factor))
    original = _largest_ratio(changed(sizes[None], d, *map(np.abs, change))[0], column_norms(W))
    lifted = activation is not None and activation.lifted
    a, b, c = (1.0, 0.0, 0.0) if activation is None else activation.coefficients
    first, second = np.triu_indices(d + 1)
    kinds = (first == d).astype(int) + (second == d)
    parts = np.array([a, 0.5 * np.ldexp(b, -unit), np.ldexp(c, -2 * unit)])[kinds]
    chosen = np.flatnonzero(second < d + lifted)
    rows, target = read_only(np.ascontiguousarray(W[:, chosen] * parts[chosen])), W[:, n_monomials(d) :]
    gamma = centred * max(centred, original) * (sums.rounding(n_samples) + root_rounding(W) + _CHANGES * EPS)
    return (
        FormMap(
            one_block(d + lifted),
            rows,
            float(np.ldexp(1.0, 2 * unit)),
            lifted=lifted,
            n_samples=n_samples,
            rounding=FactorRounding(gamma, factor),
        ),
        target,
    )


def _largest_ratio(sizes: FloatArray, norms: FloatArray) -> float:
    return float((sizes[norms > 0.0] / norms[norms > 0.0]).max(initial=1.0))


def reduced_blocks(layout: Layout, sums: PackedSums, n_samples: int) -> tuple[FormMap, FloatArray]:
    """Return rows for the packed entries of blocks, and targets (k, C), from the sums of their products."""
    W, p = root(sums.triangle()), layout.n_entries
    if not len(W):
        # All entries and targets are zero.
        W = np.zeros((1, W.shape[1]))
    rows = read_only(np.ascontiguousarray(W[:, :p]))
    rounding = FactorRounding(sums.rounding(n_samples) + root_rounding(W), W.copy())
    units = read_only(1.0 / layout.prices)
    return FormMap(layout, rows, units=units, n_samples=n_samples, rounding=rounding), W[:, p:]
