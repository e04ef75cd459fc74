"""Exports of additive models: weights and neurons on the same inputs become one network of their columns."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from javascript_engines import call, needs

import qsdp
from qsdp.encoding import AdditiveBlocks
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


def model_of(kind: str, encoding: str = "additive") -> Any:
    X, score = table()
    options: dict[str, Any] = {"encoding": ENCODINGS[encoding](), "beta": "2%", "random_state": 0}
    if kind == "number":
        return qsdp.QuantizedNetworkRegressor(**options).fit(X, score)
    y = np.where(score > 0.5, "yes", "no") if kind == "two" else np.digitize(score, [0.0, 1.5])
    return qsdp.QuantizedNetworkClassifier(**options).fit(X, y)


CASES = [
    ("number", "additive"),
    ("two", "additive"),
    ("three", "additive"),
    ("number", "thresholds"),
    ("number", "means"),
]


def scores_of(model: Any, X: Any) -> np.ndarray:
    found = model.decision_function(X) if hasattr(model, "predict_proba") else model.predict(X)
    return np.asarray(found).reshape(len(X), -1)


@pytest.mark.parametrize(("kind", "encoding"), CASES)
def test_the_network_of_columns_is_the_same_function(kind: str, encoding: str) -> None:
    model, (new, _) = model_of(kind, encoding), table(seed=1)
    description = describe(model)
    assert set(np.unique(description.network.U)) <= {-2, 0, 2}
    scores = description.scores(description.columns(new))
    expected = scores_of(model, new)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


@needs_compiler
@pytest.mark.parametrize(
    ("kind", "encoding", "layout"),
    [*((*case, "auto") for case in CASES), ("two", "additive", "neurons"), ("three", "additive", "form")],
)
def test_compiled_integers_are_exact_and_within_the_bound(kind: str, encoding: str, layout: str) -> None:
    model, (new, _) = model_of(kind, encoding), table(seed=1)
    code = to_c(model, layout=layout)
    compiled, outputs = code.compile(), code.model.outputs(code.model.columns(new))
    np.testing.assert_array_equal(compiled.outputs(new), outputs)
    description = code.model.description
    exact = description.scores(description.columns(new))
    bound = code.rounding_error + 1e-9 * np.abs(exact).max(axis=0)
    assert np.all(np.abs(code.model.scores(outputs) - exact) <= bound)
    if kind == "two":
        sure = np.abs(exact[:, 0]) > code.rounding_error
        np.testing.assert_array_equal(compiled.predict(new)[sure], model.predict(new)[sure])


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
