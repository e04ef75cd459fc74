"""Networks as QONNX: bits as BIPOLAR, exact after qonnx's own clean-up, and refused where single precision is not."""

import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from networks.random_networks import random_network

import qsdp
from qsdp import QuantizedNetworkClassifier
from qsdp.exceptions import ExportError, InvalidInputError
from qsdp.export import FORMATS, to_qonnx

onnx = pytest.importorskip("onnx")
pytest.importorskip("qonnx")
pytest.importorskip("onnxruntime")

from qonnx.core.modelwrapper import ModelWrapper  # noqa: E402
from qonnx.core.onnx_exec import execute_onnx  # noqa: E402
from qonnx.transformation.infer_datatypes import InferDataTypes  # noqa: E402
from qonnx.util.cleanup import cleanup_model  # noqa: E402

ACTIVATIONS = {
    "bilinear": None,
    "quadratic": (0.5, 0.0, 0.0),
    "relu_like": (0.0937, 0.5, 0.4688),
    "constant": (-0.5, 0.0, 0.25),
    "linear": (0.0, -1.0, 0.5),
}


def cleaned(model, n=1):
    """Return a model for n inputs after the transformations with which qonnx's users begin."""
    return cleanup_model(ModelWrapper(model), override_inpsize=n).transform(InferDataTypes())


def execute(model, X):
    wrapped = cleaned(model, len(X))
    (found,) = execute_onnx(wrapped, {wrapped.graph.input[0].name: X.astype(np.float32)}).values()
    return found


def told(model):
    return {entry.key: json.loads(entry.value) for entry in model.metadata_props}


def types_of_weights(wrapped):
    return {
        wrapped.get_tensor_datatype(node.output[0]).name
        for node in wrapped.graph.node
        if node.op_type in {"Quant", "BipolarQuant"} and node.input[0] != wrapped.graph.input[0].name
    }


def integer_outputs(model, X):
    """Return what the weights in a model add up to, in integers of 64 bits."""
    arrays = {one.name: onnx.numpy_helper.to_array(one) for one in model.graph.initializer}
    values = {"X": X}
    for node in model.graph.node:
        first, *others = [values.get(name, arrays.get(name)) for name in node.input]
        if node.op_type in {"Quant", "BipolarQuant", "Identity"}:
            assert np.array_equal(first, np.rint(first))
            values[node.output[0]] = first.astype(np.int64)
        else:
            combine = {"MatMul": np.matmul, "Mul": np.multiply, "Add": np.add}[node.op_type]
            values[node.output[0]] = combine(first, *others)
            assert np.abs(values[node.output[0]]).max(initial=0) <= told(model)["bound"]
    return values["outputs"]


def check(network, X, input_range):
    """Compare the graph with the integers of its weights, and these with the network; return both."""
    model = to_qonnx(network, input_range=input_range)
    about, outputs = told(model), integer_outputs(model, X)
    np.testing.assert_array_equal(execute(model, X), outputs)
    expected = network.predict(X).reshape(outputs.shape)
    # Neurons may cancel but for rounding.
    size = np.abs(expected).max() + np.abs(network.alpha).sum()
    assert np.all(np.abs(outputs * about["unit"] - expected) <= about["error"] + 1e-9 * size)
    return model, about


@pytest.mark.parametrize("levels", [2, 3, 4])
@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=list(ACTIVATIONS))
def test_networks_are_exact(activation, levels):
    rng = np.random.default_rng(levels)
    X = np.vstack([rng.integers(-8, 8, (40, 5)), np.full((1, 5), -8), rng.choice([-8, 7], (20, 5))])
    for C, shared in ((None, True), (3, False)):
        network = random_network(rng, 7, 5, activation, levels=levels, C=C, shared=shared)
        for one in (network, qsdp.to_polynomial(network)):
            _, about = check(one, X, (-8, 7))
            assert about["bound"] < 2**24
            if shared and activation in {None, (0.5, 0.0, 0.0)}:
                assert about["error"] == 0.0


@pytest.mark.parametrize(("levels", "expected"), [(2, "BIPOLAR"), (3, "INT2"), (4, "INT3"), (5, "INT3"), (128, "INT8")])
def test_types_of_weights(levels, expected):
    network = random_network(np.random.default_rng(0), 30, 6, None, levels=levels, shared=True)
    wrapped = cleaned(to_qonnx(network, input_range=(0, 1)))
    assert types_of_weights(wrapped) == {expected, "BIPOLAR"}
    assert wrapped.get_tensor_datatype(wrapped.graph.node[0].output[0]).name == "BINARY"
    assert {wrapped.get_tensor_datatype(one.name).name for one in wrapped.graph.output} == {"INT32"}


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(2, 9), st.integers(1, 300), st.integers(0, 2**32))
@example(d=1, m=1, levels=3, high=1, seed=1)  # all weights are zero
def test_random_networks_are_exact_or_refused(d, m, levels, high, seed):
    rng = np.random.default_rng(seed)
    network = random_network(rng, m, d, None, levels=levels, shared=True)
    # Levels such as -2, 0 and 2 are halved.
    U, V = (np.abs(own).astype(int) // (1 + levels % 2) for own in (network.U, network.V))
    bound = high**2 * (U.sum(axis=1) * V.sum(axis=1)).sum()
    X = np.vstack([rng.integers(-high, high, (10, d), endpoint=True), np.full((1, d), high)])
    if bound >= 2**24:
        with pytest.raises(ExportError, match="QONNX is exact below 2"):
            to_qonnx(network, input_range=(-high, high))
    else:
        check(network, X, (-high, high))


def test_sums_at_the_limit():
    """The largest sum below 2^24 is exact, and one that may reach it is refused."""
    network = qsdp.BilinearNetwork(np.ones((4, 16)), np.ones((4, 16)), np.full(4, 0.3))
    X = np.vstack([np.full((1, 16), 127), np.full((1, 16), -127), np.full((1, 16), 1)])
    _, about = check(network, X, (-127, 127))
    assert about["bound"] == 4 * (16 * 127) ** 2 == 16516096
    with pytest.raises(ExportError, match="sums may reach 16777216, and QONNX is exact below"):
        to_qonnx(network, input_range=(-128, 127))


def test_inputs_are_cut_to_their_bits():
    network = random_network(np.random.default_rng(0), 5, 3, None, shared=True)
    model = to_qonnx(network, input_range=(-4, 3))
    X = np.array([[-9.0, 9.0, 2.0]])
    np.testing.assert_array_equal(execute(model, X), execute(model, np.clip(X, -4, 3)))


def test_format_of_the_command_line():
    network = random_network(np.random.default_rng(0), 5, 3, None, shared=True)
    exported = FORMATS["qonnx"].export(network, "network")
    assert exported.contents["network.onnx"] == to_qonnx(network).SerializeToString()
    assert ("outputs", "outputs") in exported.facts


@pytest.mark.filterwarnings("ignore:the certified gap:qsdp.QSDPWarning")
def test_what_has_no_place_in_qonnx():
    X, y = qsdp.datasets.load_bundled("iris")
    model = QuantizedNetworkClassifier(5, beta="20%", encoding="none", refine="none", random_state=0).fit(X, y)
    with pytest.raises(ExportError, match="to_qonnx takes a network alone"):
        to_qonnx(model)
    with pytest.raises(InvalidInputError, match="input_range must be two integers"):
        to_qonnx(model.network_, input_range=(3, 3))
