"""Integer forms, as files of the smaller form hold them, in every format."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

import qsdp
from qsdp.exceptions import ExportError
from qsdp.export import describe, onnx_inputs, to_c, to_onnx, to_verilog

ACTIVATIONS = {
    "bilinear": None,
    "relu_like": qsdp.PolynomialActivation(0.0937, 0.5, 0.4688),
    "quadratic": qsdp.PolynomialActivation(1.0, 0.0, 0.0),
    "no square": qsdp.PolynomialActivation(0.0, 0.5, 0.25),
    "constant": qsdp.PolynomialActivation(0.5, 0.0, 0.25),
}


def network(activation: str, n_outputs: int = 1, levels: int = 2) -> qsdp.BilinearNetwork:
    rng = np.random.default_rng(5)
    sigma = ACTIVATIONS[activation]
    values = np.arange(1 - levels, levels, 2)
    U, V = (rng.choice(values, (24, 5)) for _ in range(2))
    if sigma is not None and sigma.lifted:
        U, V = (np.hstack([side, rng.choice([-1, 1], (24, 1))]) for side in (U, V))
    alpha = np.full(24, -0.25) if n_outputs == 1 else np.repeat(np.eye(2), 12, axis=0) * [0.25, 0.4]
    return qsdp.BilinearNetwork(U, V, alpha, levels=levels, activation=sigma)


def inputs(n: int = 200) -> np.ndarray:
    return np.random.default_rng(6).integers(-(2**15), 2**15, (n, 5))


@pytest.fixture(params=["bilinear", "relu_like", "quadratic", "no square", "constant"])
def pair(request: pytest.FixtureRequest) -> tuple[qsdp.BilinearNetwork, qsdp.IntegerForm]:
    made = network(request.param)
    return made, made.to_integer_form()


def scores_of(model: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    code = to_c(model)
    return code.model.scores(code.model.outputs(code.model.columns(X))), code.error


def test_integers_are_those_of_the_network(pair: tuple[Any, Any]) -> None:
    model, form = pair
    X = inputs()
    exact = model.predict(X).reshape(len(X), -1)
    for one in pair:
        scores, error = scores_of(one, X)
        assert np.all(np.abs(scores - exact) <= error + 1e-12 * np.abs(exact))
    assert to_c(form).model.layout.name == "form"
    assert to_c(form).model.layout.size == to_c(model, layout="form").model.layout.size


@pytest.mark.parametrize("activation", ["bilinear", "relu_like"])
@pytest.mark.parametrize("levels", [2, 4])
def test_several_outputs(activation: str, levels: int) -> None:
    model = network(activation, 2, levels)
    X, form = inputs(), model.to_integer_form()
    scores, error = scores_of(form, X)
    assert np.all(np.abs(scores - model.predict(X)) <= error + 1e-12 * np.abs(model.predict(X)).max())
    assert describe(form).decision == "argmax"
    assert describe(form).network.output_shape == (2,)


def test_compiled(pair: tuple[Any, Any]) -> None:
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("no C compiler is installed")
    X, code = inputs(), to_c(pair[1])
    np.testing.assert_array_equal(code.compile().outputs(X), code.model.outputs(X))
    assert "as a quadratic form of integers" in code.header


def test_onnx(pair: tuple[Any, Any]) -> None:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    X, (_, form) = inputs(), pair
    session = runtime.InferenceSession(to_onnx(form).SerializeToString())
    (outputs,) = session.run(["outputs"], onnx_inputs(form, X))
    code = to_c(form)
    np.testing.assert_array_equal(outputs, code.model.outputs(X))


def test_other_formats() -> None:
    model = network("relu_like")
    form = model.to_integer_form()
    bits = np.random.default_rng(0).integers(0, 2, (50, 5))
    verilog = to_verilog(form)
    assert np.all(
        np.abs(verilog.model.scores(verilog.model.outputs(bits))[:, 0] - model.predict(bits)) <= verilog.error
    )
    with pytest.raises(ExportError, match="layout must be 'form' for an integer form"):
        to_c(form, layout="neurons")
