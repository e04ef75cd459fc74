"""Model selection among encodings of the same rows by leave-one-out errors of quadratic ridge regression."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.validation import FloatArray
from qsdp.encoding.cuts import without_outliers
from qsdp.lifting import QuadraticMap
from qsdp.losses import Loss
from qsdp.problem import TrainingProblem, quadratic_map
from qsdp.relaxation.rows import Cells, DistinctRows

__all__ = [
    "LeftOut",
    "RidgeFit",
    "few_features",
    "first_clear_best",
    "left_out_errors",
    "left_out_fit",
    "standard_error",
]

#: Maximum number of distinct rows: a thousand suffice to detect gains of 1 %, in half a second per encoding.
_MOST_ROWS = 1000

#: Number of distinct rows below which encodings cannot be compared.
_LEAST_ROWS = 8

#: Strengths of the ridge penalty, as multiples of the mean eigenvalue.
_STRENGTHS = np.geomspace(1e-6, 1e3, 28)

#: Scales of the inputs: products are penalised more than inputs at the first scale, equally at the second.
_SCALES = (1.0, 4.0)

#: Gain required of more inputs: a fraction of the errors, and a number of standard errors (0.5 to 3 are as accurate).
_GAIN, _STANDARD_ERRORS = 0.01, 1.5

#: Eigenvalues below this fraction of the largest are rounding errors.
_RANK = 1e-13

Candidate = TypeVar("Candidate")


@dataclass(frozen=True, eq=False)
class RidgeFit:
    """Quadratic ridge regression: scale of the inputs, penalty strength over the mean eigenvalue, and errors.

    The errors, of shape (k,), are those of `left_out_errors`.
    """

    scale: float
    strength: float
    errors: FloatArray


def left_out_errors(problem: TrainingProblem, rows: DistinctRows) -> FloatArray:
    r"""Compute the squared leave-one-out errors of a quadratic ridge regression at distinct rows, shape (k,).

    The regression minimises :math:`\sum_i w_i \|y_i - \langle \mathcal{X}_i, S \rangle\|^2 + \lambda \|S\|_F^2` over
    symmetric matrices S, one per output: the functions of the relaxation, with another norm. Let
    :math:`K_{ij} = \sqrt{w_i w_j} \langle \mathcal{X}_i, \mathcal{X}_j \rangle` and
    :math:`H = K (K + \lambda I)^{-1}` over distinct rows. The error at a left-out row with a share s of the weight of
    its distinct row is the error of the fit to all rows, divided by :math:`1 - s H_{ii}`. One decomposition of K thus
    gives the errors for every :math:`\lambda`. The best :math:`\lambda` and the better of two scales of X are used. For
    losses that grow more slowly than squares, outlying targets are clipped.

    Parameters
    ----------
    problem : TrainingProblem
        Training problem; its beta is ignored.
    rows : DistinctRows
        Distinct rows of the problem's samples, in these or other inputs; at most a thousand of them are used.

    Returns
    -------
    ndarray of shape (min(k, 1000),)
        Errors times weights, summed over equal rows. For other inputs, the same rows are left out.
    """
    return left_out_fit(problem, rows).errors


def left_out_fit(problem: TrainingProblem, rows: DistinctRows) -> RidgeFit:
    """Fit the ridge regression of `left_out_errors`."""
    left_out = LeftOut.of(problem, rows)
    inputs = problem.X[left_out.samples]
    # Without a lift, a scale multiplies the whole kernel, and strengths are relative to the kernel.
    scales = _SCALES if problem.lifted else _SCALES[:1]
    fits = (RidgeFit(scale, *left_out.best(quadratic_map(scale * inputs, problem.activation))) for scale in scales)
    return min(fits, key=lambda fit: float(fit.errors.sum()))


def few_features(rows: QuadraticMap) -> bool:
    """Whether ridge regression is cheaper in the primal (features of rows) than in the dual (kernel of rows)."""
    return rows.size * (rows.size + 1) <= rows.n_rows


def _means(values: FloatArray, weights: FloatArray, groups: npt.NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
    """Compute the weight (k,) of each group and the weighted means (k, C) of its values (n, C)."""
    totals = np.bincount(groups, weights).astype(float)
    return totals, np.stack([np.bincount(groups, weights * one) for one in values.T], axis=1) / totals[:, None]


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Data for leave-one-out errors: distinct rows, and cells of equal rows with equal targets.

    Attributes
    ----------
    samples : ndarray of int of shape (k,)
        One sample of each distinct row.
    row_weights : ndarray of shape (k,)
        Weight of all samples of each distinct row.
    means : ndarray of shape (k, C)
        Mean of their targets.
    place : ndarray of int of shape (c,)
        Index of the distinct row that the rows of each cell equal.
    counts : ndarray of int of shape (c,)
        Number of rows in each cell.
    shares : ndarray of shape (c,)
        Fraction of the distinct row's weight that belongs to one row of the cell.
    weights : ndarray of shape (c,)
        Weight of all rows of each cell.
    deviations : ndarray of shape (c, C)
        Targets of each cell minus the mean of the distinct row.
    """

    samples: npt.NDArray[np.intp]
    row_weights: FloatArray
    means: FloatArray
    place: npt.NDArray[np.intp]
    counts: npt.NDArray[np.int64]
    shares: FloatArray
    weights: FloatArray
    deviations: FloatArray

    @classmethod
    def of(cls, problem: TrainingProblem, rows: DistinctRows) -> LeftOut:
        """Collect at most a thousand distinct rows of a problem, with outlying targets clipped."""
        kept = np.random.default_rng(0).permutation(rows.count)[:_MOST_ROWS]
        sample_weight = np.ones(problem.n_samples) if problem.sample_weight is None else problem.sample_weight
        targets = regression_targets(problem.targets, problem.loss, problem.sample_weight)
        weights, means = _means(targets, sample_weight, rows.group)
        cells = Cells.of(problem, rows)
        place = np.full(rows.count, -1)
        place[kept] = np.arange(len(kept))
        used = place[cells.group] >= 0
        in_cells, of_cells = _means(targets, sample_weight, cells.cell)
        return cls(
            samples=rows.first[kept],
            row_weights=weights[kept],
            means=means[kept],
            place=place[cells.group][used],
            counts=cells.counts[used],
            shares=(in_cells / (cells.counts * weights[cells.group]))[used],
            weights=in_cells[used],
            deviations=(of_cells - means[cells.group])[used],
        )

    def best(self, rows: QuadraticMap) -> tuple[float, FloatArray]:
        """Find the penalty strength, over the mean eigenvalue, with the smallest errors; return it and the errors.

        Parameters
        ----------
        rows : QuadraticMap
            Quadratic map of the distinct rows.
        """
        roots = np.sqrt(self.row_weights)[:, None]
        eigenvalues, basis = _decomposed(rows, roots)
        squares, coordinates = np.square(basis), basis.T @ (roots * self.means)
        # Outside the basis, the fit is zero.
        outside, missing = roots * self.means - basis @ coordinates, np.maximum(1.0 - squares.sum(axis=1), 0.0)
        unit = float(eigenvalues.sum()) / len(roots) or 1.0

        def errors(strength: float) -> FloatArray:
            # This is 1 - H in the basis, without a subtraction, which could give zero.
            left = unit * strength / (eigenvalues + unit * strength)
            residuals = (outside + basis @ (left[:, None] * coordinates)) / roots
            own = (1.0 - self.shares) + self.shares * (missing + squares @ left)[self.place]
            squared = np.square(self.deviations + residuals[self.place]).sum(axis=1)
            return np.bincount(self.place, self.weights * squared / own**2).astype(float)

        found = ((strength, errors(strength)) for strength in _STRENGTHS.tolist())
        return min(found, key=lambda one: float(one[1].sum()))


def _decomposed(rows: QuadraticMap, roots: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute eigenvalues (r,) >= 0 and eigenvectors (k, r) of the kernel of rows multiplied by `roots` (k, 1)."""
    if not few_features(rows):
        eigenvalues, basis = np.linalg.eigh(roots * rows.inner_products() * roots.T)
        return np.maximum(eigenvalues, 0.0), basis
    features = roots * rows.features()
    eigenvalues, axes = np.linalg.eigh(features.T @ features)
    kept = eigenvalues > _RANK * eigenvalues[-1]
    eigenvalues = eigenvalues[kept]
    return eigenvalues, features @ (axes[:, kept] / np.sqrt(eigenvalues))


def regression_targets(targets: FloatArray, loss: Loss, weights: FloatArray | None) -> FloatArray:
    """Prepare targets (n, C) for least squares: clip outliers unless the loss is the squared loss.

    Targets of label losses and cross-entropies have no outliers.
    """
    if loss.quadratic or loss.for_classes:
        return targets
    return without_outliers(targets, weights)


def first_clear_best(
    candidates: Iterable[tuple[Candidate, TrainingProblem]], rows: DistinctRows
) -> tuple[Candidate, TrainingProblem, RidgeFit | None]:
    """Choose the first candidate on which the next, with more inputs, does not clearly improve; return its regression.

    Parameters
    ----------
    candidates : iterable of (object, TrainingProblem)
        The same samples in several encodings, from few to many inputs; at least one. They are computed on demand, and
        the search ends at the first without a clear gain, or once a time limit has passed.
    rows : DistinctRows
        Distinct rows of the samples.

    Returns
    -------
    object
    TrainingProblem
    RidgeFit or None
        None if no regressions were compared.
    """
    others = iter(candidates)
    best, fit = next(others), None
    for candidate in others if rows.count >= _LEAST_ROWS else ():
        if candidate[1].n_features == best[1].n_features:
            continue
        if deadline.over():
            break
        fit = left_out_fit(best[1], rows) if fit is None else fit
        found = left_out_fit(candidate[1], rows)
        if not is_clear_gain(fit.errors - found.errors, fit.errors):
            break
        best, fit = candidate, found
    return *best, fit


def is_clear_gain(gains: FloatArray, errors: FloatArray) -> bool:
    """Whether errors fell by more than a hundredth and more than 1.5 standard errors."""
    return bool(gains.mean() > max(_GAIN * float(errors.mean()), _STANDARD_ERRORS * standard_error(gains)))


def standard_error(numbers: FloatArray) -> float:
    """Compute the standard error of the mean."""
    return float(numbers.std(ddof=1) / np.sqrt(len(numbers)))
