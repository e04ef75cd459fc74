"""Exports of additive models: weights and neurons on the same inputs become one network of their columns."""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from c_flags import FLAGS
from javascript_engines import call, needs

import qsdp
from qsdp.encoding import AdditiveBlocks
from qsdp.exceptions import ExportError
from qsdp.export import describe, onnx_inputs, to_c, to_js, to_onnx

pytestmark = pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning")

needs_compiler = pytest.mark.skipif(not shutil.which("gcc"), reason="no C compiler is installed: apt-get install gcc")


def table(n: int = 200, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.standard_normal((n, 3)), columns=list("abc"))
    frame["city"] = pd.Categorical(rng.choice(["Oslo", "Paris", "Rome"], n))
    score = frame.a + 1.5 * (frame.b > 0.5) - 1.2 * frame.b * frame.c + 0.8 * (frame.city == "Rome")
    frame.loc[::9, "a"] = np.nan
    return frame, np.nan_to_num(score.to_numpy()) + 0.1 * rng.standard_normal(n)


ENCODINGS = {
    "additive": lambda: "additive",
    "thresholds": lambda: AdditiveBlocks(4, products="all"),
    "means": lambda: AdditiveBlocks(2, intercept="means"),
}


@cache
def model_of(kind: str, encoding: str = "additive") -> Any:
    """Return an estimator fitted to `table`, for all tests."""
    X, score = table()
    options: dict[str, Any] = {"encoding": ENCODINGS[encoding](), "beta": "2%", "random_state": 0}
    if kind == "number":
        return qsdp.QuantizedNetworkRegressor(**options).fit(X, score)
    y = np.where(score > 0.5, "yes", "no") if kind == "two" else np.digitize(score, [0.0, 1.5])
    return qsdp.QuantizedNetworkClassifier(**options).fit(X, y)


@pytest.mark.parametrize("kind", ["number", "two", "three"])
def test_the_network_alone_needs_its_estimator(kind: str) -> None:
    model = model_of(kind)
    for options in ({}, {"encoder": model.encoder_}):
        with pytest.raises(ExportError, match="pass the fitted estimator instead of its network_"):
            to_c(model.network_, **options)
    assert to_c(model).header


CASES = [
    ("number", "additive"),
    ("two", "additive"),
    ("three", "additive"),
    ("number", "thresholds"),
    ("number", "means"),
]


def scores_of(model: Any, X: Any) -> np.ndarray:
    found = model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)
    return np.asarray(found).reshape(len(X), -1)


@pytest.mark.parametrize(("kind", "encoding"), CASES)
def test_the_network_of_columns_is_the_same_function(kind: str, encoding: str) -> None:
    model, (new, _) = model_of(kind, encoding), table(seed=1)
    description = describe(model)
    assert set(np.unique(description.network.U)) <= {-2, 0, 2}
    scores = description.scores(description.columns(new))
    expected = scores_of(model, new)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


def check_code(model: Any, code: Any, X: Any) -> None:
    """Check compiled code against integers without a layout, the proven error, and the compiler's warnings."""
    outputs = code.model.outputs(code.model.columns(X))
    np.testing.assert_array_equal(code.compile().outputs(X), outputs)
    description = code.model.description
    exact = description.scores(description.columns(X))
    np.testing.assert_allclose(exact, scores_of(model, X), rtol=0, atol=1e-11 * np.abs(exact).max(initial=1.0))
    bound = code.rounding_error + 1e-9 * np.abs(exact).max(axis=0)
    assert np.all(np.abs(code.model.scores(outputs) - exact) <= bound)
    with tempfile.TemporaryDirectory() as folder:
        code.write(folder)
        subprocess.run(["gcc", *FLAGS, "-c", f"{code.name}.c"], cwd=folder, check=True)


def sizes_of_tables(code: Any) -> dict[str, int]:
    """Return the bytes of the tables of the source by name."""
    tables = re.findall(r"QSDP_TABLE u?int(\d+)_t (\w+)\[(\d+)\]", code.source)
    return {name: int(width) // 8 * int(entries) for width, name, entries in tables}


@needs_compiler
@pytest.mark.parametrize(
    ("kind", "encoding", "options"),
    [
        *((*case, {}) for case in CASES),
        *((*case, {"layout": "neurons"}) for case in CASES),
        ("three", "additive", {"layout": "form"}),
        ("two", "additive", {"layout": "neurons", "packed": False}),
        ("number", "thresholds", {"layout": "neurons", "packed": False}),
        ("number", "thresholds", {"layout": "neurons", "width": 32, "column_width": 16}),
        ("three", "additive", {"layout": "neurons", "width": 32}),
    ],
)
def test_compiled_integers_are_exact_and_within_the_bound(kind: str, encoding: str, options: dict[str, Any]) -> None:
    model, (new, _) = model_of(kind, encoding), table(seed=1)
    code = to_c(model, **options)
    check_code(model, code, new)
    if kind == "two":
        exact = scores_of(model, new)
        sure = np.abs(exact[:, 0]) > code.rounding_error
        np.testing.assert_array_equal(code.compile().predict(new)[sure], model.predict(new)[sure])


@pytest.mark.parametrize(("kind", "encoding"), CASES)
def test_neurons_take_a_bit_for_each_weight_and_weights_a_number(kind: str, encoding: str) -> None:
    model = model_of(kind, encoding)
    network, code = model.network_, to_c(model, layout="neurons")
    m, side, width = network.n_neurons, network.U.shape[1], model.encoder_.inputs_.encoding_.width
    sizes = sizes_of_tables(code)
    # A reader of bits may read a byte more.
    assert sizes["packed"] <= -(-2 * m * side // 8) + 1
    used = int(np.any(network.column_weights[:width], axis=1).sum())
    # Numbers of 16 bits, and positions of bytes; there may be an intercept.
    numbers = 2 * (m + used + 1) * network.n_outputs
    stored = sum(sizes.get(name, 0) for name in ("alpha", "operand", "weighted"))
    assert stored <= numbers + used + 1 + side
    assert sizes["packed"] + stored <= network.n_bits / 8 + 1 + numbers + used + 1 + side
    assert code.model.layout.size <= to_c(model, layout="form").model.layout.size or kind == "three"


@needs_compiler
@pytest.mark.parametrize(
    ("parts", "packed"), [({"neurons"}, True), ({"neurons"}, False), ({"weights"}, True), (set(), True)]
)
@pytest.mark.parametrize(("kind", "encoding"), [*(("number", one) for one in ENCODINGS), ("three", "additive")])
def test_parts_alone_are_exported(kind: str, parts: set[str], packed: bool, encoding: str) -> None:
    model, (new, _) = copy.copy(model_of(kind, encoding)), table(seed=1)
    network = model.network_
    m = network.n_neurons * ("neurons" in parts)
    weights = network.weights * ("weights" in parts)
    neurons = (part[:m] for part in (network.U, network.V, network.alpha))
    model.network_ = network.with_neurons(*neurons, slice(m), weights)
    code = to_c(model, layout="neurons", packed=packed)
    check_code(model, code, new)
    assert ("packed" in sizes_of_tables(code) or "weights" in sizes_of_tables(code)) == bool(m)
    assert "weights of inputs" in str(code.facts()) or not np.any(weights)


@needs_compiler
def test_products_of_all_inputs_are_counted_beyond_a_byte() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 100))
    # Any network will do: its weights and neurons are replaced.
    loose: dict[str, Any] = {"beta": "20%", "refine": "none", "solver": "splitting", "tol": 0.5, "random_state": 0}
    model = qsdp.QuantizedNetworkRegressor(encoding=AdditiveBlocks(0), **loose).fit(X, X[:, 0])
    weights, (U, V) = rng.standard_normal(model.network_.weights.shape), rng.choice([-1, 1], (2, 170, 100))
    weights[:20] = 0.0
    model.network_ = model.network_.with_neurons(U, V, rng.standard_normal(170), [0] * 170, weights)
    code = to_c(model, layout="neurons")
    check_code(model, code, X)
    assert sizes_of_tables(code).keys() >= {"packed", "alpha"}
    assert "weighted" not in sizes_of_tables(code)


@needs_compiler
def test_two_neurons_of_an_input_and_the_constant_add_up() -> None:
    X = np.random.default_rng(0).standard_normal((30, 3))
    options: dict[str, Any] = {"levels": 3, "activation": None, "beta": "20%", "refine": "none", "random_state": 0}
    model = qsdp.QuantizedNetworkRegressor(**options).fit(X, X[:, 0] * X[:, 1])
    U, V = [[2, 2, -2, 2], [0, 2, 0, 0], [0, 2, 0, 0]], [[2, -2, 2, 2], [0, 0, 0, 2], [0, 0, 0, 2]]
    model.network_ = qsdp.BilinearNetwork(U, V, [0.3, 1.0, -0.4], levels=3)
    check_code(model, to_c(model, layout="neurons"), X)


@pytest.mark.parametrize(("kind", "encoding"), CASES)
def test_onnx_computes_what_the_model_does(kind: str, encoding: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model, (new, _) = model_of(kind, encoding), table(seed=1)
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, onnx_inputs(model, new)), strict=True))
    if kind == "number":
        np.testing.assert_allclose(np.ravel(found["predictions"]), model.predict(new), rtol=1e-9, atol=1e-9)
    else:
        np.testing.assert_array_equal(found["label"], model.predict(new))
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(new), atol=1e-9)


@needs("node")
@pytest.mark.parametrize(("kind", "encoding"), CASES)
def test_javascript_computes_what_the_model_does(kind: str, encoding: str, tmp_path: Path) -> None:
    model, (new, _) = model_of(kind, encoding), table(60, seed=1)
    rows = [{name: None if value != value else value for name, value in row.items()} for row in new.to_dict("records")]
    name = "predict" if kind == "number" else "scores"
    found = call(to_js(model), [[name, row] for row in rows], tmp_path)
    expected = scores_of(model, new)
    np.testing.assert_allclose(np.array(found, dtype=float).reshape(expected.shape), expected, rtol=0, atol=1e-9)
