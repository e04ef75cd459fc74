"""The estimators: rows A-1, A-8, A-9, A-11, A-15, A-16; quantization."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.utils.estimator_checks import check_estimator

import qsdp
from benchmarks.data.toys import make_xor
from benchmarks.methods.quadratic_theory import classify_conic
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
from qsdp.exceptions import InvalidInputError, InvalidTypeError

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


def test_a1_labels_of_any_kind_are_coded_as_zero_and_one() -> None:
    """The paper's labels of XOR are -1 and +1, its loss takes 0 and 1."""
    points, y = make_xor()
    models = [Logistic(random_state=0).fit(points, labels) for labels in (y, 2 * y - 1, np.array(["no", "yes"])[y])]
    for model in models[1:]:
        np.testing.assert_array_equal(model.decision_function(points), models[0].decision_function(points))
    assert models[1].predict(points).tolist() == [-1, 1, 1, -1]
    assert models[2].predict(points).tolist() == ["no", "yes", "yes", "no"]


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


@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "relu", "identity"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a15_activations_and_softmax_train(activation: str, loss: str) -> None:
    model = Network([("linear", 8)], "qnn", activation=activation, loss=loss, learning_rate=0.06, random_state=0)
    model.set_params(n_epochs=30).fit(X, THREE)
    assert model.history_.stopped == "finished"
    assert model.score(X, THREE) > 0.7
    shares = model.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(model.classes_[shares.argmax(axis=1)], model.predict(X))
    if loss == "cross_entropy":
        np.testing.assert_allclose(shares, softmax(model.decision_function(X), axis=1), rtol=1e-12)
        two = Network(loss=loss, n_epochs=2, random_state=0).fit(X, INSIDE)
        assert two.network_.layers[-1].size[1] == 2
        assert two.decision_function(X).shape == (120,)


# -- training --------------------------------------------------------------------------------


def test_a6_batches_of_all_samples_are_gradient_descent() -> None:
    """The mean loss of a batch: a step of rate r is minus r times its gradient."""
    model = Network((("linear", 3),), "qnn", n_epochs=1, batch_size=120, learning_rate=0.3, random_state=3)
    targets = np.eye(3)[np.unique(THREE, return_inverse=True)[1]]
    start = model._start(2, 3, np.random.default_rng(3)).start(0)
    _, gradients = start.gradients(X, targets, LOSSES["binary_cross_entropy"])
    model.fit(X, THREE)
    for before, gradient, after in zip(start.layers, gradients, model.network_.layers, strict=True):
        for name, value in before.parameters.items():
            np.testing.assert_allclose(after.parameters[name], value - 0.3 * gradient[name], rtol=1e-10, atol=1e-13)


def test_a6_without_shuffling_samples_come_in_the_given_order() -> None:
    fitted = [
        Logistic(shuffle=False, init="zero", init_scale=0.0, n_epochs=3).fit(*data)
        for data in ((X, INSIDE), (X, INSIDE), (X[::-1], INSIDE[::-1]))
    ]
    first, second, reverse = (model.decision_function(X) for model in fitted)
    np.testing.assert_array_equal(first, second)
    assert np.abs(first - reverse).max() > 1e-6


def test_a8_starts_of_quadratic_parts() -> None:
    rng = np.random.default_rng(4)
    Q = starting_parameters(get_family("qnn"), 40, 30, rng)["Q"]
    np.testing.assert_array_equal(Q, np.swapaxes(Q, 1, 2))
    off = ~np.eye(40, dtype=bool)
    assert Q[:, off].std() == pytest.approx(1.0 / 40.0 / np.sqrt(2.0), rel=0.05)
    assert np.diagonal(Q, axis1=1, axis2=2).std() == pytest.approx(1.0 / 40.0, rel=0.1)
    W = starting_parameters(get_family("rpqnn"), 40, 30, rng)["U"]
    assert W.std() == pytest.approx(40.0**-0.5, rel=0.1)
    assert starting_parameters(get_family("qnn"), 40, 30, rng, scale=3.0)["W"].std() == pytest.approx(3.0, rel=0.1)
    identity = starting_parameters(get_family("qnn"), 4, 2, rng, init="identity")["Q"]
    np.testing.assert_array_equal(identity, np.broadcast_to(np.eye(4), (2, 4, 4)))
    assert not starting_parameters(get_family("qnn"), 4, 2, rng, init="zero")["Q"].any()


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


@pytest.mark.parametrize("name", ["qnn", "fan", "fan_compact", "power_only", "form_only"])
def test_a8_identity_start_adds_the_squared_norm(name: str) -> None:
    P = starting_parameters(get_family(name), 4, 3, np.random.default_rng(6), init="identity")
    Q, _, _ = get_family(name).triple(P)
    np.testing.assert_array_equal(Q, np.broadcast_to(np.eye(4), (3, 4, 4)))


@pytest.mark.parametrize(
    ("head", "options", "message"),
    [
        ("square_act", {"init": "zero"}, "init='zero' is not possible for 'square_act': .*stationary point"),
        ("square_act", {"init": "identity"}, "init='identity' is not possible for 'square_act': .*rank one"),
        ("rpqnn", {"init": "identity"}, "init='identity' is not possible for 'rpqnn': .*never definite"),
        ("rpqnn", {"init_scale": 0.0}, "init_scale must be > 0 for 'rpqnn'.*all gradients vanish"),
        ("qnn", {"init": "ones"}, "init must be one of 'identity', 'random', 'zero'; got 'ones'"),
        ("qnn", {"init_scale": -1.0}, "init_scale must be a finite number >= 0; got -1.0"),
    ],
)
def test_a8_starts_that_a_family_cannot_have(head: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Network((), head, **options).fit(X, THREE)


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


def test_a9_one_neuron_for_two_classes_always_has_a_code() -> None:
    model = Logistic(n_epochs=5, random_state=0).fit(X, INSIDE)
    np.testing.assert_array_equal(model.sign_code(X), model.predict(X))
    assert model.code_score(X, INSIDE) == model.score(X, INSIDE)


# -- starts --------------------------------------------------------------------------------


def test_a11_statistics() -> None:
    statistics = StartStatistics.of([0.5, 0.7, 0.9, np.nan])
    assert (statistics.mean, statistics.best, statistics.worst) == (pytest.approx(0.7), 0.9, 0.5)
    assert statistics.sd == pytest.approx(0.2)
    assert (statistics.n_starts, statistics.n_diverged) == (4, 1)
    assert str(statistics) == "70.00 ± 20.00 % (best 90.00, worst 50.00; 4 starts, 1 diverged)"
    assert np.isnan(StartStatistics.of([np.nan]).mean)
    assert np.isnan(StartStatistics.of([0.5]).sd)


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
    assert starts.statistics(X, THREE) == StartStatistics.of(scores)
    assert len({model.decision_function(X)[0, 0] for model in singles}) == 6
    assert starts.diverged_ == {}
    assert not hasattr(estimator, "network_")
    targets = np.eye(3)[np.searchsorted(starts.classes_, THREE)]
    losses = LOSSES["binary_cross_entropy"].values(starts.decision(X), targets)
    # Each sample's loss is taken before its step, in the last epoch.
    assert losses.mean() < starts.history_.loss[-1] < 1.3 * losses.mean()


def test_a11_two_classes_have_one_neuron() -> None:
    starts = MultiStart(Logistic(learning_rate=0.5, n_epochs=40), 3, random_state=0).fit(X, INSIDE)
    assert starts.decision(X).shape == (3, 120, 1)
    np.testing.assert_array_equal(starts.scores(X, INSIDE), [starts.start(k).score(X, INSIDE) for k in range(3)])
    np.testing.assert_array_equal(starts.scores(X, INSIDE), starts.scores(X, INSIDE, "code"))


def test_a11_a_start_that_diverges_is_counted() -> None:
    estimator = Network([("linear", 4, "relu")], "qnn", learning_rate=0.05, init_scale=1.0, n_epochs=8)
    starts = MultiStart(estimator, 20, random_state=1).fit(3.0 * X, THREE)
    diverged = [number in starts.diverged_ for number in range(20)]
    assert set(starts.diverged_.values()) <= set(range(1, 9))
    assert 0 < sum(diverged) < 20, "the case no longer has both kinds"
    scores = starts.scores(3.0 * X, THREE)
    np.testing.assert_array_equal(np.isnan(scores), diverged)
    assert starts.statistics(3.0 * X, THREE).n_diverged == sum(diverged)
    assert starts.history_.n_epochs == 8
    assert np.isfinite(starts.history_.loss).all()


def test_a11_bad_input() -> None:
    with pytest.raises(InvalidTypeError, match="estimator must be a QuadraticLogisticRegression or"):
        MultiStart(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="n_starts must be an integer >= 2; got 1"):
        MultiStart(Logistic(), 1)
    with pytest.raises(InvalidTypeError, match="shared_order must be True or False"):
        MultiStart(Logistic(), shared_order=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="call fit first"):
        MultiStart(Logistic()).train(1)
    starts = MultiStart(Logistic(n_epochs=1), 2, random_state=0).fit(X, INSIDE)
    with pytest.raises(InvalidInputError, match="readout must be one of 'argmax', 'code'; got 'max'"):
        starts.scores(X, INSIDE, "max")
    with pytest.raises(InvalidInputError, match="number must be an integer from 0 to 1; got 2"):
        starts.start(2)


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


def test_a16_one_neuron_is_one_function() -> None:
    form = Logistic(n_epochs=2, random_state=0).fit(X, INSIDE).to_quadratic_form()
    assert form.output_shape == ()
    assert form.predict(X).shape == (120,)


def test_couplings_are_rates_of_coordinates() -> None:
    """One step from zero: the same diagonal, and 4 : 2 : 1 off it."""
    steps = {}
    for coupling in ("tied", "full", "packed"):
        model = Logistic(coupling=coupling, init="zero", init_scale=0.0, n_epochs=1, batch_size=120)
        steps[coupling] = model.fit(X, INSIDE).network_.layers[0].parameters["Q"][0]
    for first, second in itertools.pairwise(("tied", "full", "packed")):
        np.testing.assert_allclose(np.diag(steps[first]), np.diag(steps[second]), rtol=1e-12)
        np.testing.assert_allclose(steps[first][0, 1], 2.0 * steps[second][0, 1], rtol=1e-12)
