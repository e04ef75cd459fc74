r"""Valid inequalities of sign matrices: an integer vector with an odd sum is orthogonal to no sign vector.

For integer b with an odd sum, :math:`b^T y` is odd for every sign vector y. So :math:`(b^T y)^2 \ge 1`, and
:math:`b^T Y b \ge 1` for all convex combinations Y of :math:`y y^T`. Three entries of magnitude one give the triangle
inequalities, five give the pentagonal ones, and all such b the hypermetric ones of the cut polytope (Deza and Laurent,
*Geometry of Cuts and Metrics*, 1997).

For y = (u, v) and b = (p, q) the relaxation's solution is :math:`2 \rho Y = [[A + B, A - B], [A - B, A + B]]` with
:math:`2 \rho = r`, and with :math:`a = p + q`, :math:`c = p - q` the inequality reads

.. math:: a^T A\, a + c^T B\, c \ge r,

which has rank one in both blocks, like the predictions :math:`x^T (A - B) x`. The mirror (q, p) of b gives the same.

Triangles that a solution violates are enumerated, and longer vectors are found by local search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from qsdp._utils.validation import FloatArray

__all__ = ["OddCuts", "longer_cuts", "triangle_cuts"]

#: Number of coordinates whose pairs a local search step tries; half is as good.
_TRIED = 32


@dataclass(frozen=True, eq=False)
class OddCuts:
    """Inequalities, one per row, as sums and differences of the two halves of their vectors.

    Attributes
    ----------
    a, c : ndarray of shape (m, N)
        p + q and p - q, integers as floats.
    """

    a: FloatArray
    c: FloatArray

    @classmethod
    def from_vectors(cls, vectors: FloatArray) -> OddCuts:
        """Build the inequalities of vectors (p, q) of shape (m, 2N)."""
        p, q = np.hsplit(np.asarray(vectors, dtype=np.float64), 2)
        return cls(p + q, p - q)

    @classmethod
    def none(cls, size: int) -> OddCuts:
        """Return an empty set of inequalities for matrices of side N."""
        return cls(np.zeros((0, size)), np.zeros((0, size)))

    def __len__(self) -> int:
        return len(self.a)

    def __getitem__(self, rows: Any) -> OddCuts:
        return OddCuts(self.a[rows], self.c[rows])

    def __add__(self, other: OddCuts) -> OddCuts:
        return OddCuts(np.vstack([self.a, other.a]), np.vstack([self.c, other.c]))

    @property
    def vectors(self) -> FloatArray:
        """The vectors (p, q) of shape (m, 2N)."""
        return np.hstack([0.5 * (self.a + self.c), 0.5 * (self.a - self.c)])

    def values(self, Y: FloatArray) -> FloatArray:
        """Evaluate ``a' A a + c' B c`` for Y = (A, B) of shape (2, N, N)."""
        values: FloatArray = np.einsum("mi,mi->m", self.a @ Y[0], self.a) + np.einsum("mi,mi->m", self.c @ Y[1], self.c)
        return values

    def matrices(self, weights: FloatArray) -> FloatArray:
        """Compute the weighted sums of ``a a'`` and of ``c c'``, stacked in shape (2, N, N)."""
        return np.stack([(self.a.T * weights) @ self.a, (self.c.T * weights) @ self.c])

    def row_sums(self, weights: FloatArray) -> FloatArray:
        """Compute the sums of the magnitudes of all terms in the rows of `matrices`, of shape (2, N)."""
        return np.stack([(weights * sides.sum(axis=1)) @ sides for sides in (np.abs(self.a), np.abs(self.c))])

    def keys(self) -> list[bytes]:
        """Compute a hashable key for each inequality; the equivalent vectors b, -b and their mirrors share a key."""
        return [row.tobytes() for row in np.hstack([_oriented(self.a), _oriented(self.c)]).astype(np.int8)]

    def unlike(self, others: OddCuts) -> OddCuts:
        """Return the inequalities that occur neither in `others` nor in an earlier row."""
        known, fresh = set(others.keys()), []
        for row, key in enumerate(self.keys()):
            if key not in known:
                known.add(key)
                fresh.append(row)
        return self[fresh]


def _oriented(rows: FloatArray) -> FloatArray:
    """Make the first nonzero entry of each row positive by changing the row's sign."""
    if not rows.size:
        return rows
    first = rows[np.arange(len(rows)), np.argmax(rows != 0.0, axis=1)]
    oriented: FloatArray = rows * np.where(first < 0.0, -1.0, 1.0)[:, None]
    return oriented


# -- separation ----------------------------------------------------------------------------------------------------


def triangle_cuts(V: FloatArray, Z: FloatArray, max_cuts: int, threshold: float) -> OddCuts:
    r"""Return the most violated triangle inequalities of ``Y = [[V, Z], [Z, V]]``, of unit diagonal.

    For nodes i, j, k and signs of product one, :math:`1 + s_{ij} Y_{ij} + s_{ik} Y_{ik} + s_{jk} Y_{jk} \ge 0`; mirrors
    are left out. An inequality counts as violated if the left side is below ``-threshold``.
    """
    N = len(V)
    first, second = np.triu_indices(N, 1)
    values, nodes = [np.empty(0)], [np.empty((0, 3), dtype=np.intp)]
    for i in range(N):
        later = first > i
        j, k = first[later], second[later]
        for node, left_node, right_node, pairs, x, y in (
            (i, j, k, V[j, k], V[i, j], V[i, k]),
            (N + i, first, second, V[first, second], Z[i, first], Z[i, second]),
        ):
            left = _smallest_left_side(x, y, pairs)
            chosen = np.flatnonzero(left < -threshold)
            values.append(left[chosen])
            nodes.append(np.stack([np.full(len(chosen), node), left_node[chosen], right_node[chosen]], axis=1))
    order = np.argsort(np.concatenate(values), kind="stable")[:max_cuts]
    i, j, k = np.concatenate(nodes)[order].T
    Y = np.block([[V, Z], [Z, V]])
    edges = np.stack([Y[i, j], Y[i, k], Y[j, k]])
    signs = np.where(edges > 0.0, -1.0, 1.0)
    # If the signs opposite to all three entries do not form a cut, the smallest entry has the wrong one.
    odd = np.flatnonzero(signs.prod(axis=0) < 0.0)
    signs[np.argmin(np.abs(edges[:, odd]), axis=0), odd] *= -1.0
    vectors, rows = np.zeros((len(i), 2 * N)), np.arange(len(i))
    vectors[rows, i], vectors[rows, j], vectors[rows, k] = 1.0, signs[0], signs[1]
    return OddCuts.from_vectors(vectors)


def _smallest_left_side(x: FloatArray, y: FloatArray, w: FloatArray) -> FloatArray:
    """Minimise ``1 + s x + t y + s t w`` over signs s and t."""
    sizes = np.abs(np.stack([x, y, w]))
    left: FloatArray = 1.0 - sizes.sum(axis=0) + np.where(x * y * w > 0.0, 2.0 * sizes.min(axis=0), 0.0)
    return left


def longer_cuts(
    Y: FloatArray, starts: FloatArray, max_cuts: int, threshold: float, steps: int, rng: np.random.Generator
) -> OddCuts:
    r"""Search for violated inequalities by local search from `starts` over vectors with entries -1, 0 and 1.

    In each step, every vector moves in the two coordinates that lower :math:`b^T Y b` most. Vectors with
    :math:`b^T Y b < 1 - \text{least}` are ranked by their violation over the norm of the off-diagonal part of
    :math:`b b^T`.
    """
    candidates = [np.zeros((0, len(Y)))]
    vectors = starts[rng.permutation(len(starts))]
    for _ in range(steps):
        vectors = _moved(Y, vectors)
        values = np.einsum("mi,mi->m", vectors @ Y, vectors)
        candidates.append(vectors[values < 1.0 - threshold])
    cuts = OddCuts.from_vectors(np.vstack(candidates)).unlike(OddCuts.none(len(Y) // 2))
    vectors = cuts.vectors
    lengths = np.abs(vectors).sum(axis=1)
    depths = (1.0 - np.einsum("mi,mi->m", vectors @ Y, vectors)) / np.sqrt(lengths * (lengths - 1.0))
    return cuts[np.argsort(-depths, kind="stable")[:max_cuts]]


def _moved(Y: FloatArray, vectors: FloatArray) -> FloatArray:
    """Apply to every vector its best local move: +-1 in two coordinates, which keeps the parity of its sum.

    Only the steepest of the coordinates that may move against the gradient are tried.
    """
    products = vectors @ Y
    signs = np.where(products > 0.0, -1.0, 1.0)
    steepness = np.where(np.abs(vectors + signs) > 1.0, -np.inf, np.abs(products))
    tried = np.argpartition(-steepness, min(_TRIED, len(Y)) - 1, axis=1)[:, :_TRIED]
    first, second = np.triu_indices(tried.shape[1], 1)
    rows = np.arange(len(vectors))[:, None]
    i, j = tried[:, first], tried[:, second]
    costs = signs[rows, i] * signs[rows, j] * Y[i, j] - steepness[rows, i] - steepness[rows, j]
    best = np.argmin(costs, axis=1)[:, None]
    moved = vectors.copy()
    for chosen in (np.take_along_axis(i, best, axis=1), np.take_along_axis(j, best, axis=1)):
        # If fewer than two coordinates may move, the vector stays as it was.
        free = np.isfinite(np.take_along_axis(costs, best, axis=1))
        moved[rows, chosen] += np.where(free, signs[rows, chosen], 0.0)
    return moved
