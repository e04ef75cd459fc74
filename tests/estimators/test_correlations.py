"""Ranking of inputs by correlations: against their definition, and what is found."""

from __future__ import annotations

import numpy as np
import pytest

from qsdp.estimators import correlations
from qsdp.estimators.correlations import by_correlation


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_inputs_are_ranked_by_correlations_of_products(n_outputs: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 60)) * rng.uniform(0.1, 10.0, 60) + rng.normal(size=60)
    X[:, 7], X[:, 8] = rng.random(2000) < 0.1, 3.0
    centred = X - X.mean(axis=0)
    Z = centred / np.where(centred.std(axis=0) > 0.0, centred.std(axis=0), 1.0)
    y = Z[:, 1] * Z[:, 2] + 0.5 * Z[:, 3] + 0.5 * Z[:, 4] ** 2 + 0.5 * Z[:, 7] * Z[:, 5]
    Y = np.stack([y, Z[:, 6]], axis=1) if n_outputs == 2 else y
    Y += rng.normal(size=Y.shape)
    order = by_correlation(X, Y.reshape(2000, -1), np.ones(2000))
    assert sorted(order.tolist()) == list(range(60))
    best = {1, 2, 3, 4, 5, 7} | ({6} if n_outputs == 2 else set())
    assert set(order[: len(best)].tolist()) == best
    # A constant column says nothing.
    assert order[-1] == 8


def test_products_are_ranked_where_columns_are_more_than_rows() -> None:
    # A regression without a penalty would leave nothing of the targets.
    rng = np.random.default_rng(4)
    X = rng.normal(size=(80, 120))
    y = 2.0 * X[:, 10] * X[:, 20] + 0.1 * rng.normal(size=80)
    order = by_correlation(X, y[:, None], rng.integers(1, 3, 80).astype(float))
    assert set(order[:2].tolist()) == {10, 20}


@pytest.mark.parametrize(("n", "N"), [(40, 9), (12, 30)])
def test_the_ranking_is_that_of_the_definition(n: int, N: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    X, Y, weights = rng.normal(size=(n, N)), rng.normal(size=(n, 2)), rng.integers(1, 4, n).astype(float)
    again = np.repeat(np.arange(n), weights.astype(int))
    units = [(A - A[again].mean(axis=0)) / A[again].std(axis=0) for A in (X, Y)]
    Z, T = (unit[again] for unit in units)
    total = len(again)
    # The squared errors are means over rows, and the penalty is N / n.
    left = T - Z @ np.linalg.solve(Z.T @ Z / total + N / n * np.eye(N), Z.T @ T / total)
    scores = []
    for j in range(N):
        own = sum(np.corrcoef(Z[:, j], one)[0, 1] ** 2 for one in T.T)
        pairs = [sum(np.corrcoef(Z[:, j] * Z[:, k], one)[0, 1] ** 2 for one in left.T) for k in range(N)]
        scores.append(max(own, *pairs))
    scores = np.array(scores)
    # Both inputs of the best product have its score, so that rounding decides their order.
    np.testing.assert_allclose(scores[by_correlation(X, Y, weights)], np.sort(scores)[::-1], rtol=1e-9)
    monkeypatch.setattr(correlations, "chunks", lambda count, floats: [slice(k, k + 1) for k in range(count)])
    np.testing.assert_allclose(scores[by_correlation(X, Y, weights)], np.sort(scores)[::-1], rtol=1e-9)
