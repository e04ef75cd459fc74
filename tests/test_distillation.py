"""Distillation: the match against the model, its certificates, and what models can be."""

import numpy as np
import pytest
from brute_force import global_optimum

import qsdp
from qsdp.exceptions import InvalidInputError, InvalidTypeError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((150, 5))
WEIGHTS, BIAS = RNG.standard_normal((3, 5)) / 2, RNG.standard_normal(3) / 2


@pytest.fixture(scope="module")
def layer():
    return qsdp.DenseLayer(WEIGHTS, BIAS, "tanh")


class TestDenseLayer:
    @pytest.mark.parametrize("name", ["relu", "tanh", "sigmoid", "identity"])
    def test_outputs_are_those_of_the_formula(self, name):
        functions = {
            "relu": lambda t: t if t > 0 else 0.0,
            "tanh": np.tanh,
            "sigmoid": lambda t: 1 / (1 + np.exp(-t)),
            "identity": lambda t: t,
        }
        expected = [[functions[name](w @ x + b) for w, b in zip(WEIGHTS, BIAS, strict=True)] for x in X]
        np.testing.assert_allclose(qsdp.DenseLayer(WEIGHTS, BIAS, name).predict(X), expected, atol=1e-14)

    def test_fitted_activation_is_the_least_squares_one(self, layer):
        activation = layer.fit_activation(X)
        t, values = layer.preactivations(X).ravel(), layer.predict(X).ravel()
        a, b, c = np.polyfit(t, values, 2)
        np.testing.assert_allclose(activation.coefficients, (a, b, c), rtol=1e-9)

    def test_quadratic_form_is_the_layer_with_that_activation(self, layer):
        activation = layer.fit_activation(X)
        expected = activation(X @ WEIGHTS.T + BIAS)
        np.testing.assert_allclose(layer.to_quadratic_form(X).predict(X), expected, atol=1e-12)

    def test_quadratic_activations_are_reproduced_exactly(self):
        square = qsdp.DenseLayer(WEIGHTS, BIAS, lambda t: 0.3 * t**2 - t + 2)
        np.testing.assert_allclose(square.to_quadratic_form(X).predict(X), square.predict(X), atol=1e-11)

    @pytest.mark.filterwarnings("ignore:invalid value encountered in log:RuntimeWarning")
    def test_bad_layers_are_refused(self):
        with pytest.raises(InvalidInputError, match="weights"):
            qsdp.DenseLayer([[1.0, np.nan]])
        with pytest.raises(InvalidInputError, match=r"bias must have shape \(1,\)"):
            qsdp.DenseLayer([[1.0, 2.0]], [1.0, 2.0])
        with pytest.raises(InvalidInputError, match="did you mean 'relu'"):
            qsdp.DenseLayer([[1.0, 2.0]], activation="rellu")
        with pytest.raises(InvalidInputError, match="activation must return finite values"):
            qsdp.DenseLayer([[1.0, 2.0]], activation=np.log).predict([[-1.0, 0.0]])


def test_representable_models_are_matched_as_closely_as_beta_allows():
    # A network is its own perfect match: as beta falls, so does the relaxation's mismatch.
    network = qsdp.BilinearNetwork([[1, 1, -1, 1, -1]], [[1, -1, -1, 1, 1]], [2.0])
    errors = [qsdp.distill(network, X, 10, beta=beta, random_state=0).relaxed_error for beta in (10.0, 1.0, 0.1, 0.01)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-3


def test_error_falls_with_the_number_of_neurons():
    match = qsdp.distill(RNG.standard_normal((5, 5)), X, 10, random_state=0)
    # Sampling noise falls as 1 / sqrt(m): a factor 100 from m = 10 to 100000; a factor 10 is asked for.
    assert match.resample(100_000, 0).relative_error < 0.1 * match.relative_error
    assert match.resample(100_000, 0).relative_error >= 0.5 * match.relaxed_error


def test_certificate_is_relative_to_the_best_quantized_match():
    small = RNG.standard_normal((12, 3))
    S = RNG.standard_normal((3, 3))
    match = qsdp.distill(S, small, 50, beta=0.1, random_state=0)
    optimum = global_optimum(match.result.problem)
    assert match.certificate.lower_bound <= optimum.upper
    assert optimum.lower <= match.certificate.objective
    mismatch = np.sum((match.predict(small) - np.einsum("ij,jk,ik->i", small, S, small)) ** 2)
    penalty = 0.1 * 3 * np.abs(match.network.alpha).sum()
    assert match.certificate.objective == pytest.approx(mismatch + penalty, rel=1e-10)


def test_neurons_of_a_layer_are_matched_apart(layer):
    whole = qsdp.distill(layer, X, 60, beta=0.05, random_state=0)
    alone = [qsdp.distill(layer, X, 60, beta=0.05, outputs=[k], random_state=0) for k in range(3)]
    bounds = [one.certificate.lower_bound for one in alone]
    assert whole.certificate.lower_bound == pytest.approx(sum(bounds), rel=1e-9)
    assert [one.network.n_outputs for one in alone] == [1, 1, 1]
    swapped = qsdp.distill(layer, X, 60, beta=0.05, outputs=[2, 0], random_state=0)
    np.testing.assert_array_equal(swapped.result.problem.y, layer.predict(X)[:, [2, 0]])


def test_match_chooses_what_a_layer_is_compared_with(layer):
    own, polynomial = (qsdp.distill(layer, X, 60, match=match, random_state=0) for match in ("model", "polynomial"))
    np.testing.assert_allclose(own.result.problem.y, layer.predict(X))
    np.testing.assert_allclose(polynomial.result.problem.y, layer.to_quadratic_form(X).predict(X))
    # The polynomial is within reach of quadratic networks, tanh is not.
    assert polynomial.relaxed_error < own.relaxed_error


class Predictor:
    def predict(self, data):
        return np.asarray(data)[:, 0] * 3.0 - 1.0


@pytest.mark.parametrize(
    ("model", "activation"),
    [
        (np.eye(5), None),
        (np.stack([np.eye(5), np.ones((5, 5))]), None),
        (qsdp.QuadraticForm(np.eye(5)), None),
        (qsdp.QuadraticForm(np.eye(5), s=np.ones(5)), (1.0, 2.0, 1.0)),
        (qsdp.QuadraticForm(np.eye(5), s0=2.0), (1.0, 2.0, 1.0)),
        (qsdp.PolynomialNetwork([[1, 0, 1, -1, 1]], [0.5], activation="relu_like"), (1.0, 2.0, 1.0)),
        (Predictor(), (1.0, 2.0, 1.0)),
    ],
)
def test_kinds_of_models(model, activation):
    match = qsdp.distill(model, X, 20, random_state=0)
    assert (match.network.activation and match.network.activation.coefficients) == activation
    form = model if hasattr(model, "predict") else qsdp.QuadraticForm(model)
    np.testing.assert_allclose(match.result.problem.y, form.predict(X))
    assert match.relaxed_error < 0.2


@pytest.mark.parametrize("levels", [2, 3, 5])
def test_levels_and_resampling(levels):
    match = qsdp.distill(np.eye(5), X, 2000, levels=levels, random_state=0)
    assert np.abs(match.network.U).max() == levels - 1
    other = match.resample(500, 1, levels=4)
    assert other.network.levels == 4
    assert other.network.n_neurons == 500


def test_default_beta_depends_on_no_units():
    S = RNG.standard_normal((5, 5))
    plain = qsdp.distill(S, X, 10, random_state=0)
    scaled = qsdp.distill(1e6 * S, 1e-3 * X, 10, random_state=0)
    assert scaled.relaxed_error == pytest.approx(plain.relaxed_error, rel=1e-3)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("text", {}, "model must be"),
        (None, {}, "model must be"),
        (np.ones((2, 3)), {}, "model must be"),
        (np.eye(4), {}, "X must have 4 columns"),
        (np.eye(5), {"match": "both"}, "match must be one of"),
        (np.eye(5), {"outputs": [0]}, "outputs must be None"),
        (np.stack([np.eye(5)] * 2), {"outputs": [2]}, "outputs must be numbers from 0 to 1"),
        (np.stack([np.eye(5)] * 2), {"outputs": []}, "outputs must be numbers from 0 to 1"),
        (np.eye(5), {"beta": -1.0}, "beta must be"),
        (np.eye(5), {"levels": 1}, "levels must be"),
        (np.eye(5), {"n_neurons": 0}, "n_neurons must be"),
        (np.eye(5), {"activation": (1, 2)}, "activation must be"),
    ],
)
def test_bad_input(model, options, message):
    with pytest.raises(InvalidInputError, match=message):
        qsdp.distill(model, X, **{"n_neurons": 5, **options})


def test_unknown_kinds_are_type_errors():
    with pytest.raises(InvalidTypeError):
        qsdp.distill(object(), X)


def test_a_torch_module_is_refused_with_what_to_do() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(InvalidTypeError, match=r"got a torch Linear: take qsdp.DenseLayer\(layer.weight"):
        qsdp.distill(torch.nn.Linear(3, 2), np.ones((4, 3)))
