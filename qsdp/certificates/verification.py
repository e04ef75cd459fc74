r"""Verified arithmetic: lower bounds that hold for any rounding of the computer.

IEEE double precision is assumed: an operation errs by a factor :math:`1 + \delta`,
:math:`|\delta| \le u = 2^{-53}`, and by at most :math:`2^{-1022}` where it underflows. A sum of products of n terms
then errs, in any order and with or without fused operations, by at most :math:`\gamma_n = n u / (1 - n u)` times the
sum of the magnitudes (Higham, *Accuracy and Stability of Numerical Algorithms*, chapter 3). The library's matrix
products are trusted to sum products. Its Cholesky factorisation and eigenvalues are not trusted at all, but checked.

Error terms are also computed in floating point and multiplied by 1.01, which far exceeds their own rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from qsdp._utils.numeric import MARGIN, SAFE, UNIT
from qsdp._utils.validation import LARGEST, FloatArray
from qsdp.blocks import Layout
from qsdp.certificates.proof import check_proof, check_tree, enumerated, leaf_matrix, scaled_tree
from qsdp.exceptions import InvalidInputError
from qsdp.forms import FormMap
from qsdp.lifting import QuadraticMap
from qsdp.losses import DataFit, Loss
from qsdp.pricing import BoundTree, Leaf
from qsdp.problem import TrainingProblem

__all__ = [
    "CHUNK",
    "PackedRows",
    "ScaledRows",
    "check_guarded",
    "gamma",
    "guarded_tree_bound",
    "semidefinite_shift",
    "verified_bound",
    "verified_scales",
]

#: Allowances for underflow: of sums of numbers near one, and of the smallest, products of data of 1e-100.
_UNDERFLOW, _LEAST = 2.0**-580, 2.0**-980

#: Binary exponent of the smallest dual vectors; scaled to one, they keep the penalty clear of overflow and underflow.
_LEAST_EXPONENT = -450

#: Minimum number of rows summed at once: the error grows with the rows of a chunk plus the number of chunks.
CHUNK = 64

#: Attempts of the Cholesky factorisation: after as many doublings, a shift of p u |A| exceeds |A|.
_ATTEMPTS = 60


def check_guarded(loss: Loss) -> None:
    """Raise `InvalidInputError` unless bounds can be verified for the loss."""
    if not loss.has_guarded_values:
        raise InvalidInputError(
            f"arithmetic must be 'float' for the {loss.name} loss: verified bounds need guarded_values, which "
            f"{type(loss).__name__} does not define"
        )


def gamma(k: int) -> float:
    r"""Bound Higham's constant :math:`\gamma_k = k u / (1 - k u)` from above."""
    return MARGIN * k * UNIT


def verified_bound(problem: TrainingProblem, nu: FloatArray, trees: Sequence[BoundTree]) -> float:
    r"""Compute a lower bound on :math:`p_b^*` that holds for any rounding; at least 0.

    Parameters
    ----------
    problem : TrainingProblem
        Its data are taken as exact.
    nu : ndarray of shape (n,) or (n, C)
        Dual vector. It is projected onto the domain of the conjugate, and scaled down until no pricing value exceeds
        the penalty :math:`\beta D`.
    trees : sequence of BoundTree
        Trees that bound :math:`\max_{u,v} |u^T M_\nu v|`, as in a `Proof`. Their bounds are verified here.

    Notes
    -----
    1. :math:`\hat M` is computed with a bound r on :math:`\sum_{jk} |\hat M - M|_{jk}`; a pricing value changes by at
       most r.
    2. Enumerated leaves add :math:`\gamma_{6N}` times the sum of :math:`|\hat M|` to the value in floats. For leaves
       with a shift z, :math:`\mathrm{Diag}(z + d) - B` is proven positive semidefinite (see `semidefinite_shift`), so
       that :math:`\sum z + \sum d` is a bound. Cuts change B and the bound; the sums of their products are rounded by
       :math:`\gamma_{m + 8}`.
    3. If :math:`\bar\tau` is their maximum plus r, every :math:`s \le \beta D / \bar\tau` makes :math:`s \nu`
       feasible. Its rounding to floats is included in r.
    4. The dual value of :math:`s \nu` is rounded down, and the domain of the conjugate is tested exactly (see
       `DataFit.verified_dual_value`).

    Raises
    ------
    InvalidInputError
        Dual vector and trees do not fit the problem, or the loss has no guarded values.
    """
    return verified_scales(problem, nu, trees)[0]


def verified_scales(
    problem: TrainingProblem, nu: FloatArray, trees: Sequence[BoundTree]
) -> tuple[float, FloatArray, FloatArray]:
    """Compute the bound, `nu` projected onto the conjugate's domain, and its scales of shape (C,) that prove it."""
    check_guarded(problem.loss)
    nu = problem.columns(nu)
    check_proof(problem, nu, trees)
    fit = problem.data_fit
    # Overflow proves nothing, and shows as infinity or NaN.
    with np.errstate(all="ignore"):
        inside = fit.admissible(nu)
        uppers = _relative_uppers(problem, inside, trees)
        # If no pricing value exceeds the penalty, nu is unchanged and not rounded either.
        scales = np.array([1.0 if upper <= 1.0 else SAFE / upper for upper in uppers])
        fits = fit.parts
        columns = (np.split(array, len(fits), axis=-1) for array in (inside, scales))
        parts = [_best(part, nu, float(own.min())) for part, nu, own in zip(fits, *columns, strict=True)]
    values, found = zip(*parts, strict=True)
    # A single number needs no sum, which would be rounded.
    total = values[0] if len(values) == 1 else math.nextafter(math.fsum(values), -math.inf)
    return max(0.0, total), inside, np.repeat(found, len(scales) // len(fits))


def _best(fit: DataFit, nu: FloatArray, scale: float) -> tuple[float, float]:
    """Compute the verified dual value of ``scale * nu``, or 0 if that is larger, and the scale that attains it."""
    for _ in range(_ATTEMPTS):
        value = fit.verified_dual_value(scale * nu)
        if value > -math.inf:
            break
        # Rounding moved a boundary point out of the domain, which is convex and contains zero.
        scale *= SAFE
    return (value, scale) if value > 0.0 else (0.0, 0.0)


def _relative_uppers(problem: TrainingProblem, nu: FloatArray, trees: Sequence[BoundTree]) -> list[float]:
    r"""Bound :math:`\tau_k / (\beta D)` from above, also for rounded multiples of the dual vector."""
    layout, data = problem.blocks, problem.map
    rows: ScaledRows | PackedRows | None
    if layout is None or not isinstance(data, FormMap):
        rows = ScaledRows.of(problem.X, problem.levels, data.samples, _exponent(problem.X))
        prices, radii = [1.0], [math.nextafter(problem.beta * problem.dimension, 0.0)]
    else:
        rows = PackedRows(layout, problem.X.rows, math.frexp(data.largest_entry)[1])
        prices = layout.prices.tolist()
        radii = [SAFE * problem.beta * price for price in prices]
    defects = problem.data_fit.row_defects(nu)
    uppers = []
    for k, column in enumerate(nu.T):
        # Shifts refer to matrices divided by the penalty factors of their blocks.
        own = [scaled_tree(tree, price) for tree, price in zip(trees[k * len(prices) :], prices, strict=False)]
        unit = _exponent(column)
        for tree in own:
            check_tree(tree, data.size)
        if not np.any(column):
            uppers.append(0.0)
            continue
        if rows is None or unit < _LEAST_EXPONENT:
            uppers.append(math.inf)
            continue
        matrices = rows.matrices(np.ldexp(column, -unit), np.ldexp(defects, -unit))
        uppers.append(max(_relative(*each, unit) for each in zip(matrices, own, radii, strict=True)))
    return uppers


def _relative(matrix: tuple[FloatArray, float], tree: BoundTree, radius: float, unit: int) -> float:
    """Bound the pricing values of a matrix, in units of 2^unit, relative to the dual radius."""
    M, r = matrix
    room = math.nextafter(float(np.ldexp(radius, -unit)), 0.0)
    total = (max(0.0, guarded_tree_bound(M, tree, unit)) + r) / SAFE
    return total / room if room > 0.0 and math.isfinite(total) else math.inf


def _exponent(array: FloatArray) -> int:
    return math.frexp(float(np.abs(array).max()))[1]


@dataclass(frozen=True, eq=False)
class ScaledRows:
    r"""Rows whose matrices are summed with a bound on the error, in units that can be changed without rounding.

    Attributes
    ----------
    rows : ndarray of shape (n, d)
        Data scaled by the levels, divided by a power of two.
    coefficients : ndarray of shape (3,)
        a, b / 2 and c of the activation, in the same units.
    lifted : bool
    """

    rows: FloatArray
    coefficients: FloatArray
    lifted: bool

    @classmethod
    def of(cls, X: FloatArray, levels: int, data: QuadraticMap, exponent: int) -> ScaledRows | None:
        """Divide the rows of X by 2^exponent; return None if the coefficients would be rounded."""
        a, b, c = data.coefficients
        # In units of powers of two, no sum overflows. Changing to them rounds nothing (or underflows, see below).
        scaled = np.ldexp([a, 0.5 * b, c], [2 * exponent, exponent, 0])
        if not np.array_equal(np.ldexp(scaled, [-2 * exponent, -exponent, 0]), [a, 0.5 * b, c]):
            return None
        return cls((levels - 1) * np.ldexp(X, -exponent), scaled, data.lifted)

    def matrices(self, nu: FloatArray, defects: FloatArray) -> list[tuple[FloatArray, float]]:
        """Return the result of `matrix` as a list of one."""
        return [self.matrix(nu, defects)]

    def matrix(self, nu: FloatArray, defects: FloatArray) -> tuple[FloatArray, float]:
        r"""Compute :math:`\hat M` and a bound on :math:`\sum_{jk} |\hat M - M|_{jk}`.

        The entries of M are :math:`\kappa_{jk} \sum_i \nu_i e_{ij} e_{ik}` with e the row, and 1 for the lift. The
        sum of magnitudes over all j and k is :math:`|a| t_i^2 + 2 |b/2| t_i + |c|`, :math:`t_i = \sum_j |e_{ij}|`.
        """
        rows, lifted = self.rows, self.lifted
        n, d = rows.shape
        a, half_b, c = (float(value) for value in self.coefficients)
        E = np.hstack([rows, np.ones((n, 1))]) if lifted else rows
        N = E.shape[1]
        step = max(CHUNK, math.isqrt(n))
        M = np.zeros((N, N))
        for start in range(0, n, step):
            chunk = E[start : start + step]
            M += (chunk.T * nu[start : start + step]) @ chunk
        factor = np.full((N, N), a)
        factor[d:, :d], factor[:d, d:], factor[d:, d:] = half_b, half_b, c
        M *= factor
        t = np.abs(rows).sum(axis=1)
        sizes = abs(a) * t**2 + (2.0 * abs(half_b) * t + abs(c) if lifted else 0.0)
        # Besides the sums, there are two products of levels, those with nu and a coefficient, the mean, and s nu.
        roundings = gamma(step + -(-n // step) + 12)
        r = MARGIN * float((roundings * np.abs(nu) + defects) @ sizes)
        largest = max(abs(a), abs(half_b), abs(c))
        return 0.5 * (M + M.T), r + n * N * N * (largest * _UNDERFLOW + _LEAST)


@dataclass(frozen=True, eq=False)
class PackedRows:
    """Packed rows of blocks, regarded as exact, and the exponent of their unit."""

    layout: Layout
    rows: npt.NDArray[Any]
    exponent: int

    def matrices(self, nu: FloatArray, defects: FloatArray) -> list[tuple[FloatArray, float]]:
        r"""Return for each block :math:`\hat M` and a bound on :math:`\sum_{jk} |\hat M - M|_{jk}`."""
        sums, errors = np.zeros((2, self.layout.n_entries))
        n = len(self.rows)
        step = max(CHUNK, math.isqrt(n))
        roundings = gamma(step + -(-n // step) + 12) * np.abs(nu) + defects
        for start in range(0, n, step):
            some = slice(start, start + step)
            part = np.ldexp(self.rows[some].astype(np.float64), -self.exponent)
            sums += nu[some] @ part
            errors += roundings[some] @ np.abs(part)
        # Products and entries below the smallest floats are lost.
        sizes = self.layout.counts * (np.ldexp(errors + n * _UNDERFLOW, self.exponent) + _LEAST)
        blocks = MARGIN * np.add.reduceat(sizes, self.layout.starts[:-1])
        return list(zip(self.layout.matrices(np.ldexp(sums, self.exponent)[None]), blocks.tolist(), strict=True))


def guarded_tree_bound(M: FloatArray, tree: BoundTree, exponent: int = 0) -> float:
    r"""Compute the upper bound on :math:`\max |u^T M v|` that a tree of 2^exponent M proves; M is exact."""
    if not np.all(np.isfinite(M)):
        return math.inf
    return max(_leaf_upper(M, tree.order, leaf, exponent) for leaf in tree.leaves)


def _leaf_upper(M: FloatArray, order: npt.NDArray[np.intp], leaf: Leaf, unit: int) -> float:
    """Bound ``|u' M v|`` over the completions of a leaf; M is exact and in units of 2^unit."""
    N, size = len(M), float(np.abs(M).sum())
    if leaf.shift is None:
        return enumerated(M, order, leaf) + gamma(6 * N + 16) * size
    B = leaf_matrix(M, order, leaf)
    z = np.ldexp(leaf.shift, -unit)
    if not np.abs(z).sum() < LARGEST:
        return math.inf
    weights, rounding = np.zeros(0), 0.0
    if leaf.cuts is not None:
        cuts = leaf.cuts.scaled(math.ldexp(1.0, -unit))
        weights = cuts.weights
        B = B + cuts.matrix
        # It covers sums of so many products, adding B to them, and subtracting all of it from the shift.
        rounding = gamma(len(weights) + 8) * cuts.size + gamma(4) * (size + float(np.abs(z).sum()))
    d = semidefinite_shift(np.diag(z) - B)
    # The fixed part c of the matrix is a rounded sum, whose error is multiplied by signs v.
    if not np.all(np.isfinite(d)):
        return math.inf
    return math.nextafter(math.fsum([*z, *d, *-weights]), math.inf) + (gamma(N + 4) * size + rounding)


def semidefinite_shift(A: FloatArray) -> FloatArray:
    r"""Compute :math:`d \ge 0` such that :math:`A + \mathrm{Diag}(d)` is proven to be positive semidefinite.

    Parameters
    ----------
    A : ndarray of shape (p, p)
        Symmetric; its floats are taken as exact.

    Returns
    -------
    ndarray of shape (p,)
        It is of the order of :math:`p u \sum_i A_{ii}` if A is positive semidefinite, and infinite if the proof fails.

    Notes
    -----
    For any L, such as a Cholesky factor of :math:`A' = A + t I` in floats, :math:`L L^T` is positive semidefinite and
    :math:`A' = L L^T + E` with :math:`|E| \le G := |\mathrm{fl}(A' - L L^T)| + \gamma |L| |L|^T`. For every positive w,
    :math:`\mathrm{Diag}(G w / w) + E` is positive semidefinite, since
    :math:`2 |x_i x_j| \le x_i^2 w_j / w_i + x_j^2 w_i / w_j`. With the roots of the diagonal as w, this comes to Rump's
    a-priori bound :math:`\gamma\, \mathrm{tr} A`, without an assumption on how the factor was computed. (Rump,
    *Verification of positive definiteness*, BIT 46, 2006; Jansson, Chaykin, Keil, *Rigorous error bounds for the
    optimal value in semidefinite programming*, SIAM J. Numer. Anal. 46, 2007.)
    """
    p = len(A)
    diagonal = A.diagonal()
    largest = float(np.abs(A).max(initial=0.0))
    if largest == 0.0:
        return np.zeros(p)
    least = t = 4.0 * p * UNIT * largest
    shifted = A.copy()
    for attempt in range(_ATTEMPTS):
        np.fill_diagonal(shifted, diagonal + t)
        try:
            L = np.linalg.cholesky(shifted)
            break
        except np.linalg.LinAlgError:
            if attempt == 0:
                t = max(t, -float(scipy.linalg.eigvalsh(A, subset_by_index=[0, 0])[0])) + least
            else:
                t *= 2.0
    else:
        return np.full(p, math.inf)
    magnitudes = np.abs(L)
    G = np.abs(shifted - L @ L.T) + gamma(p + 4) * (magnitudes @ magnitudes.T) + p * _LEAST
    w = np.sqrt(shifted.diagonal())
    d = MARGIN * ((0.5 * (G + G.T)) @ w) / w
    # The sum of the addition to the diagonal in floats and the defect is rounded up.
    total: FloatArray = np.nextafter(np.nextafter(shifted.diagonal() - diagonal, np.inf) + d, np.inf)
    return np.where(np.isfinite(total), total, math.inf)
