"""What the base classes of the training systems promise, shown on a tiny system."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.estimator_checks import check_estimator

import qsdp
from qsdp._utils.validation import FloatArray, check_integer, check_real
from qsdp.baselines import AffineForm, History, QuantizedChain, TrainedLayer
from qsdp.baselines._estimator import BaselineClassifier, BaselineRegressor, accuracy_of, r2_of
from qsdp.baselines._history import train_epochs
from qsdp.exceptions import InvalidInputError, InvalidTypeError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
LINEAR = X @ [1.0, -2.0, 0.5] + 0.3
CODES = np.digitize(LINEAR, [-1.0, 1.5])


class _Tiny:
    """Least squares by one Newton step an epoch, of a part of the way; `layers=2` puts a fixed layer in front."""

    def __init__(self, n_epochs: int = 3, *, step: float = 1.0, layers: int = 1, random_state: Any = None) -> None:
        self.n_epochs = n_epochs
        self.step = step
        self.layers = layers
        self.random_state = random_state

    def _train(self, X: FloatArray, targets: FloatArray, history: History, rng: np.random.Generator) -> None:
        n_epochs = check_integer("n_epochs", self.n_epochs, minimum=0)
        step = check_real("step", self.step)
        self._first = np.eye(X.shape[1]) if self.layers == 1 else rng.standard_normal((2 * X.shape[1], X.shape[1]))
        A = np.column_stack([self._hidden(X), np.ones(len(X))])
        self._w = np.zeros((A.shape[1], *targets.shape[1:]))
        self.seen_ = targets

        def train(epoch: int) -> None:
            self._w = self._w + step * np.linalg.lstsq(A, targets - A @ self._w, rcond=None)[0]

        def measure() -> dict[str, float]:
            outputs = A @ self._w
            score = r2_of(outputs, targets)
            if history.measure == "accuracy":
                score = accuracy_of(outputs, targets.argmax(axis=1))
            return {"loss": float(np.mean((outputs - targets) ** 2)), "score": score}

        def restore(w: FloatArray) -> None:
            self._w = w

        train_epochs(train, measure, n_epochs, get_state=lambda: self._w, set_state=restore, history=history)

    def _hidden(self, X: FloatArray) -> FloatArray:
        H = X @ self._first.T
        return H if self.layers == 1 else np.tanh(H)

    def _outputs(self, X: FloatArray) -> FloatArray:
        values: FloatArray = self._hidden(X) @ self._w[:-1] + self._w[-1]
        return values

    @property
    def layers_(self) -> Sequence[TrainedLayer]:
        last = TrainedLayer(AffineForm(self._w[:-1].T, self._w[-1]))
        return [last] if self.layers == 1 else [TrainedLayer(AffineForm(self._first), np.tanh), last]


class TinyClassifier(_Tiny, BaselineClassifier):
    pass


class TinyRegressor(_Tiny, BaselineRegressor):
    pass


both = pytest.mark.parametrize("kind", [TinyClassifier, TinyRegressor], ids=["classifier", "regressor"])


def target(kind: type) -> np.ndarray:
    return CODES if kind is TinyClassifier else LINEAR


@both
def test_check_estimator(kind: type) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = check_estimator(kind(), on_skip=None, on_fail=None)
    failed = [f"{o['check_name']}: {o['exception']!r}" for o in outcomes if o["status"] not in {"passed", "skipped"}]
    assert not failed, "\n".join(failed)
    assert {o["check_name"] for o in outcomes if o["status"] == "skipped"} <= {"check_array_api_input"}
    assert len([o for o in outcomes if o["status"] == "passed"]) >= 50


@both
def test_fit_fills_a_new_history(kind: type) -> None:
    model = kind(2, random_state=0)
    assert model.fit(X, target(kind)) is model
    first = model.history_
    assert (first.n_epochs, first.measure) == (2, "accuracy" if kind is TinyClassifier else "r2")
    model.set_params(n_epochs=5).fit(X, target(kind))
    assert (first.n_epochs, model.history_.n_epochs) == (2, 5)
    assert model.history_.score[-1] == pytest.approx(model.score(X, target(kind)), abs=1e-12)
    assert model.n_features_in_ == 3


@both
def test_parameters_are_refused_by_fit_only(kind: type) -> None:
    model = kind(n_epochs=-1)
    with pytest.raises(InvalidInputError, match="n_epochs must be an integer >= 0; got -1"):
        model.fit(X, target(kind))
    assert not hasattr(model, "_w")


@both
def test_unfitted(kind: type) -> None:
    with pytest.raises(NotFittedError):
        kind().predict(X)
    with pytest.raises(NotFittedError):
        kind().distill(X)
    assert not hasattr(kind(), "to_quadratic_form")


@both
def test_bad_data_are_refused_by_kind(kind: type) -> None:
    model, y = kind(), target(kind)
    with pytest.raises(InvalidInputError, match=r"X or y is not valid: .*NaN"):
        model.fit(np.where(X > 2.0, np.nan, X), y)
    with pytest.raises(InvalidInputError, match=r"X or y is not valid: .*inconsistent"):
        model.fit(X, y[:-1])
    with pytest.raises(InvalidInputError, match="X or y is not valid"):
        model.fit(X[0], y)
    with pytest.raises(InvalidTypeError, match=r"X or y is not valid: .*[Ss]parse"):
        model.fit(scipy.sparse.csr_array(X), y)
    model.fit(X, y)
    with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 3"):
        model.predict(X[:, :2])


@both
def test_random_state(kind: type) -> None:
    outputs = [kind(layers=2, random_state=seed).fit(X, target(kind))._outputs(X) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert np.any(outputs[0] != outputs[2])
    with pytest.raises(InvalidInputError, match="random_state must be"):
        kind(random_state="zero").fit(X, target(kind))


@both
def test_clone_and_pickle(kind: type) -> None:
    model = kind(4, random_state=0).fit(X, target(kind))
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "history_")
    kept = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(kept.predict(X), model.predict(X))
    assert kept.history_.to_dict() == model.history_.to_dict()


# -- classifiers -------------------------------------------------------------------------------------


def test_labels_of_any_kind() -> None:
    names = np.array(["low", "middle", "high"])[CODES]
    model = TinyClassifier().fit(pd.DataFrame(X, columns=["a", "b", "c"]), names)
    assert is_classifier(model)
    assert not is_regressor(model)
    assert model.classes_.tolist() == ["high", "low", "middle"]
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    # One-hot rows, in the order of classes_.
    np.testing.assert_array_equal(model.seen_, (names[:, None] == model.classes_).astype(float))
    predicted = model.predict(pd.DataFrame(X, columns=["a", "b", "c"]))
    assert set(predicted) <= {"low", "middle", "high"}
    assert model.score(pd.DataFrame(X, columns=["a", "b", "c"]), names) == accuracy_score(names, predicted) > 0.8


def test_decision_function() -> None:
    model = TinyClassifier().fit(X, CODES)
    scores = model.decision_function(X)
    assert scores.shape == (60, 3)
    np.testing.assert_array_equal(model.classes_[scores.argmax(axis=1)], model.predict(X))
    two = TinyClassifier().fit(X, np.where(LINEAR > 0.0, "yes", "no"))
    scores = two.decision_function(X)
    assert scores.shape == (60,)
    np.testing.assert_array_equal(np.where(scores > 0.0, "yes", "no"), two.predict(X))


def test_bad_labels_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="only one class is present; y holds only 7"):
        TinyClassifier().fit(X, np.full(60, 7))
    with pytest.raises(InvalidInputError, match="y is not valid"):
        TinyClassifier().fit(X, LINEAR)
    with pytest.raises(InvalidInputError, match="X or y is not valid"):
        TinyClassifier().fit(X, np.column_stack([CODES, CODES]))


# -- regressors --------------------------------------------------------------------------------------


def test_targets_keep_their_shape() -> None:
    one = TinyRegressor().fit(X, LINEAR)
    assert is_regressor(one)
    assert (one.seen_.shape, one.predict(X).shape) == ((60,), (60,))
    np.testing.assert_allclose(one.predict(X), LINEAR, atol=1e-12)
    several = TinyRegressor().fit(X, np.column_stack([LINEAR, -LINEAR]))
    assert (several.seen_.shape, several.predict(X).shape) == ((60, 2), (60, 2))


def test_bad_targets_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="X or y is not valid"):
        TinyRegressor().fit(X, np.where(LINEAR > 2.0, np.inf, LINEAR))
    with pytest.raises(InvalidTypeError, match=r"y must be a numeric array of shape .*: got text"):
        TinyRegressor().fit(X, np.array(["a"] * 60))


# -- quantization ------------------------------------------------------------------------------------


def test_one_layer_is_a_quadratic_form() -> None:
    model = TinyRegressor().fit(X, LINEAR)
    form = model.to_quadratic_form()
    assert isinstance(form, qsdp.QuadraticForm)
    np.testing.assert_allclose(form.predict(X), model.predict(X), atol=1e-12)
    match = qsdp.distill(model, X, 2000, random_state=0)
    np.testing.assert_allclose(match.problem.y, model.predict(X), atol=1e-12)


def test_several_layers_are_none() -> None:
    model = TinyRegressor(layers=2, random_state=0).fit(X, LINEAR)
    assert not hasattr(model, "to_quadratic_form")
    with pytest.raises(AttributeError, match="to_quadratic_form") as caught:
        model.to_quadratic_form()
    assert "has 2 layers and is not a single quadratic function; distill()" in str(caught.value.__cause__)
    # The whole chain can be matched by its outputs, as any model.
    match = qsdp.distill(model, X, 100, random_state=0)
    np.testing.assert_allclose(match.problem.y, model.predict(X), atol=1e-12)


@both
def test_quantize_layer_by_layer(kind: type) -> None:
    model = kind(layers=2, random_state=0).fit(X, target(kind))
    small, large = (model.distill(X, size, random_state=0) for size in (50, (4000, 8000)))
    assert isinstance(small, QuantizedChain)
    assert len(small.matches) == 2
    exact = model._outputs(X)
    errors = [np.linalg.norm(chain.predict(X) - exact) / np.linalg.norm(exact) for chain in (small, large)]
    assert errors[1] < 0.5 * errors[0]
    with pytest.raises(ValueError, match="X has 2 features"):
        model.distill(X[:, :2])


# -- scores ------------------------------------------------------------------------------------------


def test_accuracy_of_outputs() -> None:
    outputs = np.array([[1.0, 2.0, 0.0], [3.0, 2.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.5]])
    assert accuracy_of(outputs, np.array([1, 0, 2, 2])) == 0.75
    assert accuracy_of(np.array([-1.0, 0.5, 2.0, -3.0]), np.array([0, 1, 0, 0])) == 0.75
    # Equal outputs of two classes stand for the first, as of more.
    assert accuracy_of(np.zeros((4, 2)), np.array([0, 0, 0, 1])) == 0.75


def test_r2_of_outputs() -> None:
    Y, Z = RNG.standard_normal((2, 20, 3))
    assert r2_of(Z, Y) == pytest.approx(np.mean([r2_score(Y[:, k], Z[:, k]) for k in range(3)]), abs=1e-12)
    assert r2_of(Y[:, 0], Y[:, 0]) == 1.0
    assert np.isnan(r2_of(Y[:1], Y[:1]))
