"""Bits counted by hand, roundings beside scikit-learn."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import qsdp
from benchmarks.methods import bits, rounding
from qsdp.encoding import AdditiveBlocks, TableEncoder

# -- bits ------------------------------------------------------------------------------------------------


def test_bits_of_encodings_and_linear_models() -> None:
    X = np.column_stack([np.arange(20.0), np.arange(20.0) % 2])
    encoding = TableEncoder(encoding="both", n_thresholds=3).fit(X).encoding_
    assert [one.kind for one in encoding.expressions] == ["value", "above", "above", "above", "value"]
    assert [bits.encoding_bits(encoding, places) for places in (bits.FLOAT, bits.LINEAR, bits.QUADRATIC)] == [
        3 * 16, 5 * 16, 7 * 16,
    ]  # fmt: skip
    assert bits.linear_bits(np.zeros((1, 30))) == 31 * 32
    assert bits.form_bits(np.zeros((1, 31**2)), 31) == 31 * 32 // 2 * 32


@pytest.mark.parametrize("precision", [2, 4, 8])
@pytest.mark.parametrize("half", [0.0, 0.5])
def test_bits_of_rounded_weights(precision: int, half: float) -> None:
    """Equally frequent weights take the bits they were rounded to, rare large ones a code."""
    rng = np.random.default_rng(0)
    low = 2 ** (precision - 1)
    even = 0.3 * (rng.integers(-low + (half == 0.0), low, (4, 496)) + half)
    assert bits.linear_bits(even, precision) == 4 * (496 * precision + 2 * 32)
    rare = np.where(rng.random((4, 496)) < 0.95, np.clip(np.abs(even), 0.0, 0.3 * half) * np.sign(even), even)
    row = rare[:1]
    numbers = np.floor(row[0] / 0.3 + 1e-6).astype(int)
    folded = np.where(numbers < 0, -2 * numbers - 1, 2 * numbers)
    best = min(496 * (1 + k) + int((folded >> k).sum()) for k in range(9))
    assert bits.weights_bits(row[0], precision) == min(496 * precision, best + 8)
    matrix = np.zeros((31, 31))
    matrix[np.triu_indices(31)] = row[0]
    assert bits.form_bits((matrix + np.triu(matrix, 1).T).reshape(1, -1), 31, precision) == (
        bits.weights_bits(row[0], precision) + 64
    )


@pytest.mark.parametrize("lifted", [False, True])
def test_bits_of_networks(lifted: bool) -> None:
    """Neither the order nor redundant signs of neurons count, whichever description is the smallest."""
    rng = np.random.default_rng(0)
    size = 6 + lifted
    for m in (5, 40, 400):
        U, V = rng.choice(np.array([-1, 1], dtype=np.int8), (2, m, size))
        network = qsdp.BilinearNetwork(U, V, np.full(m, 0.3), activation=(0.1, 0.5, 0.4) if lifted else None)
        order = rng.permutation(m)
        sign = rng.choice(np.array([-1, 1], dtype=np.int8), (m, 1))
        swapped = rng.random((m, 1)) < 0.5
        same = qsdp.BilinearNetwork(
            (np.where(swapped, V, U) * sign)[order],
            (np.where(swapped, U, V) * sign)[order],
            np.full(m, 0.3),
            activation=network.activation,
        )
        assert bits.network_bits(same) == bits.network_bits(network)
        # The vectors of pairs, each as one of 2^(size - 1), in a triangle, and the sign of the product.
        digits = [[int("".join("01"[int(a != w[0])] for a in w), 2) for w in side] for side in (U, V)]
        pairs = [(max(p), min(p)) for p in zip(*digits, strict=True)]
        numbers = sorted(2 * (b * (b + 1) // 2 + a) + (u[0] != v[0]) for (b, a), u, v in zip(pairs, U, V, strict=True))
        gaps = np.diff(numbers, prepend=0)
        as_set = min(m * (1 + k) + int((gaps >> k).sum()) for k in range(20)) + 8 + 32
        ((T,),) = network.to_integer_form().matrices
        entries = np.concatenate([np.diag(T), T[np.triu_indices(size, 1)]]) // 2
        folded = np.where(entries < 0, -2 * entries - 1, 2 * entries)
        as_form = min(len(folded) * (1 + k) + int((folded >> k).sum()) for k in range(20)) + 8 + 32
        assert bits.network_bits(network) == min(network.n_bits, as_set, as_form)
    free = qsdp.BilinearNetwork(np.ones((9, 2)), np.ones((9, 2)), np.arange(9.0))
    assert bits.network_bits(free) == 3 * 32


@pytest.mark.parametrize(("products", "n_neurons", "places"), [("inputs", 1, 5), ("all", 1, 7), ("inputs", 0, 2)])
def test_bits_of_additive_models(products: str, n_neurons: int, places: int) -> None:
    """Two numbers and three thresholds, of which the second number and one threshold have a weight."""
    X = np.column_stack([np.arange(20.0), np.arange(20.0) % 2])
    encoder = AdditiveBlocks(3, products=products).fit(X)
    assert [one.kind for one in encoder.inputs_.expressions_] == ["value", "above", "above", "above", "value"]
    weights = np.array([0.0, 0.5, 0.0, 0.0, 0.25, 0.125])
    side = encoder.layout_.sizes[0]
    U = np.ones((n_neurons, side))
    layout = encoder.layout_
    network = qsdp.BilinearNetwork(
        U, U, np.full(n_neurons, 0.1), np.zeros(n_neurons, dtype=int), layout.all_sizes, layout.kinds, weights=weights
    )
    model = SimpleNamespace(network_=network, encoder_=encoder)
    # Means and deviations of numbers in neurons, deviations of those with only a weight, and thresholds in use.
    assert bits.places_bits(model) == 16 * places
    assert bits.model_bits(model) == network.n_bits + 16 * places


def test_bits_of_trees() -> None:
    X = np.random.default_rng(0).standard_normal((200, 5))
    y = (X[:, 0] > 0).astype(int) + 2 * (X[:, 1] * X[:, 2] > 0)
    # A split: a bit, one of 5 columns, a threshold; a leaf: a bit, one of 4 classes.
    stump = DecisionTreeClassifier(max_leaf_nodes=2).fit(X, y)
    assert bits.tree_bits(stump) == (1 + 3 + 16) + 2 * (1 + 2)
    model = HistGradientBoostingClassifier(max_iter=7, max_leaf_nodes=5).fit(X, y)
    nodes = [tree.nodes for stage in model._predictors for tree in stage]
    leaves = sum(int(own["is_leaf"].sum()) for own in nodes)
    splits = sum(len(own) for own in nodes) - leaves
    assert len(nodes) == 28
    assert bits.boosting_bits(model) == 4 * 32 + 20 * splits + 33 * leaves


# -- rounding --------------------------------------------------------------------------------------------


def test_scales_and_constants_are_those_of_least_squares() -> None:
    rng = np.random.default_rng(0)
    scores, targets = rng.standard_normal((50, 2)) + 3.0, rng.standard_normal((50, 2))
    loss, scale, constant = rounding.fit_squares(targets)(scores)
    residuals = 0.0
    for k in range(2):
        A = np.column_stack([scores[:, k], np.ones(50)])
        (slope, shift), (residual,), _, _ = np.linalg.lstsq(A, targets[:, k])
        assert (scale[k], constant[k]) == pytest.approx((slope, shift))
        residuals += residual
    assert loss == pytest.approx(residuals)


def test_scales_and_constants_are_those_of_logistic_regression() -> None:
    rng = np.random.default_rng(0)
    X = 5.0 * rng.standard_normal((300, 1)) + 2.0
    y = (X[:, 0] + 5.0 * rng.logistic(size=300) > 1.0).astype(int)
    _, scale, constant = rounding.fit_logistic(y)(X)
    theirs = LogisticRegression(C=np.inf, tol=1e-8).fit(X, y)
    assert scale == pytest.approx(theirs.coef_[0], rel=1e-3)
    assert constant == pytest.approx(theirs.intercept_, rel=1e-3)
    # Several outputs: no worse than the scores as they are, which the fit may leave so.
    codes = rng.integers(3, size=300)
    logits = rng.standard_normal((300, 3)) + 2.0 * np.eye(3)[codes]
    shifted = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    assert rounding.fit_logistic(codes)(logits)[0] <= -shifted[np.arange(300), codes].mean()
