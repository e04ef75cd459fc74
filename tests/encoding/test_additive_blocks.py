"""Tables as weights and products: rows by their definition, the same function as a quadratic form, and states."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import qsdp
from qsdp.encoding import AdditiveBlocks
from qsdp.exceptions import InvalidInputError, StorageError


def mixed(n: int = 120, seed: int = 0) -> pd.DataFrame:
    """Return a table of three numbers (one with holes, one of two values) and a category."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"age": rng.standard_normal(n), "dose": rng.exponential(size=n), "sex": rng.integers(0, 2, n)})
    table.loc[::7, "dose"] = np.nan
    table["city"] = pd.Categorical(rng.choice(["Oslo", "Paris", "Rome"], n))
    return table


def as_defined(encoder: AdditiveBlocks, X: Any) -> np.ndarray:
    """Inputs by their names, a one, and the products of members, minus the means of all."""
    inputs = dict(zip(encoder.inputs_.get_feature_names_out(), encoder.inputs_.transform(X).T, strict=True))
    members = [values for name, values in inputs.items() if encoder.products == "all" or ">" not in name]
    ones = [np.ones(len(X))] if encoder.intercept == "column" else []
    products = [members[i] * members[j] for i in range(len(members)) for j in range(i, len(members))]
    return np.column_stack([*inputs.values(), *ones, *products]) - encoder.means_


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", ["column", "means"])
@pytest.mark.parametrize(("count", "products"), [(0, "inputs"), (3, "inputs"), (3, "all")])
def test_rows_are_inputs_and_products(count: int, products: str, intercept: str, weighted: bool) -> None:
    X, weights = mixed(), None
    if weighted:
        weights = np.random.default_rng(1).integers(1, 4, len(X)).astype(float)
    encoder = AdditiveBlocks(count, products=products, intercept=intercept)
    blocks = encoder.fit_transform(X, sample_weight=weights)
    np.testing.assert_allclose(blocks.rows, as_defined(encoder, X), rtol=1e-13, atol=1e-13)
    assert blocks.kinds == ("weights", "quadratic")
    new = mixed(40, seed=2)
    np.testing.assert_allclose(encoder.transform(new).rows, as_defined(encoder, new), rtol=1e-13, atol=1e-13)
    inputs, names = encoder.inputs_.transform(X), encoder.inputs_.get_feature_names_out()
    above = np.array([">" in name for name in names])
    assert set(np.unique(inputs[:, above]).tolist()) == ({-1.0, 1.0} if count else set())
    means = np.average(inputs[:, ~above], axis=0, weights=weights)
    np.testing.assert_allclose(means, 0.0, atol=1e-12)
    np.testing.assert_allclose(np.average(inputs[:, ~above] ** 2, axis=0, weights=weights), 1.0, rtol=1e-12)
    if intercept == "means":
        np.testing.assert_allclose(np.average(blocks.rows, axis=0, weights=weights), 0.0, atol=1e-12)


def test_prices_count_bits() -> None:
    encoder = AdditiveBlocks(2).fit(mixed()[["age", "city"]])
    # One number, three categories, two thresholds, and a one; neurons have four inputs.
    assert [one.kind for one in encoder.inputs_.expressions_] == ["value", "above", "above", *["equals"] * 3]
    assert encoder.layout_.all_omega == ((1.0, 3.0, 3.0, 1.0, 1.0, 1.0, 1.0), 2.0)
    assert encoder.layout_.all_sizes == (7, 4)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    products=st.sampled_from(["inputs", "all", (0, 2, 3), [1]]),
    intercept=st.sampled_from(["column", "means"]),
    outputs=st.sampled_from([None, 1, 3]),
    m=st.integers(0, 8),
)
def test_networks_are_quadratic_forms_of_the_inputs(
    seed: int, products: Any, intercept: str, outputs: int | None, m: int
) -> None:
    rng = np.random.default_rng(seed)
    X = mixed(30, seed)
    encoder = AdditiveBlocks(int(rng.integers(0, 5)), products=products, intercept=intercept)
    blocks = encoder.fit_transform(X)
    layout, shape = encoder.layout_, () if outputs is None else (outputs,)
    U, V = (rng.choice([-1, 1], size=(m, layout.side)) for _ in range(2))
    weights = rng.standard_normal((layout.n_weights, *shape))
    network = qsdp.BilinearNetwork(
        U, V, rng.standard_normal((m, *shape)), sizes=blocks.sizes, kinds=blocks.kinds, weights=weights
    )
    expected = network.predict(blocks)
    assert expected.shape == (30, *shape)
    np.testing.assert_allclose(encoder.predict(network, X), expected, rtol=1e-10, atol=1e-10)
    form = encoder.quadratic_form(network)
    np.testing.assert_allclose(form.predict(encoder.inputs_.transform(X)), expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(encoder.inputs_of(blocks), encoder.inputs_.transform(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("products", ["inputs", "all", [0, 2]])
def test_states_restore_equal_encoders(products: Any) -> None:
    X = mixed()
    encoder = AdditiveBlocks(3, products=products, intercept="means")
    rows = encoder.fit_transform(X).rows
    other = clone(encoder)
    other.restore(encoder.to_state())
    assert np.array_equal(other.transform(X).rows, rows)
    state = {**encoder.to_state(), "parameters": encoder.get_params()}
    assert np.array_equal(AdditiveBlocks.of_state(state).transform(X).rows, rows)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("means", [0.0]),
        ("means", None),
        ("encoding", {}),
        ("named", 1),
        ("dropped", [1]),
        ("parameters", None),
        ("parameters", {"n_thresholds": -1}),
        ("parameters", {"products": [1, 0]}),
        ("parameters", {"products": [0, 1000]}),
    ],
)
def test_wrong_states_are_refused(name: str, value: Any) -> None:
    encoder = AdditiveBlocks(3).fit(mixed())
    state = {**encoder.to_state(), "parameters": encoder.get_params(), name: value}
    with pytest.raises(StorageError):
        AdditiveBlocks.of_state(state)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_thresholds": -1}, "n_thresholds must be an integer >= 0; got -1"),
        ({"products": "some"}, "products must be one of 'all', 'inputs'; got 'some'"),
        ({"products": []}, "products must be 'inputs', 'all' or ascending positions of inputs, at least one; got []"),
        ({"products": [1, 1]}, "products must be 'inputs', 'all' or ascending positions"),
        ({"products": (0, 99)}, "products must be positions of inputs, below"),
        ({"intercept": "none"}, "intercept must be one of 'column', 'means'; got 'none'"),
    ],
)
def test_wrong_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        AdditiveBlocks(**parameters).fit(mixed())
