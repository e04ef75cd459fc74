r"""Oracle of the pricing problem, :math:`\max_{u, v} |u^T M v| = \max_u \|Mu\|_1`: search and proof."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.numeric import DIGITS
from qsdp._utils.parallel import chunks
from qsdp._utils.tuning import FEW_SIGNS, MAX_STEPS
from qsdp._utils.validation import FloatArray, check_integer, check_numbers, check_real
from qsdp.block_layout import Layout
from qsdp.exceptions import InvalidInputError
from qsdp.pricing.bound_trees import BoundTree, Leaf, OracleResult
from qsdp.pricing.branching import TreeSearch
from qsdp.pricing.enumeration import sign_table
from qsdp.pricing.pool import CENTRES, Pool, alternate, canonical, signs
from qsdp.pricing.scaling import Scaled, rounding

__all__ = ["BilinearOracle", "check_enumerated", "price_stack"]

#: Random starts of the local search that precedes a proof, whose optimum the proof has to confirm.
_STARTS = 100


def check_enumerated(name: str, value: Any) -> int:
    """Check a number of free signs whose vectors are enumerated; more than 40 would take days."""
    return check_integer(name, value, minimum=0, maximum=40)


class BilinearOracle:
    r"""Pricing oracle for the largest :math:`|u^T M v|` over :math:`u, v \in \{\pm1\}^N`: search and proof.

    Parameters
    ----------
    size : int
        N.
    enumerated : int, default=30
        Number of free coordinates up to which all vectors are enumerated instead of branching. This takes at worst 0.3
        seconds for 30, and 1.9 times as long for each further one.

    Examples
    --------
    >>> import numpy as np
    >>> from qsdp.pricing import BilinearOracle
    >>> best = BilinearOracle(3).prove(np.array([[1.0, 2.0, 0.0], [2.0, -1.0, 0.0], [0.0, 0.0, 1.0]]))
    >>> best.value, best.exact, best.upper - best.value < 1e-12
    (5.0, True, True)
    """

    def __init__(self, size: int, *, enumerated: int = 30) -> None:
        self.size = check_integer("size", size, minimum=1)
        self.enumerated = check_enumerated("enumerated", enumerated)

    def search(
        self,
        M: Any,
        *,
        threshold: float = 0.0,
        starts: Any = None,
        n_starts: int = 300,
        max_atoms: int = 200,
        rng: np.random.Generator,
    ) -> OracleResult:
        """Search for atoms of large pricing value by local search from `starts` and from random vectors.

        Parameters
        ----------
        M : ndarray of shape (N, N)
            Symmetric.
        threshold : float, default=0.0
            Only atoms of a larger pricing value are returned.
        starts : ndarray of shape (k, N), optional
            Vectors to start from.
        n_starts : int, default=300
            Number of further, random starts.
        max_atoms : int, default=200
            Largest number of atoms returned.
        rng : numpy.random.Generator

        Returns
        -------
        OracleResult
            The upper bound is infinite.
        """
        scaled = Scaled.from_matrix(M, self.size)
        n_starts = check_integer("n_starts", n_starts, minimum=0)
        pool = self._pool(scaled, threshold, max_atoms)
        vectors = rng.choice([-1.0, 1.0], size=(n_starts, self.size))
        if starts is not None:
            vectors = np.vstack([_checked_starts(starts, self.size), vectors])
        if len(vectors) and len(scaled.M):
            improve(pool, vectors[:, scaled.support])
        return self._result(scaled, pool, math.inf, False, ())

    def prove(
        self,
        M: Any,
        *,
        threshold: float = 0.0,
        max_atoms: int = 200,
        incumbent: float = 0.0,
        slack: float = 0.0,
        shift: Any = None,
    ) -> OracleResult:
        r"""Compute the largest pricing value with an upper bound, and the trees that prove it.

        Parameters
        ----------
        M : ndarray of shape (N, N)
            Symmetric.
        threshold : float, default=0.0
            Only atoms of a larger pricing value are returned, the best of those evaluated. Atoms more than one per cent
            below the largest value are not sought.
        max_atoms : int, default=200
            Largest number of atoms returned.
        incumbent : float, default=0.0
            A pricing value known to be attained; smaller values are not examined.
        slack : float, default=0.0
            Relative tolerance of the maximum: `upper` may exceed the largest value found by this much.
        shift : ndarray of shape (N,), optional
            A z for which ``Diag(z) + M`` and ``Diag(z) - M`` are approximately positive semidefinite, such as that of a
            `DualBound`. A better shift gives a better first bound.

        Notes
        -----
        If there are few vectors, they are enumerated. Otherwise, best-first branch and bound uses a diagonal shift per
        node (see `shift_bound`). At a time limit, the proof stops with the bound proven so far.
        """
        scaled = Scaled.from_matrix(M, self.size)
        slack = check_real("slack", slack)
        pool = self._pool(scaled, threshold, max_atoms, check_real("incumbent", incumbent), slack)
        z = _checked_shift(shift, scaled)
        if len(scaled.M):
            improve(pool, np.random.default_rng(0).choice([-1.0, 1.0], size=(_STARTS, len(scaled.M))))
        tree = TreeSearch(scaled, pool, self.enumerated)
        upper, exact = tree.prove(z)
        return self._result(scaled, pool, scaled.outside(upper), exact, (tree.tree(),))

    def _pool(
        self, scaled: Scaled, threshold: float, max_atoms: int, incumbent: float = 0.0, slack: float = 0.0
    ) -> Pool:
        inside = scaled.inside(check_real("threshold", threshold))
        max_atoms = check_integer("max_atoms", max_atoms, minimum=0)
        return Pool(scaled.M, inside, max_atoms, scaled.inside(incumbent), slack)

    def _result(
        self, scaled: Scaled, pool: Pool, upper: float, exact: bool, trees: tuple[BoundTree, ...]
    ) -> OracleResult:
        U, V = (scaled.expand(side) for side in pool.pairs)
        values = np.ldexp(pool.values, scaled.exponent)
        return OracleResult(scaled.outside(pool.best), upper, exact, U, V, values, trees)


def _checked_starts(starts: Any, size: int) -> FloatArray:
    vectors = check_numbers("starts", starts, f"(k, {size})")
    if vectors.shape[1:] != (size,):
        raise InvalidInputError(f"starts must have shape (k, {size}); got {vectors.shape}")
    return vectors


def _checked_shift(shift: Any, scaled: Scaled) -> FloatArray | None:
    """Check a shift, and convert it to the units and coordinates of the scaled matrix."""
    if shift is None:
        return None
    vectors = check_numbers("shift", shift, "(N,)")
    if vectors.shape != (scaled.size,):
        raise InvalidInputError(f"shift must have shape {(scaled.size,)}; got {vectors.shape}")
    inside: FloatArray = np.ldexp(vectors[scaled.support], -scaled.exponent)
    return inside


def improve(pool: Pool, starts: FloatArray) -> None:
    """Local search: add to the pool the optima reached from `starts` and from neighbours of the best optima.

    In each round every sign of the best distinct optima is flipped.
    """
    N = len(pool.M)
    U, values = _alternate_from(pool, starts, first=True)
    flips = 1.0 - 2.0 * np.eye(N)
    tried: set[bytes] = set()
    for _ in range(MAX_STEPS):
        # One optimum per value is enough, because most ties are the same atom in another version.
        _, distinct = np.unique(np.round(values, DIGITS), return_index=True)
        centres = [u for u in U[distinct[::-1][:CENTRES]] if (u * u[0]).tobytes() not in tried]
        if not centres or deadline.over():
            return
        tried.update((u * u[0]).tobytes() for u in centres)
        before = np.sort(values)[-min(CENTRES, len(values)) :].min()
        moved, gained = _alternate_from(pool, (np.array(centres)[:, None, :] * flips[None]).reshape(-1, N))
        better = gained > before
        if not better.any():
            return
        U, values = np.vstack([U, moved[better]]), np.concatenate([values, gained[better]])


def _alternate_from(pool: Pool, starts: FloatArray, *, first: bool = False) -> tuple[FloatArray, FloatArray]:
    """Alternate from as many starts as time allows, add the optima to the pool, and return them with their values.

    With `first`, the starts themselves are added as well.
    """
    endpoints, values = [starts[:0]], [np.empty(0)]
    for rows in deadline.in_time(chunks(len(starts), len(pool.M))):
        if first:
            pool.add(starts[rows])
        endpoints.append(alternate(pool.M, starts[rows]))
        values.append(pool.add(endpoints[-1]))
    return np.vstack(endpoints), np.concatenate(values)


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
