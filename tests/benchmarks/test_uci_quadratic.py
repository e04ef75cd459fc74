"""The float quadratic function against scikit-learn's pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from benchmarks.uci.data import validation_splits
from benchmarks.uci.quadratic import QuadraticRidgeClassifier


def data(n: int, d: int, n_classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    S = rng.normal(size=(n_classes, d, d))
    return X, (np.einsum("ni,cij,nj->nc", X, S, X) + rng.normal(size=(n, n_classes))).argmax(axis=1)


def reference(X: np.ndarray, y: np.ndarray, weight: float) -> tuple[Any, np.ndarray]:
    """Ridge regression on all monomials, one after the other, and its targets."""
    n_classes = y.max() + 1
    targets = np.where(y == 1, 1.0, -1.0)[:, None] if n_classes == 2 else np.eye(n_classes)[y]
    model = make_pipeline(
        PolynomialFeatures(2, include_bias=False), StandardScaler(), Ridge(alpha=weight * len(X), solver="cholesky")
    )
    return model.fit(X, targets), targets


def chosen(outputs: np.ndarray) -> np.ndarray:
    outputs = outputs.reshape(len(outputs), -1)
    return (outputs[:, 0] > 0).astype(int) if outputs.shape[1] == 1 else outputs.argmax(axis=1)


@pytest.mark.parametrize(("n", "d", "n_classes"), [(200, 5, 2), (150, 4, 3), (40, 8, 2)])
def test_fit_is_ridge_regression_on_monomials(n: int, d: int, n_classes: int) -> None:
    X, y = data(n, d, n_classes)
    fresh, _ = data(50, d, n_classes, seed=1)
    for weight in (1e-3, 1.0):
        mine = QuadraticRidgeClassifier(validation_splits(y, 0), [weight]).fit(X, y)
        theirs, _ = reference(X, y, weight)
        outputs = theirs.predict(fresh).reshape(50, -1)
        found = mine.monomials_.transform(fresh) @ mine.coef_ + mine.intercept_
        np.testing.assert_allclose(found, outputs, rtol=1e-8, atol=1e-8 * abs(outputs).max())
        np.testing.assert_array_equal(mine.predict(fresh), chosen(outputs))
        assert mine.coef_.shape == (d * (d + 3) // 2, outputs.shape[1])


@pytest.mark.parametrize("n", [60, 600, 2100])
def test_lambda_is_the_best_on_the_folds_and_the_largest_of_equals(n: int) -> None:
    X, y = data(n, 4, 3)
    splits = validation_splits(y, 0)
    lambdas = [1e-4, 1e-2, 1.0, 100.0]
    model = QuadraticRidgeClassifier(splits, lambdas).fit(X, y)
    scores = [
        np.mean([np.mean(chosen(reference(X[a], y[a], weight)[0].predict(X[b])) == y[b]) for a, b in splits])
        for weight in lambdas
    ]
    np.testing.assert_allclose(model.scores_, scores, rtol=1e-12)
    assert model.lambda_ == max(weight for weight, score in zip(lambdas, scores, strict=True) if score == max(scores))
