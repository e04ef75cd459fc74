"""A.15: what the baseline must offer, row by row."""

from __future__ import annotations

import numpy as np
import pytest
from bpls_data import TRAIN, linear_targets

import qsdp
from benchmarks.papers.tomic import BPLSClassifier, BPLSRegressor
from benchmarks.papers.tomic.network import random_weights

RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 3))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2]])
CODES = np.digitize(X[:, 0] + X[:, 1], [-1.0, 1.0])


# -- row 2: classifier with tau_max, history of misses, stop rule -------------------------------------


def test_a15_stop_rule() -> None:
    options = {"tau_max": 12, "random_state": 1}
    stopped = BPLSClassifier((6,), **options).fit(X, CODES).history_
    through = BPLSClassifier((6,), stop="none", **options).fit(X, CODES).history_
    misses = through.extra["misses"]
    first = next(k for k in range(1, 13) if misses[k] >= misses[k - 1])
    assert stopped.extra["misses"] == misses[: first + 1]
    assert stopped.stopped == "no improvement"
    assert through.n_epochs == 13


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


# -- row 4: the options -------------------------------------------------------------------------------


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
