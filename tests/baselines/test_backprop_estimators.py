"""The six estimators trained by automatic gradients, as scikit-learn and as users see them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import is_classifier
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import qsdp
from qsdp import QSDPWarning
from qsdp.baselines import (
    BackpropClassifier,
    BackpropRegressor,
    ReLUNetworkClassifier,
    ReLUNetworkRegressor,
    StraightThroughClassifier,
    StraightThroughRegressor,
)
from qsdp.datasets import load_bundled, make_planted
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.losses import Squared

ACTIVATIONS = ("quadratic", "relu_like", "linear_quadratic")
CLASSIFIERS = (BackpropClassifier, StraightThroughClassifier, ReLUNetworkClassifier)
REGRESSORS = (BackpropRegressor, StraightThroughRegressor, ReLUNetworkRegressor)
# Classifiers share a base, as regressors do: one of them for each system.
every = pytest.mark.parametrize("kind", [BackpropClassifier, StraightThroughRegressor, ReLUNetworkClassifier])
classifiers = pytest.mark.parametrize("kind", CLASSIFIERS)
regressors = pytest.mark.parametrize("kind", REGRESSORS)

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
REAL = X[:, 0] * X[:, 1] + 0.5 * X[:, 2]
CODES = (REAL > 0.0).astype(int)
THREE = np.argmax(X**2, axis=1)

#: Needs the environment variable SCIPY_ARRAY_API; the estimators take and return NumPy arrays only.
ALLOWED_SKIPS = {"check_array_api_input"}


def target(kind: type) -> np.ndarray:
    return CODES if kind in CLASSIFIERS else REAL


def quick(kind: type, **options: Any) -> Any:
    return kind(**{"n_neurons": 10, "n_epochs": 4, "random_state": 0, **options})


@every
def test_check_estimator(kind: type) -> None:
    training = {"n_epochs": 4, "batch_size": 64} if kind in CLASSIFIERS else {"n_epochs": 10, "batch_size": 64}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = check_estimator(kind(n_neurons=20, **training), on_skip=None, on_fail=None)
    failed = [f"{o['check_name']}: {o['exception']!r}" for o in outcomes if o["status"] not in {"passed", "skipped"}]
    assert not failed, "\n".join(failed)
    assert {o["check_name"] for o in outcomes if o["status"] == "skipped"} <= ALLOWED_SKIPS
    assert len([o for o in outcomes if o["status"] == "passed"]) >= 45


# -- learning --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [BackpropRegressor, StraightThroughRegressor])
def test_planted_networks_are_recovered(kind: type) -> None:
    planted = make_planted(n=300, d=6, n_neurons=3, random_state=0)
    test = make_planted(n=100, d=6, n_neurons=3, random_state=1).X
    model = kind(40, beta=1e-4, constant_column=False, n_epochs=80, random_state=0).fit(planted.X, planted.y)
    assert planted.network is not None
    expected = planted.network.predict(test)
    error = np.linalg.norm(model.predict(test) - expected) / np.linalg.norm(expected)
    assert error < (0.01 if kind is BackpropRegressor else 0.15)
    if kind is BackpropRegressor:
        form = model.to_quadratic_form()
        S = planted.network.quadratic_form
        assert np.linalg.norm(form.S - S) < 0.01 * np.linalg.norm(S)


def test_planted_relu_networks_are_recovered() -> None:
    data = RNG.standard_normal((400, 4))
    y = np.maximum(data @ [1.0, -1.0, 0.5, 0.0], 0.0) - np.maximum(data @ [0.0, 1.0, 1.0, -1.0] - 0.3, 0.0)
    model = ReLUNetworkRegressor(60, beta=1e-3, n_epochs=80, random_state=0).fit(data[:300], y[:300])
    assert model.score(data[300:], y[300:]) > 0.97


@pytest.mark.parametrize(
    ("activation", "second_layer"),
    [
        *((name, "free") for name in ACTIVATIONS),
        (None, "fixed"),
        ((0.3, -0.7, 0.4), "fixed"),
    ],
)
def test_every_architecture_learns(activation: Any, second_layer: str) -> None:
    model = BackpropRegressor(
        40, activation=activation, second_layer=second_layer, beta=1e-3, n_epochs=80, random_state=0
    )
    assert model.fit(X, REAL).score(X, REAL) > 0.97


@pytest.mark.parametrize(
    ("activation", "second_layer", "levels"),
    [
        (None, "analytic", 2),
        *((name, "free", 2) for name in ACTIVATIONS),
        ("relu_like", "shared", 3),
        ("relu_like", "analytic", 2),
    ],
)
def test_every_quantized_architecture_learns(activation: Any, second_layer: str, levels: int) -> None:
    if second_layer == "analytic" and activation in {"relu_like", "linear_quadratic"}:
        with pytest.raises(InvalidInputError, match="second_layer must be 'free' or 'shared' for an activation"):
            StraightThroughRegressor(activation=activation, second_layer=second_layer).fit(X, REAL)
        return
    model = StraightThroughRegressor(
        100, activation=activation, second_layer=second_layer, levels=levels, beta=1e-3, n_epochs=50, random_state=0
    ).fit(X, REAL)
    assert model.score(X, REAL) > 0.6


@classifiers
@pytest.mark.parametrize(("optimizer", "dtype"), [("sgd", "float64"), ("adam", "float32")])
def test_optimizers_and_kinds_of_numbers(kind: type, optimizer: str, dtype: str) -> None:
    data, labels = load_bundled("iris")
    data = StandardScaler().fit_transform(data)
    rate = 0.05 if optimizer == "adam" else kind().learning_rate
    model = kind(30, optimizer=optimizer, dtype=dtype, learning_rate=rate, random_state=0).fit(data, labels)
    assert model.score(data, labels) > 0.9
    assert model.decision_function(data).dtype == np.float64


@classifiers
@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge", "cross_entropy"])
def test_every_loss_of_classifiers(kind: type, loss: str) -> None:
    # Classifiers share a base.
    for labels in (CODES, THREE) if kind is BackpropClassifier else (THREE,):
        model = kind(30, loss=loss, beta=0.01, n_epochs=30, random_state=0).fit(X, labels)
        assert model.score(X, labels) > 0.75
        outputs = model.decision_function(X)
        assert outputs.shape == ((60,) if labels is CODES else (60, 3))
        if loss in {"logistic", "cross_entropy"}:
            shares = model.predict_proba(X)
            np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12)
            np.testing.assert_array_equal(model.classes_[shares.argmax(axis=1)], model.predict(X))
        else:
            assert not hasattr(model, "predict_proba")


# -- what is left of a training --------------------------------------------------------------------------


@every
def test_seeds_decide(kind: type) -> None:
    one, same, other = (quick(kind, random_state=seed).fit(X, target(kind)).layers_[0].form for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.s, same.s)
    assert not np.array_equal(one.s, other.s)
    generators = [quick(kind, random_state=np.random.default_rng(3)).fit(X, target(kind)) for _ in range(2)]
    np.testing.assert_array_equal(generators[0].predict(X), generators[1].predict(X))


@every
def test_global_random_states_are_left_alone(kind: type) -> None:
    import torch

    torch.manual_seed(5)
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    quick(kind).fit(X, target(kind))
    assert torch.equal(before[0], torch.random.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002


@every
def test_interruption_keeps_whole_epochs(kind: type) -> None:
    def interrupt(history: Any) -> None:
        if history.n_epochs == 3:
            raise KeyboardInterrupt

    with pytest.warns(QSDPWarning, match="interrupted: .* after 3 of 9 epochs"):
        model = quick(kind, n_epochs=9, schedule="constant", callback=interrupt).fit(X, target(kind))
    assert model.history_.stopped == "interrupted"
    whole = quick(kind, n_epochs=3, schedule="constant").fit(X, target(kind))
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))


@every
def test_callbacks_see_every_epoch_and_stop(kind: type) -> None:
    seen: list[int] = []

    def stop(history: Any) -> bool:
        seen.append(history.n_epochs)
        return history.n_epochs == 2

    model = quick(kind, callback=stop).fit(X, target(kind))
    assert seen == [1, 2]
    assert model.history_.stopped == "callback"


@every
def test_divergence_stops_with_epoch_and_suggestion(kind: type) -> None:
    wild = X.copy()
    wild[0] *= 1e3
    model = quick(kind, clip=None, optimizer="sgd", learning_rate=1e40, n_epochs=20)
    if kind in (StraightThroughClassifier, StraightThroughRegressor):
        # Latent weights stay in [-1, 1]; the second layer can still run away.
        model.set_params(learning_rate=1e200)
    with pytest.warns(QSDPWarning, match=r"diverged in epoch \d+ .*smaller learning_rate or clip=1.0"):
        model.fit(wild, target(kind))
    history = model.history_
    assert history.stopped == "diverged"
    assert history.diverged == history.n_epochs + 1
    assert np.all(np.isfinite(history.loss))
    assert np.all(np.isfinite(model.predict(wild).astype(float)))


# -- to quantization -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [BackpropClassifier, BackpropRegressor, StraightThroughClassifier])
@pytest.mark.parametrize("activation", [None, "quadratic", "relu_like"])
@pytest.mark.parametrize("constant_column", [True, False])
def test_quadratic_form_is_exact(kind: type, activation: Any, constant_column: bool) -> None:
    y = THREE if is_classifier(kind()) else REAL
    model = quick(kind, activation=activation, constant_column=constant_column).fit(X, y)
    outputs = model.decision_function(X) if is_classifier(model) else model.predict(X)
    np.testing.assert_allclose(model.to_quadratic_form().predict(X), outputs, rtol=1e-12, atol=1e-12)
    assert model.to_quadratic_form().n_inputs == 3
    match = qsdp.distill(model, X, 50, random_state=0)
    np.testing.assert_allclose(match.problem.y, outputs, rtol=1e-12, atol=1e-12)


def test_train_by_backpropagation_quantize_by_the_relaxation() -> None:
    """At equal width and with free second layers, matching beats rounding the weights one by one."""
    ours, theirs = [], []
    for seed in range(2):
        planted = make_planted(n=200, d=8, n_neurons=4, random_state=seed)
        options = {"constant_column": False, "beta": 1e-3, "n_epochs": 60, "random_state": seed}
        model = BackpropRegressor(100, second_layer="fixed", **options).fit(planted.X, planted.y)
        assert model.score(planted.X, planted.y) > 0.999
        naive = BackpropRegressor.quantized(model, scale="shared")
        match = qsdp.distill(model, planted.X, 100, refine="polish", random_state=seed)
        size = np.linalg.norm(planted.y)
        theirs.append(np.linalg.norm(naive.predict(planted.X) - planted.y) / size)
        ours.append(np.linalg.norm(match.predict(planted.X) - planted.y) / size)
        assert naive.n_bits == match.network.n_bits == 2 * 100 * 8 + 32
    assert max(ours) < 0.25 * min(theirs)


@pytest.mark.parametrize("activation", [None, "quadratic", "relu_like"])
@pytest.mark.parametrize("labels", [CODES, THREE], ids=["two", "three"])
def test_rounded_networks_are_certified_in_the_units_of_the_training(activation: Any, labels: np.ndarray) -> None:
    names = np.array(["a", "b", "c"])[labels]
    model = quick(BackpropClassifier, activation=activation, n_epochs=30).fit(X, names)
    network = model.quantized(2)
    bilinear = network if activation is None else qsdp.from_polynomial(network)
    problem = model.training_problem(X, names, network)
    assert problem.activation == bilinear.activation
    certificate = qsdp.certify(bilinear, problem)
    assert certificate.objective == pytest.approx(problem.objective(network), rel=1e-10)
    assert certificate.lower_bound <= certificate.objective
    refitted = qsdp.refit(bilinear, problem)
    assert problem.objective(refitted) < certificate.objective
    assert certificate.lower_bound <= problem.objective(refitted)


def test_training_problems_are_those_of_the_fit() -> None:
    model = quick(BackpropClassifier, beta=0.3, loss="logistic").fit(X, np.array(["no", "yes"])[CODES])
    problem = model.training_problem(X, np.array(["no", "yes"])[CODES])
    np.testing.assert_array_equal(problem.y, 2.0 * CODES - 1.0)
    np.testing.assert_array_equal(problem.X, model.network_inputs(X))
    assert (problem.beta, problem.loss.name, problem.levels, problem.n_features) == (0.3, "logistic", 2, 4)
    assert model.training_problem(X, np.array(["no", "yes"])[CODES], model.quantized(5)).levels == 5
    with pytest.raises(InvalidInputError, match="y must hold labels of the classes"):
        model.training_problem(X, np.array(["no", "maybe"])[CODES])


# -- bad input -------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_neurons": 0}, "n_neurons must be an integer >= 1"),
        ({"n_neurons": 2.5}, "n_neurons must be"),
        ({"beta": -1.0}, "beta must be"),
        ({"beta": float("nan")}, "beta must be"),
        ({"loss": "square"}, "did you mean 'squared'"),
        ({"learning_rate": 0.0}, "learning_rate must be a finite number > 0"),
        ({"learning_rate": float("inf")}, "learning_rate must be"),
        ({"momentum": 1.0}, "momentum must be from 0 to below 1"),
        ({"momentum": -0.1}, "momentum must be"),
        ({"clip": 0.0}, "clip must be"),
        ({"optimizer": "sdg"}, "did you mean 'sgd'"),
        ({"schedule": "step"}, "schedule must be one of 'constant', 'cosine'"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"n_epochs": 0}, "n_epochs must be"),
        ({"n_epochs": True}, "n_epochs must be"),
        ({"dtype": "float16"}, "dtype must be one of"),
        ({"callback": 3}, "callback must be callable or None"),
        ({"verbose": "yes"}, "verbose must be True, False or an integer >= 0"),
        ({"random_state": -1}, "random_state must be"),
    ],
)
def test_bad_parameters_are_refused_by_fit(kind: type, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        kind(**options).fit(X, target(kind))


@regressors
@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge", "cross_entropy"])
def test_regressors_refuse_losses_of_labels(kind: type, loss: str) -> None:
    with pytest.raises(InvalidInputError, match="loss must be a loss of real targets for a regressor"):
        kind(loss=loss).fit(X, REAL)


@every
def test_losses_of_ones_own_are_refused_with_the_reason(kind: type) -> None:
    class Quartic(Squared):
        name = "quartic"

    with pytest.raises(InvalidInputError, match="for which PyTorch has no gradient"):
        kind(loss=Quartic()).fit(X, target(kind))


@every
def test_bad_data(kind: type) -> None:
    with pytest.raises(InvalidInputError, match="X or y is not valid"):
        kind().fit(X * np.nan, target(kind))
    with pytest.raises(InvalidTypeError, match="X or y is not valid"):
        kind().fit(scipy.sparse.csr_array(X), target(kind))
    with pytest.raises(InvalidInputError, match=r"within 1e-100 \.\. 1e\+100"):
        kind().fit(X * 1e150, target(kind))


@pytest.mark.parametrize("kind", [BackpropClassifier, StraightThroughClassifier])
def test_fewer_fixed_neurons_than_outputs(kind: type) -> None:
    second_layer = "fixed" if kind is BackpropClassifier else "shared"
    with pytest.raises(InvalidInputError, match="n_neurons must be at least 3, the number of outputs; got 2"):
        kind(2, second_layer=second_layer).fit(X, THREE)


@every
def test_constant_data_and_targets(kind: type) -> None:
    model = quick(kind).fit(np.zeros((6, 2)), np.arange(6) % 2)
    assert np.all(np.isfinite(model.predict(np.zeros((6, 2)))))
    if kind in REGRESSORS:
        model = quick(kind).fit(X, np.zeros(60))
        assert np.abs(model.predict(X)).max() < 10.0
