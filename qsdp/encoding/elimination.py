"""Inputs that predict as well without the others, by quadratic ridge regression on rows held out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from qsdp._utils.deadline import NEVER, Deadline
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.activations import PolynomialActivation
from qsdp.encoding.selection import LeftOut, RidgeFit, few_features, left_out_fit, standard_error
from qsdp.lifting import QuadraticMap
from qsdp.problem import TrainingProblem, quadratic_map
from qsdp.relaxation.rows import DistinctRows

__all__ = ["useful_inputs"]

#: Folds, and distinct rows below which no input is left out.
_FOLDS, _LEAST_ROWS = 5, 20

#: Share of the inputs that is left out at once, and how many stay at least.
_LEFT_OUT, _LEAST_INPUTS = 0.25, 2

#: Standard errors of paired differences by which errors must be larger than the least for the search to end.
_HOPELESS = 3.0

#: Standard errors of paired differences by which errors may be larger than the least for fewer inputs, and the share of
#: the error that is rounding. With one, the usual rule, of ten sets three lost 0.4 to 0.8 points; with a half, as with
#: none, changes of accuracy average zero, and bits are a seventh fewer than with none.
_NEGLIGIBLE, _ROUNDING = 0.5, 1e-9


def useful_inputs(
    problem: TrainingProblem,
    rows: DistinctRows,
    n_inputs: int,
    deadline: Deadline = NEVER,
    fit: RidgeFit | None = None,
) -> IntArray:
    r"""Return the fewest of the first `n_inputs` columns of a problem that predict as well as any number of them.

    Recursive elimination, cross-validated: a quadratic ridge regression, as in `left_out_errors`, is fitted again and
    again, each time without the quarter of the inputs that matters least to its predictions. How many of them stay is
    decided on rows held out, fold by fold, outside of which the inputs are ranked too: inputs ranked on all rows
    seem better there than they are. The fewest whose errors are larger than the least by no more than half a standard
    error of the paired differences stay. Rows are dealt to the folds one by one, equal ones, too.

    Parameters
    ----------
    problem : TrainingProblem
        Its beta does not matter. Columns after the first ones, such as a constant, stay.
    rows : DistinctRows
        Of the problem's samples, by these or other inputs; a thousand of them at most are used.
    n_inputs : int
    deadline : Deadline
        When it has passed, what is best by then is returned.
    fit : RidgeFit, optional
        The regression of all inputs, if it is known.

    Returns
    -------
    ndarray of int
        Ascending.
    """
    everything = np.arange(n_inputs)
    if rows.count < _LEAST_ROWS or n_inputs <= _LEAST_INPUTS:
        return everything
    elimination = _Elimination.of(problem, rows, n_inputs, fit)
    # Of all rows first, then of those outside of each fold.
    inputs = [everything] * (1 + _FOLDS)
    tried: list[tuple[IntArray, FloatArray]] = []
    while not deadline.over:
        errors, importances = elimination.measure(inputs)
        tried.append((inputs[0], errors))
        if not _as_good(errors, _least(tried), _HOPELESS):
            break
        count = max(_LEAST_INPUTS, int((1.0 - _LEFT_OUT) * len(inputs[0])))
        if count == len(inputs[0]):
            break
        inputs = [_largest(own, sizes, count) for own, sizes in zip(inputs, importances, strict=True)]
    return next((own for own, errors in reversed(tried) if _as_good(errors, _least(tried), _NEGLIGIBLE)), everything)


def _least(tried: list[tuple[IntArray, FloatArray]]) -> FloatArray:
    """Return the errors of the least sum."""
    return min((errors for _, errors in tried), key=lambda errors: float(errors.sum()))


def _as_good(errors: FloatArray, least: FloatArray, standard_errors: float) -> bool:
    """Return whether errors are larger than the least by so many standard errors at most, or by rounding."""
    worse = errors - least
    return bool(worse.mean() <= standard_errors * standard_error(worse) + _ROUNDING * errors.mean())


def _largest(inputs: IntArray, importances: FloatArray, count: int) -> IntArray:
    """Return so many inputs of the largest importances, ascending."""
    return np.sort(inputs[np.argsort(-importances, kind="stable")[:count]])


@dataclass(frozen=True, eq=False)
class _Elimination:
    """Distinct rows, and how their weights are divided between training parts and folds.

    Attributes
    ----------
    left_out : LeftOut
    X : ndarray of shape (k, N)
        Inputs of the distinct rows, at the better scale.
    activation : PolynomialActivation or None
    n_inputs : int
    strength : float
        Of the ridge penalty, for all inputs.
    held_out : ndarray of shape (folds, c)
        The weight of every cell that a fold holds out.
    """

    left_out: LeftOut
    X: FloatArray
    activation: PolynomialActivation | None
    n_inputs: int
    strength: float
    held_out: FloatArray

    @classmethod
    def of(
        cls, problem: TrainingProblem, rows: DistinctRows, n_inputs: int, fit: RidgeFit | None = None
    ) -> _Elimination:
        """Return that of a problem, and of its regression."""
        left_out, fit = LeftOut.of(problem, rows), fit or left_out_fit(problem, rows)
        order = np.argsort(left_out.place, kind="stable")
        ends = np.empty_like(left_out.counts)
        ends[order] = np.cumsum(left_out.counts[order])
        # Every fifth row, from number k on, of those of the cell.
        later = np.arange(_FOLDS - 1, -1, -1)[:, None]
        dealt = (ends + later) // _FOLDS - (ends - left_out.counts + later) // _FOLDS
        held_out = dealt / left_out.counts * left_out.weights
        X = fit.scale * problem.X[left_out.samples]
        return cls(left_out, X, problem.activation, n_inputs, fit.strength, held_out)

    def measure(self, inputs: list[IntArray]) -> tuple[FloatArray, list[FloatArray]]:
        """Return the squared errors (k,) at rows held out, and the importances of the inputs, each ranked on its rows.

        Parameters
        ----------
        inputs : list of ndarray of int
            Those of all rows first, then those of each training part.
        """
        left_out = self.left_out
        strength = self.strength
        if len(inputs[0]) < self.n_inputs:
            strength, _ = left_out.best(self._rows(inputs[0]))
        targets = left_out.means[left_out.place] + left_out.deviations
        errors = np.zeros(len(left_out.samples))
        importances = [self._fit(inputs[0], left_out.weights, targets, strength)[1]]
        for own, held_out in zip(inputs[1:], self.held_out, strict=True):
            predictions, sizes = self._fit(own, left_out.weights - held_out, targets, strength)
            squared = np.square(predictions[left_out.place] - targets).sum(axis=1)
            errors += np.bincount(left_out.place, held_out * squared, minlength=len(errors))
            importances.append(sizes)
        return errors, importances

    def _rows(self, inputs: IntArray) -> QuadraticMap:
        columns = np.hstack([self.X[:, inputs], self.X[:, self.n_inputs :]])
        return quadratic_map(columns, self.activation)

    def _fit(
        self, inputs: IntArray, cell_weights: FloatArray, targets: FloatArray, strength: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return what a regression of some inputs on weighted cells predicts for all rows, and their importances."""
        place, count = self.left_out.place, len(self.X)
        weights = np.bincount(place, cell_weights, minlength=count).astype(float)
        training = weights > 0.0
        weights = weights[training]
        sums = np.stack([np.bincount(place, cell_weights * one, minlength=count) for one in targets.T], axis=1)
        rows, roots = self._rows(inputs), np.sqrt(weights)[:, None]
        targets = sums[training] / roots
        if few_features(rows):
            features = rows.features()
            own = roots * features[training]
            gram = own.T @ own
            ridge = _add_ridge(gram, strength, len(own))
            slopes = scipy.linalg.solve(gram, own.T @ targets, assume_a="pos")
            predictions, dual = features @ slopes, roots * (targets - own @ slopes) / ridge
        else:
            kernel = rows.inner_products()
            own = roots * kernel[np.ix_(training, training)] * roots.T
            _add_ridge(own, strength, len(own))
            dual = roots * scipy.linalg.solve(own, targets, assume_a="pos")
            predictions = kernel[:, training] @ dual
        sizes = _importances(rows.X[training], dual, weights, self.activation)
        return predictions, sizes[: len(inputs)]


def _add_ridge(gram: FloatArray, strength: float, n_rows: int) -> float:
    """Add a multiple of the mean eigenvalue of so many rows to the diagonal, and return it."""
    ridge = strength * (float(np.trace(gram)) / n_rows or 1.0)
    gram[np.diag_indices(len(gram))] += ridge
    return ridge


def _importances(
    X: FloatArray, dual: FloatArray, weights: FloatArray, activation: PolynomialActivation | None
) -> FloatArray:
    """Return by how much predictions change if a column is replaced by its mean, squared and summed over rows."""
    a, b, _ = (1.0, 0.0, 0.0) if activation is None else activation.coefficients
    deviations = X - np.average(X, axis=0, weights=weights)
    importances = np.zeros(X.shape[1])
    for one in dual.T:
        # The predictions are x'Sx + s'x and a constant, S and s sums over rows.
        slopes = 2.0 * a**2 * np.linalg.multi_dot([X, X.T * one, X]) + 0.5 * b**2 * (one @ X)
        changes = deviations * (slopes - deviations * (a**2 * (one @ np.square(X))))
        importances += weights @ np.square(changes)
    return importances
