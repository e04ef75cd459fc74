"""Choice between encodings of the same rows, by quadratic ridge regression with each row left out in turn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from qsdp._utils.deadline import NEVER, Deadline
from qsdp._utils.validation import FloatArray
from qsdp.encoding.cuts import without_outliers
from qsdp.losses import Loss
from qsdp.problem import TrainingProblem, quadratic_map

__all__ = ["DistinctRows", "first_clear_best", "left_out_errors"]

#: Distinct rows used at most: a thousand tell gains of a hundredth from chance, in half a second for an encoding.
_MOST_ROWS = 1000

#: Distinct rows below which nothing can be told apart.
_LEAST_ROWS = 8

#: Strengths of the ridge penalty, as multiples of the mean eigenvalue: on 30 data sets the best ones were 1e-4 to 5.
_STRENGTHS = np.geomspace(1e-6, 1e3, 28)

#: Scales of the inputs: products of them are dearer at the first, as cheap as the inputs themselves at the second. Most
#: encodings of few inputs are best at the first, those of many bits at the second: at the first alone, bits that raise
#: the accuracy of networks by 2 to 6 points on made problems of 5000 rows were no clear gain.
_SCALES = (1.0, 4.0)

#: What an encoding of more inputs must gain: a share of the errors, and standard errors of their paired differences. On
#: those sets accuracies did not depend on the second between 0.5 and 3, though bits were a fifth fewer at 2 than at 1;
#: on 100 to 400 rows of made problems that bits help, gains between one and two were gains on new rows.
_GAIN, _STANDARD_ERRORS = 0.01, 1.5

Candidate = TypeVar("Candidate")


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """The distinct rows of a table of numbers, whose repetitions and weights say the same.

    Attributes
    ----------
    first : ndarray of int of shape (k,)
        Where each of them stands for the first time, in an order that does not depend on that of the rows.
    group : ndarray of int of shape (n,)
        Which of them every row is.
    """

    first: npt.NDArray[np.intp]
    group: npt.NDArray[np.intp]

    @classmethod
    def of(cls, rows: FloatArray) -> DistinctRows:
        """Return those of an array of shape (n, k)."""
        _, first, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        return cls(first, group.ravel())

    @property
    def count(self) -> int:
        """Number of distinct rows k."""
        return len(self.first)


def left_out_errors(problem: TrainingProblem, rows: DistinctRows) -> FloatArray:
    r"""Return the squared errors, of shape (k,), at distinct rows that a quadratic ridge regression was not fitted to.

    The regression minimises :math:`\sum_i w_i \|y_i - \langle \mathcal{X}_i, S \rangle\|^2 + \lambda \|S\|_F^2` over
    symmetric matrices S, one an output: the functions of the relaxation, with another norm. In terms of
    :math:`K_{ij} = \sqrt{w_i w_j} \langle \mathcal{X}_i, \mathcal{X}_j \rangle` and
    :math:`H = K (K + \lambda I)^{-1}` the error at a row left out is that of the fit to all rows, divided by
    :math:`1 - H_{ii}`, so that one decomposition of K gives them for every :math:`\lambda`, of which the best is
    taken, and the better of two scales of X. What does not depend on the function, how targets of equal rows differ,
    is left out. For losses that grow less than squares, outlying targets are moved to where they begin to be outliers.

    Parameters
    ----------
    problem : TrainingProblem
        Its beta does not matter.
    rows : DistinctRows
        Of the problem's samples, by these or other inputs; a thousand of them at most are used.

    Returns
    -------
    ndarray of shape (min(k, 1000),)
        Multiplied by the weights. For other inputs of the same samples the same rows are left out.
    """
    kept = np.random.default_rng(0).permutation(rows.count)[:_MOST_ROWS]
    sample_weight = np.ones(problem.n_samples) if problem.sample_weight is None else problem.sample_weight
    targets = regression_targets(problem.y.reshape(problem.n_samples, -1), problem.loss, problem.sample_weight)
    weights = np.bincount(rows.group, sample_weight)[kept]
    sums = np.stack([np.bincount(rows.group, sample_weight * one)[kept] for one in targets.T], axis=1)
    roots = np.sqrt(weights)[:, None]
    inputs = problem.X[rows.first[kept]]
    # Without a lift a scale multiplies all of the kernel, and strengths are relative to it.
    scales = _SCALES if problem.lifted else _SCALES[:1]
    kernels = (quadratic_map(scale * inputs, problem.activation).inner_products() for scale in scales)
    return min((_ridge_errors(roots * roots.T * kernel, sums / roots) for kernel in kernels), key=np.sum)


def _ridge_errors(kernel: FloatArray, y: FloatArray) -> FloatArray:
    """Return the squared errors (k,) at rows left out, of the strength for which they are smallest."""
    eigenvalues, basis = np.linalg.eigh(kernel)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    squares, coordinates = np.square(basis), basis.T @ y

    def errors(strength: float) -> FloatArray:
        # One minus H in the basis: never zero, as its difference from one might be.
        left = strength / (eigenvalues + strength)
        residuals = basis @ (left[:, None] * coordinates) / (squares @ left)[:, None]
        summed: FloatArray = np.square(residuals).sum(axis=1)
        return summed

    strengths = (eigenvalues.mean() or 1.0) * _STRENGTHS
    return min(map(errors, strengths.tolist()), key=np.sum)


def regression_targets(targets: FloatArray, loss: Loss, weights: FloatArray | None) -> FloatArray:
    """Return what stands for targets (n, C) in regressions by squares: without outliers, unless the loss is a square.

    Losses of labels and cross-entropies have none.
    """
    if loss.quadratic or loss.labels or loss.coupled:
        return targets
    return without_outliers(targets, weights)


def first_clear_best(
    candidates: Iterable[tuple[Candidate, TrainingProblem]], rows: DistinctRows, deadline: Deadline = NEVER
) -> tuple[Candidate, TrainingProblem]:
    """Return the first of the candidates that no later one, of more inputs, is clearly better than.

    Parameters
    ----------
    candidates : iterable of (object, TrainingProblem)
        The same samples in several encodings, from few to many inputs; one at least. They are made as they are needed,
        and the first that is no clear gain is the last.
    rows : DistinctRows
        Of the samples.
    deadline : Deadline
        When it has passed, the best so far is returned.
    """
    others = iter(candidates)
    best = next(others)
    if rows.count < _LEAST_ROWS:
        return best
    errors = None
    for candidate in others:
        if candidate[1].n_features == best[1].n_features:
            continue
        if deadline.over:
            break
        errors = left_out_errors(best[1], rows) if errors is None else errors
        found = left_out_errors(candidate[1], rows)
        if not is_clear_gain(errors - found, errors):
            break
        best, errors = candidate, found
    return best


def is_clear_gain(gains: FloatArray, errors: FloatArray) -> bool:
    """Return whether errors fell by more than a hundredth and more than a standard error."""
    least = max(_GAIN * float(errors.mean()), _STANDARD_ERRORS * float(gains.std(ddof=1)) / np.sqrt(len(gains)))
    return bool(gains.mean() > least)
