"""Competitors: what they fit, what their bits are, what is certified."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import qsdp
from benchmarks.methods.budget import Budget
from benchmarks.uci import METHODS
from benchmarks.uci.data import Split, prepare, validation_splits
from benchmarks.uci.suite import run
from benchmarks.uci.trained import FloatBackprop, RoundedBackprop, RoundedReLU, StraightThrough

CONVEX = ("qsdp-beta-10", "qsdp-4-levels", "qsdp-polynomial")
TRAINED = (RoundedBackprop, StraightThrough, RoundedReLU, FloatBackprop)


_FITTED: dict[tuple[str, int], Any] = {}


def fitted(name: str, split: Split) -> Any:
    """A method fitted to a split, once for all tests; they leave it as it is."""
    key = name, id(split)
    if key not in _FITTED:
        _FITTED[key] = METHODS[name].build(validation_splits(split.y, 0), 0).fit(split.X, split.y)
    return _FITTED[key]


@pytest.fixture(scope="module")
def iris() -> Split:
    return prepare("iris", 0)


@pytest.fixture(scope="module")
def heart(uci_available: None) -> Split:
    return prepare("heart", 0)


@pytest.mark.parametrize("name", CONVEX)
def test_networks_are_certified_on_the_training_part(name: str, iris: Split) -> None:
    method, search = METHODS[name], fitted(name, iris)
    model = getattr(search, "best_estimator_", search)
    network, certificate = model.network_, method.certify(search, iris.X, iris.y)
    assert certificate is not None
    problem = model.result_.problem
    assert problem.n_samples == len(iris.y)
    assert certificate.lower_bound <= certificate.objective == pytest.approx(problem.objective(network))
    m = 2500
    assert network.n_neurons == m
    assert network.levels == (4 if name == "qsdp-4-levels" else 2)
    assert (network.activation is None) == (name != "qsdp-polynomial")
    assert method.bits(search) == network.n_bits
    assert method.chosen(search) == {"beta": problem.beta, "neurons": m}
    assert model.score(iris.X, iris.y) > 0.8
    if name == "qsdp-beta-10":
        assert problem.beta == 10.0
    else:
        assert search.best_params_["beta"] == problem.beta
        assert len(search.cv_results_["split4_test_score"]) == 9
        grid = qsdp.beta_max(problem) * np.geomspace(1.0, 1e-4, 9)
        np.testing.assert_allclose(search.cv_results_["param_beta"].astype(float), grid)


def test_the_relaxation_is_a_form_without_a_network(iris: Split) -> None:
    method, search = METHODS["relaxation"], fitted("relaxation", iris)
    model = search.best_estimator_
    outputs = model.result_.relaxation.predict(qsdp.lifting.append_constant(iris.X_test))
    outputs = model.target_scaling_.decode(outputs)
    np.testing.assert_array_equal(model.predict(iris.X_test), outputs.argmax(axis=1))
    assert method.bits(search) == 32 * 15 * 3
    assert method.certify(search, iris.X, iris.y) is None
    assert model.score(iris.X, iris.y) > 0.9


def test_rounded_logistic_regression_is_on_a_grid_of_8_bits(iris: Split) -> None:
    method, model = METHODS["logistic-rounded"], fitted("logistic-rounded", iris)
    weights = model.best_estimator_.coef_
    steps = weights / (np.abs(weights).max(axis=1, keepdims=True) / 127)
    np.testing.assert_allclose(steps, np.rint(steps), rtol=0, atol=1e-9)
    exact = LogisticRegression(C=method.chosen(model)["C"], max_iter=1000).fit(iris.X, iris.y)
    assert 0.0 < np.abs(weights - exact.coef_).max() <= np.abs(exact.coef_).max() / 254 * (1.0 + 1e-9)
    np.testing.assert_array_equal(model.best_estimator_.intercept_, exact.intercept_)
    # A scale and a constant each; of four weights a code can be a little shorter.
    assert 3 * (7 * 4 + 2 * 32) < method.bits(model) <= 3 * (8 * 4 + 2 * 32)


#: Epochs of the trainings here.
SHORT = Budget(n_epochs=30, patience=15)


@pytest.mark.parametrize("kind", TRAINED)
@pytest.mark.parametrize("name", ["iris", "heart"])
def test_trained_networks(kind: Any, name: str, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("torch")
    split: Split = request.getfixturevalue(name)
    model = clone(kind(learning_rate=0.02, beta=0.1, budget=SHORT)).fit(split.X, split.y)
    d, outputs = split.X.shape[1], split.n_classes if split.n_classes > 2 else 1
    assert np.mean(model.predict(split.X) == split.y) > 0.7
    assert set(model.predict(split.X_test)) <= set(range(split.n_classes))
    if kind is FloatBackprop:
        assert model.bits() == 32 * 250 * (2 * (d + 1) + outputs)
    elif kind is RoundedBackprop:
        # As many as those of "qsdp-250".
        assert model.bits() == 2 * 250 * (d + 1) + (32 if outputs == 1 else 64 * outputs)
    elif kind is StraightThrough:
        assert model.bits() == 250 * (2 * (d + 1) + 32 * outputs)
    else:
        network = model.network_
        reals = [network.alpha, *(one for one in (network.bias, network.intercept) if np.any(one))]
        assert model.bits() == 500 * d + 32 * sum(np.size(one) for one in reals) == network.n_bits
    if kind in {RoundedBackprop, StraightThrough}:
        network = model.network_ if kind is RoundedBackprop else model.model_.network_
        assert set(np.unique(network.U)) == {-1, 1}
        certificate = model.certificate(split.X, split.y)
        inputs = qsdp.lifting.append_constant(split.X)
        targets = np.eye(outputs)[split.y] if outputs > 1 else np.where(split.y == 1, 1.0, -1.0)
        problem = qsdp.TrainingProblem(inputs, targets, beta=0.1)
        assert certificate.lower_bound <= certificate.objective == pytest.approx(problem.objective(network))
        bound = qsdp.solve_relaxation(problem, tol=1e-4).lower_bound
        assert certificate.lower_bound == pytest.approx(bound, rel=1e-6)
    else:
        assert model.certificate(split.X, split.y) is None


def test_the_second_layer_of_a_trained_network_is_chosen_anew(iris: Split) -> None:
    pytest.importorskip("torch")
    method = METHODS["straight-through-refitted"]
    model = method.build(validation_splits(iris.y, 0)[:1], 0)
    model.search.grid = {"learning_rate": [0.1, 1e-6], "beta": [1.0, 1e6]}
    model.search.estimator.budget, model.search.budget = SHORT, Budget(n_more=0)
    model.fit(iris.X, iris.y)
    source = StraightThrough(learning_rate=0.1, beta=1.0, budget=SHORT).fit_whole(iris.X, iris.y)
    before, after = source.certificate(iris.X, iris.y), method.certify(model, iris.X, iris.y)
    assert before is not None
    assert after is not None
    assert after.lower_bound <= after.objective < before.objective
    assert after.lower_bound == pytest.approx(before.lower_bound)
    rows = {tuple(row) for row in np.hstack([source.network_.U, source.network_.V])}
    assert {tuple(row) for row in np.hstack([model.network_.U, model.network_.V])} <= rows
    assert method.bits(model) == model.network_.n_bits
    assert model.score(iris.X_test, iris.y_test) > 0.8


@pytest.mark.parametrize("name", ["qsdp-250", "logistic"])
def test_a_case_is_measured(name: str) -> None:
    first = run({"set": "iris", "method": name, "seed": 1})
    split = prepare("iris", 1)
    model = METHODS[name].build(validation_splits(split.y, 1), 1).fit(split.X, split.y)
    assert first["test"] == np.mean(model.predict(split.X_test) == split.y_test)
    assert first["train"] == np.mean(model.predict(split.X) == split.y)
    assert (first["n"], first["d"], first["n_classes"], first["n_test"]) == (120, 4, 3, 30)
    assert first["bits"] == METHODS[name].bits(model)
    assert min(first[field] for field in ("fit_cpu_seconds", "predict_seconds")) >= 0.0
    if name == "logistic":
        assert first["relative_gap"] is first["lower_bound"] is first["objective"] is None
    else:
        assert first["relative_gap"] == pytest.approx(1.0 - first["lower_bound"] / first["objective"])
        assert 0.0 < first["relative_gap"] < 1.0
    assert first["chosen"] == METHODS[name].chosen(model)
