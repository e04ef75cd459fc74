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

Without fixed signs, exchanging u and v changes neither the form nor the claim, so a proof may be averaged with its
mirror image. The average falls into halves, in :math:`(2, p)` with :math:`p = v + u` and in :math:`m = v - u`. With the
shift :math:`(z_0, z_v, z_u)`, the cuts :math:`(b_0, b_v, b_u)` and :math:`a = z_v + z_u`,

.. math::

    4\,(z_0 + \textstyle\sum_i a_i - u^T M v - \sum_k \gamma_k)
    \ge 4 z_0 + p^T (\mathrm{Diag}(a) - M)\, p - \sum_k \gamma_k (2 b_0 + (b_v + b_u)^T p)^2
    + m^T (\mathrm{Diag}(a) + M)\, m - \sum_k \gamma_k ((b_v - b_u)^T m)^2.

If :math:`d` on the diagonals makes both halves semidefinite, :math:`z_0 + \sum_i a_i - \sum_k \gamma_k + \sum_i d_i`
is a bound, since one of :math:`p_i` and :math:`m_i` is zero and the other one is two. Halves take an eighth of the
time of the whole matrix each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.numeric import ROUNDING, SAFE, divided_by_power, exponent_of, largest_magnitude, symmetrised
from qsdp._utils.parallel import chunks
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.data_map import SAMPLES
from qsdp.exceptions import InvalidInputError
from qsdp.losses import DataFit
from qsdp.networks import BilinearNetwork
from qsdp.pricing import BoundTree, Leaf, LeafCuts
from qsdp.pricing.bound_trees import check_tree
from qsdp.pricing.enumeration import Enumeration, attained, signs_of
from qsdp.pricing.oracle import check_enumerated
from qsdp.pricing.shifts import free_matrix, homogenized
from qsdp.problem import TrainingProblem
from qsdp.relaxation.bounds import best_scale, entry_size, pricing_roundings
from qsdp.relaxation.instance import Instance
from qsdp.roundoff import ATTEMPTS, VerifiedSums, gamma, semidefinite_shift

__all__ = [
    "Proof",
    "check_proof",
    "enumerated",
    "folded",
    "halves",
    "leaf_bound",
    "proven_bound",
    "tree_bound",
]

#: Unit of the smallest dual vectors; scaled to one, they keep the penalty clear of overflow and underflow.
_SMALLEST = 2.0**-450

#: Smallest penalty next to which products that underflow vanish, for data up to 1e100.
_CLEAR = 2.0**-300


@dataclass(frozen=True, eq=False)
class Proof:
    r"""Everything needed to recompute a certificate's lower bound.

    Attributes
    ----------
    problem : TrainingProblem
    network : BilinearNetwork
    nu : ndarray of shape (n, C)
        Dual vector, scaled so that no pricing value exceeds the penalty :math:`\beta D`.
    trees : tuple of BoundTree
        Trees that bound the pricing values of :math:`M_\nu`, one for each output, or for each output and block.
    """

    problem: TrainingProblem
    network: BilinearNetwork
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


def enumerated(M: FloatArray, order: npt.NDArray[np.intp], leaf: Leaf) -> float:
    r"""Compute :math:`\max \|M u\|_1` over all completions of a leaf's signs, by enumeration in floats.

    The result, and every value dropped by the screening of `Enumeration`, misses the true one by at most
    :math:`\gamma_{6N} \sum_{jk} |M_{jk}|`: an entry of :math:`M u` is a sum of N terms in some order, a norm is a sum
    of N more, and the comparison has three norms.
    """
    exponent = exponent_of(largest_magnitude(M))
    M = divided_by_power(M, exponent)
    signs = leaf.signs.astype(np.float64) if len(leaf.signs) else np.ones(1)
    start, rows = M[:, order[: len(signs)]] @ signs, M[:, order[len(signs) :]].T
    rows = rows[rows.any(axis=1)]
    check_enumerated("the number of free signs of a leaf", len(rows))
    if not len(rows):
        return math.ldexp(float(np.abs(start).sum()), exponent)
    best = attained(rows, start)

    def accept(codes: IntArray) -> None:
        nonlocal best
        for part in chunks(len(codes), len(M)):
            norms = np.abs(start + signs_of(codes[part], len(rows)) @ rows).sum(axis=1)
            best = max(best, float(norms.max()))

    with deadline.unlimited():
        Enumeration(rows).run(start, half=False, level=lambda: best, accept=accept)
    return math.ldexp(best, exponent)


def tree_bound(M: FloatArray, tree: BoundTree, exponent: int = 0) -> float:
    r"""Compute the upper bound on :math:`\max |u^T M v|` that a tree of 2^exponent M proves, for any rounding.

    M is exact. The structure of the tree is checked.
    """
    check_tree(tree, len(M))
    if not np.any(M):
        return 0.0
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
    cuts = (leaf.cuts or _no_cuts(len(leaf.shift))).scaled(math.ldexp(1.0, -unit))
    z = np.ldexp(leaf.shift, -unit)
    total = float(np.abs(z).sum())
    near = np.maximum(z, ROUNDING * total / len(z))
    near, ones = np.where(near > 0.0, near, 1.0), np.ones(len(z))
    # It covers sums of so many products, and adding M and the diagonal to them.
    rounding = gamma(len(cuts.weights) + 8) * cuts.size + gamma(4) * (size + total)
    if not len(leaf.signs) and np.array_equal(M, M.T):
        z, near, ones = (folded(blocks, order) for blocks in (z, near, ones))
        matrices = partial(halves, M, order, z, cuts)
    else:
        matrices = partial(_whole, M, order, leaf.signs, z, cuts)
        # The fixed part c of the matrix is a rounded sum, whose error is multiplied by signs v.
        rounding += gamma(N + 4) * size
    d = _largest_shift(matrices(), near)
    if not d.sum() <= ROUNDING * total:
        # Insufficient shifts do not show the sizes of rows.
        d = min(d, _largest_shift(matrices(), ones), key=np.sum)
    if not 4.0 * (total + d.sum() + cuts.weights.sum()) < math.inf:
        return math.inf
    proven = math.nextafter(math.fsum([*z, *d, *-cuts.weights]), math.inf)
    return math.nextafter(proven + rounding, math.inf)


def _no_cuts(size: int) -> LeafCuts:
    return LeafCuts(np.zeros((0, size), dtype=np.int8), np.zeros(0))


def _whole(
    M: FloatArray, order: npt.NDArray[np.intp], signs: npt.NDArray[np.int8], z: FloatArray, cuts: LeafCuts
) -> Iterator[FloatArray]:
    """Yield ``Diag(z) - B`` with B the matrix of a leaf and its cuts, of side ``1 + N + N - k``."""
    k = len(signs)
    B = homogenized(M[:, order[:k]] @ signs.astype(np.float64), free_matrix(M[order[k:]]))
    if len(cuts.weights):
        B = symmetrised(B + cuts.matrix)
    np.negative(B, out=B)
    B[np.diag_indices(len(B))] += z
    yield B


def folded(x: FloatArray, order: npt.NDArray[np.intp]) -> FloatArray:
    """Add the numbers of u to those of v: convert numbers of (1, v, u) in a root leaf to N + 1 numbers."""
    N = len(order)
    sums = x[: 1 + N].copy()
    sums[1:][order] += x[1 + N :]
    return sums


def halves(M: FloatArray, order: npt.NDArray[np.intp], z: FloatArray, cuts: LeafCuts) -> Iterator[FloatArray]:
    """Yield the matrices of a root leaf in ``(2, v + u)`` and ``v - u``, for a folded shift."""
    N = len(M)
    vectors = cuts.vectors.astype(np.float64)
    v, u = vectors[:, : 1 + N], np.zeros((len(vectors), 1 + N))
    u[:, 1:][:, order] = vectors[:, 1 + N :]
    A = np.zeros((1 + N, 1 + N))
    np.negative(M, out=A[1:, 1:])
    A[np.diag_indices(1 + N)] += z
    yield _less(A, v + u, cuts.weights)
    A = M.copy()
    A[np.diag_indices(N)] += z[1:]
    yield _less(A, (v - u)[:, 1:], cuts.weights)


def _less(A: FloatArray, vectors: FloatArray, weights: FloatArray) -> FloatArray:
    """Subtract weighted outer products of vectors from a symmetric A in place."""
    if len(weights):
        A -= (vectors.T * weights) @ vectors
        symmetrised(A)
    return A


def _largest_shift(matrices: Iterable[FloatArray], squares: FloatArray) -> FloatArray:
    """Compute a shift that is sufficient for all matrices, whose rows are the last ones of the first matrix."""
    shift = np.zeros(len(squares))
    for A in matrices:
        rows = slice(len(squares) - len(A), None)
        shift[rows] = np.maximum(shift[rows], semidefinite_shift(A, np.sqrt(squares[rows])))
    return shift


# -- the bound ------------------------------------------------------------------------------------------------


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
        inside = fit.verified_multiplier(nu)
        relative = _relative_uppers(problem, inside, np.abs(inside - nu), trees, uppers)
        fits = fit.parts
        columns = (np.split(array, len(fits), axis=-1) for array in (inside, relative))
        parts = [
            _best(problem, part, np.ascontiguousarray(nu), float(blocks.max()))
            for part, nu, blocks in zip(fits, *columns, strict=True)
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
            value = fit.safe_dual_value(scale * nu) - problem.map.value_loss(scale * nu, fit.target)
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
    instance, R, C = Instance.from_problem(problem), problem.map.n_blocks, nu.shape[1]
    radius = math.nextafter(SAFE * problem.beta * problem.dimension, 0.0)
    changes = (problem.size + 1.0) * entry_size(problem.map, moved)
    of_trees = changes.reshape(C, -1)[:, :R].ravel()
    usable = [
        upper is not None and radius > _CLEAR and (len(tree.leaves) > 1 or change <= ROUNDING * upper)
        for tree, upper, change in zip(trees, known or [None] * len(trees), of_trees.tolist(), strict=True)
    ]
    # Both the matrix in floats and that of a check differ from the exact one.
    roundings = changes + 2.0 * pricing_roundings(instance, nu) if any(usable) else changes
    roundings = roundings.reshape(C, -1)
    real = problem.map.pull(nu)[1] if any(usable) else np.zeros((C, 0))
    matrices = _Matrices(problem, nu)
    uppers: list[float] = []
    for k in range(C):
        blocks = slice(k * R, (k + 1) * R)
        if known is not None and any(usable[blocks]) and all(usable[blocks]):
            largest = np.abs(real[k]).max(keepdims=True) if real.size else np.zeros(0)
            totals = (np.append(np.array(known[blocks], dtype=np.float64), largest) + roundings[k]) / SAFE / radius
        else:
            totals = np.array(matrices.relative(k, trees[blocks], radius))
        # Unlike `max`, this is NaN if any of them is.
        uppers.append(float(np.max(totals)))
    relative: FloatArray = np.nan_to_num(np.array(uppers), nan=math.inf)
    return relative


class _Matrices:
    """Matrices of dual vectors, and their vectors of real weights, with bounds on their errors."""

    def __init__(self, problem: TrainingProblem, nu: FloatArray) -> None:
        self._map, self._nu, self._losses = problem.map, nu, problem.map.pricing_losses(nu)
        self._defects = problem.data_fit.row_defects(nu)

    @cached_property
    def _sums(self) -> VerifiedSums | None:
        return self._map.verified_sums()

    def relative(self, k: int, trees: Sequence[BoundTree], radius: float) -> list[float]:
        """Bound the pricing values of an output relative to the dual radius, by trees for its blocks.

        Those of real weights are the magnitudes of numbers.
        """
        column = self._nu[:, k]
        if not np.any(column):
            return [0.0]
        unit = exponent_of(largest_magnitude(column))
        room = math.nextafter(float(np.ldexp(radius, -unit)), 0.0)
        if (sums := self._sums) is None or math.ldexp(1.0, unit) < _SMALLEST or not room > 0.0:
            return [math.inf]
        matrices = sums(np.ldexp(column, -unit), np.ldexp(self._defects, -unit))
        losses = np.ldexp(self._losses.reshape(-1, len(matrices))[k], -unit).tolist()
        bounds = [max(0.0, tree_bound(M, tree, unit)) for (M, _), tree in zip(matrices, trees, strict=False)]
        bounds += [float(np.abs(weights).max()) for weights, _ in matrices[len(trees) :]]
        # Errors count twice, so that a check that recomputes the matrix and allows for its rounding agrees.
        return [
            (bound + 2.0 * (r + loss)) / SAFE / room
            for bound, (_, r), loss in zip(bounds, matrices, losses, strict=True)
        ]
