"""Ranking of inputs by the correlations of their products with the targets."""

from __future__ import annotations

import numpy as np

from qsdp._utils.parallel import chunks
from qsdp._utils.tuning import SMALL
from qsdp._utils.validation import FloatArray, IntArray

__all__ = ["by_correlation"]


def by_correlation(X: FloatArray, Y: FloatArray, weights: FloatArray) -> IntArray:
    """Rank inputs X (n, N) by correlations with targets Y (n, C) of rows with weights (n,), the largest first.

    An input is ranked by the largest of these squared correlations, summed over outputs: of the input with the targets,
    and of its product with each input with the residuals of a linear regression.
    """
    shares = (weights / weights.sum())[:, None]

    def standardised(columns: FloatArray) -> FloatArray:
        centred = columns - (shares * columns).sum(axis=0)
        deviations = np.sqrt((shares * np.square(centred)).sum(axis=0))
        units: FloatArray = centred / np.where(deviations > 0.0, deviations, 1.0)
        return units

    X, Y = standardised(X), standardised(Y)
    n, N = X.shape
    roots, squares = np.sqrt(shares), np.square(X)
    rows, targets = roots * X, roots * Y
    # The penalty is the share of a correlation that is noise, summed over columns.
    if n < N:
        coefficients = rows.T @ np.linalg.solve(rows @ rows.T + N / n * np.eye(n), targets)
    else:
        coefficients = np.linalg.solve(rows.T @ rows + N / n * np.eye(N), rows.T @ targets)
    residuals = standardised(Y - X @ coefficients)
    largest = np.square(rows.T @ targets).sum(axis=1)
    weighted = shares * squares
    for own in chunks(N, N):
        variances = squares[:, own].T @ weighted - np.square(rows[:, own].T @ rows)
        products = sum(np.square(X[:, own].T @ (shares * one[:, None] * X)) for one in residuals.T)
        of_products = products / np.where(variances > SMALL, variances, np.inf)
        largest[own] = np.maximum(largest[own], of_products.max(axis=1))
    return np.argsort(-largest, kind="stable")
