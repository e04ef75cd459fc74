"""A.15: what the baseline must offer, row by row."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from bpls_data import TRAIN, digits, linear_targets

import qsdp
from benchmarks.papers.tomic import ELU, HIDDEN_TARGETS, BPLSClassifier, BPLSRegressor, LeakyReLU
from benchmarks.papers.tomic.network import random_weights
from qsdp.baselines import History

RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 3))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2]])
CODES = np.digitize(X[:, 0] + X[:, 1], [-1.0, 1.0])


def misses_of(model: BPLSClassifier, data: np.ndarray, y: np.ndarray) -> int:
    return int(np.sum(model.predict(data) != y))


# -- row 1: regressor of any depth, an activation a layer ---------------------------------------------


@pytest.mark.parametrize(
    ("hidden", "activation"),
    [
        ((), "sigmoid"),
        ((12,), "tanh"),
        ((12, 8), ["tanh", "sigmoid"]),
        ((12, 8, 6), ("softplus", ELU(0.5), LeakyReLU(0.3))),
        ((5, 5, 5, 5), "elu"),
    ],
)
def test_a15_regressor_of_any_depth(hidden: tuple[int, ...], activation: Any) -> None:
    model = BPLSRegressor(hidden, activation=activation, random_state=0).fit(X, Y)
    widths = [4, *hidden, 2]
    assert [W.shape for W in model.network_.weights] == list(itertools.pairwise(widths))
    assert model.network_.n_parameters == sum(W.size for W in model.network_.weights)
    # The chain of layers, written out.
    values, activations = np.column_stack([X, np.ones(80)]), model.network_.settings.activations
    for W, a in zip(model.network_.weights[:-1], activations, strict=True):
        values = a(values @ W)
    np.testing.assert_allclose(model.predict(X), values @ model.network_.weights[-1], atol=1e-12)
    assert model.score(X, Y) > 0.0
    assert model.history_.n_epochs == 1


def test_a15_output_activation() -> None:
    targets = 1 / (1 + np.exp(-2 * X[:, 0]))
    model = BPLSRegressor((10,), output_activation="sigmoid", random_state=0).fit(X, targets)
    assert model.score(X, targets) > 0.9
    assert np.all((model.predict(X) > 0.0) & (model.predict(X) < 1.0))
    np.testing.assert_allclose(model.predict(X), 1 / (1 + np.exp(-model.network_.preactivations(X)[:, 0])), atol=1e-12)


# -- row 2: classifier with tau_max, history of misses, stop rule -------------------------------------


def test_a15_tau_max() -> None:
    model = BPLSClassifier((6,), tau_max=0, random_state=0).fit(X, CODES)
    assert (model.history_.n_epochs, model.history_.stopped) == (1, "finished")
    for tau_max in (1, 2):
        again = BPLSClassifier((6,), tau_max=tau_max, stop="none", random_state=0).fit(X, CODES)
        assert again.history_.n_epochs == 1 + tau_max
        assert again.history_.extra["misses"][0] == model.history_.extra["misses"][0]


def test_a15_history_of_misses() -> None:
    model = BPLSClassifier((6,), stop="none", tau_max=6, keep_best=False, random_state=0).fit(X, CODES)
    misses = model.history_.extra["misses"]
    assert misses[-1] == misses_of(model, X, CODES)
    np.testing.assert_allclose(model.history_.accuracy, 1.0 - np.array(misses) / 80, atol=1e-12)
    outputs = model.predict_proba(X)
    assert model.history_.loss[-1] == pytest.approx(np.mean((outputs - np.eye(3)[CODES]) ** 2), rel=1e-12)


def test_a15_stop_rule() -> None:
    options = {"tau_max": 12, "random_state": 1}
    stopped = BPLSClassifier((6,), **options).fit(X, CODES).history_
    through = BPLSClassifier((6,), stop="none", **options).fit(X, CODES).history_
    misses = through.extra["misses"]
    first = next(k for k in range(1, 13) if misses[k] >= misses[k - 1])
    assert stopped.extra["misses"] == misses[: first + 1]
    assert stopped.stopped == "no improvement"
    assert through.n_epochs == 13


@pytest.mark.parametrize("stop", ["none", "no_improvement"])
def test_a15_callback_finds_the_best_network_of_every_pass(stop: str) -> None:
    found: list[tuple[int, int, int]] = []

    def callback(history: History) -> None:
        found.append((history.n_epochs, len(model.report_.passes), misses_of(model, X, CODES)))

    model = BPLSClassifier((6,), stop=stop, tau_max=6, callback=callback, random_state=1)
    misses = model.fit(X, CODES).history_.extra["misses"]
    assert found == [(k, k, min(misses[:k])) for k in range(1, len(misses) + 1)]


def test_a15_it_stops_when_nothing_is_missed() -> None:
    separated = np.where(X[:, 0] > 0, 5.0, -5.0)[:, None]
    for stop in ("none", "no_improvement"):
        model = BPLSClassifier((6,), stop=stop, random_state=0).fit(separated, X[:, 0] > 0)
        assert model.history_.extra["misses"] == [0.0]
        assert model.history_.stopped == "no misses"


def test_a15_miss_forward() -> None:
    # Open point C.2.3: the hidden outputs of the current network, or those of the first random one.
    first = {}
    for which in ("current", "random"):
        model = BPLSClassifier((6,), tau_max=1, stop="none", miss_forward=which, keep_best=False, random_state=0)
        first[which] = model.fit(X, CODES).network_.weights
    initial = BPLSClassifier((6,), tau_max=0, random_state=0).fit(X, CODES).network_
    missed = np.flatnonzero(initial.preactivations(X).argmax(axis=1) != CODES)
    assert np.any(first["current"][0] != first["random"][0])
    # One pass on the misses from either start, blended in by their share.
    start = initial.__class__(random_weights(3, (6, 3), "input", np.random.default_rng(0)), initial.settings)
    from benchmarks.papers.tomic.passes import backward_pass, blend

    T = initial.settings.output.inverse(np.eye(3)[CODES[missed]], 1e-3)
    for which, network in (("current", initial), ("random", start)):
        found, _ = backward_pass(network, network.designs(network.inputs(X[missed])), T, second_solve=True)
        for W, expected in zip(first[which], blend(initial.weights, found, len(missed) / 80), strict=True):
            np.testing.assert_allclose(W, expected, rtol=1e-12)


# -- row 3: the paper as printed ----------------------------------------------------------------------


def test_a15_literal_changes_defaults_only() -> None:
    literal = BPLSRegressor((6,), literal=True, random_state=0).fit(X, Y)
    spelled = BPLSRegressor(
        (6,),
        hidden_target="first",
        ridge=0.0,
        eps_hidden=1e-6,
        refit=False,
        keep_best=False,
        random_state=0,
    ).fit(X, Y)
    np.testing.assert_array_equal(literal.predict(X), spelled.predict(X))
    literal = BPLSClassifier((6,), literal=True, tau_max=5, random_state=0).fit(X, CODES)
    spelled = BPLSClassifier(
        (6,),
        hidden_target="first",
        ridge=0.0,
        eps_hidden=1e-6,
        stop="none",
        keep_best=False,
        tau_max=5,
        random_state=0,
    ).fit(X, CODES)
    np.testing.assert_array_equal(literal.decision_function(X), spelled.decision_function(X))
    assert literal.history_.n_epochs == 6
    repaired = BPLSRegressor((6,), literal=True, hidden_target="relax", ridge=1e-3, refit=True, random_state=0)
    assert repaired.fit(X, Y).network_.settings.hidden_target == "relax"


def test_a15_literal_runs_all_rounds_and_keeps_the_last() -> None:
    # Erratum E9: the printed "or" makes tau_max rounds at least.
    X, X_test, y, y_test = digits()
    literal = BPLSClassifier(literal=True, tau_max=8, random_state=0).fit(X, y)
    assert literal.history_.n_epochs == 9
    assert misses_of(literal, X, y) == literal.history_.extra["misses"][-1]
    repaired = BPLSClassifier(random_state=0).fit(X, y)
    assert repaired.score(X_test, y_test) > literal.score(X_test, y_test) + 0.2


# -- row 4: the options -------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", sorted(HIDDEN_TARGETS))
def test_a15_hidden_target(rule: str) -> None:
    chosen = BPLSClassifier((6,), hidden_target=rule, tau_max=2, random_state=0).fit(X, CODES)
    default = BPLSClassifier((6,), tau_max=2, random_state=0).fit(X, CODES)
    same = np.array_equal(chosen.network_.weights[0], default.network_.weights[0])
    assert same == (rule == "relax")


def test_a15_ridge_defaults() -> None:
    def ridge(kind: Any, **options: Any) -> float:
        return float(kind((4,), random_state=0, **options).fit(X, CODES).network_.settings.ridge)

    assert ridge(BPLSRegressor, activation="identity") == 0.0
    assert ridge(BPLSRegressor, activation="identity", output_activation="softplus", eps_target=0.01) == 1e-3
    assert ridge(BPLSRegressor) == 1e-3
    assert ridge(BPLSClassifier) == ridge(BPLSClassifier, activation="identity") == 1e-3
    assert ridge(BPLSClassifier, literal=True, tau_max=1) == 0.0
    assert ridge(BPLSRegressor, ridge=0.25) == 0.25


def test_a15_eps_target_and_eps_hidden() -> None:
    targets = (Y - Y.min()) / (Y.max() - Y.min())
    models = [
        BPLSRegressor((6,), output_activation="sigmoid", eps_target=eps, random_state=0).fit(X, targets)
        for eps in (1e-6, 1e-1)
    ]
    assert models[0].report_.clipped_targets == pytest.approx(2 / targets.size)
    assert models[1].report_.clipped_targets == np.mean((targets < 0.1) | (targets > 0.9))
    cut = [
        BPLSRegressor((6, 5), eps_hidden=eps, refit=False, keep_best=False, random_state=0).fit(X, Y)
        for eps in (1e-6, 0.4, (1e-6, 0.4))
    ]
    shares = [[layer.clipped for layer in model.report_.passes[0].layers] for model in cut]
    assert shares[0][2] < shares[1][2] == shares[2][2]
    assert cut[2].network_.settings.eps_hidden == (1e-6, 0.4)
    default = BPLSRegressor((50, 20), activation=["softmax", "tanh"], random_state=0).fit(X, Y)
    assert default.network_.settings.eps_hidden == pytest.approx((1e-3, 1e-2))


def test_a15_refit_and_keep_best() -> None:
    losses = {}
    for refit in (False, True):
        for keep_best in (False, True):
            model = BPLSRegressor((6,), refit=refit, keep_best=keep_best, references=True, random_state=3).fit(X, Y)
            losses[refit, keep_best] = np.mean((model.predict(X) - Y) ** 2)
    partial = model.report_.references["random hidden layers"].loss
    for refit in (False, True):
        assert losses[refit, True] == pytest.approx(min(losses[refit, False], partial), rel=1e-9)
    # The refit minimises over the last layer, up to the ridge.
    assert losses[True, False] < losses[False, False]


def test_a15_passes_continue_from_the_weights_reached() -> None:
    options = {"ridge": 1e-3, "keep_best": False, "random_state": 0}
    two = BPLSRegressor((6,), passes=2, **options).fit(X, Y)
    assert two.history_.n_epochs == 2
    assert two.history_.loss[0] == BPLSRegressor((6,), **options).fit(X, Y).history_.loss[0]
    best = BPLSRegressor((6,), passes=6, random_state=0).fit(X, Y)
    assert np.mean((best.predict(X) - Y) ** 2) == pytest.approx(min(best.history_.loss), rel=1e-12)


def test_a15_passes_end_at_a_fixed_point() -> None:
    # Where the old hidden layers win, the next pass would be the same again.
    x = np.linspace(-1, 1, 50)[:, None]
    model = BPLSRegressor((20,), passes=50, references=True, random_state=0).fit(x, np.sin(3 * x[:, 0]))
    assert model.history_.n_epochs < 50
    assert model.history_.stopped == "no improvement"


@pytest.mark.parametrize(("bias", "rows"), [("none", (3, 5, 4)), ("input", (4, 5, 4)), ("all", (4, 6, 5))])
def test_a15_bias(bias: str, rows: tuple[int, ...]) -> None:
    model = BPLSRegressor((5, 4), activation="tanh", bias=bias, random_state=0).fit(X, Y + 3.0)
    assert tuple(len(W) for W in model.network_.weights) == rows
    H = X
    for layer in model.layers_:
        H = layer.predict(H)
    np.testing.assert_allclose(model.predict(X), H, atol=1e-12)
    if bias == "none":
        # An odd activation and no bias: an odd function.
        np.testing.assert_allclose(model.predict(-X), -model.predict(X), atol=1e-12)


def test_a15_bias_of_hidden_layers_is_no_neuron_to_move() -> None:
    model = BPLSRegressor((5,), bias="all", ridge=0.0, refit=False, keep_best=False, random_state=0).fit(X, Y + 3.0)
    draw = np.random.default_rng(0)
    A = np.column_stack([X, np.ones(80)])
    H = 1 / (1 + np.exp(-A @ draw.uniform(-1, 1, (4, 5))))
    W, b = np.split(np.linalg.lstsq(np.column_stack([H, np.ones(80)]), Y + 3.0, rcond=None)[0], [5])
    N = H + 2 / 5 * (Y + 3.0 - b - H @ W) @ W.T / np.sum(W * W, axis=1)
    P = np.clip(N, 0.01, 0.99)
    expected = np.linalg.lstsq(A, np.log(P / (1 - P)), rcond=None)[0]
    np.testing.assert_allclose(model.network_.weights[0], expected, rtol=1e-9)
    np.testing.assert_allclose(model.network_.weights[1], np.vstack([W, b]), rtol=1e-9)


# -- row 6: seedable initialisation -------------------------------------------------------------------


def test_a15_initial_weights_are_uniform_and_drawn_from_the_inputs_on() -> None:
    weights = random_weights(200, (100, 50, 10), "input", np.random.default_rng(0))
    assert [W.shape for W in weights] == [(201, 100), (100, 50), (50, 10)]
    draw = np.random.default_rng(0)
    for W in weights:
        np.testing.assert_array_equal(W, draw.uniform(-1.0, 1.0, W.shape))
    first = weights[0].ravel()
    assert -1.0 <= first.min() < -0.999
    assert 0.999 < first.max() <= 1.0
    assert abs(first.mean()) < 0.02
    assert first.var() == pytest.approx(1 / 3, rel=0.03)
    shapes = [W.shape for W in random_weights(2, (3, 4), "all", np.random.default_rng(0))]
    assert shapes == [(3, 3), (4, 4)]


# -- row 7: the report of a pass ----------------------------------------------------------------------


def test_a15_report_of_every_pass() -> None:
    model = BPLSClassifier((12, 6), random_state=0).fit(X, CODES)
    history, report = model.history_, model.report_
    assert [each.loss for each in report.passes] == history.loss
    assert [each.score for each in report.passes] == history.score
    assert [each.misses for each in report.passes] == history.extra["misses"]
    assert [each.clipped for each in report.passes] == history.extra["clipped"]
    for each, seconds in zip(report.passes, history.seconds, strict=True):
        assert 0.0 < sum(layer.seconds for layer in each.layers) <= each.seconds <= seconds
        assert [layer.number for layer in each.layers] == [1, 2, 3]
        assert [len(layer.designs) for layer in each.layers] == [1, 2, 2]
        assert [layer.designs[0].n_columns for layer in each.layers] == [4, 12, 6]
        assert {design.n_samples for layer in each.layers for design in layer.designs} == {each.n_samples}
        for layer in each.layers:
            assert (layer.clipped is None) == (layer.number == 1)
            for design in layer.designs:
                assert 1 <= design.rank <= min(design.n_samples, design.n_columns)
                assert 1.0 <= design.condition < np.inf
    stored = json.loads(json.dumps(report.to_dict()))
    assert stored["best"] == report.best
    assert stored["passes"][0]["layers"][1]["designs"][1]["n_columns"] == 12


def test_a15_share_of_cut_values_is_that_of_the_desired_ones() -> None:
    model = BPLSRegressor((6,), refit=False, keep_best=False, ridge=0.0, eps_hidden=0.1, random_state=0).fit(X, Y)
    W0 = np.random.default_rng(0).uniform(-1, 1, (4, 6))
    H = 1 / (1 + np.exp(-np.column_stack([X, np.ones(80)]) @ W0))
    W = np.linalg.lstsq(H, Y, rcond=None)[0]
    N = H + min(1, 2 / 6) * (Y - H @ W) @ W.T / np.sum(W * W, axis=1)
    expected = float(np.mean((N < 0.1) | (N > 0.9)))
    assert expected > 0.0
    assert model.report_.passes[0].clipped == pytest.approx(expected, abs=1e-12)


# -- row 8: reference models --------------------------------------------------------------------------


def test_a15_references() -> None:
    model = BPLSRegressor((9,), ridge=1e-2, references=True, random_state=0).fit(X, Y)
    references = model.report_.references
    A = np.column_stack([X, np.ones(80)])
    W0 = np.random.default_rng(0).uniform(-1, 1, (4, 9))
    # A.5: no ridge in the linear reference of a regression; A.14.14 compares the other one at the training's own.
    for name, design, ridge in (
        ("linear least squares", A, 0.0),
        ("random hidden layers", 1 / (1 + np.exp(-A @ W0)), 1e-2),
    ):
        W = np.linalg.solve(design.T @ design + ridge * 80 * np.eye(design.shape[1]), design.T @ Y)
        np.testing.assert_allclose(references[name].network.preactivations(X), design @ W, rtol=1e-9, atol=1e-9)
        assert references[name].loss == pytest.approx(np.mean((design @ W - Y) ** 2), rel=1e-9)
        assert references[name].seconds > 0.0
        assert name in model.report_._repr_html_()
        assert name in model.report_.to_dict()["references"]
    assert BPLSRegressor((9,), random_state=0).fit(X, Y).report_.references == {}


def test_a15_references_do_not_change_the_training() -> None:
    plain, referred = (BPLSClassifier((9,), references=on, random_state=0).fit(X, CODES) for on in (False, True))
    np.testing.assert_array_equal(plain.decision_function(X), referred.decision_function(X))
    assert referred.report_.references["linear least squares"].score == pytest.approx(
        BPLSClassifier((), tau_max=0, random_state=0).fit(X, CODES).score(X, CODES)
    )


# -- row 9: columns in parallel -----------------------------------------------------------------------


@pytest.mark.parametrize("ridge", [0.0, 1e-3])
def test_a15_columns_in_parallel_give_the_same_network(ridge: float) -> None:
    one, two = (
        BPLSRegressor((40, 20), ridge=ridge, n_jobs=jobs, passes=2, random_state=0).fit(X, Y) for jobs in (None, 2)
    )
    for W, other in zip(one.network_.weights, two.network_.weights, strict=True):
        assert W.tobytes() == other.tobytes()


# -- row 10: the trained network goes on to quantization ----------------------------------------------


def test_a15_linear_network_is_a_quadratic_form() -> None:
    model = BPLSRegressor((), random_state=0).fit(TRAIN, linear_targets(TRAIN))
    form = model.to_quadratic_form()
    assert isinstance(form, qsdp.QuadraticForm)
    np.testing.assert_allclose(form.predict(TRAIN), linear_targets(TRAIN), atol=1e-10)
    match = qsdp.distill(model, TRAIN, 50, random_state=0)
    assert match.certificate.lower_bound <= match.certificate.objective


def test_a15_layers_are_the_network() -> None:
    for model in (
        BPLSRegressor((6, 4), random_state=0).fit(X, Y),
        BPLSRegressor((6,), output_activation="softplus", eps_target=1e-2, random_state=0).fit(X, np.exp(Y[:, 0])),
    ):
        H = X
        for layer in model.layers_:
            H = layer.predict(H)
        np.testing.assert_allclose(H, model.predict(X), atol=1e-12)
    classifier = BPLSClassifier((6, 4), activation=["softmax", "tanh"], random_state=0).fit(X, CODES)
    H = X
    for layer in classifier.layers_:
        H = layer.predict(H)
    np.testing.assert_allclose(H, classifier.decision_function(X), atol=1e-12)


def test_a15_network_is_matched_by_quantized_weights() -> None:
    model = BPLSClassifier((6,), random_state=0).fit(X, CODES)
    agreements = []
    for size in (30, (3000, 30_000)):
        chain = model.distill(X, size, random_state=0)
        assert len(chain.matches) == 2
        for match in chain.matches:
            assert set(np.unique(match.network.U)) <= {-1, 1}
            assert match.certificate.lower_bound <= match.certificate.objective
        agreements.append(np.mean(chain.predict(X).argmax(axis=1) == model.decision_function(X).argmax(axis=1)))
    assert agreements[1] > 0.9
    assert agreements[1] > agreements[0]
