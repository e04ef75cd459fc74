"""What is missing is named: targets, and members of user-defined classes."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import qsdp
from qsdp.exceptions import InvalidInputError
from qsdp.losses import Logistic, Loss

X = np.random.default_rng(0).standard_normal((12, 2))


def test_missing_targets_are_named() -> None:
    for call in (
        lambda: qsdp.TrainingProblem(X, None, beta=1.0),
        lambda: qsdp.solve_and_sample(X, None),
        lambda: qsdp.SufficientStatistics().partial_fit(X, None),
    ):
        with pytest.raises(
            InvalidInputError, match=r"^y must be an array of shape .*, one row for each row of X; got None$"
        ):
            call()
    for estimator in (qsdp.QuantizedNetworkClassifier(), qsdp.QuantizedNetworkRegressor()):
        with pytest.raises(InvalidInputError, match="the target y is None"):
            estimator.fit(X, None)


class Bare(Logistic):
    """A loss without second derivatives."""

    name = "bare"
    curvature = Loss.curvature


def test_missing_members_of_a_loss_are_named() -> None:
    problem = qsdp.TrainingProblem(X, np.sign(X[:, 0]), beta=0.1, loss=Bare())
    relaxation = qsdp.solve_relaxation(problem)
    network = qsdp.sample_network(qsdp.shape_covariance(relaxation), 10, random_state=0)
    assert problem.objective(qsdp.polish(network, problem, random_state=0)) <= problem.objective(network)
    with pytest.raises(qsdp.QSDPError, match="define curvature"):
        qsdp.refit(network, problem)
    with pytest.raises(NotImplementedError, match="Bare does not define curvature"):
        Bare().curvature(X[:, 0], X[:, 1])


def test_no_error_is_raised_without_a_message() -> None:
    texts = {path: path.read_text("utf-8") for path in Path(qsdp.__file__).parent.rglob("*.py")}
    for path, text in texts.items():
        if "NotImplementedError" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Raise) and node.exc is not None:
                name = ast.unparse(node.exc)
                assert name not in {"NotImplementedError", "NotImplementedError()"}, f"{path}:{node.lineno}"
