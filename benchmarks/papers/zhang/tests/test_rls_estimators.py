"""The estimators: scikit-learn's checks, the steps of the optimiser, quantization, divergence and bad input."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse
import scipy.special
import torch
from sklearn.utils.estimator_checks import check_estimator

from benchmarks.methods.layers import check_hidden
from benchmarks.papers.zhang import RLS, NumpyNetwork, RLSNetworkClassifier, RLSNetworkRegressor
from benchmarks.papers.zhang.harness import LOSSES
from qsdp import QSDPWarning
from qsdp.exceptions import InvalidInputError

Classifier, Regressor = RLSNetworkClassifier, RLSNetworkRegressor
both = pytest.mark.parametrize("estimator", [Classifier, Regressor], ids=["classifier", "regressor"])

RNG = np.random.default_rng(0)
X = RNG.random((90, 4))
VALUES = np.sin(3.0 * X[:, 0]) - X[:, 1] * X[:, 2]
LABELS = np.array(["a", "b", "c"])[np.digitize(VALUES, [0.3, 0.6])]
TARGETS = {Classifier: LABELS, Regressor: VALUES}


# -- scikit-learn's own checks -----------------------------------------------------------------------


@both
def test_check_estimator(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = check_estimator(estimator(n_epochs=10), on_skip=None, on_fail=None)
    failed = [f"{o['check_name']}: {o['exception']!r}" for o in outcomes if o["status"] not in {"passed", "skipped"}]
    assert not failed, "\n".join(failed)
    assert {o["check_name"] for o in outcomes if o["status"] == "skipped"} <= {"check_array_api_input"}
    assert len([o for o in outcomes if o["status"] == "passed"]) >= 50


# -- training -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "options"),
    [
        (Regressor, {"momentum": 0.5}),
        (Classifier, {"momentum": 0.5, "l1": 1e-3, "regularize_bias": False}),
        (Regressor, {"forgetting": 0.95, "hidden": (6, 5), "learning_rate": [0.5, 0.7, 0.9], "activation": "tanh"}),
        (Classifier, {"hybrid": True, "adam_learning_rate": 0.01, "activation": "sigmoid", "clip": None}),
        (Regressor, {"hidden": ()}),
        *((Regressor, {"hybrid": True, "loss": loss}) for loss in ("squared", "absolute", "huber")),
        (Classifier, {"hybrid": True, "loss": "cross_entropy"}),
    ],
)
def test_steps_are_those_of_the_optimiser(estimator, options):
    # From the estimator's own first parameters and minibatches: random_state makes both reproducible.
    model = estimator(**{"hidden": 6, "batch_size": 32, "n_epochs": 4, "random_state": 3} | options)
    model.fit(X, TARGETS[estimator])
    rng, chosen = np.random.default_rng(3), model.get_params()
    sizes = [4, *check_hidden(model.hidden), 1 if estimator is Regressor else 3]
    kinds = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh, "sigmoid": torch.nn.Sigmoid}
    parts = []
    for n, m in itertools.pairwise(sizes):
        linear, theta = torch.nn.Linear(n, m).double(), rng.uniform(-1 / np.sqrt(n), 1 / np.sqrt(n), (n + 1, m))
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(theta[:-1].T))
            linear.bias.copy_(torch.from_numpy(theta[-1]))
        parts += [linear, kinds[model.activation]()]
    network = torch.nn.Sequential(*parts[:-1])
    rates = model.learning_rate if isinstance(model.learning_rate, list) else [1.0] * len(sizes)
    names = [str(2 * number) for number in range(len(sizes) - 1)]
    same = ("forgetting", "ratio", "momentum", "l1", "initial_inverse", "trace_guard", "regularize_bias", "clip")
    optimizer = RLS(
        network,
        dict(zip(names[: len(names) - model.hybrid], rates, strict=False)),
        exclude=names[-1:] if model.hybrid else (),
        rest=(lambda others: torch.optim.Adam(others, lr=model.adam_learning_rate)) if model.hybrid else None,
        **{name: chosen[name] for name in same},
    )
    y = VALUES[:, None] if estimator is Regressor else np.eye(3)[np.unique(LABELS, return_inverse=True)[1]]
    for _ in range(4):
        order = rng.permutation(90)
        for rows in (order[:32], order[32:64], order[64:]):
            optimizer.zero_grad()
            loss = LOSSES[model.loss](network(torch.from_numpy(X[rows])), torch.from_numpy(y[rows]))
            loss.backward()
            optimizer.step()
    ours = model.network_.outputs(X)
    np.testing.assert_allclose(ours, network(torch.from_numpy(X)).detach().numpy(), atol=1e-11)


@pytest.mark.parametrize("options", [{"loss": "cross_entropy", "hybrid": True}, {"output_activation": "softmax"}])
def test_probabilities(options):
    model = Classifier(8, n_epochs=20, batch_size=32, random_state=0, **options).fit(X, LABELS)
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert probabilities.min() > 0.0
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X))
    linear = NumpyNetwork(model.network_.thetas, "relu").outputs(X)
    np.testing.assert_allclose(probabilities, scipy.special.softmax(linear, axis=1))


def test_history():
    seen = []

    def callback(history):
        seen.append(history.n_epochs)
        return history.n_epochs == 3

    model = Classifier(5, n_epochs=10, random_state=0, callback=callback).fit(X, LABELS)
    assert seen == [1, 2, 3]
    assert model.history_.stopped == "callback"
    assert len(model.history_.loss) == len(model.history_.seconds) == len(model.history_.extra["clipped"]) == 3
    assert model.history_.accuracy[-1] == model.score(X, LABELS)
    regressor = Regressor(5, n_epochs=2, random_state=0).fit(X, VALUES)
    assert regressor.history_.score[-1] == pytest.approx(regressor.score(X, VALUES))


# -- divergence ---------------------------------------------------------------------------------------


@both
def test_divergence_stops_with_epoch_and_suggestion_and_keeps_the_history(estimator):
    wild = 1e3 * X
    model = estimator(20, clip=None, batch_size=16, n_epochs=50, random_state=0, learning_rate=10.0)
    with pytest.warns(QSDPWarning, match=r"diverged in epoch \d+ .*try inputs in \[0, 1\]"):
        model.fit(wild, TARGETS[estimator])
    history = model.history_
    assert history.stopped == "diverged"
    assert history.diverged == history.n_epochs + 1 <= 50
    assert np.all(np.isfinite(history.loss))
    assert all(np.all(np.isfinite(theta)) for theta in model.network_.thetas)
    assert len(model.predict(wild)) == 90


# -- layers and quantization ---------------------------------------------------------------------------


@both
@pytest.mark.parametrize("options", [{"hidden": (6, 3)}, {"hidden": ()}, {"output_activation": "sigmoid"}])
def test_layers_compute_what_the_estimator_does(estimator, options):
    y = TARGETS[estimator] if estimator is Classifier else np.clip(VALUES, 0.0, 1.0)
    model = estimator(**{"hidden": 5, "n_epochs": 3, "random_state": 0} | options).fit(X, y)
    H = X
    for layer in model.layers_:
        H = layer.predict(H)
    np.testing.assert_allclose(H, model._outputs(X), atol=1e-13)


@both
def test_quantize(estimator):
    model = estimator(4, n_epochs=30, batch_size=32, random_state=0).fit(X, TARGETS[estimator])
    chain = model.distill(X, 2000, random_state=0)
    assert len(chain.matches) == 2
    assert all(match.certificate.lower_bound <= match.certificate.objective for match in chain.matches)
    assert chain.predict(X).shape == model._outputs(X).shape
    # Affine layers are representable: the relaxation's match is as close as the regularisation lets it be.
    problem, relaxed = chain.matches[0].problem, chain.matches[0].relaxation.predict(chain.matches[0].problem.X)
    assert np.linalg.norm(relaxed - problem.y) < 0.2 * np.linalg.norm(problem.y)


# -- bad input ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "options", "message"),
    [
        (Classifier, {"loss": "cross_entropy"}, "loss 'cross_entropy' is excluded by the derivation .*hybrid=True"),
        (Regressor, {"loss": "huber"}, "loss 'huber' is excluded by the derivation of recursive least squares"),
        (Classifier, {"loss": "huber", "hybrid": True}, "loss must be one of 'cross_entropy', 'squared'"),
        (Regressor, {"loss": "cross_entropy"}, "loss must be one of 'absolute', 'huber', 'squared'"),
        (Classifier, {"output_activation": "relu"}, "output_activation must be invertible.*has no inverse"),
        (Classifier, {"output_activation": "softmx"}, "did you mean 'softmax'"),
        (Regressor, {"output_activation": "softmax"}, "output_activation 'softmax' needs at least two outputs"),
        (
            Classifier,
            {"output_activation": "softmax", "loss": "cross_entropy", "hybrid": True},
            "output_activation must be 'identity' with loss 'cross_entropy'",
        ),
        (Classifier, {"output_activation": "sigmoid", "eps_target": 0.5}, "eps_target must be > 0 and < 0.5"),
        (Classifier, {"hidden": (), "hybrid": True}, "hybrid=True trains hidden layers by RLS and needs at least one"),
        (Classifier, {"hidden": 0}, "hidden must be an integer >= 1; got 0"),
        (Classifier, {"hidden": (4, 2.5)}, "hidden must be an integer >= 1; got 2.5"),
        (Classifier, {"activation": "rellu"}, "activation must be one of .*did you mean 'relu'"),
        (Classifier, {"learning_rate": -1.0}, "learning_rate must be a finite number > 0"),
        (
            Classifier,
            {"learning_rate": [1.0]},
            "learning_rate must be one value or 2, one for each layer that RLS trains",
        ),
        (Classifier, {"learning_rate": [1.0, np.nan]}, "learning_rate must be a finite number > 0; got nan"),
        (Classifier, {"ratio": -0.1}, "ratio must be a finite number >= 0"),
        (Classifier, {"forgetting": 0.0}, "forgetting must be a finite number > 0"),
        (Classifier, {"momentum": 1.0}, "momentum must be from 0 to below 1"),
        (Classifier, {"l1": np.inf}, "l1 must be a finite number >= 0"),
        (Classifier, {"initial_inverse": 0}, "initial_inverse must be a finite number > 0"),
        (Classifier, {"trace_guard": "yes"}, "trace_guard must be True or False"),
        (Classifier, {"clip": -5.0}, "clip must be a finite number > 0"),
        (Classifier, {"adam_learning_rate": 0.0}, "adam_learning_rate must be a finite number > 0"),
        (Classifier, {"n_epochs": 0}, "n_epochs must be an integer >= 1"),
        (Classifier, {"batch_size": 1.5}, "batch_size must be an integer >= 1"),
        (Classifier, {"dtype": "float16"}, "dtype must be one of 'float32', 'float64'"),
        (Classifier, {"verbose": "yes"}, "verbose must be True, False or an integer >= 0"),
        (Classifier, {"callback": 3}, "callback must be callable or None"),
        (Classifier, {"random_state": "x"}, "random_state must be"),
        (Classifier, {"hybrid": 1}, "hybrid must be True or False"),
    ],
)
def test_bad_parameters_are_refused_before_any_work(estimator, options, message, monkeypatch):
    monkeypatch.setattr(NumpyNetwork, "forward", lambda *_: pytest.fail("training started"))
    model = estimator(**options)
    with pytest.raises(InvalidInputError, match=message):
        model.fit(X, TARGETS[estimator])
    assert not hasattr(model, "network_")
