"""Recursive elimination of inputs by cross-validated quadratic ridge regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from qsdp._utils import deadline
from qsdp._utils.numeric import ROUNDING
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.activations import PolynomialActivation
from qsdp.encoding.selection import LeftOut, RidgeFit, few_features, left_out_fit, standard_error
from qsdp.lifting import QuadraticMap
from qsdp.problem import TrainingProblem, quadratic_map
from qsdp.relaxation.rows import DistinctRows

__all__ = ["useful_inputs"]

#: Number of folds, and number of distinct rows below which no input is eliminated.
_FOLDS, _LEAST_ROWS = 5, 20

#: Fraction of the inputs that one step eliminates; at least two inputs remain.
_LEFT_OUT = 0.25

#: The search ends if errors exceed the smallest ones by more than this number of standard errors of paired differences.
_HOPELESS = 3.0

#: Number of standard errors by which fewer inputs may exceed the smallest error; one costs accuracy.
_NEGLIGIBLE = 0.5


def useful_inputs(
    problem: TrainingProblem,
    rows: DistinctRows,
    n_inputs: int,
    fit: RidgeFit | None = None,
) -> IntArray:
    r"""Select the fewest of the first `n_inputs` columns of a problem without losing held-out accuracy.

    This is cross-validated recursive elimination. A quadratic ridge regression, as in `left_out_errors`, is fitted
    repeatedly, each time without the quarter of the inputs that affects its predictions least. Held-out rows decide how
    many inputs remain. In each fold, inputs are ranked on the training part, since a ranking on all rows would bias the
    errors. The smallest number of inputs is chosen whose errors exceed the smallest ones by at most half a standard
    error of the paired differences. Equal rows may be in different folds. After a time limit, the best inputs so far
    are returned.

    Parameters
    ----------
    problem : TrainingProblem
        Training problem; its beta is ignored. Columns after the first `n_inputs`, such as a constant, are always used.
    rows : DistinctRows
        Distinct rows of the problem's samples, in these or other inputs; at most a thousand of them are used.
    n_inputs : int
    fit : RidgeFit, optional
        Regression on all inputs, if already computed.

    Returns
    -------
    ndarray of int
        Indices of the columns, ascending.
    """
    everything = np.arange(n_inputs)
    if rows.count < _LEAST_ROWS or n_inputs <= 2:
        return everything
    elimination = _Elimination.of(problem, rows, n_inputs, fit)
    # Inputs ranked on all rows come first, then those ranked on each training part.
    inputs = [everything] * (1 + _FOLDS)
    tried: list[tuple[IntArray, FloatArray]] = []
    while not deadline.over():
        errors, importances = elimination.measure(inputs)
        tried.append((inputs[0], errors))
        if not _as_good(errors, _least(tried), _HOPELESS):
            break
        count = max(2, int((1.0 - _LEFT_OUT) * len(inputs[0])))
        if count == len(inputs[0]):
            break
        inputs = [_largest(own, sizes, count) for own, sizes in zip(inputs, importances, strict=True)]
    return next((own for own, errors in reversed(tried) if _as_good(errors, _least(tried), _NEGLIGIBLE)), everything)


def _least(tried: list[tuple[IntArray, FloatArray]]) -> FloatArray:
    """Return the errors with the smallest sum."""
    return min((errors for _, errors in tried), key=lambda errors: float(errors.sum()))


def _as_good(errors: FloatArray, least: FloatArray, standard_errors: float) -> bool:
    """Whether errors exceed the smallest by at most this number of standard errors, or by rounding."""
    worse = errors - least
    return bool(worse.mean() <= standard_errors * standard_error(worse) + ROUNDING * errors.mean())


def _largest(inputs: IntArray, importances: FloatArray, count: int) -> IntArray:
    """Return the `count` inputs with the largest importances, ascending."""
    return np.sort(inputs[np.argsort(-importances, kind="stable")[:count]])


@dataclass(frozen=True, eq=False)
class _Elimination:
    """Data of the elimination: distinct rows, and their weights in each fold.

    Attributes
    ----------
    left_out : LeftOut
    X : ndarray of shape (k, N)
        Inputs of the distinct rows, at the better scale.
    activation : PolynomialActivation or None
    n_inputs : int
    strength : float
        Strength of the ridge penalty, for all inputs.
    held_out : ndarray of shape (folds, c)
        Weight of each cell that a fold holds out.
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
        """Prepare the elimination for a problem and its regression."""
        left_out, fit = LeftOut.of(problem, rows), fit or left_out_fit(problem, rows)
        order = np.argsort(left_out.place, kind="stable")
        ends = np.empty_like(left_out.counts)
        ends[order] = np.cumsum(left_out.counts[order])
        # Fold k gets every fifth row of a cell, from number k on.
        later = np.arange(_FOLDS - 1, -1, -1)[:, None]
        dealt = (ends + later) // _FOLDS - (ends - left_out.counts + later) // _FOLDS
        held_out = dealt / left_out.counts * left_out.weights
        X = fit.scale * problem.X[left_out.samples]
        return cls(left_out, X, problem.activation, n_inputs, fit.strength, held_out)

    def measure(self, inputs: list[IntArray]) -> tuple[FloatArray, list[FloatArray]]:
        """Compute squared errors (k,) on held-out rows, and importances of all inputs on each training part.

        Parameters
        ----------
        inputs : list of ndarray of int
            Inputs for all rows, then those for each training part.
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
        """Fit a regression on some inputs and weighted cells; return predictions for all rows, and importances."""
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
    """Add a multiple of the mean eigenvalue of `n_rows` rows to the diagonal, and return it."""
    ridge = strength * (float(np.trace(gram)) / n_rows or 1.0)
    gram[np.diag_indices(len(gram))] += ridge
    return ridge


def _importances(
    X: FloatArray, dual: FloatArray, weights: FloatArray, activation: PolynomialActivation | None
) -> FloatArray:
    """Compute the squared change of predictions, summed over rows, if a column is replaced by its mean."""
    a, b, _ = (1.0, 0.0, 0.0) if activation is None else activation.coefficients
    deviations = X - np.average(X, axis=0, weights=weights)
    importances = np.zeros(X.shape[1])
    for one in dual.T:
        # Predictions are x'Sx + s'x + a constant, where S and s are sums over rows.
        slopes = 2.0 * a**2 * np.linalg.multi_dot([X, X.T * one, X]) + 0.5 * b**2 * (one @ X)
        changes = deviations * (slopes - deviations * (a**2 * (one @ np.square(X))))
        importances += weights @ np.square(changes)
    return importances
