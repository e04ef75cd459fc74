"""Sample weights at every face: weight k is k equal rows, weight 0 a row left out, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qsdp
from qsdp import TrainingProblem
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.relaxation.backends import BACKENDS

RNG = np.random.default_rng(0)
N = 24
X = RNG.standard_normal((N, 3))
REAL = X[:, 0] * X[:, 1] + 0.3 * RNG.standard_normal(N)
BOTH = np.column_stack([REAL, X[:, 2] ** 2])
SIGNS = np.where(REAL > 0.0, 1.0, -1.0)
CODES = np.digitize(REAL, [-0.5, 0.5])
COUNTS = RNG.integers(0, 4, N)

#: Losses of every kind with targets for them.
CASES: dict[str, np.ndarray] = {
    "squared": REAL,
    "huber": BOTH,
    "absolute": REAL,
    "logistic": SIGNS,
    "hinge": SIGNS,
    "cross_entropy": CODES,
}


def repeated(array: np.ndarray) -> np.ndarray:
    return np.repeat(array, COUNTS, axis=0)


@pytest.mark.filterwarnings("ignore:solver 'interior' .its status. stalled")
@pytest.mark.parametrize("loss", CASES)
def test_weights_are_repeated_rows(loss: str) -> None:
    options: dict[str, Any] = {"n_neurons": 30, "beta": 0.3, "loss": loss, "random_state": 0, "tol": 1e-8}
    weighted = qsdp.solve_and_sample(X, CASES[loss], sample_weight=COUNTS, **options)
    by_rows = qsdp.solve_and_sample(repeated(X), repeated(CASES[loss]), **options)
    assert weighted.problem.n_samples == np.count_nonzero(COUNTS)
    assert weighted.problem.objective(by_rows.network) == pytest.approx(by_rows.certificate.objective, rel=1e-9)
    # The iterates of the squared loss are those of the rows; others agree to the accuracy of the solver.
    rel = 1e-9 if loss == "squared" else 2e-7
    assert weighted.relaxation.lower_bound == pytest.approx(by_rows.relaxation.lower_bound, rel=rel)
    if loss == "squared":
        np.testing.assert_array_equal(weighted.network.U, by_rows.network.U)
        assert weighted.certificate.objective == pytest.approx(by_rows.certificate.objective, rel=rel)
    smaller = weighted.resample(7, random_state=1)
    assert smaller.certificate.objective == weighted.problem.objective(smaller.network)
    assert smaller.certificate.lower_bound == weighted.certificate.lower_bound


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=N, max_size=N).filter(any), st.sampled_from(["squared", "huber"]))
def test_objectives_of_any_weights_are_those_of_repeated_rows(counts: list[int], loss: str) -> None:
    weighted = TrainingProblem(X, BOTH, beta=0.1, loss=loss, sample_weight=counts)
    by_rows = TrainingProblem(np.repeat(X, counts, axis=0), np.repeat(BOTH, counts, axis=0), beta=0.1, loss=loss)
    network = qsdp.BilinearNetwork([[1, -1, 1]], [[1, 1, -1]], [[0.4, -0.7]])
    assert weighted.objective(network) == pytest.approx(by_rows.objective(network), rel=1e-12)


def test_parts_of_a_problem_keep_their_weights() -> None:
    weights = np.arange(N) % 3
    problem = TrainingProblem(X, REAL, beta=0.1, sample_weight=weights)
    kept = np.flatnonzero(weights)
    part = problem.take([3, 0, 0])
    np.testing.assert_array_equal(part.X, X[kept[[3, 0, 0]]])
    np.testing.assert_array_equal(part.sample_weight, weights[kept[[3, 0, 0]]])
    assert "weighted" in repr(problem)
    assert "total weight" in str(problem._summary().rows)
    assert TrainingProblem(X, REAL, beta=0.1, sample_weight=np.ones(N)) == TrainingProblem(X, REAL, beta=0.1)


# -- what is refused, before any work ------------------------------------------------------------------

BAD: list[tuple[Any, type[Exception], str]] = [
    (-np.ones(N), InvalidInputError, "sample_weight must be >= 0; found -1"),
    (np.zeros(N), InvalidInputError, "sample_weight must have a positive entry; all are zero"),
    (np.r_[np.nan, np.ones(N - 1)], InvalidInputError, "sample_weight must be a numeric array.*NaN"),
    (np.r_[np.inf, np.ones(N - 1)], InvalidInputError, "sample_weight must be a numeric array.*infinity"),
    (np.ones(N + 1), InvalidInputError, rf"sample_weight must have shape \({N},\).*got \({N + 1},\)"),
    (np.ones((N, 1)), InvalidInputError, rf"sample_weight must have shape \({N},\)"),
    (1.0, InvalidInputError, rf"sample_weight must have shape \({N},\)"),
    (["1"] * N, InvalidTypeError, "sample_weight must be a numeric array"),
    (np.full(N, 1e-200), InvalidInputError, "sample_weight must be zero or have its largest magnitude"),
]
FACES: dict[str, Callable[[Any], Any]] = {
    "problem": lambda w: TrainingProblem(X, REAL, beta=0.1, sample_weight=w),
    "pipeline": lambda w: qsdp.solve_and_sample(X, REAL, sample_weight=w),
    "distillation": lambda w: qsdp.distill(qsdp.QuadraticForm(np.eye(3)), X, sample_weight=w),
    "regressor": lambda w: qsdp.QuantizedNetworkRegressor().fit(X, REAL, w),
    "classifier": lambda w: qsdp.QuantizedNetworkClassifier().fit(X, CODES, sample_weight=w),
}


@pytest.mark.parametrize("face", FACES)
def test_bad_weights(face: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, backend in BACKENDS.items():
        started = replace(backend, solve=lambda *_, **__: pytest.fail("work started"))
        monkeypatch.setitem(BACKENDS, name, started)
    for weights, error, message in BAD:
        with pytest.raises(error, match=message):
            FACES[face](weights)


# -- distillation --------------------------------------------------------------------------------------


def test_distillation_weighs_mismatches() -> None:
    layer, W = (lambda X: np.tanh(X @ W.T)), RNG.standard_normal((2, 3))
    weighted = qsdp.distill(layer, X, 40, sample_weight=COUNTS, tol=1e-8)
    by_rows = qsdp.distill(layer, repeated(X), 40, tol=1e-8)
    assert weighted.problem.beta == pytest.approx(by_rows.problem.beta, rel=1e-6)
    assert weighted.certificate.lower_bound == pytest.approx(by_rows.certificate.lower_bound, rel=1e-6)
    assert weighted.certificate.objective == pytest.approx(by_rows.certificate.objective, rel=1e-4)
