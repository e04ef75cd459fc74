"""Warnings point at the line of the user who called this package, and name what really happened."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import qsdp
from qsdp.encoding import TableEncoder
from qsdp.exceptions import QSDPWarning

X, Y = qsdp.datasets.make_planted(n=60, d=5, n_neurons=3, random_state=0)
LABELS = np.where(Y > 0, "a", "b")
TINY = 1e-9
PROBLEM = qsdp.TrainingProblem(X, Y, beta=0.5)
SETTINGS = {"encoding": "standard", "beta": "5%", "refine": "none", "random_state": 0}


def table(**columns: object) -> object:
    pd = pytest.importorskip("pandas")
    return pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "u", "v"), **columns})


def fitted(estimator: type, target: np.ndarray, **settings: object) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator(200, **SETTINGS, **settings).fit(table(), target)


def classifier() -> object:
    return fitted(qsdp.QuantizedNetworkClassifier, LABELS, loss="logistic")


def regressor() -> object:
    return fitted(qsdp.QuantizedNetworkRegressor, Y)


def hurried(estimator: type, **settings: object) -> object:
    return estimator(random_state=0, time_limit=TINY, **settings)


CALLS: dict[str, Callable[[Path], object]] = {
    "solve_and_sample": lambda _: qsdp.solve_and_sample(X, Y, 20, 1e9, random_state=0),
    "solve_relaxation": lambda _: qsdp.solve_relaxation(PROBLEM, time_limit=TINY),
    "distill": lambda _: qsdp.distill(qsdp.QuadraticForm(np.eye(5)), X, 20, beta=1e9),
    "regressor": lambda _: hurried(qsdp.QuantizedNetworkRegressor).fit(X, Y),
    "classifier": lambda _: hurried(qsdp.QuantizedNetworkClassifier).fit(X, LABELS),
    "gap": lambda _: qsdp.QuantizedNetworkRegressor(3, beta=0.01, refine="none", random_state=0).fit(X, Y),
    "scales": lambda _: qsdp.QuantizedNetworkRegressor(20, encoding="none", beta="5%").fit(X * [1, 1, 1, 1, 1e4], Y),
    "predict": lambda _: regressor().predict(table(b="w")),
    "score": lambda _: regressor().score(table(b="w"), Y),
    "predict_proba": lambda _: classifier().predict_proba(table(b="w")),
    "predict_log_proba": lambda _: classifier().predict_log_proba(table(b="w")),
    "decision_function": lambda _: classifier().decision_function(table(b="w")),
    "effects": lambda _: regressor().effects(table(b="w")),
    "contributions": lambda _: regressor().contributions(table(b="w")),
    "pipeline": lambda _: make_pipeline(StandardScaler(), hurried(qsdp.QuantizedNetworkRegressor)).fit(X, Y),
    "pipeline, predict": lambda _: make_pipeline(regressor()).predict(table(b="w")),
    "cross_val_score": lambda _: cross_val_score(hurried(qsdp.QuantizedNetworkRegressor), X, Y, cv=2),
    "joblib": lambda _: joblib.Parallel(1)([joblib.delayed(qsdp.solve_relaxation)(PROBLEM, time_limit=TINY)]),
    "encoder": lambda _: TableEncoder(handle_unknown="warn").fit(table()).transform(table(b="w")),
    "encoder, at once": lambda _: TableEncoder().fit_transform(table(a=["x?", *X[1:, 0].astype(str)])),
    "thresholds": lambda _: TableEncoder("thresholds").fit_transform(table(a=["x?", *X[1:, 0].astype(str)])[["a"]]),
}


@pytest.mark.parametrize("name", CALLS)
def test_warnings_point_at_the_users_line(name: str, tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CALLS[name](tmp_path)
    ours = [one for one in caught if issubclass(one.category, QSDPWarning)]
    assert ours
    first = CALLS[name].__code__.co_firstlineno
    for one in ours:
        assert one.filename == __file__, one
        assert abs(one.lineno - first) <= 3 or name in {"save"}, (one.lineno, first)


def messages(call: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in caught if issubclass(one.category, QSDPWarning)]


@pytest.mark.parametrize("estimator", [qsdp.QuantizedNetworkRegressor, qsdp.QuantizedNetworkClassifier])
def test_one_warning_names_every_stage_that_the_time_limit_ended(estimator: type) -> None:
    target = LABELS if estimator is qsdp.QuantizedNetworkClassifier else Y
    data, wide = np.tile(X, (1, 6)), hurried(estimator, encoding="standard")
    (message,) = messages(lambda: wide.fit(data, target))
    assert message.endswith("the time limit ended the choice of beta and the solve; allow more time with time_limit")
    *_, message = messages(lambda: hurried(estimator).fit(data, target))
    assert message.startswith("the time limit ended the choice of thresholds and beta: certificate and predictions are")


def test_choices_that_ended_early_are_warned_of_without_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    # The limit of the choices alone passes, so that the solve is as good as ever.
    monkeypatch.setattr("qsdp.choosing.options.FIRST_TRY", 0.0)
    (message,) = messages(lambda: qsdp.QuantizedNetworkRegressor(200, time_limit=60.0, random_state=0).fit(X, Y))
    assert message.startswith("the time limit ended the choice of thresholds and beta: certificate and")
    (message,) = messages(lambda: qsdp.solve_and_sample(X, Y, 50, "auto", time_limit=60.0, random_state=0))
    assert message.startswith("the time limit ended the choice of beta: certificate and")
    assert messages(lambda: qsdp.solve_and_sample(X, Y, 50, 0.5, time_limit=60.0, random_state=0)) == []
