"""Proven optima: one problem bounded from both sides without the library."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import qsdp
from benchmarks.experiments.product import proven as study


def test_the_optimum_is_between_bounds_computed_without_the_library(uci_available: None) -> None:
    case, _ = study.cases(True)
    measured, problem = study.run(case), study.problem_of(case)
    network = qsdp.column_generation(problem).network
    X, y, beta = problem.X, problem.y, 10.0
    n, D = X.shape
    assert (n, D) == (measured["n"], measured["D"])
    assert np.array_equal(np.unique(np.concatenate([network.U, network.V])), [-1, 1])
    prediction = ((X @ network.U.T) * (X @ network.V.T)) @ network.alpha
    upper = np.sum((prediction - y) ** 2) + beta * D * np.abs(network.alpha).sum()
    # All signs of u; the best v of each is known. The dual vector is -2 (f - y), scaled until no price is above beta D.
    signs = np.array([(1, *rest) for rest in itertools.product((-1.0, 1.0), repeat=D - 1)])
    nu = 2.0 * (y - prediction)
    price = np.abs(signs @ (X.T @ (nu[:, None] * X))).sum(axis=1).max()
    nu *= min(1.0, beta * D / price)
    lower = np.sum(nu * (y - 0.25 * nu))
    assert lower <= upper <= lower * (1.0 + 1e-6)
    assert measured["objective"] == pytest.approx(upper, rel=1e-6)
    assert lower * (1.0 - 1e-6) <= measured["lower_bound"] <= upper
    assert 0.0 <= measured["gap"] <= 1e-6
    assert (measured["status"], measured["kind"]) == ("optimal", "exact")
