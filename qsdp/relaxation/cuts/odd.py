r"""Valid inequalities of sign matrices: an integer vector with an odd sum is orthogonal to no sign vector.

For integer b with an odd sum, :math:`b^T y` is odd for every sign vector y. So :math:`(b^T y)^2 \ge 1`, and
:math:`b^T Y b \ge 1` for all convex combinations Y of :math:`y y^T`. Three entries of magnitude one give the triangle
inequalities, five give the pentagonal ones, and all such b the hypermetric ones of the cut polytope (Deza and Laurent,
*Geometry of Cuts and Metrics*, 1997).

For y = (u, v) and b = (p, q) the relaxation's solution is :math:`2 \rho Y = [[A + B, A - B], [A - B, A + B]]` with
:math:`2 \rho = r`, and with :math:`a = p + q`, :math:`c = p - q` the inequality reads

.. math:: a^T A\, a + c^T B\, c \ge r,

which has rank one in both blocks, like the predictions :math:`x^T (A - B) x`. The mirror (q, p) of b gives the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from qsdp._utils.validation import FloatArray

__all__ = ["OddCuts"]


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
    def of(cls, vectors: FloatArray) -> OddCuts:
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
