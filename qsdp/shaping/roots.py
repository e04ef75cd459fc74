"""Square roots and smallest eigenvalues of covariances; triangular factors replace eigenvectors for large ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from qsdp._utils.numeric import EPS, HALF_DIGITS
from qsdp._utils.symmetric import root
from qsdp._utils.tuning import QUICK_SIDE
from qsdp._utils.validation import FloatArray

__all__ = ["CovarianceRoot", "halves", "root_of", "smallest_eigenvalue"]


@dataclass(frozen=True, eq=False)
class CovarianceRoot:
    """Matrix R with R R' = Q, stored as factors.

    Attributes
    ----------
    factors : tuple of ndarray
        R itself, or its diagonal if R is diagonal, or the lower triangular factors L and K of P + S and P - S if Q =
        [P S; S P]. In the last case, R is [L K; L -K] divided by the square root of two.
    """

    factors: tuple[FloatArray, ...]

    @property
    def side(self) -> int:
        """Number of rows of Q."""
        return sum(len(factor) for factor in self.factors)

    def products(self, noise: FloatArray) -> FloatArray:
        """Compute R g for every row g of `noise` (count, side)."""
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
    r"""Split Q = [P S; S P] with symmetric S into P + S and P - S, which together have its eigenvalues.

    Their eigenvectors x give the eigenvectors (x, x) and (x, -x) of Q. Two decompositions of half the side take a
    quarter of the operations. Any other Q is returned unchanged, as the only entry.
    """
    N = len(Q) // 2
    P, S = Q[:N, :N], Q[:N, N:]
    return [P + S, P - S] if np.array_equal(P, Q[N:, N:]) and np.array_equal(S, S.T) else [Q]


def root_of(Q: FloatArray) -> CovarianceRoot:
    """Compute a uniquely defined root of a covariance, so that a seed draws the same neurons on every processor.

    Notes
    -----
    Q is often singular and then has no Cholesky factor; factors made of eigenvectors keep arbitrary signs. Up to a side
    of 500, the root is the symmetric one. Beyond, it is the Cholesky factor of Q with 4 N eps (2e-12 for side 2000)
    added to the diagonal. This reduces the correlations of the signs by the same fraction, which is also the rounding
    of the symmetric root.
    """
    if _is_diagonal(Q):
        return CovarianceRoot((np.sqrt(np.maximum(Q.diagonal(), 0.0)),))
    parts = halves(Q)
    # Triangular factors of large matrices are much faster than symmetric roots.
    if len(parts[0]) > QUICK_SIDE:
        factors = [_triangular_factor(part) for part in parts]
        triangular = tuple(factor for factor in factors if factor is not None)
        if len(triangular) == len(parts):
            return CovarianceRoot(triangular)
    roots = [root(part) for part in parts]
    if len(roots) == 1:
        return CovarianceRoot((roots[0],))
    plus, minus = roots
    inside, other = 0.5 * (plus + minus), 0.5 * (plus - minus)
    return CovarianceRoot((np.block([[inside, other], [other, inside]]),))


def smallest_eigenvalue(Q: FloatArray) -> float:
    """Compute the smallest eigenvalue of a covariance up to rounding, or to six digits for large ones."""
    return float(Q.diagonal().min()) if _is_diagonal(Q) else min(_smallest_of(half) for half in halves(Q))


def _smallest_of(M: FloatArray) -> float:
    factor = _triangular_factor(M) if len(M) > QUICK_SIDE else None
    if factor is None:
        return float(scipy.linalg.eigvalsh(M, subset_by_index=[0, 0])[0])

    def solved(x: FloatArray) -> FloatArray:
        solution: FloatArray = scipy.linalg.cho_solve((factor, True), x, check_finite=False)
        return solution

    inverse = scipy.sparse.linalg.LinearOperator(M.shape, matvec=solved, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(len(M))
    (largest,) = scipy.sparse.linalg.eigsh(
        inverse, k=1, which="LA", v0=start, tol=HALF_DIGITS, return_eigenvectors=False
    )
    return float(1.0 / largest - _shift(M))


def _triangular_factor(M: FloatArray) -> FloatArray | None:
    """Compute the Cholesky factor of a symmetric matrix with a tiny diagonal shift; None if it is not semidefinite."""
    shifted = M.copy()
    np.fill_diagonal(shifted, M.diagonal() + _shift(M))
    try:
        # LAPACK overwrites the transpose.
        factor: FloatArray = scipy.linalg.cholesky(shifted.T, lower=True, overwrite_a=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        return None
    return factor


def _is_diagonal(M: FloatArray) -> bool:
    # The zero point has a diagonal matrix. The first row rules out nearly all others.
    return not np.any(M[0, 1:]) and np.count_nonzero(M) == np.count_nonzero(M.diagonal())


def _shift(M: FloatArray) -> float:
    # With a smaller shift, the factorisation of singular matrices fails.
    return 4.0 * len(M) * EPS * float(M.diagonal().max())
