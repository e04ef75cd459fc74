r"""Batched pricing of many small matrices by enumeration, and of diagonal ones in closed form."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from qsdp._utils.parallel import chunks
from qsdp._utils.tuning import FEW_SIGNS
from qsdp._utils.validation import FloatArray
from qsdp.block_layout import Layout
from qsdp.pricing.bound_trees import BoundTree, Leaf, OracleResult
from qsdp.pricing.pool import canonical, signs
from qsdp.pricing.scaling import rounding
from qsdp.pricing.sign_vectors import sign_table

__all__ = ["price_stack"]


def price_stack(stack: FloatArray, layout: Layout, threshold: float, max_atoms: int) -> dict[int, OracleResult]:
    """Compute exact pricing values of the small and of the diagonal matrices of a stack, with proofs.

    Parameters
    ----------
    stack : ndarray of shape (C R, N, N)
        The blocks of an output one after the other.
    layout : Layout
    threshold : float
        Only atoms of a larger pricing value are returned.
    max_atoms : int
        Largest number of atoms of a matrix.

    Returns
    -------
    dict
        For the index of each such matrix, its atoms, its exact maximum, and the tree that proves it.
    """
    results: dict[int, OracleResult] = {}
    kinds = list(zip(layout.sizes, layout.linear, strict=True)) * (len(stack) // layout.n_blocks)
    for n, flat in sorted(set(kinds)):
        numbers = np.array([k for k, kind in enumerate(kinds) if kind == (n, flat)])
        if flat:
            for k in numbers.tolist():
                results[k] = _diagonal(stack[k].diagonal(), n, threshold, max_atoms)
        elif n <= FEW_SIGNS:
            # Beyond this side, screening saves more.
            for some in chunks(len(numbers), n << n):
                chosen = numbers[some]
                results.update(zip(chosen.tolist(), _enumerated(stack[chosen], n, threshold, max_atoms), strict=True))
    return results


def _diagonal(m: FloatArray, n: int, threshold: float, max_atoms: int) -> OracleResult:
    r"""Price a diagonal matrix: the signs of m, with value :math:`\|m\|_1`, and those with a small entry flipped."""
    sizes = np.abs(m)
    value = float(sizes.sum())
    U = np.tile(signs(m), (min(n + 1, max_atoms), 1))
    smallest = np.argsort(sizes[:n], kind="stable")[: len(U) - 1]
    U[np.arange(1, len(U)), smallest] *= -1.0
    values = value - 2.0 * np.concatenate([[0.0], sizes[smallest]])[: len(U)]
    wanted = values > threshold
    shift = 0.5 * np.concatenate([[0.0], sizes, sizes])
    tree = BoundTree(np.arange(len(m)), (Leaf(np.zeros(0, dtype=np.int8), shift),))
    return _result(U[wanted].astype(np.int8), np.ones((int(wanted.sum()), len(m)), dtype=np.int8), values[wanted],
                   value, value + rounding(np.diag(m)), tree)  # fmt: skip


def _enumerated(stack: FloatArray, n: int, threshold: float, max_atoms: int) -> list[OracleResult]:
    """Enumerate all sign vectors for matrices of side n; return the best atoms."""
    K, N = len(stack), stack.shape[1]
    exponents = np.frexp(np.abs(stack).max(axis=(1, 2)))[1]
    M = np.ldexp(stack[:, :n, :n], -exponents[:, None, None])
    table = sign_table(n)[::2]
    products = table @ M
    values = np.abs(products).sum(axis=2)
    # A pair (u, v) is usually found again as (v, u).
    count = min(2 * max_atoms, len(table))
    rows = np.argpartition(-values, count - 1, axis=1)[:, :count]
    largest = np.take_along_axis(values, rows, axis=1)
    owner, column = np.nonzero(np.ldexp(largest, exponents[:, None]) > threshold)
    order = np.lexsort((-largest[owner, column], owner))
    owner, column = owner[order], column[order]
    row = rows[owner, column]
    U, V = canonical(table[row].astype(np.int8), signs(products[owner, row]).astype(np.int8))
    first = _first_of_each(np.hstack([owner[:, None], U, V]))
    owner, row, U, V = owner[first], row[first], U[first], V[first]
    pad = np.ones((len(owner), N - n), dtype=np.int8)
    U, V, atom_values = np.hstack([U, pad]), np.hstack([V, pad]), np.ldexp(values[owner, row], exponents[owner])
    best = np.ldexp(values.max(axis=1), exponents)
    uppers = best + np.ldexp([rounding(matrix) for matrix in M], exponents)
    tree = BoundTree(np.arange(N), (Leaf(np.zeros(0, dtype=np.int8), None),))
    starts = np.searchsorted(owner, np.arange(K + 1))
    parts = [slice(a, min(a + max_atoms, b)) for a, b in pairwise(starts.tolist())]
    return [
        _result(U[part], V[part], atom_values[part], value, upper, tree)
        for part, value, upper in zip(parts, best.tolist(), uppers.tolist(), strict=True)
    ]


def _first_of_each(rows: npt.NDArray[np.integer]) -> npt.NDArray[np.intp]:
    """Return the indices of the first occurrence of each distinct row, in order."""
    rows = np.ascontiguousarray(rows)
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    return np.sort(np.unique(keys, return_index=True)[1])


def _result(
    U: npt.NDArray[np.int8], V: npt.NDArray[np.int8], values: FloatArray, value: float, upper: float, tree: BoundTree
) -> OracleResult:
    return OracleResult(value, upper, True, U, V, values, (tree,))
