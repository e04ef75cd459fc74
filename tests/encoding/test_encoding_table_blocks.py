"""Tables as blocks: rows by their definition, the same function as a quadratic form, files, and proofs."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import qsdp
from qsdp.encoding import TableBlocks
from qsdp.exceptions import ExportError, InvalidInputError, InvalidTypeError, StorageError


def mixed(n: int = 120, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table of three numbers (one with holes, one of two values) and a category, and two classes."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"age": rng.standard_normal(n), "dose": rng.exponential(size=n), "sex": rng.integers(0, 2, n)})
    table.loc[::7, "dose"] = np.nan
    table["city"] = pd.Categorical(rng.choice(["Oslo", "Paris", "Rome"], n))
    score = table["age"] * (table["city"] == "Rome") + np.floor(table["dose"].fillna(1.0)) - 1.0
    return table, np.where(score + 0.1 * rng.standard_normal(n) > 0.0, "yes", "no")


def as_defined(encoder: TableBlocks, X: Any) -> np.ndarray:
    """Packed rows from the names of inputs: products of all members and a one, or signs, block by block."""
    inputs = dict(zip(encoder.inputs_.get_feature_names_out(), encoder.inputs_.transform(X).T, strict=True))
    signed = {name: 2.0 * values - 1.0 if ">" in name else values for name, values in inputs.items()}
    columns = list(X.columns)
    thresholds = {c: [name for name in inputs if name.startswith(f"{c} >")] for c in columns}
    one = np.ones(len(X))
    if encoder.products == "numbers":
        quadratic = [[signed[name] for name in inputs if ">" not in name]]
    else:
        parts = {}
        for c in columns:
            k = len(thresholds[c])
            ranks = range(k) if k <= 6 else [round(j * (k - 1) / 7) for j in range(1, 7)]
            first = [thresholds[c][r] for r in ranks] or [name for name in inputs if name == c]
            other = [name for name in inputs if name.startswith((f"{c} ==", f"{c} is"))]
            parts[c] = [signed[name] for name in first + other]
        quadratic = [parts[a] + parts[b] for a, b in itertools.combinations(columns, 2)]
    packed = [a * b for part in quadratic for a, b in itertools.combinations_with_replacement([*part, one], 2)]
    packed += [signed[name] for c in columns if len(thresholds[c]) > 1 for name in thresholds[c]]
    return np.column_stack(packed)


@pytest.mark.parametrize("products", ["numbers", "pairs"])
def test_rows_are_products_and_signs(products: str) -> None:
    X, _ = mixed()
    encoder = TableBlocks(10, products=products)
    blocks = encoder.fit_transform(X)
    np.testing.assert_allclose(blocks.rows, as_defined(encoder, X), rtol=1e-14, atol=1e-14)
    new, _ = mixed(40, seed=1)
    np.testing.assert_allclose(encoder.transform(new).rows, as_defined(encoder, new), rtol=1e-14, atol=1e-14)
    kinds = blocks.kinds
    # Two of the numbers have staircases; a column of two values is one by itself.
    assert kinds.count("linear") == 2
    assert blocks.sizes[-2:] == (10, 10)
    assert kinds.count("quadratic") == (1 if products == "numbers" else 6)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    products=st.sampled_from(["numbers", "pairs"]),
    outputs=st.sampled_from([None, 1, 3]),
    m=st.integers(1, 12),
)
def test_networks_are_quadratic_forms_of_the_inputs(seed: int, products: str, outputs: int | None, m: int) -> None:
    rng = np.random.default_rng(seed)
    X, _ = mixed(30, seed)
    encoder = TableBlocks(int(rng.integers(1, 9)), products=products).fit(X)
    layout = encoder.layout_
    block = rng.integers(0, layout.n_blocks, m)
    U, V = rng.choice([-1, 1], size=(2, m, layout.side)).astype(np.int8)
    used = layout.used[block]
    linear = np.array(layout.linear)[block, None]
    alpha = rng.standard_normal(m if outputs is None else (m, outputs))
    network = qsdp.BilinearNetwork(U * used, V * used * ~linear, alpha, block, layout.sizes, layout.kinds)
    expected = network.predict(encoder.transform(X))
    form = encoder.quadratic_form(network)
    np.testing.assert_allclose(form.predict(encoder.inputs_.transform(X)), expected, atol=1e-10)
    np.testing.assert_allclose(encoder.predict(network, X), expected, atol=1e-12)
    seen = {k for r in set(block.tolist()) for k in encoder.members_[r].tolist()}
    assert encoder.threshold_bits(network) == 16 * sum(encoder.inputs_.expressions_[k].kind == "above" for k in seen)


@pytest.mark.parametrize("products", ["numbers", "pairs"])
def test_estimators_prove_explain_and_store_them(products: str, tmp_path: Path) -> None:
    X, y = mixed(200)
    encoding = TableBlocks(6, products=products, handle_unknown="ignore")
    model = qsdp.QuantizedNetworkClassifier(encoding=encoding, refine="exact", random_state=0).fit(X, y)
    problem = model.training_problem(X, y)
    certificate = qsdp.certify(model.network_, problem, model.result_.relaxation, bound_type="exact")
    assert certificate.relative_gap < 1e-6
    assert model.score(X, y) > 0.85
    assert model.feature_names_in_.tolist() == list(X.columns)
    effects = model.effects(X)
    total = effects.contributions(model.encoder_.samples(X)).sum(axis=1) + effects.constant
    np.testing.assert_allclose(total, model.decision_function(X), atol=1e-9)
    assert "age" in model.to_expression()
    model.save(tmp_path / "model.qsdp")
    loaded = qsdp.load(tmp_path / "model.qsdp")
    new, _ = mixed(50, seed=3)
    new["city"] = new["city"].astype(object)
    new.loc[0, "city"] = "Lima"
    np.testing.assert_array_equal(loaded.predict_proba(new), model.predict_proba(new))
    with pytest.raises(ValueError, match="no column 'age'"):
        loaded.predict(new.rename(columns={"age": "years"}))


def test_arrays_and_regressors() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3))
    y = X[:, 0] * X[:, 1] + np.floor(2.0 * X[:, 2])
    model = qsdp.QuantizedNetworkRegressor(encoding=TableBlocks(), refine="exact", random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert not hasattr(model, "feature_names_in_")
    assert not hasattr(clone(model.encoder_), "layout_")
    assert model.predict(X.tolist()) == pytest.approx(model.predict(X), rel=1e-12)


def test_what_they_do_not_reach_is_refused(tmp_path: Path) -> None:
    X, y = mixed()
    model = qsdp.QuantizedNetworkClassifier(encoding=TableBlocks(3), n_neurons=8, random_state=0).fit(X, y)
    for export in (qsdp.export.to_c, qsdp.export.to_onnx, qsdp.export.to_verilog, qsdp.export.to_js):
        with pytest.raises(ExportError, match="tables in blocks cannot be exported"):
            export(model)
    with pytest.raises(InvalidInputError, match="effects of a network on blocks of a table need X"):
        model.effects()
    with pytest.raises(AttributeError, match=r"use effects\(X\).importances"):
        _ = model.feature_importances_
    with pytest.raises(InvalidTypeError, match="encoder"):
        qsdp.plotting.FiltersDisplay.from_estimator(model)


@pytest.mark.parametrize(
    ("options", "X", "said"),
    [
        ({"n_thresholds": 0}, np.eye(3), "n_thresholds must be an integer >= 1"),
        ({"products": "all"}, np.eye(3), "products must be"),
        ({"products": "pairs"}, np.random.default_rng(0).standard_normal((20, 13)), "got 'pairs' for 13"),
        ({}, np.zeros((0, 2)), "0 sample"),
    ],
)
def test_bad_input_is_one_clear_error(options: dict[str, Any], X: np.ndarray, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        TableBlocks(**options).fit(X)


def test_damaged_states_are_refused() -> None:
    X, _ = mixed()
    encoder = TableBlocks(3).fit(X)
    state = encoder.to_state()
    restored = TableBlocks(3)
    restored.restore(state)
    np.testing.assert_array_equal(restored.transform(X).rows, encoder.transform(X).rows)
    for broken in (None, {}, {**state, "named": 1}, {**state, "encoding": {**state["encoding"], "expressions": []}}):
        with pytest.raises(StorageError):
            TableBlocks(3).restore(broken)
