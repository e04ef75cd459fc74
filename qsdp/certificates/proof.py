r"""Proofs of lower bounds: a dual vector, and a tree that bounds its pricing values.

For one output and the symmetric matrix :math:`M = M_\nu` of side N, the largest pricing value is
:math:`\tau = \max_{u, v \in \{\pm 1\}^N} |u^T M v|`. Changing the signs of u or of v does not change it, so
:math:`u_{o_0} = +1` may be assumed for the first coordinate of the tree's order o. A leaf fixes
:math:`u_F = s` on the first k coordinates F of the order and leaves R free. Either :math:`\max \|M u\|_1` has been
found by enumerating all completions, or a shift z proves a bound: with :math:`c = M_{\cdot F}\, s` and

.. math::

    B = \begin{bmatrix} 0 & c^T / 2 & 0 \\ c / 2 & 0 & M_{\cdot R} / 2 \\ 0 & M_{\cdot R}^T / 2 & 0 \end{bmatrix},
    \qquad u^T M v = (1, v, u_R)\, B\, (1, v, u_R)^T
    \le \sum_j z_j + \dim(B) \max(0, -\lambda_{\min}(\mathrm{Diag}(z) - B)).

A shift may have cuts, integer vectors b of odd sum with weights :math:`\gamma \ge 0`. As :math:`(b^T x)^2 \ge 1` for
all sign vectors, :math:`x^T B x \le x^T (B + \sum_k \gamma_k b_k b_k^T)\, x - \sum_k \gamma_k`. The matrix in brackets
replaces B, and the bound decreases by :math:`\sum_k \gamma_k`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import scipy.linalg

from qsdp._utils.numeric import LEAST, MARGIN, ROUNDING, UNIT
from qsdp._utils.tuning import MANY_ROWS
from qsdp._utils.validation import FloatArray, read_only
from qsdp.exceptions import InvalidInputError
from qsdp.networks import BilinearNetwork, BlockNetwork
from qsdp.pricing import BoundTree, Leaf, LeafCuts
from qsdp.pricing.bilinear import check_enumerated
from qsdp.pricing.shifts import free_matrix, homogenized
from qsdp.pricing.sign_vectors import attained, sign_table
from qsdp.problem import TrainingProblem

__all__ = [
    "ATTEMPTS",
    "LEAST",
    "Proof",
    "check_proof",
    "check_tree",
    "enumerated",
    "gamma",
    "leaf_bound",
    "leaf_matrix",
    "root_tree",
    "scaled_tree",
    "semidefinite_shift",
    "tree_bound",
]

#: Attempts of a Cholesky factorisation, or to scale a vector into a domain; after as many doublings, a shift of
#: 4 p u |A| exceeds |A|.
ATTEMPTS = sys.float_info.mant_dig

#: Number of signs appended per step of an enumeration; with 3 and 5, it takes 1.2 times as long.
_STEP = 4

#: Number of partial vectors extended at once; half or twice does not matter.
_WIDTH = MANY_ROWS >> _STEP


@dataclass(frozen=True, eq=False)
class Proof:
    r"""Everything needed to recompute a certificate's lower bound.

    Attributes
    ----------
    problem : TrainingProblem
    network : BilinearNetwork or BlockNetwork
    nu : ndarray of shape (n, C)
        Dual vector, scaled so that no pricing value exceeds the penalty :math:`\beta D`.
    trees : tuple of BoundTree
        Trees that bound the pricing values of :math:`M_\nu`, one for each output, or for each output and block.
    """

    problem: TrainingProblem
    network: BilinearNetwork | BlockNetwork
    nu: FloatArray
    trees: tuple[BoundTree, ...]

    @property
    def size(self) -> int:
        """Side N of the matrices."""
        return self.problem.size

    @property
    def scalar(self) -> bool:
        """Whether outputs have the shape (n,)."""
        return self.problem.scalar


def check_proof(problem: TrainingProblem, nu: FloatArray, trees: Sequence[BoundTree]) -> None:
    """Raise `InvalidInputError` unless dual vector and trees have the shapes of the problem."""
    if np.shape(nu) != problem.targets.shape or not np.all(np.isfinite(nu)):
        raise InvalidInputError(f"nu must be finite and have the shape of y, {problem.y.shape}; got {np.shape(nu)}")
    expected = problem.n_outputs * problem.map.n_blocks
    if len(trees) != expected:
        each = "output and block" if problem.blocks else "output"
        raise InvalidInputError(f"trees must be {expected}, one for each {each}; got {len(trees)}")


def root_tree(
    z: FloatArray, vectors: npt.NDArray[np.int8] | None = None, weights: FloatArray | None = None
) -> BoundTree:
    r"""Build the tree of one leaf from weights `z` of a relaxation, with ``Diag(z) +- M`` positive semidefinite.

    Cuts of (u, v), vectors (p, q) of shape (m, 2N), and their weights are those of a `CutBound`. With :math:`a = p + q`
    and :math:`c = p - q`, ``Diag(z) - M`` minus the weighted :math:`a a^T` and ``Diag(z) + M`` minus the weighted
    :math:`c c^T` are positive semidefinite. The cut takes half of each weight, and its mirror image the other half.
    """
    N = len(z)
    shift = read_only(np.concatenate([[0.0], 0.5 * z, 0.5 * z]))
    cuts = None
    if vectors is not None and weights is not None and len(weights):
        p, q, zeros = vectors[:, :N], vectors[:, N:], np.zeros((len(vectors), 1), dtype=np.int8)
        both = np.vstack([np.hstack([zeros, q, p]), np.hstack([zeros, p, q])])
        cuts = LeafCuts(read_only(both), read_only(0.5 * np.concatenate([weights, weights])))
    return BoundTree(np.arange(N), (Leaf(np.zeros(0, dtype=np.int8), shift, cuts),))


def scaled_tree(tree: BoundTree, scale: float) -> BoundTree:
    """Convert a tree for M to one for `scale` times M, ``scale >= 0``, by scaling its shifts."""
    return replace(tree, leaves=tuple(_scaled(leaf, scale) for leaf in tree.leaves))


def _scaled(leaf: Leaf, scale: float) -> Leaf:
    if leaf.shift is None:
        return leaf
    return replace(leaf, shift=scale * leaf.shift, cuts=None if leaf.cuts is None else leaf.cuts.scaled(scale))


def check_tree(tree: BoundTree, size: int) -> None:
    r"""Raise `InvalidInputError` unless the leaves are consistent and cover every u with :math:`u_{o_0} = +1` once.

    Notes
    -----
    Leaves of lengths k cover each u once if none continues another and :math:`\sum 2^{1 - k}` is one.
    """
    if sorted(np.asarray(tree.order).tolist()) != list(range(size)):
        raise InvalidInputError(f"the order of a tree must hold 0 .. {size - 1} once each")
    signs = [tuple(np.asarray(leaf.signs).tolist()) for leaf in tree.leaves]
    for fixed, leaf in zip(signs, tree.leaves, strict=True):
        k = len(fixed)
        if k > size or any(s not in (-1, 1) for s in fixed) or (fixed and fixed[0] != 1):
            raise InvalidInputError(f"a leaf must fix signs -1 and +1, the first of them +1; got {fixed}")
        wrong = leaf.shift is not None and np.shape(leaf.shift) != (1 + size + size - k,)
        if wrong or not np.all(np.isfinite(leaf.shift if leaf.shift is not None else 0.0)):
            raise InvalidInputError(f"the shift of a leaf must be {1 + size + size - k} finite numbers")
        if leaf.cuts is not None:
            _check_cuts(leaf.cuts, 1 + size + size - k if leaf.shift is not None else -1)
    if signs == [()]:
        return
    # In sorted order, a leaf that continues another comes right after it or another continuation of it.
    ordered = sorted(signs)
    nested = any(after[: len(before)] == before for before, after in pairwise(ordered))
    if not signs or nested or sum(2 ** (size - len(fixed)) for fixed in signs) != 2 ** (size - 1):
        raise InvalidInputError("the leaves of a tree must cover every sign vector once")


def _check_cuts(cuts: LeafCuts, size: int) -> None:
    """Raise `InvalidInputError` unless the cuts are valid for all sign vectors of `size` entries."""
    vectors, weights = np.asarray(cuts.vectors), np.asarray(cuts.weights)
    if vectors.shape != (weights.size, size) or vectors.dtype.kind not in "iu" or weights.shape != (weights.size,):
        raise InvalidInputError(f"the cuts of a leaf must be integer vectors of {size} entries with a weight each")
    if not np.all(vectors.sum(axis=1, dtype=np.int64) % 2 == 1):
        raise InvalidInputError("the cuts of a leaf must have odd sums")
    if not np.all((weights >= 0.0) & np.isfinite(weights)):
        raise InvalidInputError("the weights of cuts must be finite and >= 0")


def leaf_matrix(M: FloatArray, order: npt.NDArray[np.intp], leaf: Leaf) -> FloatArray:
    """Build the matrix B of a leaf, of side ``1 + N + N - k``."""
    k = len(leaf.signs)
    return homogenized(M[:, order[:k]] @ leaf.signs.astype(np.float64), free_matrix(M[order[k:]]))


def enumerated(M: FloatArray, order: npt.NDArray[np.intp], leaf: Leaf) -> float:
    r"""Compute :math:`\max \|M u\|_1` over all completions of a leaf's signs, by enumeration in floats.

    Notes
    -----
    Vectors grow by a few signs at a time. A partial vector is dropped if its norm plus the maximum over the remaining
    signs alone does not exceed the best value known (Russian doll search). The result, and every value dropped, misses
    the true one by at most :math:`\gamma_{6N} \sum_{jk} |M_{jk}|`: an entry of :math:`M u` is a sum of N terms in some
    order, a norm is a sum of N more, and the comparison has three norms.
    """
    signs = leaf.signs.astype(np.float64) if len(leaf.signs) else np.ones(1)
    rest = M[:, order[len(signs) :]]
    rest = rest[:, rest.any(axis=0)]
    check_enumerated("the number of free signs of a leaf", rest.shape[1])
    return _largest_norm(M[:, order[: len(signs)]] @ signs, rest)


def _largest_norm(c: FloatArray, R: FloatArray) -> float:
    """Maximise the 1-norm of ``c + R u`` over sign vectors u."""
    cuts = [*range(0, R.shape[1], _STEP), R.shape[1]]
    tables = [R[:, a:b] @ sign_table(b - a).T for a, b in pairwise(cuts)]
    # Maxima are over the last columns alone; over more than half of them, they would take longer than they save.
    tails = [np.inf] * len(tables) + [0.0]
    for stage in range(len(tables) - 1, len(tables) // 2, -1):
        found = attained(R[:, cuts[stage] :].T)
        tails[stage] = _search(np.zeros(len(c)), tables[stage:], tails[stage:], found)
    return _search(c, tables, tails, attained(R.T, c))


def _search(start: FloatArray, tables: list[FloatArray], tails: list[float], best: float) -> float:
    stack = [(0, start[:, None])]
    while stack:
        stage, sums = stack.pop()
        if sums.shape[1] > _WIDTH:
            stack.append((stage, sums[:, _WIDTH:]))
            sums = sums[:, :_WIDTH]
        if stage < len(tables):
            sums = (sums[:, :, None] + tables[stage][:, None, :]).reshape(len(sums), -1)
        norms = np.abs(sums).sum(axis=0)
        if stage + 1 < len(tables):
            stack.append((stage + 1, sums[:, norms + tails[stage + 1] > best]))
        elif len(norms):
            best = max(best, float(norms.max()))
    return best


def gamma(k: int) -> float:
    r"""Bound Higham's constant :math:`\gamma_k = k u / (1 - k u)` from above."""
    return MARGIN * k * UNIT


def tree_bound(M: FloatArray, tree: BoundTree, exponent: int = 0) -> float:
    r"""Compute the upper bound on :math:`\max |u^T M v|` that a tree of 2^exponent M proves, for any rounding.

    M is exact. The structure of the tree is checked.
    """
    check_tree(tree, len(M))
    if not np.all(np.isfinite(M)):
        return math.inf
    # Overflow proves nothing, and shows as infinity or NaN.
    with np.errstate(all="ignore"):
        return max(leaf_bound(M, tree.order, leaf, exponent) for leaf in tree.leaves)


def leaf_bound(M: FloatArray, order: npt.NDArray[np.intp], leaf: Leaf, unit: int = 0) -> float:
    """Bound ``|u' M v|`` over the completions of a leaf; M is exact and in units of 2^unit."""
    N, size = len(M), float(np.abs(M).sum())
    if leaf.shift is None:
        return enumerated(M, order, leaf) + gamma(6 * N + 16) * size
    B = leaf_matrix(M, order, leaf)
    z = np.ldexp(leaf.shift, -unit)
    weights, rounding, total = np.zeros(0), 0.0, float(np.abs(z).sum())
    if leaf.cuts is not None:
        cuts = leaf.cuts.scaled(math.ldexp(1.0, -unit))
        weights = cuts.weights
        B = B + cuts.matrix
        # It covers sums of so many products, adding B to them, and subtracting all of it from the shift.
        rounding = gamma(len(weights) + 8) * cuts.size + gamma(4) * (size + total)
    A = np.diag(z) - B
    w = np.sqrt(np.maximum(z, ROUNDING * total / len(z)))
    d = semidefinite_shift(A, np.where(w > 0.0, w, 1.0))
    if not d.sum() <= ROUNDING * total:
        # Insufficient shifts do not show the sizes of rows.
        d = min(d, semidefinite_shift(A), key=np.sum)
    # The fixed part c of the matrix is a rounded sum, whose error is multiplied by signs v.
    if not 4.0 * (total + d.sum() + weights.sum()) < math.inf:
        return math.inf
    return math.nextafter(math.fsum([*z, *d, *-weights]), math.inf) + (gamma(N + 4) * size + rounding)


def semidefinite_shift(A: FloatArray, sizes: FloatArray | None = None) -> FloatArray:
    r"""Compute :math:`d \ge 0` such that :math:`A + \mathrm{Diag}(d)` is proven to be positive semidefinite.

    Parameters
    ----------
    A : ndarray of shape (p, p)
        Symmetric; its floats are taken as exact.
    sizes : ndarray of shape (p,), optional
        The shift of an indefinite matrix is proportional to the squares of these positive numbers, by default ones,
        which are best near the roots of the diagonal where the sizes of rows differ.

    Returns
    -------
    ndarray of shape (p,)
        It is of the order of :math:`p u \sum_i A_{ii}` if A is positive semidefinite, and infinite if the proof fails.

    Notes
    -----
    For any L, such as a Cholesky factor of :math:`A' = A + t\,\mathrm{Diag}(s^2)` in floats, s the sizes,
    :math:`L L^T` is positive semidefinite and :math:`A' = L L^T + E` with
    :math:`|E| \le G := |\mathrm{fl}(A' - L L^T)| + \gamma |L| |L|^T`. For every positive w,
    :math:`\mathrm{Diag}(G w / w) + E` is positive semidefinite, since
    :math:`2 |x_i x_j| \le x_i^2 w_j / w_i + x_j^2 w_i / w_j`. With the roots of the diagonal as w, this comes to Rump's
    a-priori bound :math:`\gamma\, \mathrm{tr} A`, without an assumption on how the factor was computed. (Rump,
    *Verification of positive definiteness*, BIT 46, 2006; Jansson, Chaykin, Keil, *Rigorous error bounds for the
    optimal value in semidefinite programming*, SIAM J. Numer. Anal. 46, 2007.)
    """
    p, diagonal = len(A), A.diagonal()
    if not np.any(A):
        return np.zeros(p)
    w = np.ones(p) if sizes is None else sizes
    largest = float(np.abs(A / np.outer(w, w)).max())
    if not largest < math.inf:
        return np.full(p, math.inf)
    least = t = 4.0 * p * UNIT * largest
    shifted = A.copy()
    for attempt in range(ATTEMPTS):
        np.fill_diagonal(shifted, diagonal + t * w * w)
        try:
            L = np.linalg.cholesky(shifted)
            break
        except np.linalg.LinAlgError:
            if attempt == 0:
                t = max(t, -float(scipy.linalg.eigvalsh(A / np.outer(w, w), subset_by_index=[0, 0])[0])) + least
            else:
                t *= 2.0
    else:
        return np.full(p, math.inf)
    # In place, since each of these matrices may be most of the memory.
    G = L @ L.T
    np.abs(np.subtract(shifted, G, out=G), out=G)
    np.abs(L, out=L)
    product = L @ L.T
    product *= gamma(p + 4)
    G += product
    G += p * LEAST
    G = G + G.T
    G *= 0.5
    roots = np.sqrt(shifted.diagonal())
    d = MARGIN * (G @ roots) / roots
    # The sum of the addition to the diagonal in floats and the defect is rounded up.
    total: FloatArray = np.nextafter(np.nextafter(shifted.diagonal() - diagonal, np.inf) + d, np.inf)
    return np.where(np.isfinite(total), total, math.inf)
