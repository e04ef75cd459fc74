"""Square roots and smallest eigenvalues of covariances: of large ones by triangular factors, not by eigenvectors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from qsdp._utils.deadline import EIGENVALUES, EIGENVECTORS, FACTOR
from qsdp._utils.numeric import EPS
from qsdp._utils.validation import FloatArray

__all__ = ["CovarianceRoot", "halves", "root_of", "root_operations", "smallest_eigenvalue"]

#: Largest side of a matrix whose root is the symmetric one: its eigenvectors take 40 ms. A triangular factor of side
#: 2000 takes 0.06 s, eigenvectors 1.3.
_LARGEST_SYMMETRIC = 500

#: What is added to the diagonal before a triangular factor is made, in units of the rounding of the side's sums: with
#: less, factors of singular matrices fail.
_SHIFT = 4.0

#: Relative accuracy of a smallest eigenvalue by Lanczos' method, whose cost is a few products more for each digit.
_ACCURACY = 1e-6

#: Operations of one output's shaping and sampling beside decompositions, as multiples of N^2: the passes over memory
#: that make, read and copy matrices.
_PASSES = 600.0

#: Triangular factors of large matrices, each a third of what is counted for one: two for the eigenvalue, two for the
#: root.
_FACTORS = 4.0 / 3.0


@dataclass(frozen=True, eq=False)
class CovarianceRoot:
    """A matrix R with R R' = Q, kept as factors.

    Attributes
    ----------
    factors : tuple of ndarray
        R itself, or its diagonal where it has nothing else; or the lower triangular factors L and K of P + S and P - S,
        where Q = [P S; S P]: then R is [L K; L -K] over the root of two.
    """

    factors: tuple[FloatArray, ...]

    @property
    def side(self) -> int:
        """Number of rows of Q."""
        return sum(len(factor) for factor in self.factors)

    def products(self, noise: FloatArray) -> FloatArray:
        """Return R g for every row g of `noise` (count, side)."""
        if len(self.factors) == 1:
            (root,) = self.factors
            return noise * root if root.ndim == 1 else noise @ root.T
        plus, minus = self.factors
        products = np.empty_like(noise)
        N = len(plus)
        sums, differences = noise[:, :N] @ plus.T, noise[:, N:] @ minus.T
        np.add(sums, differences, out=products[:, :N])
        np.subtract(sums, differences, out=products[:, N:])
        products *= math.sqrt(0.5)
        return products


def halves(Q: FloatArray) -> list[FloatArray]:
    r"""Return P + S and P - S, which have the eigenvalues of Q = [P S; S P] for symmetric S; any other Q itself.

    Their eigenvectors x are those of Q as (x, x) and (x, -x): two decompositions of half the side take a quarter of the
    operations.
    """
    N = len(Q) // 2
    P, S = Q[:N, :N], Q[:N, N:]
    return [P + S, P - S] if np.array_equal(P, Q[N:, N:]) and np.array_equal(S, S.T) else [Q]


def root_of(Q: FloatArray) -> CovarianceRoot:
    """Return a root of a covariance: unique, so that a seed draws the same neurons on every processor.

    Notes
    -----
    Q is often singular, so that it has no Cholesky factor, and factors made of eigenvectors keep their arbitrary signs.
    Up to a side of 500 it is the symmetric root. Beyond, it is the Cholesky factor of Q with 4 N eps added to the
    diagonal, 2e-12 for 2000: signs have correlations that are smaller by as large a share, which is the rounding of the
    symmetric root as well.
    """
    if _is_diagonal(Q):
        return CovarianceRoot((np.sqrt(np.maximum(Q.diagonal(), 0.0)),))
    parts = halves(Q)
    if len(parts[0]) > _LARGEST_SYMMETRIC:
        factors = [_triangular_factor(part) for part in parts]
        found = tuple(factor for factor in factors if factor is not None)
        if len(found) == len(parts):
            return CovarianceRoot(found)
    roots = [_symmetric_root(part) for part in parts]
    if len(roots) == 1:
        return CovarianceRoot((roots[0],))
    plus, minus = roots
    own, other = 0.5 * (plus + minus), 0.5 * (plus - minus)
    return CovarianceRoot((np.block([[own, other], [other, own]]),))


def smallest_eigenvalue(Q: FloatArray) -> float:
    """Return the smallest eigenvalue of a covariance, with an error of rounding (of large ones, six digits)."""
    return float(Q.diagonal().min()) if _is_diagonal(Q) else min(_smallest_of(half) for half in halves(Q))


def root_operations(side: int) -> float:
    """Return the operations of shaping and sampling one output, halves of that side, by the closed form."""
    decompositions = 2.0 * (EIGENVALUES + EIGENVECTORS) if side <= _LARGEST_SYMMETRIC else _FACTORS * FACTOR
    return decompositions * float(side) ** 3 + _PASSES * float(side) ** 2


def _smallest_of(M: FloatArray) -> float:
    factor = _triangular_factor(M) if len(M) > _LARGEST_SYMMETRIC else None
    if factor is None:
        return float(scipy.linalg.eigvalsh(M, subset_by_index=[0, 0])[0])

    def solved(x: FloatArray) -> FloatArray:
        solution: FloatArray = scipy.linalg.cho_solve((factor, True), x, check_finite=False)
        return solution

    inverse = scipy.sparse.linalg.LinearOperator(M.shape, matvec=solved, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(len(M))
    (largest,) = scipy.sparse.linalg.eigsh(inverse, k=1, which="LA", v0=start, tol=_ACCURACY, return_eigenvectors=False)
    return float(1.0 / largest - _shift(M))


def _triangular_factor(M: FloatArray) -> FloatArray | None:
    """Return the Cholesky factor of a symmetric matrix, shifted by rounding; None if it is not semidefinite."""
    shifted = M.copy()
    np.fill_diagonal(shifted, M.diagonal() + _shift(M))
    try:
        # The transpose is what LAPACK overwrites.
        factor: FloatArray = scipy.linalg.cholesky(shifted.T, lower=True, overwrite_a=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        return None
    return factor


def _is_diagonal(M: FloatArray) -> bool:
    # As of the zero point. The first row tells of nearly all others that they are not.
    return not np.any(M[0, 1:]) and np.count_nonzero(M) == np.count_nonzero(M.diagonal())


def _shift(M: FloatArray) -> float:
    return _SHIFT * len(M) * EPS * float(M.diagonal().max())


def _symmetric_root(Q: FloatArray) -> FloatArray:
    eigenvalues, vectors = scipy.linalg.eigh(Q)
    root: FloatArray = (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ vectors.T
    return root
