"""Column generation on blocks: proven optima against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from block_problems import LOSSES, enumerated_optimum, random_problem

import qsdp


def check(problem: qsdp.TrainingProblem, **options: object) -> qsdp.ColumnGenerationResult:
    result = qsdp.column_generation(problem, tol=1e-9, **options)
    optimum = enumerated_optimum(problem)
    assert result.status == "optimal"
    assert result.certificate.bound_type == "exact"
    assert result.lower_bound <= optimum * (1.0 + 1e-7)
    assert optimum <= result.objective * (1.0 + 1e-7)
    np.testing.assert_allclose(result.objective, problem.objective(result.network), rtol=1e-14)
    return result


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_proven_optima_are_those_of_enumeration(loss: str, seed: int) -> None:
    check(random_problem(seed, loss))


@pytest.mark.parametrize("loss", ["squared", "logistic", "absolute"])
def test_several_outputs(loss: str) -> None:
    check(random_problem(3, loss, n_outputs=2))


@pytest.mark.parametrize("loss", LOSSES)
def test_many_rows(loss: str) -> None:
    check(random_problem(4, loss, n=150, sample_weight=np.random.default_rng(0).uniform(0.5, 2.0, 150)))
