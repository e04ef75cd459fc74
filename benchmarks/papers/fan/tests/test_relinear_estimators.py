"""ReLinear as estimators: scikit-learn's checks, parameters, schedules, stages, divergence, quantization.

Rows B-5 to B-11 of the specification as a user meets them. B-18, the training on CIFAR, ImageNet and KITTI, needs data
and processors that are not here: the networks of B-17 are tested in test_relinear_networks.py on small tensors.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import qsdp
from benchmarks.papers.fan import ReLinearClassifier, ReLinearRegressor, training
from benchmarks.papers.fan.training import Plan, plan_after_transfer, plan_of_stages
from qsdp import QSDPWarning
from qsdp.baselines._history import train_epochs
from qsdp.exceptions import InvalidInputError, InvalidTypeError

Classifier, Regressor = ReLinearClassifier, ReLinearRegressor
both = pytest.mark.parametrize("estimator", [Classifier, Regressor], ids=["classifier", "regressor"])

RNG = np.random.default_rng(0)
X = RNG.standard_normal((90, 3))
TARGET = X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.2
CODES = (TARGET > 0).astype(int)


def target(estimator: type) -> np.ndarray:
    return CODES if estimator is Classifier else TARGET


def small(estimator: type, **options: Any) -> Any:
    return estimator(**{"hidden": (6,), "n_epochs": 3, "random_state": 0, **options})


# -- scikit-learn ------------------------------------------------------------------------------------


@both
def test_check_estimator(estimator: type) -> None:
    n_epochs = 4 if estimator is Classifier else 10
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = estimator(n_epochs=n_epochs, gamma_r=0.03, batch_size=256)
        outcomes = check_estimator(model, on_skip=None, on_fail=None)
    failed = [f"{o['check_name']}: {o['exception']!r}" for o in outcomes if o["status"] not in {"passed", "skipped"}]
    assert not failed, "\n".join(failed)
    assert {o["check_name"] for o in outcomes if o["status"] == "skipped"} <= {"check_array_api_input"}
    assert len([o for o in outcomes if o["status"] == "passed"]) >= 50


def test_it_learns_what_a_linear_model_cannot() -> None:
    classifier = Classifier((16,), n_epochs=120, random_state=0).fit(X, CODES)
    assert classifier.score(X, CODES) > 0.97
    assert classifier.history_.loss[-1] < 0.2 * classifier.history_.loss[0]
    regressor = Regressor((16,), n_epochs=120, random_state=0).fit(X, TARGET)
    assert regressor.score(X, TARGET) > 0.97


def test_probabilities_are_the_softmax_of_the_outputs() -> None:
    y = np.where(TARGET > 0.5, "c", np.where(TARGET > -0.5, "b", "a"))
    model = small(Classifier).fit(X, y)
    scores, probabilities = model.decision_function(X), model.predict_proba(X)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(probabilities, shares / shares.sum(axis=1, keepdims=True), rtol=1e-12)
    assert np.array_equal(model.predict(X), model.classes_[probabilities.argmax(axis=1)])
    assert not hasattr(small(Classifier, loss="squared"), "predict_proba")


# -- B-9: activations and losses ---------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["relu", "identity", "tanh"])
@pytest.mark.parametrize("loss", ["cross_entropy", "squared"])
def test_b9_losses_and_activations(loss: str, activation: str) -> None:
    model = small(Classifier, loss=loss, activation=activation, n_epochs=30).fit(X, CODES)
    assert model.history_.loss[-1] < 0.8 * model.history_.loss[0]
    outputs = torch.as_tensor(model._outputs(X))
    expected = (
        torch.nn.functional.cross_entropy(outputs, torch.as_tensor(CODES))
        if loss == "cross_entropy"
        else (outputs - torch.eye(2, dtype=torch.float64)[CODES]).square().mean()
    )
    assert model.history_.loss[-1] == pytest.approx(expected.item(), rel=1e-10)
    assert model.history_.score[-1] == model.score(X, CODES)


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@needs_cuda
@both
@pytest.mark.parametrize(
    "options", [{}, {"start": "random"}, {"transfer": 1}, {"validation_fraction": 0.2, "batch_size": 20}]
)
def test_training_on_cuda_is_that_on_the_cpu(estimator: type, options: dict[str, Any]) -> None:
    here, there = (small(estimator, device=device, **options).fit(X, target(estimator)) for device in ("cpu", "cuda"))
    assert {parameter.device.type for parameter in there.network_.parameters()} == {"cuda"}
    np.testing.assert_allclose(there.history_.loss, here.history_.loss, rtol=1e-8)
    np.testing.assert_allclose(there._outputs(X), here._outputs(X), rtol=0, atol=1e-7)
    first, second = there.layers_[0].form, here.layers_[0].form
    np.testing.assert_allclose(first.S, second.S, rtol=0, atol=1e-8)


# -- B-6, B-7: rates, schedules, optimisers ----------------------------------------------------------


def test_b6_the_schedule_belongs_to_training_not_to_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def twice(train: Any, measure: Any, *arguments: Any, **options: Any) -> Any:
        def again() -> Any:
            measure()
            measured = measure()
            seen.append(measured["gamma_r"])
            return measured

        return train_epochs(train, again, *arguments, **options)

    monkeypatch.setattr(training, "train_epochs", twice)
    small(Regressor, n_epochs=5, gamma_r=0.1, milestones=(2, 4), drop=0.5).fit(X, TARGET)
    assert seen == pytest.approx([0.1, 0.1, 0.05, 0.05, 0.025])


@pytest.mark.parametrize("variant", ["none", "sg", "sw-l1", "sw-l2", "sw-soft"])
def test_b4_every_variant_trains(variant: str) -> None:
    model = small(Regressor, variant=variant, n_epochs=60).fit(X, TARGET)
    assert model.history_.loss[-1] < 0.5 * model.history_.loss[0]
    assert model.history_.extra["quadratic_norm"][-1] > 0.0


# -- B-8: weight transfer with stages ----------------------------------------------------------------


def test_b8_stages_of_a_schedule() -> None:
    plan = Plan("squared", "sg", (0.1, 0.01, 0.001), 200, milestones=(100, 150))
    lengths = [(plan_of_stages(plan, s).n_epochs, plan_of_stages(plan, s).milestones) for s in (1, 2, 3)]
    assert lengths == [(100, ()), (150, (100,)), (200, (100, 150))]
    after = [plan_after_transfer(plan, s) for s in (1, 2, 3)]
    assert [(p.n_epochs, p.milestones) for p in after] == [(200, (100, 150)), (100, (50,)), (50, ())]
    np.testing.assert_allclose([p.rates for p in after], np.outer([1.0, 0.1, 0.01], plan.rates))


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_b8_the_chosen_stage_is_where_the_quadratic_training_begins(stage: int) -> None:
    options = {"n_epochs": 40, "milestones": (20, 30), "transfer": stage, "gamma_g": 0.0}
    model = small(Classifier, **options).fit(X, CODES)
    assert model.transfer_history_.n_epochs == [20, 30, 40][stage - 1]
    assert model.history_.n_epochs == [40, 20, 10][stage - 1]
    assert model.history_.extra["gamma_r"][0] == pytest.approx(0.01 * 0.1 ** (stage - 1))
    assert model.transfer_history_.extra["gamma_r"][-1] == pytest.approx(0.01 * 0.1 ** (stage - 1))
    # It begins where the conventional network ended, and not at a new one.
    assert abs(model.history_.loss[0] - model.transfer_history_.loss[-1]) < 0.1 * model.transfer_history_.loss[0]


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_b8_weights_of_another_library() -> None:
    other = MLPRegressor(hidden_layer_sizes=(7,), max_iter=100, random_state=0).fit(X, TARGET)
    pairs = [(W.T, b) for W, b in zip(other.coefs_, other.intercepts_, strict=True)]
    model = small(Regressor, hidden=(7,), transfer=pairs, gamma_r=0.0).fit(X, TARGET)
    np.testing.assert_allclose(model.predict(X), other.predict(X), rtol=1e-10)
    assert model.transfer_history_ is None
    random = small(Regressor, hidden=(7,), transfer=pairs, gamma_r=0.0, start="random").fit(X, TARGET)
    assert np.array_equal(random.network_.layers[0].wr.detach().numpy(), pairs[0][0])
    assert not np.allclose(random.predict(X), other.predict(X))


# -- B-10: divergence --------------------------------------------------------------------------------


@both
def test_b10_divergence_is_a_result(estimator: type) -> None:
    model = small(
        estimator,
        hidden=(20, 20, 20),
        start="random",
        start_scale=None,
        variant="none",
        optimizer="gd",
        gamma_r=0.5,
        n_epochs=50,
    )
    with pytest.warns(QSDPWarning, match=r"training diverged in epoch \d+ .*start='relinear' with variant='sg'"):
        model.fit(3.0 * X, target(estimator))
    assert model.history_.stopped == "diverged"
    assert model.history_.diverged == model.history_.n_epochs + 1 <= 50
    assert np.all(np.isfinite(model.history_.loss))
    assert np.all(np.isfinite(model._outputs(X)))
    assert model.best_epoch_ == model.history_.n_epochs


# -- B-16 and families -------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["fan", "fan_compact", "parabolic", "poly2", "linear", ("linear", "fan")])
def test_b2_families_as_estimators(family: Any) -> None:
    model = small(Regressor, family=family, n_epochs=30).fit(X, TARGET)
    assert model.history_.loss[-1] < 0.7 * model.history_.loss[0]
    H = X
    for layer in model.layers_:
        H = layer.predict(H)
    np.testing.assert_allclose(H[:, 0], model.predict(X), rtol=1e-9, atol=1e-10)


# -- 7: quantization ---------------------------------------------------------------------------------


def test_7_one_layer_is_handed_over_as_a_quadratic_form() -> None:
    model = small(Regressor, hidden=(), n_epochs=200).fit(X, TARGET)
    form = model.to_quadratic_form()
    np.testing.assert_allclose(form.predict(X)[:, 0], model.predict(X), rtol=1e-10, atol=1e-12)
    match = qsdp.distill(model, X, 4000, random_state=0)
    assert np.linalg.norm(match.relaxation.predict(X) - form.predict(X)) < 0.05 * np.linalg.norm(form.predict(X))
    assert match.certificate.lower_bound <= match.certificate.objective


@pytest.mark.parametrize("family", ["fan", "parabolic"])
def test_7_a_chain_is_quantized_layer_by_layer(family: str) -> None:
    data, labels = qsdp.datasets.load_bundled("iris")
    data = StandardScaler().fit_transform(data)
    model = Classifier((4,), family=family, n_epochs=60, random_state=0).fit(data, labels)
    assert not hasattr(model, "to_quadratic_form")
    chain = model.distill(data, 2000, random_state=0)
    assert len(chain.matches) == 2
    agreement = np.mean(chain.predict(data).argmax(axis=1) == model._outputs(data).argmax(axis=1))
    assert agreement > 0.85


# -- bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": 2.5}, "hidden must be the width of one hidden layer, or a sequence of widths.*; got 2.5"),
        ({"family": "qnn"}, "'qnn' is excluded: ReLinear is of special cases of Fan's neuron"),
        ({"family": ["fan"]}, r"family must be one value or 2, one for each layer; got \['fan'\]"),
        ({"activation": "square"}, "activation must be one of .*; 'square' is excluded: .*family='square_act'"),
        ({"activation": "softmax"}, "activation must be one of .*; 'softmax' is excluded"),
        ({"loss": "hinge"}, "'hinge' is excluded: ReLinear's convergence is derived for losses with Lipschitz"),
        ({"loss": "absolute"}, "'absolute' is excluded"),
        ({"loss": "cross-entropy"}, "loss must be one of .*; got 'cross-entropy'"),
        ({"variant": "sw"}, "variant must be one of .*; got 'sw'"),
        ({"gamma_r": -1.0}, "gamma_r must be a finite number >= 0; got -1.0"),
        ({"gamma_g": 1.0}, "gamma_g must be at most gamma_r = 0.01 with 'sg'; got 1"),
        ({"gamma_b": "big"}, "gamma_b must be a finite number >= 0; got 'big'"),
        ({"alpha_g": 0.1}, "alpha_g must be None in variant 'sg': it belongs to 'sw-l1' and 'sw-soft'; got 0.1"),
        ({"shrink": "none"}, "shrink must be one of 'all', 'weights'"),
        ({"start": "he"}, "start must be one of 'random', 'relinear'; got 'he'"),
        ({"start_scale": -0.1}, "start_scale must be a finite number >= 0; got -0.1"),
        ({"transfer": 2}, "transfer must be an integer from 1 to 1; got 2"),
        ({"rezero": 1}, "rezero must be True or False; got 1"),
        ({"optimizer": "lbfgs"}, "optimizer must be one of 'adam', 'gd', 'sgd'; got 'lbfgs'"),
        ({"momentum": 1.0}, "momentum must be from 0 to below 1; got 1.0"),
        ({"weight_decay": -1e-4}, "weight_decay must be a finite number >= 0"),
        ({"decay": "wr"}, "decay must be one of 'all', 'linear'"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1; got 0"),
        ({"n_epochs": 0}, "n_epochs must be an integer >= 1; got 0"),
        ({"milestones": (2, 1)}, r"milestones must be increasing numbers of epochs below n_epochs = 3; got \(2, 1\)"),
        ({"drop": 0.0}, "drop must be a finite number > 0; got 0.0"),
        ({"validation_fraction": 1.0}, "validation_fraction must be from 0 to below 1"),
        ({"dtype": "float16"}, "dtype must be one of 'float32', 'float64'"),
        ({"device": "tpu9"}, "device must be a torch device of this machine; got 'tpu9'"),
        ({"callback": 3}, "callback must be callable or None; got 3"),
    ],
)
def test_bad_parameters_are_named_before_any_work(change: dict[str, Any], message: str) -> None:
    model = small(Classifier, **change)
    with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
        model.fit(X, CODES)
    assert not hasattr(model, "network_")
