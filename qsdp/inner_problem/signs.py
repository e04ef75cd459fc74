"""Rounding of a factor to sign vectors: random hyperplanes, then flips of single signs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg

from qsdp._utils.numeric import CANCELLED
from qsdp._utils.parallel import chunks
from qsdp._utils.validation import FloatArray
from qsdp.inner_problem.form import Matrix, is_sparse

__all__ = ["Signs", "round_to_signs"]


class Signs(NamedTuple):
    """Sign vector and its value.

    Attributes
    ----------
    x : ndarray of shape (N,), int8
    value : float
        :math:`x^T B x`.
    """

    x: npt.NDArray[np.int8]
    value: float


def round_to_signs(B: Matrix, Y: FloatArray, n: int, random: np.random.Generator) -> Signs:
    """Find the best of n sign vectors from random hyperplanes after flips, for symmetric B (N, N) and Y (N, p)."""
    best = Signs(np.ones(len(Y), dtype=np.int8), -np.inf)
    # Y is unique only up to a rotation, which differs between processors. Its polar factor turns it into the symmetric
    # root of Y Y'.
    polar, _ = scipy.linalg.polar(Y)
    for part in chunks(n, len(Y)):
        normals = random.standard_normal((part.stop - part.start, len(Y))) @ polar
        X = np.where(normals @ Y.T < 0.0, -1.0, 1.0)
        products = _flip(B, X)
        values = np.einsum("ij,ij->i", X, products)
        k = int(np.argmax(values))
        value = float(X[k] @ (B @ X[k]))
        if value > best.value:
            best = Signs(X[k].astype(np.int8), value)
    return best


def _flip(B: Any, X: FloatArray) -> FloatArray:
    """Improve the rows of X in place by the best single flips until none helps; return X B."""
    products: FloatArray = np.ascontiguousarray((B @ X.T).T)
    diagonal = B.diagonal()
    least = CANCELLED * float(abs(B).sum())
    active = np.arange(len(X))
    while len(active):
        # A quarter of the gain of each flip.
        gains = diagonal - X[active] * products[active]
        flips = np.argmax(gains, axis=1)
        better = gains[np.arange(len(active)), flips] > least
        active, flips = active[better], flips[better]
        rows = B[flips]
        rows = rows.toarray() if is_sparse(rows) else rows
        products[active] -= 2.0 * X[active, flips][:, None] * rows
        X[active, flips] *= -1.0
    return products
