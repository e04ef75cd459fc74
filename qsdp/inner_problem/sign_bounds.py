r"""Upper bounds of quadratic forms over sign vectors, by the semidefinite program over unit diagonals.

.. math::

    \max_{x \in \{\pm1\}^n} x^T W x \;\le\; \max_{K \succeq 0,\, K_{ii} = 1} \mathrm{tr}(W K)
    \;=\; \min \Big\{ \sum_i z_i : \mathrm{Diag}(z) \succeq W \Big\}
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.numeric import CANCELLED, EPS, divided_by_power, exponent_of
from qsdp._utils.parallel import WORK_FLOATS, few_threads
from qsdp._utils.progress import ProgressBar, progress
from qsdp._utils.summary import Summarized, Summary, format_number, format_seconds
from qsdp._utils.validation import (
    FloatArray,
    RandomState,
    ReadOnlyArrays,
    check_integer,
    check_matrix,
    check_random_state,
    check_real,
    check_verbose,
    read_only,
)
from qsdp.exceptions import InvalidInputError
from qsdp.inner_problem.search import BoundSearch, DualPair, Form, SearchOptions, embedded, supported

__all__ = ["InnerBound", "dominating_weights", "grothendieck_bound", "maxcut_bound", "uninterrupted"]


@dataclass(frozen=True, eq=False, repr=False)
class InnerBound(Summarized, ReadOnlyArrays):
    r"""Upper bound on a quadratic form over sign vectors, with its proof.

    Below, B is the symmetric part of W for `maxcut_bound`, and the matrix ``[[0, M/2], [M'/2, 0]]`` of shape
    (m + n, m + n) for `grothendieck_bound`. N is the size of B.

    Attributes
    ----------
    upper_bound : float
        Upper bound on :math:`x^T B x` over all sign vectors x: the sum of `z`, rounded up. Also ``float(bound)``.
    value : float
        :math:`\mathrm{tr}(Y^T B Y)`, in floats. No upper bound from this relaxation is smaller.
    relative_gap : float
        Difference between bound and value, relative to the bound or to the bound minus the trace of B, whichever is
        larger in magnitude: the bound alone may vanish because of the diagonal of B.
    z : ndarray of shape (N,)
        Vector for which :math:`\mathrm{Diag}(z) - B` is positive semidefinite, proven for any rounding by a Cholesky
        factor that is multiplied out, see ``qsdp/roundoff.py``.
    Y : ndarray of shape (N, p)
        Factor with rows of unit length; :math:`K = Y Y^T`.
    iterations : int
        Number of Newton steps.
    status : {"optimal", "inaccurate", "time limit", "interrupted"}
        "optimal" if the relative gap is at most `tol`. The bound is valid in any case.
    solve_time : float
        Solve time in seconds.
    """

    upper_bound: float
    value: float
    relative_gap: float
    z: FloatArray
    Y: FloatArray
    iterations: int
    status: str
    solve_time: float

    def __float__(self) -> float:
        return self.upper_bound

    def __repr__(self) -> str:
        return (
            f"InnerBound(upper_bound={self.upper_bound:.7g}, value={self.value:.7g}, "
            f"relative_gap={self.relative_gap:.2g}, status={self.status!r}, iterations={self.iterations}, "
            f"solve_time={self.solve_time:.3g})"
        )

    def _summary(self) -> Summary:
        rows = [
            ("upper bound", format_number(self.upper_bound)),
            ("value", f"{format_number(self.value)} of the semidefinite program"),
            ("relative gap", format_number(self.relative_gap, 2)),
            ("status", self.status),
            ("size", f"{self.Y.shape[0]}, factors of rank {self.Y.shape[1]}"),
            ("solver", f"{self.iterations} iterations, {format_seconds(self.solve_time)}"),
        ]
        return Summary("InnerBound", rows)


def maxcut_bound(
    W: Any,
    *,
    tol: float = 1e-6,
    max_iter: int = 500,
    time_limit: float | None = None,
    random_state: RandomState = 0,
    verbose: bool | int = False,
) -> InnerBound:
    r"""Compute a safe upper bound on :math:`\max_{x \in \{\pm1\}^n} x^T W x` from its semidefinite program.

    For the largest cut of a graph, pass a quarter of its Laplacian.

    Parameters
    ----------
    W : array-like of shape (n, n)
        Symmetric matrix. If W is not symmetric, its symmetric part is used, which has the same :math:`x^T W x`.
    tol : float, default=1e-6
        Stop once the relative gap between the proven bound and the value of a feasible point is at most `tol`.
    max_iter : int, default=500
        Maximum number of steps.
    time_limit : float, optional
        Seconds, > 0, checked between steps; then the bound is proven. Ctrl-C also returns the best proven bound.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the starting point.
    verbose : bool or int, default=False
        Show the steps and the size of the gradient, on standard error or in the notebook.

    Returns
    -------
    InnerBound

    Notes
    -----
    The solver is Newton's method with a trust region on factors with rows of unit length. They have half of
    :math:`\sqrt{2n}` columns, plus two; if a stationary point cannot be proven optimal, the number becomes
    :math:`\sqrt{2n}`, which leaves no spurious optimum. The multipliers :math:`z_i = \langle y_i, (W Y)_i \rangle` of
    the diagonal are raised until a Cholesky factorisation proves that they dominate W.

    Random hyperplanes round the factor to signs, which cut at least 0.878 of the bound in the mean (Goemans and
    Williamson).

    Examples
    --------
    The largest cut of a cycle of five nodes has four edges:

    >>> import numpy as np
    >>> import qsdp
    >>> ring = np.roll(np.eye(5), 1, axis=0)
    >>> bound = qsdp.maxcut_bound((2.0 * np.eye(5) - ring - ring.T) / 4.0)
    >>> print(f"{float(bound):.4f}")
    4.5225
    """
    with deadline.after(time_limit), progress(check_verbose(verbose)) as stages, stages.stage("bound", tol) as bar:
        return _bound(_read("W", W, square=True), False, _options(tol, max_iter, random_state, bar))


def uninterrupted(result: InnerBound) -> InnerBound:
    """Pass a bound through, or raise `KeyboardInterrupt` if its computation was interrupted.

    Raises
    ------
    KeyboardInterrupt
        The computation was interrupted. The bound itself does not raise, so the calling method would continue.
    """
    if result.status == "interrupted":
        raise KeyboardInterrupt
    return result


def dominating_weights(M: FloatArray, tol: float) -> FloatArray:
    """Compute weights z of minimal sum, up to a relative `tol`, for which ``Diag(z) +- M`` are semidefinite.

    The matrix is symmetric. A keyboard interrupt is re-raised.
    """
    z = uninterrupted(grothendieck_bound(M, tol=tol)).z
    weights: FloatArray = z[: len(M)] + z[len(M) :]
    return weights


def grothendieck_bound(
    M: Any,
    *,
    tol: float = 1e-6,
    max_iter: int = 500,
    time_limit: float | None = None,
    random_state: RandomState = 0,
    verbose: bool | int = False,
) -> InnerBound:
    r"""Compute a safe upper bound on :math:`\max_{u, v} u^T M v` over sign vectors from its semidefinite program.

    The bound exceeds the maximum by a factor of at most 1.7822 (Krivine). The cut norm of M is the largest magnitude
    of the sum over a subset of rows and columns. It is at most the maximum and at least a quarter of it.

    Parameters
    ----------
    M : array-like of shape (m, n)
        Matrix. If it is symmetric (up to rounding), two blocks of half the size are solved instead:
        :math:`\min \sum z` such that :math:`\mathrm{Diag}(z) \pm M` are positive semidefinite.
    tol, max_iter, time_limit, random_state, verbose
        See `maxcut_bound`.

    Returns
    -------
    InnerBound
        Bound for u and v stacked. ``z`` and the rows of ``Y`` refer to u first, then to v.

    Examples
    --------
    >>> import qsdp
    >>> bound = qsdp.grothendieck_bound([[1.0, 1.0], [1.0, -1.0]])
    >>> print(f"{float(bound):.4f}")
    2.8284
    """
    with deadline.after(time_limit), progress(check_verbose(verbose)) as stages, stages.stage("bound", tol) as bar:
        return _bound(_read("M", M), True, _options(tol, max_iter, random_state, bar))


def _read(name: str, value: Any, *, square: bool = False) -> FloatArray:
    matrix = check_matrix(name, value)
    if square and matrix.shape[0] != matrix.shape[1]:
        raise InvalidInputError(f"{name} must be square, of shape (n, n); got {matrix.shape}")
    return matrix


def _options(tol: object, max_iter: object, random_state: RandomState, bar: ProgressBar) -> SearchOptions:
    return SearchOptions(
        tol=check_real("tol", tol, strict=True),
        max_iter=check_integer("max_iter", max_iter, minimum=1),
        random=check_random_state(random_state),
        bar=bar,
    )


def _bound(M: FloatArray, bilinear: bool, options: SearchOptions) -> InnerBound:
    start = time.perf_counter()
    exponent = exponent_of(float(np.abs(M).max()))
    # Magnitudes are within 1; dividing by a power of two rounds nothing.
    matrix = divided_by_power(M, exponent)
    reduced = _Reduced.from_matrix(matrix, bilinear)
    trace = math.fsum(reduced.diagonal)
    result = DualPair(np.empty((0, 0)), 0, 0.0, np.empty(0), 0, "optimal")
    if len(reduced.support):
        with few_threads(small=reduced.form.size**2 <= WORK_FLOATS):
            result = BoundSearch(reduced.form, trace, options).run()
    z, Y = reduced.restored(result)
    value = result.value + trace
    upper = _sum_up(z)
    gap = max(0.0, upper - value)
    relative_gap = gap / max(abs(upper), abs(upper - trace)) if gap else 0.0
    status = result.status
    if status in {"optimal", "inaccurate"}:
        status = "optimal" if relative_gap <= options.tol else "inaccurate"
    return InnerBound(
        upper_bound=float(_outside(upper, exponent)),
        value=float(np.ldexp(value, exponent)),
        relative_gap=relative_gap,
        z=read_only(_outside(z, exponent)),
        Y=read_only(Y),
        iterations=result.iterations,
        status=status,
        solve_time=time.perf_counter() - start,
    )


@dataclass(frozen=True, eq=False)
class _Reduced:
    """Reduced problem: the form of a matrix without zero rows and without the diagonal.

    Attributes
    ----------
    form : Form
    support : ndarray of shape (p,)
        Rows of the form among those of `diagonal`.
    diagonal, allowance : ndarray of shape (N,)
        Terms to be added to a diagonal that dominates the form so that it dominates the matrix, and for rounding.
    """

    form: Form
    support: npt.NDArray[np.intp]
    diagonal: FloatArray
    allowance: FloatArray

    @classmethod
    def from_matrix(cls, matrix: FloatArray, bilinear: bool) -> _Reduced:
        """Reduce a matrix with entries within 1; a symmetric bilinear form is paired, another one is embedded."""
        paired = bilinear and _is_symmetric(matrix)
        if bilinear and not paired:
            matrix = embedded(matrix)
        half = 0.5 * (matrix + matrix.T)
        diagonal = np.zeros(len(half))
        if not paired:
            diagonal = matrix.diagonal().copy()
            np.fill_diagonal(half, 0.0)
        # The symmetric part was rounded. It is all of a quadratic form, but not of a bilinear one.
        allowance = EPS * np.abs(half).sum(axis=1)
        if paired:
            # Half of z belongs to u, whose rows of the embedded matrix hold half of the rest; the same is true of v.
            allowance += (1.0 + EPS) * np.abs(matrix - half).sum(axis=1)
        return cls(*supported(half, paired=paired), diagonal, allowance)

    def restored(self, result: DualPair) -> tuple[FloatArray, FloatArray]:
        """Extend the dominating diagonal and the factor to all rows of the matrix."""
        z, Y = np.zeros(len(self.diagonal)), result.Y
        if len(self.support) < len(self.diagonal):
            # Rows outside the support get a separate axis: the directions of the columns found are arbitrary.
            Y = np.zeros((len(self.diagonal), result.Y.shape[1] + 1))
            Y[:, -1] = 1.0
            Y[self.support] = np.hstack([result.Y, np.zeros((len(self.support), 1))])
        z[self.support] = result.z
        z = _added(_added(z, self.diagonal), self.allowance)
        if self.form.paired:
            # For [[0, M/2], [M/2, 0]]: u - v multiplies the columns of the other sign.
            z = np.concatenate([0.5 * z, 0.5 * z])
            Y = np.vstack([Y, np.hstack([Y[:, : result.split], -Y[:, result.split :]])])
        return z, Y


def _is_symmetric(matrix: FloatArray) -> bool:
    """Whether a matrix of any shape is symmetric up to rounding."""
    if matrix.shape[0] != matrix.shape[1]:
        return False
    return float(np.abs(matrix - matrix.T).sum()) <= CANCELLED * float(np.abs(matrix).sum())


def _added(a: FloatArray, b: FloatArray) -> FloatArray:
    """Add two arrays, rounding up; exact where an addend is zero."""
    total = a + b
    return np.where((a == 0.0) | (b == 0.0), total, np.nextafter(total, np.inf))


def _sum_up(z: FloatArray) -> float:
    """Sum the entries of z, rounding up."""
    total = math.fsum(z)
    return math.nextafter(total, math.inf) if math.fsum([*z, -total]) > 0.0 else total


def _outside(values: Any, exponent: int) -> Any:
    """Convert values back to the units of the user's matrix, rounding up where they underflow."""
    scaled_back = np.ldexp(values, exponent)
    return np.where(np.ldexp(scaled_back, -exponent) == values, scaled_back, np.nextafter(scaled_back, np.inf))
