"""Selection of the inputs of a wide table by cross-validated recursive elimination."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve

from qsdp._utils import deadline
from qsdp._utils.numeric import ROUNDING
from qsdp._utils.parallel import chunks
from qsdp._utils.tuning import SECOND, SMALL
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.choosing.distinct_rows import DistinctRows
from qsdp.choosing.regression import (
    MAX_FUNCTIONS,
    MAX_TRAINED,
    LeftOut,
    RidgeFit,
    left_out_fit,
    normalised,
)
from qsdp.encoding.fitting import FEW
from qsdp.problem import TrainingProblem
from qsdp.training_data import quadratic_map

__all__ = ["useful_inputs"]

#: Gain required of the ranking by correlations, in standard errors.
_STANDARD_ERRORS = 1.5

#: Number of folds of the elimination.
_FOLDS = 5

#: Fraction of the inputs that one step eliminates; at least two inputs remain.
_ELIMINATED = 0.25

#: Degrees of freedom, as a fraction of the functions of a regression, above which it is too small to compare inputs.
_LIMITED = 0.75

#: Factors of the strength of the penalty that each step of the elimination compares.
_STEPS = 10.0 ** np.array([1.0, 0.5, 0.0, -0.5])

#: Number of standard errors of paired differences by which errors must exceed the smallest ones to end the elimination,
#: and by which those of fewer inputs may exceed them: none takes a fifth more bits, one costs accuracy.
_HOPELESS, _NEGLIGIBLE = 3.0, 0.25


def useful_inputs(problem: TrainingProblem, rows: DistinctRows, n_inputs: int, fit: RidgeFit | None = None) -> IntArray:
    r"""Select the fewest of the first `n_inputs` columns of a problem without losing held-out accuracy.

    This is cross-validated recursive elimination. A quadratic ridge regression, as in `left_out_fit`, is fitted
    repeatedly, each time without the quarter of the inputs that affects its predictions least. Held-out rows decide how
    many inputs remain: the smallest number whose errors exceed the smallest ones by a negligible part of the standard
    error of the paired differences. In each of five folds, inputs are ranked on the training part, since a ranking on
    all rows would bias the errors. Equal rows may be in different folds.

    If a regression on all inputs has more than a thousand functions, it may learn its rows by heart, and rank inputs at
    random. Then the elimination also starts with the inputs that `_by_correlation` ranks first, as many as have fewer
    functions, and this is the choice if its errors are clearly smaller. Thousands of inputs, whose products would take
    seconds, are not ranked so; of more than a thousand rows, all of these remain.

    If there are more than a thousand distinct rows, up to three thousand rank the inputs, and regressions on all decide
    how many remain, because more rows benefit from more inputs. After a time limit, the best inputs that were compared
    are returned, or all.

    Parameters
    ----------
    problem : TrainingProblem
        Training problem of a bilinear network; its beta is ignored. Columns after the first `n_inputs`, such as a
        constant, are always used.
    rows : DistinctRows
        Distinct rows of the problem's samples, in these or other inputs.
    n_inputs : int
    fit : RidgeFit, optional
        Regression on all inputs, if already computed.

    Returns
    -------
    ndarray of int
        Indices of the columns, ascending.
    """
    everything = np.arange(n_inputs)
    passed = MAX_FUNCTIONS if rows.count > MAX_FUNCTIONS else (1 + _FOLDS) * rows.count
    ranks = passed * _pair_operations(problem, n_inputs) <= SECOND
    if rows.count < FEW or n_inputs <= 2 or deadline.over() or (rows.count > MAX_FUNCTIONS and not ranks):
        return everything
    fit = fit or left_out_fit(problem, rows)
    counts = [n_inputs]
    while ranks and counts[-1] * (counts[-1] + 1) > 2 * MAX_FUNCTIONS:
        counts.append(_fewer(counts[-1]))
    elimination = _Elimination.from_problem(problem, rows, n_inputs, fit.scale)
    if rows.count > MAX_FUNCTIONS:
        order = _order(problem, rows, n_inputs) if len(counts) > 1 else everything
        *wide, start = (np.sort(order[:count]) for count in counts)
        good = _good_ones(elimination.steps([start] * (1 + _FOLDS), fit.strength))
        return _fewest_of_all_rows(problem, n_inputs, [*good, *reversed(wide)] or [everything], fit)
    tried = elimination.steps([everything] * (1 + _FOLDS), fit.strength)
    others = elimination.steps(elimination.ranked(counts[-1]), fit.strength) if len(counts) > 1 else []
    if tried and others and _is_clear_gain(_smallest(tried) - _smallest(others), _smallest(tried)):
        tried = others
    return next(iter(_good_ones(tried)), everything)


def _fewer(count: int) -> int:
    """Return the number of inputs that remain of `count` after one step of the elimination."""
    return max(2, int((1.0 - _ELIMINATED) * count))


def _order(problem: TrainingProblem, rows: DistinctRows, n_inputs: int) -> IntArray:
    """Rank the first `n_inputs` columns by correlations on all rows, or as many as take about a second."""
    affordable = int(SECOND / _pair_operations(problem, n_inputs))
    used = LeftOut.from_problem(problem, rows, trained=min(affordable, MAX_TRAINED))
    return _by_correlation(problem.X[used.samples, :n_inputs], used.means, used.row_weights)


def _pair_operations(problem: TrainingProblem, n_inputs: int) -> float:
    """Return the number of operations for each row of the correlations of all products."""
    return 2.0 * n_inputs**2 * (2 + problem.n_outputs)


def _good_ones(tried: list[tuple[IntArray, FloatArray]]) -> list[IntArray]:
    """Return the inputs of steps from few to all, from the first on whose errors are as good as the smallest.

    The steps are those of an elimination, from all inputs to few.
    """
    if not tried:
        return []
    steps, smallest = tried[::-1], _smallest(tried)
    first = [_as_good(errors, smallest, _NEGLIGIBLE) for _, errors in steps].index(True)
    return [inputs for inputs, _ in steps[first:]]


def _fewest_of_all_rows(problem: TrainingProblem, n_inputs: int, candidates: list[IntArray], fit: RidgeFit) -> IntArray:
    """Select the first of nested candidates, from few inputs to all, whose errors are as good as the smallest.

    Errors fall with more inputs, then rise, so that not all candidates are compared.
    """
    everything = candidates[-1]
    # A regression on all inputs that is limited by its number of functions has errors that favour fewer inputs.
    if len(candidates) == 1 or deadline.over() or fit.freedom > _LIMITED * MAX_FUNCTIONS:
        return everything
    left_out = fit.left_out
    X = fit.scale * problem.X[left_out.samples]

    def tried(inputs: IntArray) -> tuple[IntArray, FloatArray]:
        columns = np.hstack([X[:, inputs], X[:, n_inputs:]])
        return inputs, left_out.best(normalised(quadratic_map(columns, None))).errors

    compared = [(everything, fit.errors), tried(candidates[0])]
    others = candidates[1:-1]
    if not _as_good(compared[1][1], fit.errors, _HOPELESS):
        # The fewest are far too few: start with the most.
        others.reverse()
    for inputs in others:
        if deadline.over():
            break
        compared.append(tried(inputs))
        if not _as_good(compared[-1][1], _smallest(compared), _HOPELESS):
            break
    compared.sort(key=lambda step: -len(step[0]))
    return _good_ones(compared)[0]


def _by_correlation(X: FloatArray, Y: FloatArray, weights: FloatArray) -> IntArray:
    """Rank inputs X (n, N) by correlations with targets Y (n, C) of rows with weights (n,), the largest first.

    An input is ranked by the largest of these squared correlations, summed over outputs: of the input with the targets,
    and of its product with each input with the residuals of a linear regression.
    """
    fractions = (weights / weights.sum())[:, None]

    def standardised(columns: FloatArray) -> FloatArray:
        centred = columns - (fractions * columns).sum(axis=0)
        deviations = np.sqrt((fractions * np.square(centred)).sum(axis=0))
        units: FloatArray = centred / np.where(deviations > 0.0, deviations, 1.0)
        return units

    X, Y = standardised(X), standardised(Y)
    n, N = X.shape
    roots, squares = np.sqrt(fractions), np.square(X)
    rows, targets = roots * X, roots * Y
    # The penalty is the share of a correlation that is noise, summed over columns.
    if n < N:
        coefficients = rows.T @ np.linalg.solve(rows @ rows.T + N / n * np.eye(n), targets)
    else:
        coefficients = np.linalg.solve(rows.T @ rows + N / n * np.eye(N), rows.T @ targets)
    residuals = standardised(Y - X @ coefficients)
    largest = np.square(rows.T @ targets).sum(axis=1)
    weighted = fractions * squares
    for part in chunks(N, N):
        variances = squares[:, part].T @ weighted - np.square(rows[:, part].T @ rows)
        products = sum(np.square(X[:, part].T @ (fractions * column[:, None] * X)) for column in residuals.T)
        of_products = products / np.where(variances > SMALL, variances, np.inf)
        largest[part] = np.maximum(largest[part], of_products.max(axis=1))
    return np.argsort(-largest, kind="stable")


def _is_clear_gain(gains: FloatArray, errors: FloatArray) -> bool:
    """Whether errors fell by more than a hundredth and more than 1.5 standard errors."""
    return bool(gains.mean() > max(0.01 * float(errors.mean()), _STANDARD_ERRORS * _standard_error(gains)))


def _standard_error(numbers: FloatArray) -> float:
    """Compute the standard error of the mean."""
    return float(numbers.std(ddof=1) / np.sqrt(len(numbers)))


def _smallest(tried: list[tuple[IntArray, FloatArray]]) -> FloatArray:
    """Return the errors with the smallest sum."""
    return min((errors for _, errors in tried), key=lambda errors: float(errors.sum()))


def _as_good(errors: FloatArray, smallest: FloatArray, standard_errors: float) -> bool:
    """Whether errors exceed the smallest by at most this number of standard errors, or by rounding."""
    worse = errors - smallest
    return bool(worse.mean() <= standard_errors * _standard_error(worse) + ROUNDING * errors.mean())


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
        Scaled inputs of the distinct rows.
    n_inputs : int
    held_out : ndarray of shape (folds, c)
        Weight of each cell that a fold holds out.
    """

    left_out: LeftOut
    X: FloatArray
    n_inputs: int
    held_out: FloatArray

    @classmethod
    def from_problem(cls, problem: TrainingProblem, rows: DistinctRows, n_inputs: int, scale: float) -> _Elimination:
        """Prepare the elimination for a problem whose inputs are multiplied by `scale`."""
        left_out = LeftOut.from_problem(problem, rows)
        order = np.argsort(left_out.position, kind="stable")
        ends = np.empty_like(left_out.counts)
        ends[order] = np.cumsum(left_out.counts[order])
        # Fold k gets every fifth row of a cell, from number k on.
        later = np.arange(_FOLDS - 1, -1, -1)[:, None]
        dealt = (ends + later) // _FOLDS - (ends - left_out.counts + later) // _FOLDS
        held_out = dealt / left_out.counts * left_out.weights
        return cls(left_out, scale * problem.X[left_out.samples], n_inputs, held_out)

    def ranked(self, count: int) -> list[IntArray]:
        """Return the `count` inputs of largest correlations, on all rows and on each training part."""
        ranked = []
        for weights in (self.left_out.weights, *(self.left_out.weights - self.held_out)):
            training, of_rows, sums = self._training(weights)
            order = _by_correlation(self.X[training, : self.n_inputs], sums / of_rows[:, None], of_rows)
            ranked.append(np.sort(order[:count]))
        return ranked

    def steps(self, inputs: list[IntArray], strength: float) -> list[tuple[IntArray, FloatArray]]:
        """Eliminate inputs until errors are hopeless; return those of each step and their errors on held-out rows.

        Parameters
        ----------
        inputs : list of ndarray of int
            First inputs for all rows, then those for each training part.
        strength : float
        """
        tried: list[tuple[IntArray, FloatArray]] = []
        while not deadline.over():
            errors, importances, strength = self.measure(inputs, strength)
            tried.append((inputs[0], errors))
            count = _fewer(len(inputs[0]))
            if count == len(inputs[0]) or not _as_good(errors, _smallest(tried), _HOPELESS):
                break
            inputs = [_largest(members, sizes, count) for members, sizes in zip(inputs, importances, strict=True)]
        return tried

    def measure(self, inputs: list[IntArray], strength: float) -> tuple[FloatArray, list[FloatArray], float]:
        """Compute squared errors (k,) on held-out rows, and importances on all rows and each training part.

        The strength of the penalty is the best of a few near that of the last step, and is also returned: it grows by
        orders of magnitude where the functions become fewer than the rows, and the regression stops interpolating.

        Parameters
        ----------
        inputs : list of ndarray of int
            Inputs for all rows, then those for each training part.
        strength : float
        """
        left_out, strengths = self.left_out, strength * _STEPS
        parts = list(zip(inputs[1:], self.held_out, strict=True))
        fits = [self._fit(members, left_out.weights - held_out, strengths) for members, held_out in parts]
        errors = np.zeros((len(strengths), len(self.X)))
        for fit, held_out in zip(fits, self.held_out, strict=True):
            squared = np.square(fit.predictions[:, left_out.position] - left_out.targets).sum(axis=2)
            errors += [np.bincount(left_out.position, losses, minlength=len(self.X)) for losses in held_out * squared]
        sums = errors.sum(axis=1)
        # Of nearly equal strengths the strongest: while the regression interpolates, the others make no difference.
        best = int(np.argmax(sums <= (1.0 + SMALL) * sums.min()))
        everywhere = self._fit(inputs[0], left_out.weights, strengths[best : best + 1])
        importances = [everywhere.importances(0), *(fit.importances(best) for fit in fits)]
        return (
            errors[best],
            [sizes[: len(members)] for sizes, members in zip(importances, inputs, strict=True)],
            strengths[best],
        )

    def _fit(self, inputs: IntArray, cell_weights: FloatArray, strengths: FloatArray) -> _Fits:
        """Fit regressions of several strengths on some inputs and weighted cells."""
        training, weights, sums = self._training(cell_weights)
        rows = quadratic_map(np.hstack([self.X[:, inputs], self.X[:, self.n_inputs :]]), None)
        roots = np.sqrt(weights)[:, None]
        targets = sums / roots
        primal = rows.layout.n_entries < len(self.X)
        products = rows.features() if primal else rows.inner_products()[:, training]
        trained = roots * products[training]
        gram, right = (trained.T @ trained, trained.T @ targets) if primal else (trained * roots.T, targets)
        unit = float(np.trace(gram)) / len(trained) or 1.0
        predictions, dual = [], []
        for ridge in unit * strengths:
            shifted = gram.copy()
            shifted[np.diag_indices_from(shifted)] += ridge
            solution = cho_solve(cho_factor(shifted.T, lower=True, overwrite_a=True, check_finite=False), right)
            dual.append(roots * ((targets - trained @ solution) / ridge if primal else solution))
            predictions.append(products @ (solution if primal else dual[-1]))
        return _Fits(np.stack(predictions), np.stack(dual), rows.X[training], weights)

    def _training(self, cell_weights: FloatArray) -> tuple[npt.NDArray[np.bool_], FloatArray, FloatArray]:
        """Return a mask of the rows of positive weight, their weights, and the weighted sums of their targets."""
        position, count = self.left_out.position, len(self.X)
        weights: FloatArray = np.bincount(position, cell_weights, minlength=count).astype(float)
        columns = [np.bincount(position, cell_weights * target, minlength=count) for target in self.left_out.targets.T]
        training, sums = weights > 0.0, np.stack(columns, axis=1).astype(float)
        return training, weights[training], sums[training]


@dataclass(frozen=True, eq=False)
class _Fits:
    """Regressions of several strengths.

    Attributes
    ----------
    predictions : ndarray of shape (strengths, k, C)
    dual : ndarray of shape (strengths, t, C)
        Dual variables of the training rows.
    X : ndarray of shape (t, N)
    weights : ndarray of shape (t,)
    """

    predictions: FloatArray
    dual: FloatArray
    X: FloatArray
    weights: FloatArray

    def importances(self, number: int) -> FloatArray:
        """Compute the squared change of predictions, summed over rows, if a column is replaced by its mean."""
        X = self.X
        deviations = X - np.average(X, axis=0, weights=self.weights)
        importances = np.zeros(X.shape[1])
        for coefficients in self.dual[number].T:
            # Predictions are x'Sx, where S is a sum over rows.
            slopes = 2.0 * np.linalg.multi_dot([X, X.T * coefficients, X])
            changes = deviations * (slopes - deviations * (coefficients @ np.square(X)))
            importances += self.weights @ np.square(changes)
        return importances
