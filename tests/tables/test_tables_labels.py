"""What the output of the network stands for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from qsdp.tabular import Target
from tabular_data import table

from qsdp import QuantizedNetworkClassifier
from qsdp.estimators.classes import class_probabilities, class_scores
from qsdp.losses import LOSSES, get_loss

SQUARED = get_loss("squared")


@pytest.mark.parametrize(
    ("entries", "task", "classes"),
    [
        (["b", "a", "b", "a"], "auto", ("a", "b")),
        (["10", "9", "10", "9"], "auto", ("9", "10")),
        (["1", "1.0", "0", "0.0"], "auto", ("0", "1")),
        (["1", "2", "3", "4"], "auto", None),
        (["0", "1", "0", "1"], "regression", None),
        (["0", "1", "1", "0"], "classification", ("0", "1")),
        (["b", "c", "b", "a"], "auto", ("a", "b", "c")),
        (["10", "9", "2.0", "2"], "classification", ("2.0", "9", "10")),
        (["10", "9", "x", "2"], "auto", ("2", "9", "10", "x")),
    ],
)
def test_task_and_classes(entries: list[str | None], task: str, classes: tuple[str, ...] | None) -> None:
    target = Target.fit(table({"y": entries}), "y", task, range(4)).scaled(table({"y": entries}), SQUARED, None)
    assert target.classes == classes
    if classes is None:
        numbers = np.array([float(entry or "nan") for entry in entries])
        assert (target.offset, target.scale) == ((numbers.mean(),), numbers.std())
        np.testing.assert_allclose(target.decode(target.encode(table({"y": entries}), SQUARED)), numbers)


def test_scores() -> None:
    classes = Target("y", ("a", "b"))
    truth = classes.truth(table({"y": ["a", "b", "other", "b"]}))
    np.testing.assert_array_equal(truth, [0, 1, -1, 1])
    assert classes.score(np.array([-1.0, 2.0, 3.0, -1.0]), truth) == 0.5
    three = Target("y", ("a", "b", "c"))
    assert three.score(np.array([[0.1, 0.2, 0.3], [2.0, 1.0, 1.0]]), np.array([2.0, 1.0])) == 0.5
    number = Target("y", None, (1.0,), 2.0)
    assert number.score(np.array([1.0, 2.0]), np.array([1.0, 2.0])) == 1.0
    assert math.isnan(number.score(np.array([1.0, 2.0]), np.array([2.0, 2.0])))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("labels", [["a", "b", "b", "a"], ["a", "b", "c", "b"]])
def test_classes_are_coded_and_decided_as_the_estimator_does(
    monkeypatch: pytest.MonkeyPatch, loss: str, labels: list[str]
) -> None:
    fitted: list[np.ndarray] = []
    monkeypatch.setattr(
        QuantizedNetworkClassifier, "_fit", lambda self, samples, *rest: fitted.append(self._coded(samples)[0])
    )
    X = np.arange(4.0)[:, None]
    estimator = QuantizedNetworkClassifier(loss=loss, encoding="standard").fit(X, labels)
    target = Target("y", tuple(sorted(set(labels))))
    coded = target.encode(table({"y": [*labels, "other", None]}), get_loss(loss))
    np.testing.assert_array_equal(coded[:4], fitted[0])
    assert np.all(np.isnan(coded[4:]))
    assert target.output_shape(get_loss(loss)) == coded.shape[1:]
    assert target.decode(coded[:4]) == labels
    outputs = np.random.default_rng(0).normal(size=coded.shape) * 3.0
    monkeypatch.setattr(QuantizedNetworkClassifier, "_output", lambda self, X: outputs)
    assert target.decode(outputs) == estimator.predict(X).tolist()
    np.testing.assert_array_equal(class_scores(outputs), estimator.decision_function(X))
    if get_loss(loss).probabilistic:
        estimator.calibration_ = None
        np.testing.assert_array_equal(class_probabilities(outputs, get_loss(loss)), estimator.predict_proba(X))


def test_probabilities_where_every_class_is_ruled_out() -> None:
    probabilities = class_probabilities(np.full((1, 4), -1e4), get_loss("logistic"))
    np.testing.assert_array_equal(probabilities, 0.25)
