"""Offsets of class scores fitted to left-out rows."""

import numpy as np
import pytest

import qsdp
from qsdp.choosing.beta import LeftOutOutputs
from qsdp.estimators.offsets import _likeliest, decision_offsets


def rows_of_classes(n: int = 4000, slope: float = 6.0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return outputs, classes drawn from a multinomial model of them, one-hot rows and their means."""
    rng = np.random.default_rng(0)
    outputs = rng.normal(size=(n, 3)) * 0.3
    drawn = slope * (outputs + np.array([0.2, 0.0, -0.2])) + rng.gumbel(size=outputs.shape)
    classes = drawn.argmax(axis=1)
    hot = np.eye(3)[classes]
    return outputs, classes, hot, hot.mean(axis=0)


def test_offsets_are_those_of_the_model_that_drew_the_classes() -> None:
    outputs, classes, _, _ = rows_of_classes()
    offsets = _likeliest(outputs, classes, np.ones(len(outputs)))
    assert offsets is not None
    np.testing.assert_allclose(offsets - offsets.mean(), [0.2, 0.0, -0.2], atol=0.02)


def test_a_weight_counts_as_equal_rows() -> None:
    outputs, classes, _, _ = rows_of_classes(200)
    weights = np.random.default_rng(1).integers(1, 4, 200)
    weighted = _likeliest(outputs, classes, weights.astype(float))
    repeated = _likeliest(np.repeat(outputs, weights, axis=0), np.repeat(classes, weights), np.ones(weights.sum()))
    assert weighted is not None
    np.testing.assert_allclose(weighted, repeated, rtol=1e-6, atol=1e-9)


def test_offsets_replace_means_only_if_more_rows_are_right() -> None:
    outputs, classes, hot, means = rows_of_classes()
    weights = np.ones(len(outputs))
    offsets = decision_offsets(LeftOutOutputs(outputs, hot - means, weights), means)
    right = [np.mean(np.argmax(outputs + one, axis=1) == classes) for one in (offsets, means)]
    assert right[0] > right[1]
    # Outputs that are all zero decide nothing, so the means stay.
    flat = LeftOutOutputs(np.zeros_like(outputs), hot - means, weights)
    assert decision_offsets(flat, means) is means


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(("better", "replaced"), [(2, False), (3, True)])
def test_offsets_must_classify_clearly_more_rows_correctly(better, replaced, unit, monkeypatch) -> None:
    # If k more rows are right, the standard error is almost the root of k; 1.5 of it are below k from 3 on.
    outputs = np.zeros((4000, 3))
    classes = np.zeros(4000, dtype=int)
    classes[:better], outputs[:better, 0] = 1, -1.0
    means, hot = np.array([0.7, 0.2, 0.1]), np.eye(3)[classes]
    outputs[:better, 2] = 1.0
    offsets = np.array([0.7, 2.0, 0.1])
    outputs[better:, 0] = 2.0
    monkeypatch.setattr("qsdp.estimators.offsets._likeliest", lambda *_: offsets)
    found = decision_offsets(LeftOutOutputs(outputs, hot - means, np.full(4000, unit)), means)
    assert found is (offsets if replaced else means)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_offsets_are_in_the_unit_of_the_outputs(unit) -> None:
    outputs, classes, _, _ = rows_of_classes(300)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 300)
    offsets, scaled = _likeliest(outputs, classes, weights), _likeliest(unit * outputs, classes, weights)
    assert offsets is not None
    np.testing.assert_allclose(scaled, unit * offsets, rtol=1e-6, atol=1e-9 * unit)


def test_outputs_that_point_away_from_the_classes_keep_the_means() -> None:
    outputs, _, hot, means = rows_of_classes()
    assert decision_offsets(LeftOutOutputs(-outputs, hot - means, np.ones(len(outputs))), means) is means


@pytest.fixture(scope="module")
def unequal() -> tuple[qsdp.QuantizedNetworkClassifier, np.ndarray, np.ndarray]:
    """Return a classifier of classes of unequal sizes, whose scores differ by linear functions of the inputs."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1500, 4))
    scores = 2.0 * X @ rng.normal(size=(4, 5)) + rng.gumbel(size=(1500, 5)) + np.array([3.0, 2.0, 0.0, 0.0, 0.0])
    y = scores.argmax(axis=1)
    model = qsdp.QuantizedNetworkClassifier(encoding="none", n_neurons=40, random_state=0).fit(X, y)
    return model, X, y


def test_predictions_have_offsets_of_their_own_and_training_has_means(unequal) -> None:
    model, X, y = unequal
    scaling, hot = model.target_scaling_, np.eye(5)[y]
    np.testing.assert_allclose(scaling.centre, hot.mean(axis=0))
    np.testing.assert_allclose(scaling.encode(hot), hot - hot.mean(axis=0))
    np.testing.assert_allclose(scaling.targets(scaling.encode(hot)), hot, atol=1e-12)
    np.testing.assert_allclose(model.training_problem(X, y).y, model.result_.problem.y)
    outputs = model.network_.outputs(model.network_inputs(X))
    np.testing.assert_array_equal(model.decision_function(X), scaling.offset + outputs)
    recalls = [
        np.mean([np.mean(np.argmax(outputs + one, axis=1)[y == k] == k) for k in range(5)])
        for one in (scaling.offset, scaling.centre)
    ]
    assert recalls[0] > recalls[1]


def test_files_keep_both_offsets(unequal, tmp_path) -> None:
    model, X, y = unequal
    model.save(tmp_path / "model.qsdp")
    loaded = qsdp.load(tmp_path / "model.qsdp")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(loaded.training_problem(X, y).y, model.training_problem(X, y).y)


def test_a_given_beta_keeps_the_means(unequal) -> None:
    _, X, y = unequal
    model = qsdp.QuantizedNetworkClassifier(encoding="none", n_neurons=40, beta="5%", random_state=0).fit(X, y)
    assert model.target_scaling_.centre is None
