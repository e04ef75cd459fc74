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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import scipy.linalg

from qsdp._utils.numeric import EPS, ROUNDING
from qsdp._utils.validation import FloatArray, read_only
from qsdp.exceptions import InvalidInputError
from qsdp.networks import BilinearNetwork, BlockNetwork
from qsdp.pricing import BoundTree, Leaf, LeafCuts
from qsdp.pricing.shifts import free_matrix, homogenized
from qsdp.pricing.sign_vectors import attained, sign_table
from qsdp.problem import TrainingProblem

__all__ = [
    "Proof",
    "check_proof",
    "check_tree",
    "enumerated",
    "leaf_matrix",
    "root_tree",
    "scaled_tree",
    "tree_bound",
]

#: Largest number of free signs of an enumerated leaf: 2^40 vectors take days.
_MAX_FREE = 40

#: Number of signs appended per step of an enumeration, and of partial vectors extended at once.
_STEP, _WIDTH = 3, 128


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
    if vectors.shape != (len(weights), size) or vectors.dtype.kind not in "iu" or weights.ndim != 1:
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
    if rest.shape[1] > _MAX_FREE:
        raise InvalidInputError(f"a leaf of {rest.shape[1]} free signs has too many sign vectors to enumerate")
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


def tree_bound(M: FloatArray, tree: BoundTree) -> float:
    r"""Compute the upper bound on :math:`\max |u^T M v|` that the tree proves, in ordinary floating point.

    Every leaf adds an allowance for the rounding of its eigenvalues or sums. The structure of the tree is checked.
    """
    check_tree(tree, len(M))
    if not np.all(np.isfinite(M)):
        return np.inf
    return max(_leaf_bound(M, tree.order, leaf) for leaf in tree.leaves)


def _leaf_bound(M: FloatArray, order: npt.NDArray[np.intp], leaf: Leaf) -> float:
    size = float(np.abs(M).sum())
    if leaf.shift is None:
        return enumerated(M, order, leaf) + 6 * len(M) * EPS * size
    z, A, saved, allowance = leaf.shift, np.diag(leaf.shift) - leaf_matrix(M, order, leaf), 0.0, 0.0
    if leaf.cuts is not None:
        A -= leaf.cuts.matrix
        saved, allowance = float(leaf.cuts.weights.sum()), 2 * (len(leaf.cuts.weights) + 8) * EPS * leaf.cuts.size
    w = np.sqrt(np.maximum(z, ROUNDING * float(np.abs(z).mean())))
    w[w == 0.0] = 1.0
    missing = _missing(A, w)
    if missing > ROUNDING * float(np.abs(z).sum()):
        # Insufficient shifts do not show the sizes of rows.
        missing = min(missing, _missing(A, np.ones(len(z))))
    return float(z.sum()) - saved + missing + allowance + 4 * len(M) * EPS * size


def _missing(A: FloatArray, w: FloatArray) -> float:
    r"""Compute the sum of the smallest multiple of :math:`w^2` that, added to the diagonal, makes A semidefinite.

    If :math:`w^2` is near the diagonal, the eigenvalues are near one, however different the sizes of rows are.
    """
    scaled = A / np.outer(w, w)
    if not np.all(np.isfinite(scaled)):
        return np.inf
    spectrum = scipy.linalg.eigvalsh(scaled, check_finite=False)
    # The method is backward stable: the error is a modest multiple of the unit roundoff times the norm.
    allowance = 10 * len(A) * EPS * float(np.abs(spectrum).max())
    return max(0.0, allowance - float(spectrum[0])) * float(w @ w)
