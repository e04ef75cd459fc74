r"""Diagonals that dominate the matrix of an inner problem, proven by Cholesky factorisations."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf

from qsdp._utils.numeric import EPS
from qsdp._utils.tuning import INNER, MOST_STEPS
from qsdp._utils.validation import FloatArray
from qsdp.inner_problem.form import Form, Matrix, is_sparse

__all__ = ["Certifier"]


class Certifier:
    r"""Prover that :math:`\mathrm{Diag}(z) \pm M` are positive semidefinite for diagonals z; stores the best z.

    Attributes
    ----------
    z : ndarray of shape (N,)
        The best diagonal so far, including rounding. Initially the sums of magnitudes of the rows, which need no proof.

    Notes
    -----
    If the floating-point Cholesky factorisation of a symmetric A completes, then :math:`A + E = R^T R` with
    :math:`|E_{ij}| \le \gamma \sqrt{A_{ii} A_{jj}}` and :math:`\gamma` at most :math:`(N + 10)\,\mathtt{eps}`
    (Higham, *Accuracy and Stability of Numerical Algorithms*, theorem 10.3). The diagonal
    :math:`\gamma \sqrt{A_{ii}} \sum_j \sqrt{A_{jj}}` dominates E and is added to z. Relative to :math:`\sum z` it is
    at most :math:`N (N + 10)\,\mathtt{eps}`. Eigenvalues are not used.
    """

    def __init__(self, form: Form) -> None:
        self.form = form
        self.sums = form.row_sums()
        self.z = _up(self.sums * (1.0 + (form.size + 2) * EPS))
        #: Number of multiplications in a proof, comparable to `Form.work`.
        self.work = form.size**3 / 3.0 * (2.0 if form.paired else 1.0)
        if form.bipartite:
            short, long = sorted(form.matrix.shape)
            self.work = short**2 * long + short**3 / 3.0

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
        for _ in range(MOST_STEPS):
            if float(z.sum()) + guess >= self.bound or self._prove(_raised(z, weights, guess)):
                return
            guess *= 2.0

    def _prove(self, z: FloatArray) -> bool:
        """Try to prove z, and store it if it is the best; return whether it was proven."""
        if self.form.bipartite:
            allowance = _bipartite_rounding(z, self.form.matrix)
        else:
            allowance = _rounding(z, self.form.matrix)
            if self.form.paired and allowance is not None:
                other = _rounding(z, -self.form.matrix)
                allowance = None if other is None else np.maximum(allowance, other)
        if allowance is None:
            return False
        proven = _up(z + allowance)
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


def _rounding(z: FloatArray, matrix: Matrix) -> FloatArray | None:
    """Compute d such that Diag(z + d) - matrix is proven positive semidefinite; None if the proof fails."""
    dense = matrix.toarray() if is_sparse(matrix) else matrix
    own = dense.diagonal()
    diagonal = z - own
    if not float(diagonal.min()) > 0.0:
        return None
    units = _units(diagonal)
    A = dense * -units
    A *= units[:, None]
    np.fill_diagonal(A, diagonal * units * units)
    return _allowance(diagonal, np.abs(z) + np.abs(own)) if _factorises(A) else None


def _bipartite_rounding(z: FloatArray, block: FloatArray) -> FloatArray | None:
    """Compute d as in `_rounding`, for the bipartite matrix with this upper right block.

    The Cholesky factorisation first eliminates the longer side, whose part of the matrix is diagonal.
    """
    if not float(z.min()) > 0.0:
        return None
    rows = len(block)
    units = _units(z)
    pivots = z * units * units
    first, second = pivots[:rows], pivots[rows:]
    B = block * units[rows:]
    B *= units[:rows, None]
    if rows < len(second):
        B, first, second = B.T, second, first
    B = B / np.sqrt(first)[:, None]
    A = B.T @ B
    A *= -1.0
    A[np.diag_indices(len(A))] += second
    return _allowance(z, np.zeros(len(z))) if _factorises(A) else None


def _units(diagonal: FloatArray) -> FloatArray:
    """Compute powers of two that scale a diagonal to about one without rounding, to avoid underflow in small rows."""
    units: FloatArray = np.ldexp(1.0, -np.frexp(np.sqrt(diagonal))[1])
    return units


def _factorises(A: FloatArray) -> bool:
    """Whether the Cholesky factorisation of A completes; A is overwritten."""
    if not float(A.diagonal().min()) > 0.0:
        return False
    # The transpose has the memory layout that LAPACK expects.
    factor, info = dpotrf(A.T, lower=True, clean=False, overwrite_a=True)
    return info == 0 and bool(np.all(np.isfinite(factor.diagonal())))


def _allowance(diagonal: FloatArray, differences: FloatArray) -> FloatArray:
    """Bound the rounding errors of a factorisation and of the differences on its diagonal."""
    roots = np.sqrt(diagonal)
    hidden: FloatArray = (len(roots) + 10) * EPS * roots * float(roots.sum()) + 2.0 * EPS * differences
    return hidden
