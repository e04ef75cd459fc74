"""Distillation: the match against the model, its certificates, and what models can be."""

import inspect
from types import SimpleNamespace

import numpy as np
import pytest
from brute_force import global_optimum
from sklearn.linear_model import LogisticRegression

import qsdp
from qsdp.exceptions import InvalidInputError, InvalidTypeError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((150, 5))
WEIGHTS, BIAS = RNG.standard_normal((3, 5)) / 2, RNG.standard_normal(3) / 2
FORM = qsdp.QuadraticForm(RNG.standard_normal((5, 5)))


def layer(X):
    return np.tanh(X @ WEIGHTS.T + BIAS)


def error_of(match, outputs):
    """Root of the squared mismatch over the squared outputs of the model."""
    target = match.problem.y
    return np.linalg.norm(outputs - target) / np.linalg.norm(target)


def test_representable_models_are_matched_as_closely_as_beta_allows():
    # A network is its own perfect match: as beta falls, so does the relaxation's mismatch.
    network = qsdp.BilinearNetwork([[1, 1, -1, 1, -1]], [[1, -1, -1, 1, 1]], [2.0])
    matches = [qsdp.distill(network, X, 10, beta=beta) for beta in (10.0, 1.0, 0.1, 0.01)]
    errors = [error_of(match, match.relaxation.predict(X)) for match in matches]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-3


def test_the_match_is_solve_and_sample_on_the_outputs_of_the_model():
    options = {"levels": 3, "random_state": 2, "sample_weight": RNG.random(150)}
    match = qsdp.distill(layer, X, 40, beta=0.5, **options)
    same = qsdp.solve_and_sample(X, layer(X), 40, 0.5, activation=(1.0, 2.0, 1.0), **options)
    assert isinstance(match, qsdp.QSDPResult)
    assert match.certificate.lower_bound == same.certificate.lower_bound
    for name in ("U", "V", "alpha"):
        np.testing.assert_array_equal(getattr(match.network, name), getattr(same.network, name))


def test_defaults_are_those_of_solve_and_sample_but_for_outputs_without_noise():
    def defaults(function):
        return {name: each.default for name, each in inspect.signature(function).parameters.items()}

    ours, theirs = defaults(qsdp.distill), defaults(qsdp.solve_and_sample)
    assert ours["n_neurons"] == theirs["n_neurons"]
    match = qsdp.distill(FORM, X)
    assert match.network.n_neurons == theirs["n_neurons"]
    assert match.problem.beta == pytest.approx(1e-3 * qsdp.beta_max(match.problem), rel=1e-9)


def test_certificate_is_relative_to_the_best_quantized_match():
    small = RNG.standard_normal((12, 3))
    S = RNG.standard_normal((3, 3))
    match = qsdp.distill(qsdp.QuadraticForm(S), small, 50, beta=0.1)
    optimum = global_optimum(match.problem)
    assert match.certificate.lower_bound <= optimum.upper
    assert optimum.lower <= match.certificate.objective
    mismatch = np.sum((match.predict(small) - np.einsum("ij,jk,ik->i", small, S, small)) ** 2)
    penalty = 0.1 * 3 * np.abs(match.network.alpha).sum()
    assert match.certificate.objective == pytest.approx(mismatch + penalty, rel=1e-10)


def test_neurons_of_a_layer_are_matched_apart():
    whole = qsdp.distill(layer, X, 60, beta=0.05)
    alone = [qsdp.distill(lambda X, k=k: layer(X)[:, k], X, 60, beta=0.05) for k in range(3)]
    bounds = [match.certificate.lower_bound for match in alone]
    np.testing.assert_allclose(whole.relaxation.lower_bounds, bounds, rtol=1e-9)
    assert whole.certificate.lower_bound == pytest.approx(sum(bounds), rel=1e-9)


CLASSIFIER = LogisticRegression().fit(X, X[:, 0] * X[:, 1] > 0.0)


@pytest.mark.parametrize(
    ("model", "outputs", "activation"),
    [
        (FORM, FORM.predict, None),
        (qsdp.QuadraticForm(np.stack([np.eye(5), np.ones((5, 5))])), None, None),
        (qsdp.QuadraticForm(np.eye(5), s=np.ones(5)), None, (1.0, 2.0, 1.0)),
        (qsdp.QuadraticForm(np.eye(5), s0=2.0), None, (1.0, 2.0, 1.0)),
        (qsdp.PolynomialNetwork([[1, 0, 1, -1, 1]], [0.5], activation="relu_like"), None, (1.0, 2.0, 1.0)),
        (SimpleNamespace(predict=lambda X: X[:, 0] * 3.0 - 1.0), None, (1.0, 2.0, 1.0)),
        (CLASSIFIER, CLASSIFIER.decision_function, (1.0, 2.0, 1.0)),
        (lambda X: X[:, 0] * 3.0 - 1.0, lambda X: X[:, 0] * 3.0 - 1.0, (1.0, 2.0, 1.0)),
    ],
)
def test_kinds_of_models(model, outputs, activation):
    match = qsdp.distill(model, X, 20)
    assert (match.network.activation and match.network.activation.coefficients) == activation
    np.testing.assert_allclose(match.problem.y, (outputs or model.predict)(X))
    assert error_of(match, match.relaxation.predict(X)) < 0.2


@pytest.mark.parametrize("levels", [2, 3, 5])
def test_levels_and_resampling(levels):
    match = qsdp.distill(qsdp.QuadraticForm(np.eye(5)), X, 2000, levels=levels)
    assert np.abs(match.network.U).max() == levels - 1
    other = match.resample(500, 1, levels=4)
    assert other.network.levels == 4
    assert other.network.n_neurons == 500


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (qsdp.QuadraticForm(np.eye(4)), {}, "X must have 4 columns"),
        (lambda X: X[:7, 0], {}, "the model's outputs must have 150 entries"),
        (lambda X: np.log(np.zeros(len(X))), {}, "the model's outputs contains infinity"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_bad_input(model, options, message):
    with pytest.raises(InvalidInputError, match=message):
        qsdp.distill(model, X, **{"n_neurons": 5, **options})


def never(X):
    raise AssertionError("the model was run")


def test_bad_weights_are_refused_before_the_model_runs():
    with pytest.raises(InvalidInputError, match="sample_weight must be >= 0; found -1"):
        qsdp.distill(never, X, sample_weight=-np.ones(len(X)))


def test_a_torch_module_is_refused_with_what_to_do():
    torch = pytest.importorskip("torch")
    with pytest.raises(InvalidTypeError, match=r"torch.nn.modules.linear.Linear: .* or a function"):
        qsdp.distill(torch.nn.Linear(3, 2), np.ones((4, 3)))
