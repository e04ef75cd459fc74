"""Main effects and interactions: exact, what the functional analysis of variance says, whatever the encoding."""

import itertools

import numpy as np
import pytest
from random_networks import random_network

from qsdp import Effects, QuadraticForm, QuantizedNetworkRegressor
from qsdp.exceptions import InvalidInputError, InvalidTypeError


def random_form(rng, d, C=None):
    outputs = () if C is None else (C,)
    return QuadraticForm(rng.normal(size=(*outputs, d, d)), rng.normal(size=(*outputs, d)), rng.normal(size=outputs))


def sizes_in_order(effects):
    upper = np.triu_indices(len(effects.columns), 1)
    return np.concatenate([effects.main, effects.interactions[..., upper[0], upper[1]]], axis=-1)


GROUPS = [None, [0, 0, 2, 1, 2, 0], [5, 4, 3, 2, 1, 0], [0, 0, 0, 0, 0, 0], [1, 1, 7, 7, 4, 4]]


@pytest.mark.parametrize("groups", GROUPS, ids=str)
@pytest.mark.parametrize("C", [None, 1, 3])
def test_constant_and_contributions_are_the_function(groups, C):
    rng = np.random.default_rng(0)
    form, X, other = random_form(rng, 6, C), rng.normal(3.0, 2.0, size=(40, 6)), rng.normal(size=(7, 6))
    effects = Effects.from_network(form, X, groups=groups)
    for data in (X, other):
        values = form.predict(data)
        total = effects.constant + effects.contributions(data).sum(axis=-1)
        np.testing.assert_allclose(total, values, rtol=0, atol=1e-12 * np.abs(values).max())
    found = effects.contributions(X)
    assert found.shape == ((40,) if C is None else (40, C)) + (len(effects.terms),)
    for k in range(C or 1):
        own = found if C is None else found[:, k]
        np.testing.assert_allclose(sizes_in_order(effects.output(k)), own.std(axis=0), rtol=1e-10, atol=1e-12)
        assert np.abs(own[:, : len(effects.columns)].mean(axis=0)).max() < 1e-12


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9])
def test_rounding_errors_are_no_effects(scale):
    X = np.random.default_rng(0).normal(size=(50, 3)) + 0.1
    X -= X.mean(axis=0)
    assert np.any(X.mean(axis=0) != 0.0)
    S = np.zeros((2, 3, 3))
    S[0, 0, 1] = S[0, 1, 0] = scale
    # The other output has a small effect, which is none of rounding.
    form = QuadraticForm(S, scale * np.array([[0.0, 0.0, 1.0], [1.0, 1e-9, 0.0]]), np.zeros(2))
    effects = Effects.from_network(form, X)
    sizes = scale * X.std(axis=0)
    np.testing.assert_allclose(effects.main, [[0.0, 0.0, sizes[2]], [sizes[0], 1e-9 * sizes[1], 0.0]], rtol=1e-9)
    np.testing.assert_array_equal(effects.interactions != 0.0, S != 0.0)
    assert not effects.constant.any()


@pytest.mark.parametrize("activation", [None, (1.0, 0.0, 0.0), (1.0, 2.0, 3.0)], ids=str)
def test_networks(activation):
    rng = np.random.default_rng(1)
    network, X = random_network(rng, 9, 5, activation), rng.normal(size=(30, 5))
    values = network.predict(X)
    for one in (network, network.to_quadratic_form()):
        effects = Effects.from_network(one, X)
        total = effects.constant + effects.contributions(X).sum(axis=1)
        np.testing.assert_allclose(total, values, rtol=0, atol=1e-12 * np.abs(values).max())


def functional_anova(form, columns, weights):
    """Return the terms over the grid of independent columns by conditional means: constant, main, pairs."""
    grid = form.predict(list(itertools.product(*columns))).reshape([len(column) for column in columns])
    d = grid.ndim

    def mean_given(kept):
        result = grid
        for axis in reversed(range(d)):
            if axis not in kept:
                result = np.tensordot(result, weights[axis], axes=([axis], [0]))
        return result

    constant = mean_given(())
    main = [mean_given((j,)) - constant for j in range(d)]
    pairs = {
        (j, k): mean_given((j, k)) - constant - main[j][:, None] - main[k][None, :]
        for j, k in itertools.combinations(range(d), 2)
    }
    return constant, main, pairs


def test_it_is_the_functional_analysis_of_variance_of_independent_columns():
    """On the columns' own distributions made independent, by brute force over all combinations of their values."""
    rng = np.random.default_rng(2)
    form, X = random_form(rng, 3), rng.normal(1.0, 2.0, size=(6, 3))
    weights = rng.uniform(0.5, 2.0, size=6)
    shares = weights / weights.sum()
    effects = Effects.from_network(form, X, sample_weight=weights)
    constant, main, pairs = functional_anova(form, X.T, [shares] * 3)
    found = effects.contributions(X)
    assert effects.constant == pytest.approx(constant, rel=1e-12)
    np.testing.assert_allclose(found[:, :3], np.transpose(main), rtol=0, atol=1e-11)
    for place, (j, k) in enumerate(itertools.combinations(range(3), 2)):
        np.testing.assert_allclose(found[:, 3 + place], np.diagonal(pairs[j, k]), rtol=0, atol=1e-11)


def test_variances_add_up_where_columns_are_independent():
    rng = np.random.default_rng(3)
    form = random_form(rng, 3)
    X = np.array(list(itertools.product([0.0, 1.0, 5.0], [-1.0, 2.0], [0.0, 0.5, 3.0, 4.0])))
    effects = Effects.from_network(form, X)
    assert sum(one.size**2 for one in effects.table()) == pytest.approx(form.predict(X).var(), rel=1e-12)


def test_inputs_of_a_column_count_as_the_column_whatever_the_encoding():
    """One function of two categories and a number, from three encodings: the same effects."""
    rng = np.random.default_rng(4)
    codes, number = rng.integers(0, [2, 3], size=(50, 2)), rng.normal(size=50)
    one_hot = np.column_stack([codes[:, 0], *(codes[:, 1] == k for k in range(3)), number]).astype(float)
    form = random_form(rng, 5)
    # Other inputs t, of which the one-hot ones are t A + b: each column's own are an affine map of each other.
    A = np.diag([0.5, 1.0, 1.0, 1.0, 4.0])
    A[1:4, 1:4] = np.triu(rng.normal(size=(3, 3))) + 2.0 * np.eye(3)
    b = np.array([0.5, 0.1, -1.0, 0.3, 7.0])
    other = QuadraticForm(A @ form.S @ A.T, A @ (form.s + 2.0 * form.S @ b), form.s0 + form.s @ b + b @ form.S @ b)
    t = (one_hot - b) @ np.linalg.inv(A)
    np.testing.assert_allclose(other.predict(t), form.predict(one_hot), rtol=1e-10)
    groups = [0, 1, 1, 1, 2]
    first, second = (Effects.from_network(f, x, groups=groups) for f, x in ((form, one_hot), (other, t)))
    np.testing.assert_allclose(second.contributions(t), first.contributions(one_hot), rtol=0, atol=1e-10)
    np.testing.assert_allclose(second.main, first.main, rtol=1e-10)
    np.testing.assert_allclose(second.interactions, first.interactions, rtol=1e-10, atol=1e-12)
    order = [4, 1, 0, 3, 2]
    mixed = QuadraticForm(form.S[np.ix_(order, order)], form.s[order], form.s0)
    shuffled = Effects.from_network(mixed, one_hot[:, order], groups=np.array(groups)[order])
    np.testing.assert_allclose(shuffled.interactions, first.interactions, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("groups", GROUPS[:2], ids=["columns", "groups"])
def test_a_weight_is_as_many_equal_rows(groups):
    rng = np.random.default_rng(5)
    form, X, weights = random_form(rng, 6, 2), rng.normal(size=(20, 6)), rng.integers(0, 4, size=20)
    weighted = Effects.from_network(form, X, sample_weight=weights, groups=groups)
    repeated = Effects.from_network(form, np.repeat(X, weights, axis=0), groups=groups)
    for name in ("constant", "main", "interactions"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-10, atol=1e-12)


def test_table_and_importances():
    rng = np.random.default_rng(6)
    form, X = random_form(rng, 4, 2), rng.normal(size=(30, 4))
    effects = Effects.from_network(form, X, columns=list("abcd"), outputs=["low", "high"])
    squares = np.zeros(4)
    for k in range(2):
        table = effects.table(k)
        assert sorted(one.columns for one in table) == sorted(effects.terms)
        assert [one.size for one in table] == sorted((one.size for one in table), reverse=True)
        assert sum(one.fraction for one in table) == pytest.approx(1.0)
        for one in table:
            for name in one.columns:
                squares["abcd".index(name)] += one.size**2 / len(one.columns)
    np.testing.assert_allclose(effects.importances, squares / squares.sum(), rtol=1e-12)
    assert effects.output(1).table() == effects.table(1)
    assert np.array_equal(effects.output(1).contributions(X), effects.contributions(X)[:, 1])
    assert effects.output(1).outputs == ("high",)
    assert effects.table("high") == effects.table(1)
    assert Effects.from_network(form, X).outputs == ("output 0", "output 1")
    with pytest.raises(InvalidInputError, match="output must be its number, from 0, or one of 'low', 'high'; got 'lo'"):
        effects.output("lo")
    assert effects.table(0)[0].name == " * ".join(effects.table(0)[0].columns)


@pytest.mark.parametrize("groups", [None, [0, 0, 2]])
def test_what_does_not_vary_has_no_effect(groups):
    X = np.random.default_rng(7).normal(size=(10, 3))
    X[:, 2] = 0.1
    form = QuadraticForm(np.eye(3) + 1.0, [1.0, 2.0, 3.0], 5.0)
    effects = Effects.from_network(form, X, groups=groups)
    assert effects.main[-1] == effects.interactions[-1].max() == effects.importances[-1] == 0.0
    for nothing in (
        Effects.from_network(QuadraticForm(np.zeros((3, 3)), s0=2.0), X, groups=groups),
        Effects.from_network(form, X[:1]),
    ):
        assert np.array_equal(nothing.importances, np.zeros(3))
        assert {one.fraction for one in nothing.table()} == {0.0}


@pytest.mark.parametrize("unit", [1e-60, 1e60])
def test_units_of_columns_do_not_matter(unit):
    rng = np.random.default_rng(10)
    form, X = random_form(rng, 3), rng.normal(size=(20, 3))
    units = np.array([unit, 1.0, 1.0])
    scaled = Effects.from_network(form.composed(1.0 / units, np.zeros(3)), X * units)
    plain = Effects.from_network(form, X)
    np.testing.assert_allclose(scaled.main, plain.main, rtol=1e-10)
    np.testing.assert_allclose(scaled.interactions, plain.interactions, rtol=1e-10, atol=1e-14)


def test_composed_rescaled_and_with_last():
    rng = np.random.default_rng(12)
    for C in (None, 3):
        form, X, scale, shift = random_form(rng, 4, C), rng.normal(size=(9, 4)), rng.normal(size=4), rng.normal(size=4)
        factor = rng.normal(size=() if C is None else C)
        np.testing.assert_allclose(form.composed(scale, shift).predict(X), form.predict(scale * X + shift), rtol=1e-9)
        np.testing.assert_allclose(form.rescaled(2.0 * factor, factor).predict(X), factor * (form.predict(X) + 2.0))
        X[:, -1] = 0.7
        np.testing.assert_allclose(form.with_last(0.7).predict(X[:, :-1]), form.predict(X), rtol=1e-10)


FORM = QuadraticForm(np.eye(2))
X2 = [[0.0, 1.0], [1.0, 3.0]]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: Effects.from_network(np.eye(2), X2),
            InvalidTypeError,
            "network must have to_quadratic_form; got ndarray",
        ),
        (
            lambda: Effects.from_network(QuantizedNetworkRegressor(), X2),
            InvalidTypeError,
            r"got .*; call its effects\(X\)",
        ),
        (lambda: Effects.from_network(FORM, [[1.0]]), InvalidInputError, "X must have 2 columns"),
        (lambda: Effects.from_network(FORM, [[1.0, np.nan]]), InvalidInputError, "X"),
        (
            lambda: Effects.from_network(FORM, X2, sample_weight=[1.0]),
            InvalidInputError,
            "sample_weight must have shape",
        ),
        (lambda: Effects.from_network(FORM, X2, columns=["a"]), InvalidInputError, "columns must be 2 names"),
        (lambda: Effects.from_network(FORM, X2, columns="ab"), InvalidTypeError, "columns must be names in a sequence"),
        (lambda: Effects.from_network(FORM, X2, groups=["a", "b"]), InvalidTypeError, "groups must be integers"),
        (lambda: Effects.from_network(FORM, X2, groups=[0]), InvalidInputError, "groups must be 2 numbers"),
        (lambda: Effects.from_network(FORM, X2, groups=[0, -1]), InvalidInputError, "groups must be 2 numbers"),
        (
            lambda: Effects.from_network(FORM, X2, groups=[0, 2], columns=["a", "b"]),
            InvalidInputError,
            "of the 2 columns",
        ),
        (lambda: Effects.from_network(FORM, X2, outputs=["a", "b"]), InvalidInputError, "outputs must be 1 names"),
        (lambda: Effects.from_network(FORM, X2).table(1), InvalidInputError, "output must be an integer from 0 to 0"),
        (lambda: Effects.from_network(FORM, X2).contributions([[1.0]]), InvalidInputError, "X must have 2 columns"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
