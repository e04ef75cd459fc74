"""Sample weights in the relaxation: a weight counts rows, in every solver, and proves what the rows prove."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from brute_force import global_optimum
from test_interior import data, reference

import qsdp
from qsdp.losses import LOSSES, Huber, Logistic
from qsdp.relaxation.incumbent import Limits
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.solution import Relaxation, finish
from qsdp.relaxation.solvers.interior import solve_interior
from qsdp.relaxation.solvers.lowrank import solve_low_rank
from qsdp.relaxation.solvers.splitting import solve_splitting

SMOOTH = [name for name, loss in LOSSES.items() if loss.smooth]
COUNTS = np.array([1, 2, 3, 1, 5, 1, 1, 2, 4, 1, 3, 2, 1, 1])
#: Between samples whose matrices have 10 entries, 14 need the kernel and 40 the Gram matrix.
SIZES = [(14, 4), (42, 3)]


def weighted(n: int, d: int, loss: str, *, vector: bool = False) -> tuple[qsdp.TrainingProblem, qsdp.TrainingProblem]:
    """Return a problem with weights 1 .. 5, and one with so many rows."""
    X, y = data(n, d, loss)
    if vector:
        y = np.column_stack([y, -y[::-1]])
    counts = np.resize(COUNTS, n)
    options = {"beta": 0.7, "loss": loss, "activation": "relu"}
    return (
        qsdp.TrainingProblem(X, y, sample_weight=counts, **options),
        qsdp.TrainingProblem(np.repeat(X, counts, axis=0), np.repeat(y, counts, axis=0), **options),
    )


def solved(problem: qsdp.TrainingProblem, solver: str, tol: float) -> Relaxation:
    instance, units = Instance.of(problem).normalised()
    solve = {"interior": solve_interior, "splitting": solve_splitting, "low-rank": solve_low_rank}[solver]
    raw = solve(instance, Limits(tol, 20_000 if solver == "splitting" else 200))
    return finish(problem, raw, solver=solver, tol=tol)


def assert_equal(one: Relaxation, other: Relaxation, rel: float) -> None:
    assert one.objective == pytest.approx(other.objective, rel=rel)
    assert one.lower_bound == pytest.approx(other.lower_bound, rel=rel)


VECTORS = [(loss, vector) for loss in LOSSES for vector in (False, True) if not (vector and LOSSES[loss].coupled)]


@pytest.mark.parametrize(("n", "d"), SIZES)
@pytest.mark.parametrize(("loss", "vector"), VECTORS)
def test_interior_points_count_rows(loss, vector, n, d):
    one, other = weighted(n, d, loss, vector=vector)
    found, expected = solved(one, "interior", 2e-10), solved(other, "interior", 2e-10)
    # Kinks of many rows leave the method without digits, but their weights do not.
    assert found.relative_gap < 2e-9
    assert_equal(found, expected, 1e-9 + expected.relative_gap)


@pytest.mark.parametrize(("n", "d"), SIZES)
@pytest.mark.parametrize(("loss", "vector"), VECTORS)
def test_splitting_counts_rows(loss, vector, n, d):
    """Iterates are those of the rows, so that they agree beyond the tolerance."""
    one, other = (solved(problem, "splitting", 1e-5) for problem in weighted(n, d, loss, vector=vector))
    assert_equal(one, other, 1e-9)


@pytest.mark.parametrize("loss", SMOOTH)
def test_low_rank_counts_rows(loss):
    one, other = (solved(problem, "low-rank", 1e-6) for problem in weighted(*SIZES[0], loss))
    assert_equal(one, other, 2e-6)
