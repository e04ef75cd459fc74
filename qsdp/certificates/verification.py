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

import numpy as np

from qsdp._utils.numeric import SAFE
from qsdp._utils.validation import FloatArray
from qsdp.certificates.proof import check_proof, check_tree, scaled_tree, tree_bound
from qsdp.exceptions import InvalidInputError
from qsdp.losses import DataFit, Loss
from qsdp.pricing import BoundTree
from qsdp.problem import TrainingProblem
from qsdp.roundoff import ATTEMPTS, PackedRows, ScaledRows

__all__ = [
    "check_guarded",
    "verified_scales",
]

#: Unit of the smallest dual vectors; scaled to one, they keep the penalty clear of overflow and underflow.
_SMALLEST = 2.0**-450


def check_guarded(loss: Loss) -> None:
    """Raise `InvalidInputError` unless bounds can be verified for the loss."""
    if not loss.has_guarded_values:
        raise InvalidInputError(
            f"arithmetic must be 'float' for the {loss.name} loss: verified bounds need guarded_values, which "
            f"{type(loss).__name__} does not define"
        )


def verified_scales(
    problem: TrainingProblem, nu: FloatArray, trees: Sequence[BoundTree]
) -> tuple[float, FloatArray, FloatArray]:
    r"""Compute a lower bound on :math:`p_b^*` that holds for any rounding, at least 0, and what proves it.

    Parameters
    ----------
    problem : TrainingProblem
        Its data are taken as exact.
    nu : ndarray of shape (n,) or (n, C)
        Dual vector. It is projected onto the domain of the conjugate, and scaled down until no pricing value exceeds
        the penalty :math:`\beta D`.
    trees : sequence of BoundTree
        Trees that bound :math:`\max_{u,v} |u^T M_\nu v|`, as in a `Proof`. Their bounds are verified here.

    Returns
    -------
    bound : float
    nu : ndarray of shape (n, C)
        The dual vector, projected onto the domain of the conjugate.
    scales : ndarray of shape (C,)
        Its multiples that prove the bound.

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
    for _ in range(ATTEMPTS):
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
    if layout is None:
        rows = ScaledRows.of(
            problem.X, problem.levels, data.samples.coefficients, data.samples.lifted, _exponent(problem.X)
        )
        prices, radii = [1.0], [math.nextafter(problem.beta * problem.dimension, 0.0)]
    else:
        rows = PackedRows(layout, problem.X.rows, math.frexp(data.packed.largest_entry)[1])
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
        if rows is None or math.ldexp(1.0, unit) < _SMALLEST:
            uppers.append(math.inf)
            continue
        matrices = rows.matrices(np.ldexp(column, -unit), np.ldexp(defects, -unit))
        uppers.append(max(_relative(*each, unit) for each in zip(matrices, own, radii, strict=True)))
    return uppers


def _relative(matrix: tuple[FloatArray, float], tree: BoundTree, radius: float, unit: int) -> float:
    """Bound the pricing values of a matrix, in units of 2^unit, relative to the dual radius."""
    M, r = matrix
    room = math.nextafter(float(np.ldexp(radius, -unit)), 0.0)
    total = (max(0.0, tree_bound(M, tree, unit)) + r) / SAFE
    return total / room if room > 0.0 and math.isfinite(total) else math.inf


def _exponent(array: FloatArray) -> int:
    return math.frexp(float(np.abs(array).max()))[1]
