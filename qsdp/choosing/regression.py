"""Quadratic ridge regression, the functions of the relaxation with another norm, and its distinct rows and cells."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import scipy

from qsdp._utils import deadline
from qsdp._utils.numeric import ROUNDING
from qsdp._utils.parallel import chunks
from qsdp._utils.tuning import INNER, NEGLIGIBLE, ROUGH
from qsdp._utils.validation import FloatArray
from qsdp.blocks import Blocks
from qsdp.data_map import COLUMNS, DataMap
from qsdp.encoding.binning import without_outliers
from qsdp.lifting import power_of_two
from qsdp.losses import Loss
from qsdp.problem import TrainingProblem

__all__ = ["Cells", "DistinctRows", "Functions", "LeftOut", "RidgeFit", "left_out_fit", "normalised"]


#: Maximum number of distinct rows that are left out, maximum number of distinct rows that train, and maximum dimension
#: of the functions: enough to detect gains of a few per mille, in a second per encoding.
MAX_ROWS, MAX_TRAINED, MAX_FUNCTIONS = 3000, 50_000, 1000

#: Number of distinct rows below which nothing can be left out.
MIN_ROWS = 8

#: Strengths of the ridge penalty, as multiples of the mean eigenvalue.
_STRENGTHS = np.geomspace(1e-6, 1e3, 28)

#: Scales of the inputs: products are penalised more than inputs at the first scale, equally at the second.
_SCALES = (1.0, 4.0)


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """The distinct rows of a table of numbers.

    Attributes
    ----------
    first : ndarray of int of shape (k,)
        Index of the first occurrence of every distinct row, in an order that does not depend on the order of the rows.
    group : ndarray of int of shape (n,)
        Index of the distinct row that each row equals.
    """

    first: npt.NDArray[np.intp]
    group: npt.NDArray[np.intp]

    @classmethod
    def from_rows(cls, rows: FloatArray | Blocks) -> DistinctRows:
        """Return the distinct rows of an array of shape (n, k), or of blocks."""
        if isinstance(rows, Blocks):
            # Digests of two integers are compared, since the packed rows may be most of the memory.
            # Adding zero makes one of both zeros.
            digests = [blake2b((row + 0).tobytes(), digest_size=16).digest() for row in rows.rows]
            rows = np.frombuffer(b"".join(digests), dtype=">u8").reshape(-1, 2)
        width, n = 1, len(rows)
        while True:
            # One stable sort for each column takes a third of the time of `np.unique`, which compares row by row.
            # Columns after those in which all rows differ would not change the order.
            some = rows[:, :width]
            order = np.lexsort(some.T[::-1])
            new = np.ones(n, dtype=bool)
            new[1:] = (some[order[1:]] != some[order[:-1]]).any(axis=1)
            if width >= rows.shape[1] or new.all():
                break
            width *= 4
        group = np.empty(len(order), dtype=np.intp)
        group[order] = np.cumsum(new) - 1
        return cls(order[new], group)

    @property
    def count(self) -> int:
        """Number of distinct rows k."""
        return len(self.first)


@dataclass(frozen=True, eq=False)
class Cells:
    """Groups of samples with equal rows and equal targets, and the number of rows in each group.

    Numbers of rows, see `TrainingProblem.row_counts`, are divided by their greatest common divisor, so that data and
    the same data twice are equal.

    Attributes
    ----------
    cell : ndarray of int of shape (n,)
        Cell of every sample.
    group : ndarray of int of shape (c,)
        Distinct row of every cell, nondecreasing; the order of cells does not depend on the order of the samples.
    counts : ndarray of int of shape (c,)
        Number of rows in every cell, at least one.
    """

    cell: npt.NDArray[np.intp]
    group: npt.NDArray[np.intp]
    counts: npt.NDArray[np.int64]

    @classmethod
    def from_problem(cls, problem: TrainingProblem, rows: DistinctRows) -> Cells:
        """Group the samples of a problem by their distinct `rows`, which may be those of other inputs, and targets."""
        keys = np.column_stack([rows.group, problem.y])
        distinct, cell = np.unique(keys, axis=0, return_inverse=True)
        cell = cell.ravel()
        counts = np.bincount(cell, problem.row_counts).astype(np.int64)
        return cls(cell, distinct[:, 0].astype(np.intp), counts // np.gcd.reduce(counts))


@dataclass(frozen=True, eq=False)
class RidgeFit:
    """Quadratic ridge regression, and its leave-one-out errors at distinct rows.

    Attributes
    ----------
    scale : float
        Factor of the inputs.
    errors : ndarray of shape (k,)
        Squared leave-one-out errors, times weights, summed over equal rows.
    training_loss : float
        Weighted sum of the squared errors of the fit to all rows, at the same rows.
    coefficients : ndarray of shape (r, C)
        Coefficients of the fit to all rows, of the spanning functions of `Functions`.
    functions : Functions
        Space of the fit.
    left_out : LeftOut
        Rows and targets that it was fitted to.
    """

    scale: float
    errors: FloatArray
    training_loss: float
    coefficients: FloatArray
    functions: Functions
    left_out: LeftOut


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
    left_out = LeftOut.from_problem(problem, rows, trained=MAX_TRAINED)
    few = left_out if rows.count <= MAX_FUNCTIONS else LeftOut.from_problem(problem, rows, trained=MAX_FUNCTIONS // 2)
    fits = [few.best(few.data(problem, _SCALES[0]), _SCALES[0])]
    fits += [few.best(few.data(problem, scale), scale) for scale in deadline.in_time(_SCALES[1:])]
    best = min(fits, key=lambda fit: float(fit.errors.sum()))
    return best if few is left_out else left_out.best(left_out.data(problem, best.scale), best.scale)


def normalised(rows: DataMap) -> DataMap:
    """Return the map in units of its size, since the regression squares inner products: fourth powers of the data."""
    rows = rows.in_units_of_rows()
    return rows.scaled(1.0 / power_of_two(rows.mean_size()))


class Functions:
    r"""Space of quadratic functions, and functions that span it.

    It contains all functions of the rows :math:`\mathcal{X}_i`, or only the combinations of the first `MAX_FUNCTIONS`
    rows, if there are more rows and more entries than these. It is spanned by the entries, or else by the inner
    products with these rows.

    Parameters
    ----------
    rows : DataMap
        See `normalised`.
    """

    def __init__(self, rows: DataMap) -> None:
        few = rows.layout.n_entries > min(MAX_FUNCTIONS, rows.n_rows)
        self._few = rows.take(slice(MAX_FUNCTIONS)) if few else None
        if self._few is not None:
            self._inner = self.spanning(self._few)

    def spanning(self, rows: DataMap) -> FloatArray:
        """Return the values (n, r) of the spanning functions."""
        if self._few is None:
            return rows.features()
        return rows.inner_products(self._few)

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
            values = weighted(part)
            gram += values.T @ values
            products += values.T @ targets[part]
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
    return chunks(n, 1, work=MAX_ROWS)


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
        Values at the first `MAX_ROWS` rows, times the square roots of the weights.
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
    chosen = eigenvalues > INNER * NEGLIGIBLE * eigenvalues[-1]
    return eigenvalues[chosen], axes[:, chosen]


def _means(values: FloatArray, weights: FloatArray, groups: npt.NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
    """Compute the weight (k,) of each group and the weighted means (k, C) of its values (n, C)."""
    totals = np.bincount(groups, weights).astype(float)
    return totals, np.stack([np.bincount(groups, weights * column) for column in values.T], axis=1) / totals[:, None]


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
    position : ndarray of int of shape (c,)
        Index of the distinct row that the rows of each cell equal.
    counts : ndarray of int of shape (c,)
        Number of rows in each cell.
    fractions : ndarray of shape (c,)
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
    position: npt.NDArray[np.intp]
    counts: npt.NDArray[np.int64]
    fractions: FloatArray
    weights: FloatArray
    targets: FloatArray
    deviations: FloatArray

    @classmethod
    def from_problem(cls, problem: TrainingProblem, rows: DistinctRows, *, trained: int = MAX_ROWS) -> LeftOut:
        """Collect at most `trained` distinct rows of a problem, in random order, with outlying targets clipped."""
        chosen = np.random.default_rng(0).permutation(rows.count)[:trained]
        sample_weight = np.ones(problem.n_samples) if problem.sample_weight is None else problem.sample_weight
        targets = regression_targets(problem.targets, problem.loss, problem.sample_weight)
        weights, means = _means(targets, sample_weight, rows.group)
        cells = Cells.from_problem(problem, rows)
        position = np.full(rows.count, -1)
        position[chosen[:MAX_ROWS]] = np.arange(min(len(chosen), MAX_ROWS))
        used = position[cells.group] >= 0
        in_cells = np.bincount(cells.cell, sample_weight).astype(float)
        of_cells = targets[np.unique(cells.cell, return_index=True)[1]]
        return cls(
            samples=rows.first[chosen],
            row_weights=weights[chosen],
            means=means[chosen],
            position=position[cells.group][used],
            counts=cells.counts[used],
            fractions=(in_cells / (cells.counts * weights[cells.group]))[used],
            weights=in_cells[used],
            targets=of_cells[used],
            deviations=(of_cells - means[cells.group])[used],
        )

    def data(self, problem: TrainingProblem, scale: float) -> DataMap:
        """Return the `normalised` map of the distinct rows; inputs that are columns are multiplied by `scale`."""
        rows = normalised(problem.weight_map.take(self.samples))
        return rows.of_scaled_data(scale) if COLUMNS in rows.offers else rows

    def best(self, rows: DataMap, scale: float = 1.0) -> RidgeFit:
        """Fit the regression whose penalty strength has the smallest errors.

        Parameters
        ----------
        rows : DataMap
            `normalised` map of the distinct rows.
        scale : float
            Factor by which the inputs of `rows` were multiplied.
        """
        k = int(self.position.max()) + 1
        functions = Functions(rows)
        functions_at_rows = functions.decomposed(rows, self.row_weights, self.means)
        eigenvalues = functions_at_rows.eigenvalues
        unit = float(eigenvalues.sum()) / rows.n_rows or 1.0
        inverses = 1.0 / (eigenvalues[:, None] + unit * _STRENGTHS)
        squares = np.square(functions_at_rows.values) @ inverses
        solutions = functions_at_rows.products * inverses.T[:, :, None]
        fitted = functions_at_rows.values @ np.hstack(list(solutions)) / np.sqrt(self.row_weights[:k, None])
        predictions = np.split(fitted, len(_STRENGTHS), axis=1)

        def fit(number: int) -> RidgeFit:
            residuals = self.means[:k] - predictions[number]
            left_weight = np.maximum(1.0 - self.fractions * squares[self.position, number], ROUNDING)
            residuals = self.deviations + residuals[self.position]
            losses = self.weights * np.square(residuals).sum(axis=1)
            summed = np.bincount(self.position, losses / np.square(left_weight)).astype(float)
            return RidgeFit(
                scale=scale,
                errors=summed,
                training_loss=float(losses.sum()),
                coefficients=functions_at_rows.axes @ solutions[number],
                functions=functions,
                left_out=self,
            )

        return min(map(fit, range(len(_STRENGTHS))), key=lambda candidate: float(candidate.errors.sum()))


def regression_targets(targets: FloatArray, loss: Loss, weights: FloatArray | None) -> FloatArray:
    """Prepare targets (n, C) for least squares: clip outliers unless the loss is the squared loss.

    Targets of label losses and cross-entropies have no outliers.
    """
    if loss.quadratic or loss.for_classes:
        return targets
    return without_outliers(targets, weights)
