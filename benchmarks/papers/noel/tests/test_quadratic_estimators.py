"""The estimators: rows A-1, A-8, A-9, A-11, A-15, A-16; quantization."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.special import expit
from sklearn.utils.estimator_checks import check_estimator

import qsdp
from benchmarks.papers.noel import (
    FAMILIES,
    LOSSES,
    MultiStart,
    QuadraticLogisticRegression,
    QuadraticNetworkClassifier,
    StartStatistics,
    get_family,
    starting_parameters,
)
from benchmarks.papers.noel.conics import classify_conic

Logistic, Network = QuadraticLogisticRegression, QuadraticNetworkClassifier
both = pytest.mark.parametrize("estimator", [Logistic, Network], ids=["logistic", "network"])

RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (120, 2))
INSIDE = (np.hypot(*X.T) < 0.7).astype(int)
THREE = np.array(["low", "mid", "top"])[np.digitize(X[:, 0] * X[:, 1] + 0.3 * X[:, 0], [-0.1, 0.1])]


# -- scikit-learn --------------------------------------------------------------------------------------

#: Needs the environment variable SCIPY_ARRAY_API; the estimators compute in NumPy only.
ALLOWED_SKIPS = {"check_array_api_input"}


@both
def test_check_estimator(estimator: type) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = check_estimator(estimator(batch_size=8), on_skip=None, on_fail=None)
    failed = [f"{o['check_name']}: {o['exception']!r}" for o in outcomes if o["status"] not in {"passed", "skipped"}]
    assert not failed, "\n".join(failed)
    assert {o["check_name"] for o in outcomes if o["status"] == "skipped"} <= ALLOWED_SKIPS
    assert len([o for o in outcomes if o["status"] == "passed"]) >= 50


# -- quadratic logistic regression ----------------------------------------------------------------


def test_a1_one_neuron_learns_a_circle_where_a_linear_one_cannot() -> None:
    model = Logistic(learning_rate=0.5, n_epochs=100, random_state=0).fit(X, INSIDE)
    assert model.score(X, INSIDE) > 0.97
    linear = Network((), "linear", learning_rate=0.5, n_epochs=100, random_state=0).fit(X, INSIDE)
    assert linear.score(X, INSIDE) < 0.75
    P = model.network_.layers[0].parameters
    np.testing.assert_array_equal(P["Q"], np.swapaxes(P["Q"], 1, 2))
    expected = np.einsum("si,ij,sj->s", X, P["Q"][0], X) + X @ P["W"][0] + P["b"][0]
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(model.predict(X), (expected > 0).astype(int))
    np.testing.assert_allclose(model.predict_proba(X), np.column_stack([expit(-expected), expit(expected)]), atol=1e-12)
    assert classify_conic(model.to_quadratic_form()) == "ellipse"


def test_a1_the_minimum_is_that_of_logistic_regression_on_monomials() -> None:
    """The problem is convex: descent ends where a solver of another kind does."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(1)
    noisy = np.where(rng.random(120) < 0.15, 1 - INSIDE, INSIDE)
    monomials = np.column_stack([X[:, 0] ** 2, X[:, 0] * X[:, 1], X[:, 1] ** 2, X])
    exact = LogisticRegression(C=1e10, tol=1e-10, max_iter=1000).fit(monomials, noisy)
    model = Logistic(learning_rate=4.0, n_epochs=3000, batch_size=120, init="zero", random_state=0).fit(X, noisy)
    np.testing.assert_allclose(model.decision_function(X), exact.decision_function(monomials), atol=1e-3)


# -- layers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("head", FAMILIES)
def test_a4_any_family_in_any_layer(head: str) -> None:
    model = Network([("rpqnn", 4, "tanh"), (head, 3)], head, random_state=0, n_epochs=5).fit(X, THREE)
    assert [layer.family.name for layer in model.network_.layers] == ["rpqnn", head, head]
    assert [layer.activation.name for layer in model.network_.layers] == ["tanh", "sigmoid", "identity"]
    assert [layer.size for layer in model.network_.layers] == [(2, 4), (4, 3), (3, 3)]
    assert model.history_.n_epochs == 5
    assert model.history_.loss[-1] < model.history_.loss[0]


# -- training --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "square_act"])
def test_a8_zero_start_is_a_linear_layer_that_can_leave_it(name: str) -> None:
    rng = np.random.default_rng(5)
    family = get_family(name)
    P = starting_parameters(family, 4, 3, rng, init="zero")
    A = rng.standard_normal((6, 4))
    Q, w, b = family.triple(P)
    np.testing.assert_allclose(family.forward(A, P)[0], A @ w.T + b, rtol=1e-12, atol=1e-15)
    assert Q is None or not Q.any()
    D = rng.standard_normal((6, 3))
    gradients, _ = family.backward(D, A, P, family.forward(A, P)[1])
    quadratic = {"rpqnn": "U", "fan": "Wg", "fan_compact": "Wb", "poly2": "Wg", "product_linear": "W2"}
    assert np.abs(gradients[quadratic.get(name, family.maps[-1].weight)]).max() > 0.01


# -- read-outs ------------------------------------------------------------------------------------


def test_a9_sign_code_is_stricter_than_argmax() -> None:
    model = Network(n_epochs=30, random_state=0).fit(X, THREE)
    Z = model.decision_function(X)
    numbers = np.searchsorted(model.classes_, THREE)
    code = model.sign_code(X)
    alone = (Z > 0).sum(axis=1) == 1
    np.testing.assert_array_equal(code[alone], Z[alone].argmax(axis=1))
    assert (code[~alone] == -1).all()
    assert 0 < (~alone).sum() < len(X)
    every = ((Z > 0) == np.eye(3, dtype=bool)[numbers]).all(axis=1)
    assert model.code_score(X, THREE) == every.mean() < model.score(X, THREE)
    assert model.code_score(X, np.full(120, "other")) == 0.0


# -- starts --------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [True, False])
def test_a11_starts_of_an_estimator(shared: bool) -> None:
    estimator = Network((("linear", 4),), "rpqnn", n_epochs=4)
    starts = MultiStart(estimator, 6, shared_order=shared, random_state=0).fit(X, THREE)
    assert starts.history_.n_epochs == 4
    starts.train(6)
    assert starts.history_.n_epochs == 10
    scores = starts.scores(X, THREE)
    singles = [starts.start(number) for number in range(6)]
    np.testing.assert_array_equal(scores, [model.score(X, THREE) for model in singles])
    np.testing.assert_array_equal(starts.scores(X, THREE, "code"), [model.code_score(X, THREE) for model in singles])
    assert starts.statistics(X, THREE) == StartStatistics.from_scores(scores)
    assert len({model.decision_function(X)[0, 0] for model in singles}) == 6
    assert starts.diverged_ == {}
    assert not hasattr(estimator, "network_")
    targets = np.eye(3)[np.searchsorted(starts.classes_, THREE)]
    losses = LOSSES["binary_cross_entropy"].values(starts.decision(X), targets)
    # Each sample's loss is taken before its step, in the last epoch.
    assert losses.mean() < starts.history_.loss[-1] < 1.3 * losses.mean()
    assert "10 in " in displayed(starts)
    assert "not yet" in displayed(MultiStart(estimator))


def displayed(shown: MultiStart | StartStatistics) -> str:
    return shown._repr_mimebundle_()["text/plain"]


def test_statistics_leave_diverged_starts_out() -> None:
    statistics = StartStatistics.from_scores([0.5, 0.75, np.nan])
    assert (statistics.mean, statistics.best, statistics.worst) == (0.625, 0.75, 0.5)
    assert (statistics.n_starts, statistics.n_diverged) == (3, 1)
    assert "3, of which 1 diverged" in displayed(statistics)
    assert "none of them" in displayed(StartStatistics.from_scores([np.nan]))


# -- to quantization -----------------------------------------------------------------------------


def test_a16_a_trained_neuron_is_a_quadratic_form_and_is_quantized() -> None:
    iris, labels = qsdp.datasets.load_bundled("iris")
    iris = (iris - iris.mean(axis=0)) / iris.std(axis=0)
    model = Logistic(learning_rate=0.02, random_state=0).fit(iris, labels)
    form = model.to_quadratic_form()
    np.testing.assert_allclose(form.predict(iris), model.decision_function(iris), rtol=1e-11, atol=1e-11)
    match = qsdp.distill(model, iris, n_neurons=20_000, beta=1e-3, random_state=0)
    assert np.linalg.norm(match.predict(iris) - form.predict(iris)) < 0.1 * np.linalg.norm(form.predict(iris))
    assert match.certificate.lower_bound <= match.certificate.objective
    predicted = model.classes_[match.predict(iris).argmax(axis=1)]
    assert np.mean(predicted == model.predict(iris)) > 0.95


def test_a16_a_network_is_quantized_layer_by_layer() -> None:
    model = Network([("rpqnn", 3, "tanh")], "qnn", n_epochs=30, random_state=0).fit(X, THREE)
    assert len(model.layers_) == 2
    H = X
    for layer in model.layers_:
        H = layer.predict(H)
    np.testing.assert_allclose(H, model.decision_function(X), rtol=1e-11, atol=1e-12)
    chain = model.distill(X, n_neurons=20_000, beta=1e-4, random_state=0)
    agreement = np.mean(chain.predict(X).argmax(axis=1) == model.decision_function(X).argmax(axis=1))
    assert agreement > 0.9
    with pytest.raises(AttributeError) as refused:
        model.to_quadratic_form()
    assert "has 2 layers" in str(refused.value.__cause__)
