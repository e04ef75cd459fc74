"""Paths of folds: those that each training part has alone."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import KFold, ShuffleSplit

import qsdp
from qsdp.estimators.folds import plan_paths
from qsdp.relaxation import relaxation_path
from qsdp.relaxation.backends import Settings

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
Y = X[:, 0] * X[:, 1] + 0.3 * RNG.standard_normal(60)
SIGNS = np.where(Y > 0.1, 1.0, -1.0)
SETTINGS = Settings(1e-6)


def splits_of(splitter: Any) -> list[Any]:
    return list(splitter.split(X))


@pytest.mark.parametrize("loss", ["squared", "huber", "hinge"])
@pytest.mark.parametrize("splitter", [KFold(3), ShuffleSplit(2, random_state=0)], ids=["division", "shuffled"])
def test_paths_of_folds_are_those_of_the_training_parts(loss: str, splitter: Any) -> None:
    problem = qsdp.TrainingProblem(X, SIGNS if loss == "hinge" else Y, beta=1.0, loss=loss)
    splits = splits_of(splitter)
    whole, folds = plan_paths(problem, splits, 3, settings=SETTINGS)
    assert whole.problem is problem
    assert len(folds) == len(splits)
    for (train, _), fold in zip(splits, folds, strict=True):
        assert fold.problem == problem.take(train)
        np.testing.assert_array_equal(fold.betas, whole.betas)
        path = fold.solve()
        expected = relaxation_path(fold.problem, whole.betas)
        np.testing.assert_allclose(path.objective, expected.objective, rtol=2e-6)
        assert np.all(path.lower_bound <= expected.objective * (1 + 1e-12))
    np.testing.assert_allclose(whole.solve().objective, relaxation_path(problem, 3).objective, rtol=2e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_folds_whose_units_differ(weighted: bool) -> None:
    # Powers of two near the sizes of rows, targets and weights differ between the training parts.
    sizes = np.repeat([1.0, 30.0, 1000.0], 20)
    weights = sizes**2 if weighted else None
    problem = qsdp.TrainingProblem(X * sizes[:, None] ** 0.2, Y * sizes, beta=1.0, sample_weight=weights)
    _, folds = plan_paths(problem, splits_of(KFold(3)), 3, settings=SETTINGS)
    for fold in folds:
        np.testing.assert_allclose(
            fold.solve().objective, relaxation_path(fold.problem, fold.betas).objective, rtol=2e-6
        )


def test_a_plan_is_solved_elsewhere() -> None:
    problem = qsdp.TrainingProblem(X, Y, beta=1.0)
    plan, _ = plan_paths(problem, splits_of(KFold(3)), np.array([2.0, 0.5]), settings=SETTINGS)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(plan)).solve().objective, plan.solve().objective)


def test_samples_that_are_taken() -> None:
    problem = qsdp.TrainingProblem(X, SIGNS, beta=0.3, loss="hinge", activation="relu_like", levels=3)
    rows = np.arange(5, 25)
    expected = qsdp.TrainingProblem(X[rows], SIGNS[rows], beta=0.3, loss="hinge", activation="relu_like", levels=3)
    assert problem.take(rows) == expected


def test_loose_gaps_are_warned_of_unless_quiet(recwarn: pytest.WarningsRecorder) -> None:
    problem = qsdp.TrainingProblem(X, Y, beta=1.0)
    plan, _ = plan_paths(problem, splits_of(KFold(2)), np.array([0.5]), settings=Settings(1e-17))
    plan.solve(quiet=True)
    assert not recwarn.list
    plan.solve()
    assert len(recwarn.list) == 1
