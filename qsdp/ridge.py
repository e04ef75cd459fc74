"""Quadratic ridge regression: the functions of the relaxation with another norm, and the beta that suits them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from qsdp._utils import deadline
from qsdp._utils.numeric import ROUNDING
from qsdp._utils.tuning import FIRST_TRY, INNER, NEGLIGIBLE, ROUGH
from qsdp._utils.validation import FloatArray
from qsdp.encoding.cuts import without_outliers
from qsdp.inner_problem import grothendieck_bound, uninterrupted
from qsdp.lifting import DataMap, power_of_two
from qsdp.losses import Loss
from qsdp.problem import TrainingProblem
from qsdp.relaxation.largest_beta import useful_beta_max
from qsdp.relaxation.rows import Cells, DistinctRows
from qsdp.relaxation.solution import Relaxation

__all__ = [
    "BetaChoice",
    "Functions",
    "LeftOut",
    "LeftOutOutputs",
    "RidgeFit",
    "choose_beta",
    "left_out_fit",
    "moderate",
]

#: Maximum number of distinct rows that are left out, maximum number of distinct rows that train, and maximum dimension
#: of the functions: enough to detect gains of a few per mille, in a second per encoding.
MOST_ROWS, MOST_TRAINED, MOST_FUNCTIONS = 3000, 50_000, 1000

#: Number of distinct rows below which nothing can be left out.
LEAST_ROWS = 8

#: Strengths of the ridge penalty, as multiples of the mean eigenvalue.
_STRENGTHS = np.geomspace(1e-6, 1e3, 28)

#: Scales of the inputs: products are penalised more than inputs at the first scale, equally at the second.
_SCALES = (1.0, 4.0)

#: Bounds of beta as a fraction of `beta_max`, the lower one divided by the square root of the number of rows, and the
#: fraction used if no row can be left out.
_LEAST_SHARE, _MOST_SHARE, _FALLBACK = 0.03, 0.3, 0.01

#: Beta relative to the beta at which the residuals of the regression are dual feasible; two thirds cost 0.4 points.
_RATIO = 0.5


@dataclass(frozen=True, eq=False)
class RidgeFit:
    """Quadratic ridge regression, and its leave-one-out errors at distinct rows.

    Attributes
    ----------
    scale : float
        Factor of the inputs.
    strength : float
        Strength of the penalty, as a multiple of the mean eigenvalue.
    errors : ndarray of shape (k,)
        Squared leave-one-out errors, times weights, summed over equal rows.
    training_loss : float
        Weighted sum of the squared errors of the fit to all rows, at the same rows.
    coefficients : ndarray of shape (r, C)
        Coefficients of the fit to all rows, of the spanning functions of `Functions`.
    freedom : float
        Degrees of freedom: trace of the matrix that maps targets to predictions.
    functions : Functions
        Space of the fit.
    left_out : LeftOut
        Rows and targets that it was fitted to.
    outputs : ndarray of shape (c, C)
        Predictions for the left-out rows of every cell.
    """

    scale: float
    strength: float
    errors: FloatArray
    training_loss: float
    coefficients: FloatArray
    freedom: float
    functions: Functions
    left_out: LeftOut
    outputs: FloatArray


def left_out_fit(problem: TrainingProblem, rows: DistinctRows) -> RidgeFit:
    r"""Fit the quadratic ridge regression with the smallest squared leave-one-out errors.

    The regression minimises :math:`\sum_i w_i \|y_i - \langle \mathcal{X}_i, S \rangle\|^2 + \lambda \|S\|_F^2` over
    symmetric matrices S, one per output: the functions of the relaxation, with another norm. Let
    :math:`K_{ij} = \sqrt{w_i w_j} \langle \mathcal{X}_i, \mathcal{X}_j \rangle` and
    :math:`H = K (K + \lambda I)^{-1}` over distinct rows. The error at a left-out row with a fraction s of the weight
    of its distinct row is the error of the fit to all rows, divided by :math:`1 - s H_{ii}`. One decomposition thus
    gives the errors for every :math:`\lambda`, of which the best is used. The scale of X is the better of two, on a few
    hundred distinct rows if these are more than a thousand; the first, if a time limit has passed.

    Parameters
    ----------
    problem : TrainingProblem
        Training problem; its beta is ignored.
    rows : DistinctRows
        Distinct rows of the problem's samples, in these or other inputs.
    """
    left_out = LeftOut.of(problem, rows, trained=MOST_TRAINED)
    few = left_out if rows.count <= MOST_FUNCTIONS else LeftOut.of(problem, rows, trained=MOST_FUNCTIONS // 2)
    fits = [few.best(few.data(problem, _SCALES[0]), _SCALES[0])]
    fits += [few.best(few.data(problem, scale), scale) for scale in deadline.in_time(_SCALES[1:])]
    best = min(fits, key=lambda fit: float(fit.errors.sum()))
    return best if few is left_out else left_out.best(left_out.data(problem, best.scale), best.scale)


def moderate(rows: DataMap) -> DataMap:
    """Return the map in units of its size, since the regression squares inner products: fourth powers of the data."""
    rows = rows.in_units_of_rows()
    return rows.scaled(1.0 / power_of_two(rows.mean_size()))


class Functions:
    r"""Space of quadratic functions, and functions that span it.

    It contains all functions of the rows :math:`\mathcal{X}_i`, or only the combinations of the first `most` rows, if
    there are more rows and more entries than these. It is spanned by the entries, or else by the inner products with
    these rows.

    Parameters
    ----------
    rows : DataMap
        See `moderate`.
    most : int
    """

    def __init__(self, rows: DataMap, most: int = MOST_FUNCTIONS) -> None:
        self._few = rows.take(slice(most)) if rows.layout.n_entries > min(most, rows.n_rows) else None
        if self._few is not None:
            self._inner = self.spanning(self._few)

    def spanning(self, rows: DataMap) -> FloatArray:
        """Return the values (n, r) of the spanning functions."""
        if self._few is None:
            return rows.features()
        # Of the kind of `rows`.
        few: Any = self._few
        return rows.inner_products(few)

    def values(self, rows: DataMap, coefficients: FloatArray) -> FloatArray:
        """Return the values (n, C) of combinations (r, C) of the spanning functions."""
        return np.concatenate([self.spanning(rows.take(part)) @ coefficients for part in _parts(rows.n_rows)])

    def decomposed(self, rows: DataMap, weights: FloatArray, targets: FloatArray) -> _Decomposition:
        """Find orthonormal functions whose values at the weighted rows are orthogonal."""
        roots, few = np.sqrt(weights)[:, None], self._few
        if few is not None and few.n_rows == rows.n_rows:
            eigenvalues, vectors = _eigenvectors(roots * self._inner * roots.T)
            values, axes = vectors * np.sqrt(eigenvalues), roots * vectors / np.sqrt(eigenvalues)
            return _Decomposition(eigenvalues, axes, values, values.T @ (roots * targets))
        orthonormal, exact = (None, False) if few is None else self._orthonormal(roots[: few.n_rows])

        def weighted(part: slice) -> FloatArray:
            values = roots[part] * self.spanning(rows.take(part))
            return values if orthonormal is None or not exact else values @ orthonormal

        parts, targets = _parts(rows.n_rows), roots * targets
        first = weighted(parts[0])
        gram, products = first.T @ first, first.T @ targets[parts[0]]
        for part in parts[1:]:
            own = weighted(part)
            gram += own.T @ own
            products += own.T @ targets[part]
        if orthonormal is not None and not exact:
            eigenvalues, axes = _eigenvectors(orthonormal.T @ gram @ orthonormal)
            axes = orthonormal @ axes
            return _Decomposition(eigenvalues, axes, first @ axes, axes.T @ products)
        eigenvalues, axes = _eigenvectors(gram)
        values, products = first @ axes, axes.T @ products
        return _Decomposition(eigenvalues, axes if orthonormal is None else orthonormal @ axes, values, products)

    def _orthonormal(self, scales: FloatArray) -> tuple[FloatArray, bool]:
        """Return coefficients of orthonormal functions, and whether their values need the accuracy of each product.

        That is so if nearly all of the inner products belongs to one function, as for columns far from zero or of other
        sizes: the Gram matrix of the spanning functions has the squares of their ratios.
        """
        inner = scales * self._inner * scales.T
        total = float(np.trace(inner))
        exact = total - float(np.linalg.norm(inner)) <= ROUGH * total
        # Rows may be dependent.
        inner.flat[:: len(inner) + 1] += (NEGLIGIBLE if exact else ROUNDING) * total
        factor = np.linalg.cholesky(inner)
        return scales * scipy.linalg.solve_triangular(factor, np.eye(len(factor)), lower=True).T, exact


def _parts(n: int) -> list[slice]:
    """Split rows, since the values of spanning functions at all rows may be most of the memory."""
    return [slice(start, start + MOST_ROWS) for start in range(0, n, MOST_ROWS)]


@dataclass(frozen=True, eq=False)
class _Decomposition:
    """Orthonormal functions whose values at weighted rows are orthogonal.

    Attributes
    ----------
    eigenvalues : ndarray of shape (s,)
        Weighted sums of the squares of the values.
    axes : ndarray of shape (r, s)
        Coefficients of the spanning functions.
    values : ndarray of shape (k, s)
        Values at the first `MOST_ROWS` rows, times the square roots of the weights.
    products : ndarray of shape (s, C)
        Weighted sums of products of values and targets.
    """

    eigenvalues: FloatArray
    axes: FloatArray
    values: FloatArray
    products: FloatArray


def _eigenvectors(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute eigenvalues of a positive semidefinite matrix that are not rounding errors, and their eigenvectors."""
    eigenvalues, axes = np.linalg.eigh(matrix)
    kept = eigenvalues > INNER * NEGLIGIBLE * eigenvalues[-1]
    return eigenvalues[kept], axes[:, kept]


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
    targets : ndarray of shape (c, C)
        Targets of the rows of each cell.
    deviations : ndarray of shape (c, C)
        The same minus the mean of the distinct row.
    """

    samples: npt.NDArray[np.intp]
    row_weights: FloatArray
    means: FloatArray
    place: npt.NDArray[np.intp]
    counts: npt.NDArray[np.int64]
    shares: FloatArray
    weights: FloatArray
    targets: FloatArray
    deviations: FloatArray

    @classmethod
    def of(cls, problem: TrainingProblem, rows: DistinctRows, *, trained: int = MOST_ROWS) -> LeftOut:
        """Collect at most `trained` distinct rows of a problem, in random order, with outlying targets clipped."""
        kept = np.random.default_rng(0).permutation(rows.count)[:trained]
        sample_weight = np.ones(problem.n_samples) if problem.sample_weight is None else problem.sample_weight
        targets = regression_targets(problem.targets, problem.loss, problem.sample_weight)
        weights, means = _means(targets, sample_weight, rows.group)
        cells = Cells.of(problem, rows)
        place = np.full(rows.count, -1)
        place[kept[:MOST_ROWS]] = np.arange(min(len(kept), MOST_ROWS))
        used = place[cells.group] >= 0
        in_cells = np.bincount(cells.cell, sample_weight).astype(float)
        of_cells = targets[np.unique(cells.cell, return_index=True)[1]]
        return cls(
            samples=rows.first[kept],
            row_weights=weights[kept],
            means=means[kept],
            place=place[cells.group][used],
            counts=cells.counts[used],
            shares=(in_cells / (cells.counts * weights[cells.group]))[used],
            weights=in_cells[used],
            targets=of_cells[used],
            deviations=(of_cells - means[cells.group])[used],
        )

    def data(self, problem: TrainingProblem, scale: float) -> DataMap:
        """Return the `moderate` map of the distinct rows; inputs that are columns are multiplied by `scale`."""
        rows = moderate(problem.weight_map.take(self.samples))
        return rows.of_scaled_data(scale) if rows.has_columns else rows

    def best(self, rows: DataMap, scale: float = 1.0) -> RidgeFit:
        """Fit the regression whose penalty strength has the smallest errors.

        Parameters
        ----------
        rows : DataMap
            `moderate` map of the distinct rows.
        scale : float
            Factor by which the inputs of `rows` were multiplied.
        """
        k = int(self.place.max()) + 1
        functions = Functions(rows)
        found = functions.decomposed(rows, self.row_weights, self.means)
        eigenvalues = found.eigenvalues
        unit = float(eigenvalues.sum()) / rows.n_rows or 1.0
        inverses = 1.0 / (eigenvalues[:, None] + unit * _STRENGTHS)
        squares = np.square(found.values) @ inverses
        solutions = found.products * inverses.T[:, :, None]
        fitted = found.values @ np.hstack(list(solutions)) / np.sqrt(self.row_weights[:k, None])
        predictions = np.split(fitted, len(_STRENGTHS), axis=1)

        def fit(number: int) -> RidgeFit:
            residuals = self.means[:k] - predictions[number]
            own = np.maximum(1.0 - self.shares * squares[self.place, number], ROUNDING)
            residuals = self.deviations + residuals[self.place]
            losses = self.weights * np.square(residuals).sum(axis=1)
            summed = np.bincount(self.place, losses / np.square(own)).astype(float)
            return RidgeFit(
                scale=scale,
                strength=float(_STRENGTHS[number]),
                errors=summed,
                training_loss=float(losses.sum()),
                coefficients=found.axes @ solutions[number],
                freedom=float(eigenvalues @ inverses[:, number]),
                functions=functions,
                left_out=self,
                outputs=self.targets - residuals / own[:, None],
            )

        return min(map(fit, range(len(_STRENGTHS))), key=lambda one: float(one.errors.sum()))


def are_classes(targets: FloatArray) -> bool:
    """Whether targets (n, C) encode classes: every column has two values."""
    return bool(np.all((targets == targets.min(axis=0)) | (targets == targets.max(axis=0))))


def regression_targets(targets: FloatArray, loss: Loss, weights: FloatArray | None) -> FloatArray:
    """Prepare targets (n, C) for least squares: clip outliers unless the loss is the squared loss.

    Targets of label losses and cross-entropies have no outliers.
    """
    if loss.quadratic or loss.for_classes:
        return targets
    return without_outliers(targets, weights)


# -- beta ---------------------------------------------------------------------------------------------------------


class LeftOutOutputs(NamedTuple):
    """Outputs (c, C) of a regression for left-out rows, their targets (c, C), and numbers of rows (c,).

    The numbers of rows are proportional to the weights of the rows.
    """

    outputs: FloatArray
    targets: FloatArray
    weights: FloatArray


@dataclass(frozen=True)
class BetaChoice:
    """A beta, the losses of the regression that it was read off, and the share of a loss that does not matter.

    Attributes
    ----------
    beta : float
    expected_loss : float
        Squared loss of the regression on as many new rows as the problem has, estimated from left-out rows; zero if it
        is not known.
    training_loss : float
        Squared loss of the regression on the training rows.
    resolution : float
        Share of the expected loss that is too small to matter on new rows; infinite if it is not known.
    left_out : LeftOutOutputs or None
        Outputs of the regression for left-out rows; None without a regression, or if the loss is not squared.
    """

    beta: float
    expected_loss: float = 0.0
    training_loss: float = 0.0
    resolution: float = math.inf
    left_out: LeftOutOutputs | None = None

    def loss_of(self, relaxation: Relaxation) -> float:
        """Estimate the loss of a relaxation on new rows.

        It is that of the regression, scaled down by the ratio of the training losses if the relaxation fits the rows
        better, since the regression is restricted to a subspace of the functions if rows are many.
        """
        if not self.training_loss:
            return self.expected_loss
        problem = relaxation.problem
        loss = problem.data_fit.value(problem.relaxed_predictions(relaxation.Z_stack))
        return self.expected_loss * min(1.0, loss / self.training_loss)


def choose_beta(problem: TrainingProblem, fit: RidgeFit | None = None) -> BetaChoice:
    r"""Choose the beta for which the relaxation is as flexible as the best quadratic ridge regression.

    At the solution of a relaxation, minus the gradient of the loss :math:`\nu` reaches the bound of the dual,
    :math:`\tau(\sum_i \nu_i \mathcal{X}_i) = \beta D`: beta is the size of the gradient that is left. So beta is read
    off the ridge regression that is best on left-out rows. It is the fraction
    :math:`\tau(\sum_i w_i r_i \mathcal{X}_i) / (2 \tau(\sum_i w_i y_i \mathcal{X}_i))` of `beta_max`, where r are the
    residuals of the targets y. With several outputs, the denominator is the largest over outputs, and the numerator the
    mean or, for classes, the smallest. No relaxation is solved.

    Rows, also equal ones, are left out one by one: if rows repeat, new rows will have been seen before. The result
    depends neither on the order of the samples nor on whether a row is repeated or has an integer weight. Any beta will
    do if zero is always optimal. If rows are few, or a time limit has passed, the fraction is a hundredth.

    Parameters
    ----------
    problem : TrainingProblem
        Training problem; its beta is ignored.
    fit : RidgeFit, optional
        `left_out_fit` of the problem, if already computed.
    """
    with deadline.fraction(FIRST_TRY):
        largest = useful_beta_max(problem)
    if largest == 0.0:
        return BetaChoice(1.0)
    rows = DistinctRows.of(problem.X)
    if rows.count < LEAST_ROWS or deadline.over():
        return BetaChoice(_FALLBACK * largest)
    fit = fit or left_out_fit(problem, rows)
    left_out = fit.left_out
    residuals = left_out.means - fit.functions.values(left_out.data(problem, fit.scale), fit.coefficients)
    sizes = _sizes(problem, left_out, residuals)
    # Outputs have one beta. A class whose output it shrinks more than its regression would hardly be predicted.
    size = sizes.min() if are_classes(left_out.targets) else sizes.mean()
    least = _LEAST_SHARE / math.sqrt(rows.count)
    share = min(max(_RATIO * float(size / _sizes(problem, left_out, left_out.means).max()), least), _MOST_SHARE)
    resolution = _resolution(fit, rows.count)
    if not problem.loss.quadratic:
        return BetaChoice(share * largest, resolution=resolution)
    weight = problem.data_fit.total_weight / float(left_out.weights.sum())
    expected, training = weight * float(fit.errors.sum()), weight * fit.training_loss
    counts = left_out.weights * (left_out.counts.sum() / left_out.weights.sum())
    outputs = LeftOutOutputs(fit.outputs, left_out.targets, counts)
    return BetaChoice(share * largest, expected, training, resolution, outputs)


def _resolution(fit: RidgeFit, n_rows: int) -> float:
    """Return the share of the expected loss that does not matter on new rows.

    It is the smaller of two: by how much the loss of the fit exceeds that of the best function, about half of the
    excess of its loss on new rows over that on the training rows; and the standard error of the loss on `n_rows` rows,
    for normal errors.
    """
    expected = float(fit.errors.sum())
    excess = 0.5 * (1.0 - fit.training_loss / expected) if expected > 0.0 else math.inf
    return min(excess, math.sqrt(2.0 / n_rows))


def _sizes(problem: TrainingProblem, left_out: LeftOut, targets: FloatArray) -> FloatArray:
    r"""Return :math:`\tau(\sum_i w_i y_i \mathcal{X}_i)` of each output, of the block where it is largest."""
    data = problem.map.take(left_out.samples)
    matrices = data.adjoints(left_out.row_weights[:, None] * targets)
    bounds = [float(uninterrupted(grothendieck_bound(M, tol=ROUGH))) for M in matrices]
    sizes: FloatArray = np.reshape(bounds, (-1, data.n_blocks)).max(axis=1)
    return sizes
