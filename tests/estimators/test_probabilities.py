"""Probabilities of every loss, what labels are refused, and what else the estimators owe scikit-learn."""

from __future__ import annotations

import copy
import pickle
import re
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from qsdp import (
    QuantizedNetworkClassifier,
    QuantizedNetworkRegressor,
)
from qsdp.datasets import load_bundled
from qsdp.exceptions import InvalidInputError, InvalidTypeError, QSDPWarning
from qsdp.losses import LOSSES, Huber, SquaredHinge

RNG = np.random.default_rng(0)
X = RNG.standard_normal((90, 3))
REAL = X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.3 * RNG.standard_normal(90)
CODES = (REAL > 0).astype(int)
THREE = np.digitize(REAL, [-0.5, 0.5])
LABELS = np.stack([CODES, X[:, 0] > 0.3, X[:, 1] * X[:, 2] > 0], axis=1).astype(int)
COUNTS = np.random.default_rng(1).integers(0, 4, len(X))
BOTH = [
    QuantizedNetworkClassifier(beta="5%"),
    QuantizedNetworkRegressor(beta="5%"),
]
both = pytest.mark.parametrize("estimator", BOTH, ids=lambda one: type(one).__name__)


def classifier(**options: Any) -> QuantizedNetworkClassifier:
    # What encoding is chosen, and how far the network is polished, is no matter here.
    return QuantizedNetworkClassifier(
        **{"beta": "5%", "encoding": "standard", "refine": "refit", "random_state": 0, **options}
    )


# -- probabilities -------------------------------------------------------------------------------------


@pytest.mark.parametrize("y", [CODES, THREE], ids=["two classes", "three classes"])
def test_a_loss_says_itself_that_outputs_are_log_odds(y: np.ndarray) -> None:
    class LogOdds(SquaredHinge):
        probabilistic = True

    model = classifier(loss=LogOdds()).fit(X, y)
    odds = expit(model.decision_function(X))
    expected = np.column_stack([1.0 - odds, odds]) if odds.ndim == 1 else odds / odds.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-12)


@pytest.mark.parametrize("y", [CODES, THREE], ids=["two classes", "three classes"])
@pytest.mark.parametrize("loss", [*LOSSES, Huber(0.5)], ids=str)
def test_every_loss_has_probabilities(loss: Any, y: np.ndarray) -> None:
    model = classifier(loss=loss).fit(X, y)
    probabilities, logarithms = model.predict_proba(X), model.predict_log_proba(X)
    assert probabilities.shape == (90, len(np.unique(y)))
    assert np.all(probabilities >= 0.0)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(np.exp(logarithms), probabilities, rtol=1e-12)
    assert log_loss(y, probabilities) < 0.9 * np.log(len(np.unique(y)))
    np.testing.assert_array_equal(probabilities.argmax(axis=1), model.predict(X))


def test_fit_calibrates_if_asked_and_the_first_request_says_so() -> None:
    asked, model = (classifier(random_state=0, probability=flag).fit(X, CODES) for flag in (True, False))
    assert asked.calibration_.is_fitted
    assert not model.calibration_.is_fitted
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = asked.predict_proba(X)
    with pytest.warns(QSDPWarning, match=r"calibrating .*loss='squared'.*once; probability=True does it in fit") as one:
        np.testing.assert_array_equal(model.predict_proba(X), expected)
    assert [warning.filename for warning in one] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(model.predict_log_proba(X), asked.predict_log_proba(X))
        classifier(loss="logistic").fit(X, CODES).predict_proba(X)


def test_calibration_has_a_stage_and_time_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    hurried = classifier(beta=1.0, probability=True, time_limit=1e-9, verbose=True).fit(X, CODES)
    assert "calibrate" in capfd.readouterr().err
    assert (
        hurried.calibration_.lines.slopes
        == classifier(beta=1.0, probability=True).fit(X, CODES).calibration_.lines.slopes
    )


def test_probabilities_say_how_often_a_class_comes() -> None:
    errors = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        data = rng.standard_normal((3000, 2))
        truth = 1.0 / (1.0 + np.exp(-2.0 * data[:, 0]))
        y = rng.random(3000) < truth
        predicted = classifier().fit(data[:1500], y[:1500]).predict_proba(data[1500:])[:, 1]
        errors.append(np.abs(predicted - truth[1500:]).mean())
        assert abs(predicted.mean() - truth[1500:].mean()) < 0.04
    assert np.mean(errors) < 0.055


@pytest.mark.parametrize("y", [CODES, THREE], ids=["two classes", "three classes"])
def test_weights_are_repeated_rows_in_probabilities(y: np.ndarray) -> None:
    weighted = classifier().fit(X, y, COUNTS).predict_proba(X)
    by_rows = classifier().fit(np.repeat(X, COUNTS, axis=0), np.repeat(y, COUNTS, axis=0)).predict_proba(X)
    np.testing.assert_allclose(weighted, by_rows, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**40])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_the_unit_of_weights_does_not_matter_for_probabilities(unit: float, class_weight: str | None) -> None:
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    one, other = (
        classifier(class_weight=class_weight).fit(X, THREE, scale * weights).predict_proba(X) for scale in (1.0, unit)
    )
    np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


def test_the_order_of_rows_does_not_matter_for_probabilities() -> None:
    order = np.random.default_rng(2).permutation(len(X))
    moved = classifier().fit(X[order], THREE[order]).predict_proba(X)
    np.testing.assert_allclose(moved, classifier().fit(X, THREE).predict_proba(X), rtol=1e-5, atol=1e-6)


def test_class_weights_move_probabilities() -> None:
    rare = (REAL > 0.6).astype(int)
    plain, balanced = (classifier(class_weight=kind).fit(X, rare).predict_proba(X) for kind in (None, "balanced"))
    assert abs(plain[:, 1].mean() - rare.mean()) < 0.1
    assert balanced[:, 1].mean() > plain[:, 1].mean() + 0.05


@pytest.mark.parametrize("asked", [False, True], ids=["before", "after"])
def test_calibrations_travel(asked: bool) -> None:
    model = classifier().fit(X, CODES)
    if asked:
        model.predict_proba(X)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))


def test_probabilities_are_found_once_and_not_by_fit() -> None:
    model = classifier().fit(X, CODES)
    assert "lines" not in vars(model.calibration_)
    model.predict_proba(X)
    started = time.perf_counter()
    model.predict_proba(X)
    assert time.perf_counter() - started < 0.1
    lines = model.calibration_.lines
    model.resample(50, 1)
    assert model.predict_proba(X).shape == (90, 2)
    assert model.calibration_.lines is lines


@pytest.mark.parametrize("n", [4, 7])
def test_too_few_samples_for_folds(n: int) -> None:
    y = np.arange(n) % 2
    probabilities = classifier().fit(X[:n], y).predict_proba(X)
    assert np.all((probabilities > 0.0) & (probabilities < 1.0))


def test_inputs_that_say_nothing_leave_the_frequencies() -> None:
    y = np.arange(90) % 3 == 0
    with pytest.warns(UserWarning, match="zero network"):
        model = classifier().fit(np.ones((90, 1)), y)
    np.testing.assert_allclose(model.predict_proba(np.ones((1, 1))), [[2 / 3, 1 / 3]], atol=0.02)


def test_soft_voting_and_scores_of_probabilities() -> None:
    voting = VotingClassifier([("network", classifier()), ("line", LogisticRegression())], voting="soft")
    assert voting.fit(X, THREE).score(X, THREE) > 0.6
    scores = cross_val_score(classifier(), X, CODES, cv=3, scoring="neg_log_loss")
    assert scores.mean() > -np.log(2.0)
    search = GridSearchCV(classifier(), {"beta": ["1%", "10%"]}, cv=2, scoring="neg_log_loss").fit(X, CODES)
    assert search.best_score_ > -np.log(2.0)
    assert search.predict_log_proba(X).shape == (90, 2)


@pytest.mark.parametrize("name", ["breast-cancer-wisconsin", "wine"])
def test_log_loss_is_near_that_of_logistic_regression(name: str) -> None:
    data, y = load_bundled(name)
    X_train, X_test, y_train, y_test = train_test_split(data, y, random_state=0, stratify=y)
    logistic = make_pipeline(StandardScaler(), LogisticRegression()).fit(X_train, y_train)
    model = classifier(beta="auto").fit(X_train, y_train)
    reached = log_loss(y_test, model.predict_proba(X_test))
    assert reached <= log_loss(y_test, logistic.predict_proba(X_test)) + 0.05


def test_regressors_and_unfitted_models_have_none() -> None:
    assert not hasattr(QuantizedNetworkRegressor(), "predict_proba")
    for method in ("predict_proba", "predict_log_proba"):
        with pytest.raises(NotFittedError):
            getattr(classifier(), method)(X)


# -- labels --------------------------------------------------------------------------------------------


def test_several_labels_are_those_of_a_classifier_each() -> None:
    both = MultiOutputClassifier(classifier()).fit(X, LABELS)
    each = [classifier().fit(X, labels) for labels in LABELS.T]
    np.testing.assert_array_equal(both.predict(X), np.column_stack([model.predict(X) for model in each]))
    np.testing.assert_array_equal(both.predict_proba(X), [model.predict_proba(X) for model in each])
    assert ClassifierChain(classifier()).fit(X, LABELS).predict(X).shape == LABELS.shape
    assert not get_tags(classifier()).classifier_tags.multi_label


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


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.where(CODES == 1, "a", None), "y must have a label in every row; got None in row"),
        (pd.Series(CODES).map({0: "a"}), "y must have a label in every row; got nan in row"),
        (np.array([1, "a"] * (len(X) // 2), dtype=object), "labels of y must be all text or all numbers; got int and"),
    ],
)
def test_bad_labels(y: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
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
    from qsdp import pipeline

    starts = []
    original = pipeline.solve_relaxation
    monkeypatch.setattr(pipeline, "solve_relaxation", lambda *a, **k: (starts.append(k["start"]), original(*a, **k))[1])
    model = QuantizedNetworkRegressor(beta="5%", encoding="standard", warm_start=True)
    first = model.fit(X, REAL).result_.relaxation
    model.fit(X, REAL + 0.01 * X[:, 0])
    model.set_params(warm_start=False).fit(X, REAL)
    assert starts == [None, first, None]


# -- sparse data -----------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_array])
def test_sparse_data_are_refused(estimator: Any, kind: Any) -> None:
    y = CODES if "Classifier" in type(estimator).__name__ else REAL
    with pytest.raises(InvalidTypeError, match=r"Sparse data was passed for X, but dense data is required.*toarray"):
        estimator.fit(kind(X), y)
