r"""Roundoff: everything that the rounding of the computer can change in a proven bound.

**The machine.** IEEE double precision is assumed: an operation errs by a factor :math:`1 + \delta`,
:math:`|\delta| \le u = 2^{-53}`, and by at most :math:`2^{-1022}` where it underflows. A sum of products of n terms
then errs, in any order and with or without fused operations, by at most :math:`\gamma_n = n u / (1 - n u)` times the
sum of the magnitudes (Higham, *Accuracy and Stability of Numerical Algorithms*, chapter 3). The library's matrix
products are trusted to sum products. Its Cholesky factorisation and eigenvalues are not trusted at all, but checked.
Error terms are also computed in floating point and multiplied by 1.01, which far exceeds their own rounding.

**The bound.** A dual vector :math:`\nu` whose pricing values :math:`\tau_k = \max_{u,v} |u^T M_k v|`,
:math:`M_k = \sum_i \nu_{ik} \mathcal{X}_i`, do not exceed :math:`\beta D` proves the lower bound
:math:`-\ell^*(-\nu)`. The data are exact. Four things are rounded:

1. *The matrix* (`sums_of_rows`, `sums_of_entries`): :math:`\hat M` is computed with a bound r on
   :math:`\sum_{jk} |\hat M - M|_{jk}`, and a pricing value changes by at most r. This includes rounding
   :math:`s \nu` to floats for any scale s.
2. *Its pricing values*: an enumeration adds :math:`\gamma_{6N}` times the sum of :math:`|\hat M|`. Where a diagonal z
   dominates, :math:`\mathrm{Diag}(z + d) - B` is proven positive semidefinite (`semidefinite_shift`), so that
   :math:`\sum z + \sum d` is a bound. Cuts change B and the bound; the sums of their products are rounded by
   :math:`\gamma_{m + 8}`. See ``qsdp/certificates/proof.py``.
   What an oracle has just bounded for the matrix in floats need not be enumerated again: its bound counts, with the
   a-priori error of that matrix, :math:`2 (n + 16) u` times the sum of all entries of
   :math:`\sum_i |\nu_i| |\mathcal{X}_i|`.
3. *The scale*: if :math:`\bar\tau` is the largest such bound plus r, every :math:`s \le \beta D / \bar\tau` makes
   :math:`s \nu` feasible. Errors of matrices count twice, so that a check with its own rounding agrees.
4. *The dual value* (`rounded_down`): each loss says how many roundings its terms have (`Loss.verified_values`), and
   tests the domain of the conjugate exactly. The sum is rounded once. No less is allowed for than in a check.

**Sums in place of samples.** A squared loss depends on columns of the samples, the forms :math:`F_i` and the targets y,
through their inner products only. Sufficient statistics have these products rounded, and a few rows, with columns
:math:`\hat F_i` and :math:`\hat y`, whose products nearly are the rounded ones. How much they err is not proven here
but stated by the statistics (`SumRounding`). Let :math:`T_j` be columns of the samples, in any units in which
:math:`\|T_j\| \le 1`, and :math:`\hat T_j` the columns that stand for them. Statistics guarantee

.. math::

    |F_i^T T_j - \hat F_i^T \hat T_j| \le \gamma s_i, \qquad |T_i^T T_j - \hat T_i^T \hat T_j| \le \gamma, \qquad
    |y^T T_j - \hat y^T \hat T_j| \le \gamma \kappa \|\hat y\| .

The sizes :math:`s_i \ge \|\hat F_i\|` are not the norms of columns: sums that were rounded while a column was large
keep that error when the column becomes small, as it does if centres change. A dual vector of the rows,
:math:`\nu = \hat T c + r`, stands for the dual vector :math:`T c` of the samples. With :math:`a = \|c\|_1`, it follows
that

* the sum of :math:`F_i` times T c differs from :math:`\hat F_i^T \nu` by at most
  :math:`\gamma s_i a + |\hat F_i^T r|`,
* the dual value, :math:`\nu^T y - \|\nu\|^2 / 4`, of T c is smaller than that of :math:`\nu` by at most
  :math:`\gamma a (\kappa \|\hat y\| + a / 4) + |\hat y^T r| + |(\nu - r)^T r| / 2`.

Columns are chosen so that :math:`\hat T` is triangular and that no direction of it is smaller than
:math:`\sqrt\gamma`: in smaller directions, r costs less than the errors of what T c would be there.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from qsdp._utils.numeric import EPS, MARGIN, UNDERFLOW_MARGIN, UNIT, exponent_of, largest_magnitude
from qsdp._utils.symmetric import diagonal_of, lower_factor
from qsdp._utils.tuning import TILE
from qsdp._utils.validation import FloatArray, ReadOnlyArrays, read_only
from qsdp.block_layout import Layout

__all__ = [
    "ATTEMPTS",
    "SumRounding",
    "VerifiedSums",
    "dominating_shift",
    "exact_product",
    "gamma",
    "rounded_down",
    "semidefinite_shift",
    "sums_of_entries",
    "sums_of_rows",
]

#: Attempts of a Cholesky factorisation, or to scale a vector into a domain; after as many doublings, a shift of
#: 4 p u |A| exceeds |A|.
ATTEMPTS = sys.float_info.mant_dig

#: Allowance for the underflow of sums of numbers near one.
_UNDERFLOW = 2.0**-580

#: Factor that splits a float into two halves, whose products are exact.
_SPLITTER = 2.0**27 + 1.0


def gamma(k: int) -> float:
    r"""Bound Higham's constant :math:`\gamma_k = k u / (1 - k u)` from above."""
    return MARGIN * k * UNIT


def exact_product(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return products as unevaluated sums of two floats, exact without overflow and underflow (Dekker)."""
    product = a * b
    a_high, b_high = (_SPLITTER * x - (_SPLITTER * x - x) for x in (a, b))
    a_low, b_low = a - a_high, b - b_high
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def rounded_down(terms: FloatArray, roundings: int, slack: float) -> float:
    """Sum terms to at most their exact sum, less what their roundings and an absolute error can change.

    Parameters
    ----------
    terms : ndarray
    roundings : int
        Relative error of every term, in units of the roundoff.
    slack : float
        Additional absolute error of their sum.
    """
    total = math.fsum(terms.ravel())
    error = MARGIN * roundings * UNIT * math.fsum(np.abs(terms).ravel()) + slack + terms.size * UNDERFLOW_MARGIN
    # The last term covers one rounding of the sum and one of the difference.
    return total - error - 2.0 * EPS * (abs(total) + error)


# -- matrices of a dual vector --------------------------------------------------------------------------------


#: Function of a dual vector (n,) and bounds (n,) on its errors: for each block, :math:`\hat M` and a bound on
#: :math:`\sum_{jk} |\hat M - M|_{jk}`; then the vector of real weights, if there are any, and a bound on the largest
#: error of an entry.
VerifiedSums = Callable[[FloatArray, FloatArray], list[tuple[FloatArray, float]]]


def sums_of_rows(X: FloatArray, coefficients: tuple[float, float, float], lifted: bool) -> VerifiedSums | None:
    r"""Return the function that sums matrices of rows, or None if the change of their unit would round coefficients.

    The entries of M are :math:`\kappa_{jk} \sum_i \nu_i e_{ij} e_{ik}` with e the row, and 1 for the lift. The sum of
    magnitudes over all j and k is :math:`|a| t_i^2 + 2 |b/2| t_i + |c|`, :math:`t_i = \sum_j |e_{ij}|`.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows, whose entries may have one rounding by the levels.
    coefficients : (a, b, c)
    lifted : bool
    """
    exponent = exponent_of(largest_magnitude(X))
    a, half_b, c = coefficients[0], 0.5 * coefficients[1], coefficients[2]
    # In units of powers of two, no sum overflows. Changing to them rounds nothing (or underflows, see below).
    scaled = np.ldexp([a, half_b, c], [2 * exponent, exponent, 0])
    if not np.array_equal(np.ldexp(scaled, [-2 * exponent, -exponent, 0]), [a, half_b, c]):
        return None
    a, half_b, c = scaled.tolist()
    rows = np.ldexp(X, -exponent)
    n, d = rows.shape
    E = np.hstack([rows, np.ones((n, 1))]) if lifted else rows
    N = E.shape[1]
    factor = np.full((N, N), a)
    factor[d:, :d], factor[:d, d:], factor[d:, d:] = half_b, half_b, c
    t = np.abs(rows).sum(axis=1)
    sizes = abs(a) * t**2 + (2.0 * abs(half_b) * t + abs(c) if lifted else 0.0)
    # Products of zeros do not underflow.
    largest = max(abs(a), abs(half_b), abs(c))
    lost = n * N * N * (largest * _UNDERFLOW + UNDERFLOW_MARGIN) if lifted or np.any(rows) else 0.0
    # The error grows with the rows of a chunk plus the number of chunks.
    step = max(1, math.isqrt(n))
    # Besides the sums, there are two products of levels, those with nu and a coefficient, the mean, and s nu.
    roundings = gamma(step + -(-n // step) + 12)

    def sums(nu: FloatArray, defects: FloatArray) -> list[tuple[FloatArray, float]]:
        M = np.zeros((N, N))
        for start in range(0, n, step):
            chunk = E[start : start + step]
            M += (chunk.T * nu[start : start + step]) @ chunk
        M *= factor
        return [(0.5 * (M + M.T), MARGIN * float((roundings * np.abs(nu) + defects) @ sizes) + lost)]

    return sums


def sums_of_entries(layout: Layout, rows: npt.NDArray[Any], largest: float, factors: FloatArray) -> VerifiedSums:
    """Return the function that sums matrices of packed rows, regarded as exact.

    Parameters
    ----------
    layout : Layout
    rows : ndarray of shape (n, P)
    largest : float
        Largest magnitude of an entry of the rows.
    factors : ndarray of shape (P,)
        Factors of the entries.
    """
    n, exponent = len(rows), exponent_of(largest)
    step = max(1, math.isqrt(n))
    # Two of the twelve roundings are those of a factor and of the product with it.
    each = gamma(step + -(-n // step) + 12)

    def sums(nu: FloatArray, defects: FloatArray) -> list[tuple[FloatArray, float]]:
        totals, errors = np.zeros((2, layout.n_entries))
        used = np.zeros(layout.n_entries, dtype=bool)
        roundings = each * np.abs(nu) + defects
        for start in range(0, n, step):
            some = slice(start, start + step)
            part = np.ldexp(rows[some].astype(np.float64), -exponent)
            totals += nu[some] @ part
            errors += roundings[some] @ np.abs(part)
            used |= part.any(axis=0)
        # Products and entries below the smallest floats are lost; products of zeros are not.
        lost = np.abs(factors) * np.ldexp(errors + n * _UNDERFLOW, exponent) + UNDERFLOW_MARGIN
        lost[~used] = 0.0
        bounds = MARGIN * layout.pricing_sizes(lost)
        entries = np.ldexp(totals, exponent) * factors
        parts = [*layout.matrices(entries[None]), *[entries[layout.weight_entries]] * bool(layout.weights)]
        return list(zip(parts, bounds.tolist(), strict=True))

    return sums


# -- semidefinite matrices ------------------------------------------------------------------------------------


def semidefinite_shift(A: FloatArray, sizes: FloatArray | None = None, attempts: int = ATTEMPTS) -> FloatArray:
    r"""Compute :math:`d \ge 0` such that :math:`A + \mathrm{Diag}(d)` is proven to be positive semidefinite.

    Parameters
    ----------
    A : ndarray of shape (p, p)
        Symmetric; its floats are taken as exact.
    sizes : ndarray of shape (p,), optional
        The shift of an indefinite matrix is proportional to the squares of these positive numbers, by default ones,
        which are best near the roots of the diagonal where the sizes of rows differ.
    attempts : int
        Number of Cholesky factorisations tried. One tells quickly whether A is semidefinite up to rounding; the second
        follows a decomposition that shows how much is missing.

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
    w = np.ones(p) if sizes is None else sizes
    squares, largest = w * w, largest_magnitude(A)
    if largest == 0.0:
        return np.zeros(p)
    if not largest < math.inf:
        return np.full(p, math.inf)
    # In these units, no entry of a semidefinite matrix exceeds the largest one of its diagonal.
    t = 4.0 * p * UNIT * largest_magnitude(diagonal / squares)
    shifted = A.copy()
    raised = diagonal_of(shifted)
    for attempt in range(attempts):
        if not t < math.inf:
            return np.full(p, math.inf)
        np.add(diagonal, t * squares, out=raised)
        try:
            L = lower_factor(shifted)
            break
        except np.linalg.LinAlgError:
            if attempt + 1 < attempts:
                t = 2.0 * t if attempt else _missing(A, w)
    else:
        return np.full(p, math.inf)
    # All positive numbers are valid; these neither overflow nor underflow.
    roots = np.sqrt(raised / raised.max())
    defect = _residual(shifted, L, roots)
    np.abs(L, out=L)
    defect += gamma(p + 4) * (L @ (roots @ L)) + p * UNDERFLOW_MARGIN * roots.sum()
    # The sum of the addition to the diagonal in floats and the defect is rounded up.
    added = np.nextafter(raised - diagonal, np.inf)
    total: FloatArray = np.nextafter(added + MARGIN * defect / roots, np.inf)
    return np.where(np.isfinite(total), total, math.inf)


def dominating_shift(
    M: FloatArray, z: FloatArray, signs: Sequence[float] = (1.0, -1.0), attempts: int = ATTEMPTS
) -> FloatArray:
    r"""Compute :math:`d \ge 0` such that :math:`\mathrm{Diag}(z + d) - s M` is proven semidefinite for both signs s.

    The shift of an indefinite matrix is proportional to z, which is positive. See `semidefinite_shift`.
    """
    if not M.any():
        return np.zeros(len(z))
    total, roots = np.zeros(len(z)), np.sqrt(z)
    for sign in signs:
        A = -sign * M
        raised = diagonal_of(A)
        raised += z
        np.maximum(total, semidefinite_shift(A, roots, attempts), out=total)
        if not total.max() < math.inf:
            return np.full(len(z), math.inf)
    # The differences on the diagonal were rounded.
    shift: FloatArray = np.nextafter(total + 2.0 * UNIT * (z + np.abs(M.diagonal())), np.inf)
    return shift


def _missing(A: FloatArray, w: FloatArray) -> float:
    """Estimate the multiple of ``Diag(w)^2`` that makes A semidefinite, with an addition for rounding."""
    scaled = A / np.outer(w, w)
    if not np.all(np.isfinite(scaled)):
        return math.inf
    smallest = 4.0 * len(A) * UNIT * largest_magnitude(scaled)
    return max(smallest, -float(scipy.linalg.eigvalsh(scaled, subset_by_index=[0, 0])[0])) + smallest


def _residual(A: FloatArray, L: npt.NDArray[np.floating], w: FloatArray) -> FloatArray:
    """Compute ``|A - L L'| w`` for a symmetric A and a lower triangular L, strip by strip, without another matrix.

    Entries of L right of the strip of their row are not read, so they may be any numbers.
    """
    sums = np.zeros(len(A))
    for start in range(0, len(A), TILE):
        end = min(start + TILE, len(A))
        strip = np.abs(A[start:, start:end] - L[start:, :end] @ L[start:end, :end].T)
        sums[start:] += strip @ w[start:end]
        sums[start:end] += w[end:] @ strip[end - start :]
    return sums


# -- sums in place of samples ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SumRounding(ReadOnlyArrays):
    r"""Stated bounds on the differences of sums, see the module.

    Attributes
    ----------
    gamma : float
    table : ndarray of shape (k, k)
        :math:`\hat T`, upper triangular; the other rows are zero.
    sizes : ndarray of shape (P,)
        The sizes :math:`s_i`, in the units of the rows of the forms.
    target_ratio : float
        :math:`\kappa \ge 1`.
    """

    gamma: float
    table: FloatArray
    sizes: FloatArray
    target_ratio: float

    def with_sizes(self, sizes: FloatArray) -> SumRounding:
        """Return the same rounding for forms whose columns have other norms."""
        return replace(self, sizes=read_only(sizes))

    def expanded(self, nu: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a, of shape (C,), with an allowance for its rounding, and r (n, C), for dual vectors (n, C)."""
        k = len(self.table)
        c = scipy.linalg.solve_triangular(self.table, nu[:k], check_finite=False)
        rest = nu.copy()
        rest[:k] -= self.table @ c
        return MARGIN * np.abs(c).sum(axis=0), rest

    def of_entries(self, nu: FloatArray) -> tuple[FloatArray, FloatArray]:
        r"""Return bounds :math:`\gamma s_i a`, of shape (P, C), on errors of the sums of forms, and r (n, C).

        The bounds include the rounding of r, and of sums over it.
        """
        a, rest = self.expanded(nu)
        errors = (self.gamma + self._rounding(nu)) * a + self._rounding(nu) * np.linalg.norm(rest, axis=0)
        return np.outer(self.sizes, errors), rest

    def of_values(self, nu: FloatArray, targets: FloatArray) -> float:
        """Bound the amount by which dual vectors (n, C) of the few rows overstate the dual value for all samples."""
        a, rest = self.expanded(nu)
        with np.errstate(invalid="ignore"):
            targets_size = self.target_ratio * np.linalg.norm(targets, axis=0)
        size = targets_size + 0.5 * np.linalg.norm(nu, axis=0) + 0.25 * a
        errors = (self.gamma + self._rounding(nu)) * a + self._rounding(nu) * np.linalg.norm(rest, axis=0)
        left = np.abs((targets * rest).sum(axis=0)) + 0.5 * np.abs(((nu - rest) * rest).sum(axis=0))
        return float((errors * size + left).sum())

    @staticmethod
    def _rounding(nu: FloatArray) -> float:
        return (len(nu) + 16) * EPS
