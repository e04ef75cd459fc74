"""A.14: the claims, numbered as in the specification; those of A.3 to A.5 are with activations, rules and the solve."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from bpls_data import TEST, TRAIN, linear_targets
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.papers.tomic import HIDDEN_TARGETS, BPLSClassifier, BPLSRegressor, hidden_target
from benchmarks.papers.tomic.network import Network, random_weights

RULES = sorted(HIDDEN_TARGETS)
rules = pytest.mark.parametrize("rule", RULES)


def linear(rule: str, seed: int, hidden: tuple[int, ...] = (3,), **options: Any) -> BPLSRegressor:
    return BPLSRegressor(hidden, activation="identity", hidden_target=rule, random_state=seed, **options)


def least_squares(X: np.ndarray, Y: np.ndarray, at: np.ndarray) -> np.ndarray:
    A, B = (np.column_stack([data, np.ones(len(data))]) for data in (X, at))
    return B @ np.linalg.lstsq(A, Y, rcond=None)[0]


# -- 1 and 2: a linear network is ordinary least squares ----------------------------------------------


@rules
@pytest.mark.parametrize("literal", [False, True])
def test_a14_1_exact_data_are_recovered_without_full_rank(rule: str, literal: bool) -> None:
    Y = linear_targets(TRAIN)
    for seed in range(25):
        model = linear(rule, seed, literal=literal).fit(TRAIN, Y)
        W1, W2 = model.network_.weights
        np.testing.assert_allclose(W1 @ W2, [[-1 / 3, 2.0], [2.0, -1.0]], atol=1e-9)
        np.testing.assert_allclose(model.predict(TEST), linear_targets(TEST), atol=1e-9)
        # The hidden outputs of three neurons have the rank of the two inputs.
        assert [layer.designs[0].rank for layer in model.report_.passes[0].layers] == [2, 2]


@rules
@given(
    seed=st.integers(0, 10**6),
    hidden=st.lists(st.integers(4, 7), max_size=3),
    J=st.integers(1, 3),
    bias=st.sampled_from(["input", "all"]),
)
@settings(max_examples=25, deadline=None)
def test_a14_2_linear_network_is_ordinary_least_squares(
    rule: str, seed: int, hidden: list[int], J: int, bias: str
) -> None:
    # Theorem: the residual of the last layer is orthogonal to the inputs, so nothing below moves the predictions.
    rng = np.random.default_rng(seed)
    X, Y, at = rng.standard_normal((20, 3)), rng.standard_normal((20, J)), rng.standard_normal((8, 3))
    model = linear(rule, seed, tuple(hidden), bias=bias).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), least_squares(X, Y, X), atol=1e-8)
    np.testing.assert_allclose(model.predict(at), least_squares(X, Y, at), atol=1e-8)


# -- 11 and 12: parallel columns, determinism, and the number of solves -------------------------------


@pytest.mark.parametrize("ridge", [0.0, 1e-3])
def test_a14_11_a_pass_neuron_by_neuron_is_the_pass_at_once(ridge: float) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((50, 4)), rng.standard_normal((50, 3))
    model = BPLSRegressor((6, 5), activation="tanh", ridge=ridge, refit=False, keep_best=False, random_state=0)
    model.fit(X, Y)
    # The same pass, one least-squares problem a neuron.
    weights = random_weights(4, (6, 5, 3), "input", np.random.default_rng(0))
    found = Network(weights, model.network_.settings)
    designs, T = found.designs(found.inputs(X)), Y
    expected = []
    for number in (2, 1, 0):
        A = designs[number]
        stacked = np.vstack([A, math.sqrt(ridge * len(A)) * np.eye(A.shape[1])])
        columns = [
            np.linalg.lstsq(stacked, np.concatenate([T[:, i], np.zeros(A.shape[1])]), rcond=1e-12)[0]
            for i in range(T.shape[1])
        ]
        W = np.column_stack(columns)
        expected.insert(0, W)
        T = np.arctanh(np.clip(hidden_target(A, W, T, "relax"), -0.99, 0.99)) if number else T
    for W, other in zip(model.network_.weights, expected, strict=True):
        np.testing.assert_allclose(W, other, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("hidden", [(), (4,), (7, 3), (2, 5, 2)])
def test_a14_12_number_of_solves_is_fixed_by_the_widths(hidden: tuple[int, ...]) -> None:
    # Erratum E8: the sum of the widths, not N (L + 1).
    rng = np.random.default_rng(0)
    for data in (rng.standard_normal((30, 3)), 100 * rng.random((77, 3))):
        Y = rng.random((len(data), 2))
        for refit in (False, True):
            options = {"passes": 2, "refit": refit, "keep_best": False, "random_state": 0}
            regressor = BPLSRegressor(hidden, **options).fit(data, Y)
            # The refit of a network with hidden layers solves its last layer once more.
            expected = sum(hidden) + (4 if refit and hidden else 2)
            assert [each.n_solves for each in regressor.report_.passes] == [expected, expected]
        classifier = BPLSClassifier(hidden, random_state=0).fit(data, rng.integers(0, 4, len(data)))
        widths = [*hidden, 4]
        # Every layer but the first is solved twice.
        expected = widths[0] + 2 * sum(widths[1:])
        assert {each.n_solves for each in classifier.report_.passes} == {expected}


# -- 14: keep_best ------------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 10**6),
    activation=st.sampled_from(["sigmoid", "tanh", "softplus", "elu", "leaky_relu", "softmax"]),
    rule=st.sampled_from(RULES),
    refit=st.booleans(),
    passes=st.integers(1, 3),
)
@settings(max_examples=60, deadline=None)
def test_a14_14_keep_best_is_never_worse_than_random_hidden_layers(
    seed: int, activation: str, rule: str, refit: bool, passes: int
) -> None:
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((25, 2)), rng.standard_normal((25, 2))
    model = BPLSRegressor(
        (5,),
        activation=activation,
        hidden_target=rule,
        refit=refit,
        passes=passes,
        references=True,
        random_state=seed,
    ).fit(X, Y)
    loss = np.mean((model.predict(X) - Y) ** 2)
    assert loss <= model.report_.references["random hidden layers"].loss * (1 + 1e-9)
    assert loss == pytest.approx(min(model.history_.loss), rel=1e-9)


def test_pass_is_that_of_the_pseudocode() -> None:
    """Algorithm A-2's PASS2, written out from the specification."""
    rng = np.random.default_rng(4)
    X, Y = rng.random((40, 3)), np.eye(3)[rng.integers(0, 3, 40)]
    model = BPLSClassifier((6, 4), tau_max=0, ridge=1e-2, random_state=1)
    model.fit(X, Y.argmax(axis=1))
    draw = np.random.default_rng(1)
    W0 = [draw.uniform(-1, 1, shape) for shape in ((4, 6), (6, 4), (4, 3))]
    H = [np.column_stack([X, np.ones(40)])]
    for W in W0[:2]:
        H.append(1 / (1 + np.exp(-H[-1] @ W)))
    solve = lambda A, B: np.linalg.solve(A.T @ A + 1e-2 * len(A) * np.eye(A.shape[1]), A.T @ B)  # noqa: E731
    T = np.log(np.clip(Y, 1e-3, None))
    T -= T.mean(axis=1, keepdims=True)
    expected = []
    for number in (2, 1, 0):
        W = solve(H[number], T)
        if number > 0:
            E = T - H[number] @ W
            omega = min(1.0, T.shape[1] / H[number].shape[1])
            N = H[number] + omega * E @ W.T / np.sum(W * W, axis=1)
            W = solve(N, T)
            P = np.clip(N, 1e-2, 1 - 1e-2)
            T = np.log(P / (1 - P))
        expected.insert(0, W)
    for W, other in zip(model.network_.weights, expected, strict=True):
        np.testing.assert_allclose(W, other, rtol=1e-8, atol=1e-10)
