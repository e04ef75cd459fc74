r"""The scaled matrix of the inner problem, its products with factors, and diagonals that are proven to dominate it.

The problem is :math:`\max \mathrm{tr}(B K)` over positive semidefinite K of unit diagonal, :math:`K = Y Y^T`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import EPS
from qsdp._utils.tuning import INNER, MAX_STEPS
from qsdp._utils.validation import FloatArray
from qsdp.roundoff import dominating_shift

__all__ = ["Certifier", "Form", "embedded", "supported"]


@dataclass(frozen=True, eq=False)
class Form:
    r"""Symmetric matrix without zero rows, of the form with one sign, or paired with its negative.

    A factor Y has rows :math:`y_i` of unit length. Its first `split` columns, P, are multiplied by `matrix`, and the
    others, Q, by ``-matrix``; only a paired form has the latter. The value is
    :math:`\mathrm{tr}(P^T M P) - \mathrm{tr}(Q^T M Q)`.

    Attributes
    ----------
    matrix : ndarray of shape (N, N)
        It has a diagonal only if `paired`.
    paired : bool
        Whether both signs of the matrix occur.
    """

    matrix: FloatArray
    paired: bool = False

    @property
    def size(self) -> int:
        """Number of rows of a factor."""
        return len(self.matrix)

    def times(self, Y: FloatArray, split: int) -> FloatArray:
        """Compute B Y: half the gradient at Y, or the same linear map applied to a direction."""
        product: FloatArray = self.matrix @ Y
        if self.paired:
            product[:, split:] *= -1.0
        return product

    def row_norms(self) -> FloatArray:
        """Compute the Euclidean norms of the rows, without underflow."""
        magnitudes = np.abs(self.matrix)
        # Powers of two, so that the quotients are near one and nothing is rounded.
        unit = np.frexp(magnitudes.max(axis=1))[1]
        norms: FloatArray = np.ldexp(np.sqrt(np.square(np.ldexp(magnitudes, -unit[:, None])).sum(axis=1)), unit)
        return norms


class Certifier:
    r"""Prover that :math:`\mathrm{Diag}(z) \pm M` are positive semidefinite for diagonals z; stores the best z.

    Attributes
    ----------
    z : ndarray of shape (N,)
        The best diagonal so far, including rounding. Initially the sums of magnitudes of the rows, which need no proof.
    """

    def __init__(self, form: Form) -> None:
        self.form = form
        self.z = _up(np.abs(form.matrix).sum(axis=1) * (1.0 + (form.size + 2) * EPS))
        #: Number of multiplications in a proof, comparable to `Ascent.multiplications`.
        self.work = form.size**3 / 3.0 * (2.0 if form.paired else 1.0)

    @property
    def bound(self) -> float:
        """Upper bound proven so far: the sum of z."""
        return float(self.z.sum())

    def prove_within(self, z: FloatArray, weights: FloatArray, budget: float, guess: float) -> bool:
        """Try to prove z after raising it in proportion to `weights` by `guess` or `budget` in total."""
        # A tenth of the budget is reserved for rounding.
        budget *= 1.0 - INNER
        raises = [guess, budget] if guess < budget else [budget]
        return any(self._prove(_raised(z, weights, amount)) for amount in raises)

    def search(self, z: FloatArray, weights: FloatArray, guess: float) -> None:
        """Raise z in proportion to `weights`, by a total from `guess` upwards, until it is proven or not the best."""
        # This many doublings of the smallest guess exceed every dominating diagonal.
        for _ in range(MAX_STEPS):
            if float(z.sum()) + guess >= self.bound or self._prove(_raised(z, weights, guess)):
                return
            guess *= 2.0

    def _prove(self, z: FloatArray) -> bool:
        """Try to prove z, and store it if it is the best; return whether it was proven."""
        if not float(z.min()) > 0.0:
            return False
        signs = (1.0, -1.0) if self.form.paired else (1.0,)
        # A diagonal that is not dominating up to rounding is not worth a decomposition.
        added = dominating_shift(self.form.matrix, z, signs, attempts=1)
        if not np.all(added < np.inf):
            return False
        proven = _up(z + added)
        if float(proven.sum()) < self.bound:
            self.z = proven
        return True


def _raised(z: FloatArray, weights: FloatArray, amount: float) -> FloatArray:
    """Raise z by `amount` in total, in proportion to weights with a floor at a fraction of their mean."""
    # A tenth of the mean is added because rows of small entries need not be accurate.
    floored = np.maximum(weights, 0.0) + INNER * float(weights.mean())
    return z + amount / float(floored.sum()) * floored


def _up(z: FloatArray) -> FloatArray:
    """Round up: return an upper bound on the exact result of the operation that was rounded to z."""
    raised: FloatArray = np.nextafter(z, np.inf)
    return raised


def embedded(matrix: FloatArray) -> FloatArray:
    """Build the symmetric matrix ``[[0, M/2], [M'/2, 0]]`` of the form u'Mv in (u, v)."""
    m, n = matrix.shape
    return np.block([[np.zeros((m, m)), 0.5 * matrix], [0.5 * matrix.T, np.zeros((n, n))]])


def supported(matrix: FloatArray, *, paired: bool = False) -> tuple[Form, npt.NDArray[np.intp]]:
    """Build the form of the nonzero rows of a symmetric matrix; also return these rows."""
    support = np.flatnonzero(matrix.any(axis=1))
    rows = matrix if len(support) == len(matrix) else matrix[np.ix_(support, support)]
    return Form(np.ascontiguousarray(rows), paired), support
