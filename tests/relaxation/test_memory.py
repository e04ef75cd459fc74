"""What cannot fit into memory is refused before any work, with its size and the argument."""

from __future__ import annotations

import time

import numpy as np
import pytest

import qsdp
from qsdp.exceptions import InvalidInputError


def problem(n: int, d: int) -> qsdp.TrainingProblem:
    return qsdp.TrainingProblem(np.ones((n, d)), np.ones(n), beta=0.1)


def test_a_solver_of_sparse_matrices_is_refused_where_they_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qsdp._utils.parallel.main_memory", lambda: 32e9)
    large = problem(1000, 2000)
    start = time.perf_counter()
    with pytest.raises(InvalidInputError, match=r"problem must fit.*'scs' takes 48 GB.*1,000 samples, 2,000 inputs"):
        qsdp.solve_relaxation(large, solver="scs")
    assert time.perf_counter() - start < 0.5


def test_own_methods_count_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    small = problem(10, 4)
    monkeypatch.setattr("qsdp._utils.parallel.main_memory", lambda: 1000.0)
    X, y = small.X, small.y
    for fit in (
        lambda: qsdp.solve_relaxation(small),
        lambda: qsdp.solve_and_sample(X, y, n_neurons=8),
        lambda: qsdp.QuantizedNetworkRegressor(activation=None).fit(X + np.arange(10)[:, None], np.arange(10.0)),
    ):
        with pytest.raises(InvalidInputError, match=r"at least for \d+ samples.* there are 1 kB; take fewer rows"):
            fit()


def test_a_proof_counts_the_matrices_that_it_decomposes(monkeypatch: pytest.MonkeyPatch) -> None:
    large = problem(10, 60)
    monkeypatch.setattr("qsdp._utils.parallel.main_memory", lambda: 0.4e6)
    network = qsdp.BilinearNetwork(np.ones((1, 60)), np.ones((1, 60)), np.ones(1))
    for prove in (qsdp.column_generation, lambda problem: qsdp.certify(network, problem, bound_type="exact")):
        with pytest.raises(InvalidInputError, match=r"a proof takes 473 kB .*60 inputs.* there are 400 kB"):
            prove(large)


@pytest.mark.parametrize(("refine", "work"), [("none", "sampling"), ("polish", "polishing"), ("refit", "sampling")])
def test_neurons_that_do_not_fit_are_refused_before_the_solve(
    monkeypatch: pytest.MonkeyPatch, refine: str, work: str
) -> None:
    X = np.random.default_rng(0).normal(size=(30, 4))
    solved = qsdp.solve_and_sample(X, X[:, 0], beta=1.0, n_neurons=8)
    monkeypatch.setattr("qsdp._utils.parallel.main_memory", lambda: 1e6)
    monkeypatch.setattr("qsdp.pipeline.solve_relaxation", lambda *args, **kwargs: pytest.fail("it was solved"))
    message = rf"{work} takes .* at least for 100,000 neurons with 4 inputs and 1 outputs, there are 1 MB; take fewer n"
    with pytest.raises(InvalidInputError, match=message):
        qsdp.solve_and_sample(X, X[:, 0], beta=1.0, n_neurons=100_000, refine=refine)
    with pytest.raises(InvalidInputError, match=r"sampling takes 3\.2 MB"):
        solved.resample(100_000)
    network = solved.resample(10_000).network
    with pytest.raises(InvalidInputError, match=r"polishing takes 2\.48 MB"):
        qsdp.polish(network, solved.problem)
