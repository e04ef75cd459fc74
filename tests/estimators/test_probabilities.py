"""Probabilities of losses of log odds, what labels are refused, and what else the estimators owe scikit-learn."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from qsdp import (
    QuantizedNetworkClassifier,
    QuantizedNetworkRegressor,
)
from qsdp.datasets import load_bundled
from qsdp.exceptions import InvalidInputError
from qsdp.losses import SquaredHinge
from qsdp.relaxation.backends import BACKENDS

RNG = np.random.default_rng(0)
X = RNG.standard_normal((90, 3))
REAL = X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.3 * RNG.standard_normal(90)
CODES = (REAL > 0).astype(int)
THREE = np.digitize(REAL, [-0.5, 0.5])
LABELS = np.stack([CODES, X[:, 0] > 0.3, X[:, 1] * X[:, 2] > 0], axis=1).astype(int)


def classifier(**options: Any) -> QuantizedNetworkClassifier:
    # What encoding is chosen, and how far the network is polished, is no matter here.
    return QuantizedNetworkClassifier(
        **{"beta": "5%", "encoding": "standard", "refine": "refit", "random_state": 0, **options}
    )


# -- probabilities -------------------------------------------------------------------------------------


def test_a_loss_says_itself_that_outputs_are_log_odds() -> None:
    class LogOdds(SquaredHinge):
        probabilistic = True

    for y in (CODES, THREE):
        model = classifier(loss=LogOdds()).fit(X, y)
        odds = expit(model.decision_function(X))
        expected = np.column_stack([1.0 - odds, odds]) if odds.ndim == 1 else odds / odds.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-12)


@pytest.mark.parametrize("y", [CODES, THREE], ids=["two classes", "three classes"])
@pytest.mark.parametrize("encoding", ["auto", "standard"])
@pytest.mark.parametrize("loss", ["logistic", "cross_entropy"])
def test_losses_of_log_odds_have_probabilities(loss: str, encoding: str, y: np.ndarray) -> None:
    model = classifier(loss=loss, encoding=encoding).fit(X, y)
    probabilities, logarithms = model.predict_proba(X), model.predict_log_proba(X)
    assert probabilities.shape == (90, len(np.unique(y)))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(np.exp(logarithms), probabilities, rtol=1e-12)
    assert log_loss(y, probabilities) < 0.9 * np.log(len(np.unique(y)))
    np.testing.assert_array_equal(probabilities.argmax(axis=1), model.predict(X))


def test_other_losses_have_none_and_are_calibrated_by_scikit_learn() -> None:
    model = classifier(loss="squared").fit(X, CODES)
    for method in ("predict_proba", "predict_log_proba"):
        assert not hasattr(model, method)
        with pytest.raises(AttributeError) as caught:
            getattr(model, method)
        assert "'logistic' or 'cross_entropy'; got 'squared'" in str(caught.value.__cause__)
    calibrated = CalibratedClassifierCV(classifier(loss="squared"), cv=3).fit(X, CODES)
    assert log_loss(CODES, calibrated.predict_proba(X)) < 0.9 * np.log(2.0)


def test_probabilities_say_how_often_a_class_comes() -> None:
    errors = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        data = rng.standard_normal((1500, 2))
        truth = expit(2.0 * data[:, 0])
        y = rng.random(1500) < truth
        model = QuantizedNetworkClassifier(random_state=0).fit(data[:750], y[:750])
        predicted = model.predict_proba(data[750:])[:, 1]
        errors.append(np.abs(predicted - truth[750:]).mean())
        assert abs(predicted.mean() - truth[750:].mean()) < 0.06
    assert np.mean(errors) < 0.055


def test_class_weights_move_probabilities() -> None:
    rare = (REAL > 0.6).astype(int)
    plain, balanced = (
        classifier(class_weight=kind, encoding="auto").fit(X, rare).predict_proba(X) for kind in (None, "balanced")
    )
    assert abs(plain[:, 1].mean() - rare.mean()) < 0.1
    assert balanced[:, 1].mean() > plain[:, 1].mean() + 0.05


@pytest.mark.parametrize("name", ["breast-cancer-wisconsin", "wine"])
def test_labels_and_probabilities_are_as_good_as_those_of_logistic_regression(name: str) -> None:
    data, y = load_bundled(name)
    X_train, X_test, y_train, y_test = train_test_split(data, y, random_state=0)
    logistic = make_pipeline(StandardScaler(), LogisticRegression()).fit(X_train, y_train)
    model = QuantizedNetworkClassifier(random_state=0).fit(X_train, y_train)
    assert model.score(X_test, y_test) >= logistic.score(X_test, y_test) - 0.02
    reached = log_loss(y_test, model.predict_proba(X_test))
    assert reached <= log_loss(y_test, logistic.predict_proba(X_test)) + 0.05


# -- labels --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "described"),
    [
        *(
            (kind(LABELS), "shape (90, 3)")
            for kind in (np.asarray, np.ndarray.tolist, list, sp.csr_array, pd.DataFrame)
        ),
        (LABELS[:, :2].astype(float) - 0.5, "shape (90, 2)"),
        (LABELS.astype(str), "shape (90, 3)"),
        ([["a"], ["a", "b"]] * 45, "rows of different lengths"),
    ],
)
def test_several_labels_are_refused(y: Any, described: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"got {re.escape(described)}: .* sklearn\.multioutput\.Multi"):
        classifier().fit(X, y)


# -- the last solution as a start ------------------------------------------------------------------------


@pytest.mark.parametrize("y", [CODES, THREE], ids=["two classes", "three classes"])
def test_warm_starts_find_the_same(y: np.ndarray) -> None:
    model = classifier(warm_start=True, tol=1e-6).fit(X, y)
    bound = model.certificate_.lower_bound
    assert model.fit(X, y).certificate_.lower_bound == pytest.approx(bound, rel=5e-6)
    cold = classifier(beta="3%", tol=1e-6).fit(X, y)
    warm = model.set_params(beta="3%").fit(X, y)
    assert warm.certificate_.lower_bound == pytest.approx(cold.certificate_.lower_bound, rel=5e-6)


def test_warm_starts_of_other_shapes_are_cold() -> None:
    model = classifier(warm_start=True).fit(X, CODES)
    for data, y in ((X[:50], CODES[:50]), (X[:, :2], CODES), (X, THREE)):
        cold = classifier().fit(data, y)
        np.testing.assert_array_equal(model.fit(data, y).decision_function(data), cold.decision_function(data))


def test_a_start_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, started = BACKENDS["interior"], []

    def solve(instance: Any, settings: Any) -> Any:
        started.append(settings.start is not None)
        return backend.solve(instance, settings)

    monkeypatch.setitem(BACKENDS, "interior", replace(backend, solve=solve))
    model = QuantizedNetworkRegressor(beta="5%", encoding="standard", warm_start=True, solver="interior")
    model.fit(X, REAL)
    model.fit(X, REAL + 0.01 * X[:, 0])
    model.set_params(warm_start=False).fit(X, REAL)
    assert started == [False, True, False]
