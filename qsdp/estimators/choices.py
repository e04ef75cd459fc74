"""Elimination of inputs without loss of accuracy, by quadratic ridge regression on held-out rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import scipy

from qsdp._utils import deadline
from qsdp._utils.numeric import ROUNDING
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.activations import PolynomialActivation
from qsdp.ridge import LEAST_ROWS, MOST_FUNCTIONS, Functions, LeftOut, RidgeFit, left_out_fit
from qsdp.problem import TrainingProblem, quadratic_map
from qsdp.relaxation.rows import DistinctRows

__all__ = ["first_clear_best", "useful_inputs"]

#: Gain required of more inputs: a share of the errors, and standard errors (0.5 to 3 are as accurate).
_GAIN, _STANDARD_ERRORS = 0.01, 1.5

Candidate = TypeVar("Candidate")

#: Number of folds, and number of distinct rows below which no input is eliminated.
_FOLDS, _LEAST_ROWS = 5, 20

#: Factors on the strength of the penalty that each step tries.
_FACTORS = (0.2, 1.0, 5.0)

#: Share of the inputs that one step eliminates; at least two inputs stay.
_LEFT_OUT = 0.25

#: The search ends if errors exceed the least ones by more than this number of standard errors of paired differences.
_HOPELESS = 3.0

#: Standard errors by which fewer inputs may exceed the least error; one costs accuracy.
_NEGLIGIBLE = 0.5


def useful_inputs(
    problem: TrainingProblem,
    rows: DistinctRows,
    n_inputs: int,
    fit: RidgeFit | None = None,
) -> IntArray:
    r"""Return the fewest of the first `n_inputs` columns of a problem that predict as well as any number of them.

    This is cross-validated recursive elimination. A quadratic ridge regression, as in `left_out_errors`, is fitted
    repeatedly, each time without the quarter of the inputs that matters least to its predictions. Held-out rows decide
    how many inputs stay. In each fold, inputs are ranked on the training part: if ranked on all rows, they seem better
    than they are. The fewest inputs stay whose errors exceed the least ones by at most half a standard error of the
    paired differences. Rows are dealt to the folds one by one, including equal rows. Once a time limit has
    passed, the best inputs so far are returned.

    Parameters
    ----------
    problem : TrainingProblem
        Its beta does not matter. Columns after the first `n_inputs`, such as a constant, stay.
    rows : DistinctRows
        Distinct rows of the problem's samples, by these or other inputs; at most a thousand of them are used.
    n_inputs : int
    fit : RidgeFit, optional
        Regression on all inputs, if known.

    Returns
    -------
    ndarray of int
        Numbers of the columns, ascending.
    """
    everything = np.arange(n_inputs)
    if rows.count < _LEAST_ROWS or n_inputs <= 2:
        return everything
    elimination = _Elimination.of(problem, rows, n_inputs, fit)
    # Inputs ranked on all rows come first, then those ranked on each training part.
    inputs = [everything] * (1 + len(elimination.held_out))
    strength = elimination.strength
    tried: list[tuple[IntArray, FloatArray]] = []
    while not deadline.over():
        strength, errors, importances = elimination.measure(inputs, strength)
        tried.append((inputs[0], errors))
        if not _as_good(errors, _least(tried), _HOPELESS):
            break
        count = max(2, int((1.0 - _LEFT_OUT) * len(inputs[0])))
        if count == len(inputs[0]):
            break
        inputs = [_largest(own, sizes, count) for own, sizes in zip(inputs, importances, strict=True)]
    return next((own for own, errors in reversed(tried) if _as_good(errors, _least(tried), _NEGLIGIBLE)), everything)


def _least(tried: list[tuple[IntArray, FloatArray]]) -> FloatArray:
    """Return the errors with the least sum."""
    return min((errors for _, errors in tried), key=lambda errors: float(errors.sum()))


def _as_good(errors: FloatArray, least: FloatArray, standard_errors: float) -> bool:
    """Return whether errors exceed the least by at most this number of standard errors, or by rounding."""
    worse = errors - least
    return bool(worse.mean() <= standard_errors * standard_error(worse) + ROUNDING * errors.mean())


def _largest(inputs: IntArray, importances: FloatArray, count: int) -> IntArray:
    """Return the `count` inputs with the largest importances, ascending."""
    return np.sort(inputs[np.argsort(-importances, kind="stable")[:count]])


@dataclass(frozen=True, eq=False)
class _Elimination:
    """Distinct rows and the division of their weights between training parts and folds.

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
        """Return the elimination for a problem and its regression."""
        left_out = LeftOut.of(problem, rows)
        fit = fit or left_out_fit(problem, left_out)
        order = np.argsort(left_out.place, kind="stable")
        ends = np.empty_like(left_out.counts)
        ends[order] = np.cumsum(left_out.counts[order])
        # Fold k gets every fifth row of a cell, from number k on.
        later = np.arange(_FOLDS - 1, -1, -1)[: _FOLDS if len(left_out.samples) <= MOST_FUNCTIONS else 1, None]
        dealt = (ends + later) // _FOLDS - (ends - left_out.counts + later) // _FOLDS
        held_out = dealt / left_out.counts * left_out.weights
        X = fit.scale * problem.X[left_out.samples]
        return cls(left_out, X, problem.activation, n_inputs, fit.strength, held_out)

    def measure(self, inputs: list[IntArray], strength: float) -> tuple[float, FloatArray, list[FloatArray]]:
        """Return the best strength near one, its errors (k,) on held-out rows, and the importances of all inputs.

        Parameters
        ----------
        inputs : list of ndarray of int
            Inputs for all rows, then those for each training part.
        strength : float
        """
        targets, place = self.left_out.targets, self.left_out.place
        strengths = [factor * strength for factor in _FACTORS]
        errors = np.zeros((len(strengths), len(self.left_out.samples)))
        parts = []
        for own, held_out in zip(inputs, [np.zeros(len(place)), *self.held_out], strict=True):
            part = _Part.of(self, own, held_out)
            parts.append(part)
            for number, one in enumerate(strengths):
                squared = np.square(part.fit(one)[place] - targets).sum(axis=1)
                errors[number] += np.bincount(place, held_out * squared, minlength=errors.shape[1])
        best = int(errors.sum(axis=1).argmin())
        return strengths[best], errors[best], [part.importances(strengths[best]) for part in parts]


class _Part:
    """Regression on some inputs of the rows outside a fold."""

    def __init__(self, X: FloatArray, weights: FloatArray, targets: FloatArray, activation: Any) -> None:
        """Take inputs of all rows, of which those of positive weight train, and sums of their weighted targets."""
        self._training = weights > 0.0
        self._X, self._weights, self._activation = X[self._training], weights[self._training], activation
        rows, roots = quadratic_map(X, activation), np.sqrt(self._weights)[:, None]
        self._roots, self._targets = roots, targets[self._training] / roots
        if rows.layout.n_entries < len(X) or len(X) > MOST_FUNCTIONS:
            self._all = Functions(rows, MOST_FUNCTIONS // 2).features(rows)
            own = roots * self._all[self._training]
            self._own: FloatArray | None = own
            self._gram, self._products = own.T @ own, own.T @ self._targets
        else:
            self._own, kernel = None, rows.inner_products()
            self._all = kernel[:, self._training]
            self._gram, self._products = roots * self._all[self._training] * roots.T, self._targets
        self._duals: dict[float, FloatArray] = {}

    @classmethod
    def of(cls, elimination: _Elimination, inputs: IntArray, held_out: FloatArray) -> _Part:
        """Return the regression on some inputs, trained on the weight outside a fold."""
        left_out, count = elimination.left_out, len(elimination.X)
        cell_weights = left_out.weights - held_out
        weights = np.bincount(left_out.place, cell_weights, minlength=count).astype(float)
        sums = [np.bincount(left_out.place, cell_weights * one, minlength=count) for one in left_out.targets.T]
        columns = np.hstack([elimination.X[:, inputs], elimination.X[:, elimination.n_inputs :]])
        return cls(columns, weights, np.stack(sums, axis=1), elimination.activation)

    def fit(self, strength: float) -> FloatArray:
        """Return the predictions (k, C) for all rows."""
        ridge = strength * (float(np.trace(self._gram)) / len(self._targets) or 1.0)
        solution = scipy.linalg.solve(self._gram + ridge * np.eye(len(self._gram)), self._products, assume_a="pos")
        if self._own is None:
            self._duals[strength] = self._roots * solution
            return self._all @ self._duals[strength]
        self._duals[strength] = self._roots * (self._targets - self._own @ solution) / ridge
        return self._all @ solution

    def importances(self, strength: float) -> FloatArray:
        """Return the importances of the inputs at a strength that was fitted, and of further columns."""
        return _importances(self._X, self._duals[strength], self._weights, self._activation)


def _importances(
    X: FloatArray, dual: FloatArray, weights: FloatArray, activation: PolynomialActivation | None
) -> FloatArray:
    """Return the squared changes of predictions, summed over rows, if a column is replaced by its mean."""
    a, b, _ = (1.0, 0.0, 0.0) if activation is None else activation.coefficients
    deviations = X - np.average(X, axis=0, weights=weights)
    importances = np.zeros(X.shape[1])
    for one in dual.T:
        # Predictions are x'Sx + s'x + a constant, where S and s are sums over rows.
        slopes = 2.0 * a**2 * np.linalg.multi_dot([X, X.T * one, X]) + 0.5 * b**2 * (one @ X)
        changes = deviations * (slopes - deviations * (a**2 * (one @ np.square(X))))
        importances += weights @ np.square(changes)
    return importances


def first_clear_best(
    candidates: Iterable[tuple[Candidate, TrainingProblem]], rows: DistinctRows
) -> tuple[Candidate, TrainingProblem, RidgeFit | None]:
    """Return the first candidate that no later one, with more inputs, clearly improves on, and its regression.

    Parameters
    ----------
    candidates : iterable of (object, TrainingProblem)
        The same samples in several encodings, from few to many inputs; at least one. They are computed on demand, and
        the search ends at the first that is no clear gain, or once a time limit has passed.
    rows : DistinctRows
        Distinct rows of the samples.

    Returns
    -------
    object
    TrainingProblem
    RidgeFit or None
        None if there was nothing to compare.
    """
    others = iter(candidates)
    best, fit = next(others), None
    left_out = LeftOut.of(best[1], rows)
    for candidate in others if rows.count >= LEAST_ROWS else ():
        if candidate[1].n_features == best[1].n_features:
            continue
        if deadline.over():
            break
        fit = left_out_fit(best[1], left_out) if fit is None else fit
        found = left_out_fit(candidate[1], left_out)
        if not is_clear_gain(fit.errors - found.errors, fit.errors):
            break
        best, fit = candidate, found
    return *best, fit


def is_clear_gain(gains: FloatArray, errors: FloatArray) -> bool:
    """Return whether errors fell by more than a hundredth and more than 1.5 standard errors."""
    return bool(gains.mean() > max(_GAIN * float(errors.mean()), _STANDARD_ERRORS * standard_error(gains)))


def standard_error(numbers: FloatArray) -> float:
    """Return the standard error of the mean of numbers."""
    return float(numbers.std(ddof=1) / np.sqrt(len(numbers)))
