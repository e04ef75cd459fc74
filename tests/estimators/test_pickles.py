"""Pickles of fitted estimators: small, with the same predictions, and without the training data."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import qsdp
from qsdp.export import to_onnx

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2000, 20))
Y = X[:, 0] * X[:, 1] + X[:, 2]
TARGETS = {"Classifier": Y > 0.0, "Regressor": np.column_stack([Y, X[:, 3]])}
FAST: dict[str, Any] = {"n_neurons": 20, "encoding": "standard", "refine": "refit", "random_state": 0}

#: Methods whose results a pickle keeps.
METHODS = ("predict", "decision_function", "predict_proba", "predict_log_proba", "to_expression")
pytestmark = pytest.mark.filterwarnings("ignore::qsdp.exceptions.QSDPWarning")


def fitted(name: str, n: int = len(X), **parameters: Any) -> Any:
    return getattr(qsdp, f"QuantizedNetwork{name}")(**FAST, beta="5%", **parameters).fit(X[:n], TARGETS[name][:n])


def loaded(model: Any) -> Any:
    return pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("name", TARGETS)
def test_a_pickle_predicts_alike_and_does_not_grow_with_the_rows(name: str) -> None:
    model = fitted(name)
    # Half a byte a row would be 1000 bytes; the training data have 320,000.
    few = getattr(qsdp, f"QuantizedNetwork{name}")(**model.get_params()).fit(X[:500], TARGETS[name][:500])
    bits = [one.network_.n_bits for one in (model, few)]
    sizes = [len(pickle.dumps(one)) for one in (model, few)]
    assert abs(sizes[0] - sizes[1]) < 1000 + abs(bits[0] - bits[1])
    assert max(sizes) < 50_000
    other = loaded(loaded(model))
    for method in METHODS:
        if hasattr(model, method):
            arguments = () if method == "to_expression" else (X,)
            assert_array_equal(getattr(other, method)(*arguments), getattr(model, method)(*arguments))
    assert_array_equal(other.feature_importances_, model.feature_importances_)
    assert (other.certificate_, str(other.certificate_)) == (model.certificate_, str(model.certificate_))
    assert_array_equal(other.effects(X).main, model.effects(X).main)
    assert "gap" in other._repr_html_()


@pytest.mark.parametrize("loss", ["hinge", "logistic", "cross_entropy"])
def test_pickles_of_all_losses_are_small_and_export(loss: str) -> None:
    model = fitted("Classifier", n=400, loss=loss)
    pickled = pickle.dumps(model)
    # Less than the training data.
    assert len(pickled) < 50_000 < X[:400].nbytes
    other = pickle.loads(pickled)
    assert_array_equal(other.decision_function(X), model.decision_function(X))
    assert to_onnx(other).SerializeToString() == to_onnx(model).SerializeToString()


def test_without_its_data_an_estimator_says_why() -> None:
    model = loaded(fitted("Classifier"))
    for needs_data in (lambda: model.result_, lambda: model.resample(5)):
        with pytest.raises(AttributeError, match="training data: fit the estimator again"):
            needs_data()
    for needs_data in (model.effects, model.explain):
        with pytest.raises(AttributeError, match="pass a table as X, such as that of the training"):
            needs_data()
    assert_array_equal(model.contributions(X), fitted("Classifier").contributions(X))
    assert model.fit(X, TARGETS["Classifier"]).resample(5, refine="none").network_.n_neurons == 5
    with pytest.raises(AttributeError, match="not fitted"):
        _ = qsdp.QuantizedNetworkClassifier().result_


@pytest.mark.parametrize("through", [copy.copy, copy.deepcopy])
def test_data_stay_in_memory(through: Any) -> None:
    model = fitted("Classifier")
    other = through(model)
    problem, relaxation = other.result_.problem, other.result_.relaxation
    assert_array_equal(problem.X, model.result_.problem.X)
    certificate = qsdp.certify(other.network_, problem, relaxation)
    assert certificate.lower_bound == pytest.approx(model.certificate_.lower_bound, rel=1e-12)
    assert other.resample(30, 0).network_.n_neurons > 0
    assert_array_equal(other.network_.U, model.resample(30, 0).network_.U)
    # A fit replaces what a pickle knew of an earlier one.
    assert_array_equal(other.fit(X[:, :5], TARGETS["Classifier"]).feature_importances_.shape, [5])


@pytest.mark.parametrize("name", TARGETS)
def test_a_pickle_can_be_saved_and_knows_its_problem(name: str, tmp_path: Path) -> None:
    model = fitted(name, n=300)
    other = loaded(model)
    assert other.refined_ == model.refined_ == "refit"
    assert other.training_problem(X[:300], TARGETS[name][:300]).beta == model.result_.problem.beta
    other.save(tmp_path / "model")
    read = qsdp.load(tmp_path / "model")
    assert_array_equal(read.predict(X), model.predict(X))
    assert read.refined_ == "refit"
    with pytest.raises(AttributeError, match="neither files nor pickles hold the training data"):
        read.resample(10)
