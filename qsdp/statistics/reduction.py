"""Reduction of all rows to a few rows with the same squared loss."""

from __future__ import annotations

import numpy as np

from qsdp._utils.validation import FloatArray, read_only
from qsdp.activations import PolynomialActivation
from qsdp.blocks import Layout, one_block
from qsdp.forms import FormMap
from qsdp.statistics.basis import Basis
from qsdp.statistics.moments import changed, n_monomials, root

__all__ = ["reduced_blocks", "reduced_rows"]


def reduced_rows(
    basis: Basis, triangle: FloatArray, d: int, activation: PolynomialActivation | None, n_samples: int
) -> tuple[FormMap, FloatArray]:
    """Compute k rows of monomials of d columns, and targets (k, C), with the same squared loss as all rows, from sums.

    They are a pivoted Cholesky factor of the sums with unit diagonal, transformed back to the original columns.
    """
    # Dividing by the scale of the largest column keeps the fourth powers of the others representable.
    unit = int(np.where(basis.centre == 0.0, basis.exponent, np.frexp(basis.centre)[1])[:d].max())
    plain = Basis(np.zeros(len(basis.centre)), np.where(np.arange(len(basis.centre)) < d, unit, 0))
    W = changed(root(triangle), d, *basis.change(plain))
    lifted = activation is not None and activation.lifted
    a, b, c = (1.0, 0.0, 0.0) if activation is None else activation.coefficients
    first, second = np.triu_indices(d + 1)
    kinds = (first == d).astype(int) + (second == d)
    parts = np.array([a, 0.5 * np.ldexp(b, -unit), np.ldexp(c, -2 * unit)])[kinds]
    chosen = np.flatnonzero(second < d + lifted)
    rows = read_only(np.ascontiguousarray(W[:, chosen] * parts[chosen]))
    forms = FormMap(one_block(d + lifted), rows, float(np.ldexp(1.0, 2 * unit)), lifted=lifted, n_samples=n_samples)
    return forms, W[:, n_monomials(d) :]


def reduced_blocks(layout: Layout, triangle: FloatArray, n_samples: int) -> tuple[FormMap, FloatArray]:
    """Compute k rows of packed blocks, and targets (k, C), with the same squared loss as all rows, from sums."""
    W, p = root(triangle), layout.n_entries
    if not len(W):
        # All entries and targets are zero.
        W = np.zeros((1, W.shape[1]))
    rows = read_only(np.ascontiguousarray(W[:, :p]))
    return FormMap(layout, rows, units=read_only(1.0 / layout.prices), n_samples=n_samples), W[:, p:]
