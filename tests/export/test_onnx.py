"""Models as ONNX: networks bit by bit, estimators, pipelines and files to the last labels, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest
from fast_options import FAST, NUMBERS
from hypothesis import given, settings
from hypothesis import strategies as st
from mixed_table import mixed_table
from networks.random_networks import random_network
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler
from table_files import fit_to

import qsdp
from qsdp import QSDPWarning, QuantizedNetworkClassifier, QuantizedNetworkRegressor
from qsdp.encoding import TableEncoder
from qsdp.exceptions import ExportError, InvalidInputError
from qsdp.export import FORMATS, describe, onnx_inputs, to_c, to_onnx
from qsdp.tables import read_table

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
reference = pytest.importorskip("onnx.reference")

pytestmark = pytest.mark.filterwarnings("ignore:the certified gap:qsdp.QSDPWarning")

ACTIVATIONS = {
    "bilinear": None,
    "relu_like": (0.0937, 0.5, 0.4688),
    "constant": (-0.5, 0.0, 0.3),
    "linear": (0.0, -1.0, 0.5),
}


def run(model, feed):
    """Return what onnxruntime computes, by output."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([one.name for one in session.get_outputs()], session.run(None, feed), strict=True))


def evaluate(model, feed):
    """Return what onnx's own evaluator computes, by output."""
    outputs = reference.ReferenceEvaluator(model).run(None, feed)
    return dict(zip([one.name for one in model.graph.output], outputs, strict=True))


def properties(model):
    return {entry.key: json.loads(entry.value) for entry in model.metadata_props}


def integers(rng, d, low, high, n):
    """Return random inputs, and those at their extremes."""
    X = rng.integers(low, high, size=(n, d), endpoint=True)
    return np.vstack([X, np.full((1, d), low), np.full((1, d), high), rng.choice([low, high], size=(50, d))])


def check_network(network, X, input_range):
    """Compare both evaluators with Python's integers, and these with the network."""
    exact = to_c(network, input_range=input_range, layout="form").model
    model = to_onnx(network, input_range=input_range)
    feed = onnx_inputs(network, X, input_range=input_range)
    outputs = exact.outputs(X.astype(object)).astype(np.int64)
    for found in (run(model, feed), evaluate(model, feed)):
        np.testing.assert_array_equal(found["outputs"], outputs)
        np.testing.assert_array_equal(found["scores"], outputs * exact.network.unit)
    told, expected = properties(model), network.predict(X).reshape(outputs.shape)
    assert told["unit"] == exact.network.unit.tolist()
    bound = np.array(told["error"]) + 1e-9 * np.abs(expected).max()
    assert np.all(np.abs(outputs * exact.network.unit - expected) <= bound)
    return model, feed


@pytest.mark.parametrize("levels", [2, 3, 6])
@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=list(ACTIVATIONS))
def test_networks_are_exact(activation, levels):
    rng = np.random.default_rng(levels)
    limits = [(0, 255), (-128, 127), None]
    for number, (C, shared) in enumerate([(None, True), (3, True), (2, False)]):
        network = random_network(rng, 7, 5, activation, levels=levels, C=C, shared=shared)
        for one in (network, network.to_polynomial()):
            given_range = limits[(number + levels) % 3]
            X = integers(rng, 5, *(given_range or (-(2**15), 2**15 - 1)), n=100)
            model, _ = check_network(one, X, given_range)
            if shared and C is None and activation is None:
                assert properties(model)["error"] == [0.0]


def test_sums_beyond_double_precision():
    """onnxruntime adds integers of 64 bits in double precision, if it is asked by ReduceSum."""
    rng = np.random.default_rng(0)
    network = qsdp.PolynomialNetwork(rng.integers(-127, 128, (9, 6)), rng.normal(size=9), (1.0, 2.0, 3.0), 0.5)
    assert to_c(network, layout="form").model.layout.sum_bound > 2**58
    check_network(network, integers(rng, 6, -(2**15), 2**15 - 1, n=100), None)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 12), st.integers(1, 5), st.sampled_from([2, 65, 66, 128]), st.booleans(), st.integers(0, 2**32))
def test_bytes_at_their_extremes(d, m, levels, signed, seed):
    """Weights beyond 64 times inputs beyond 127 saturate in some processors' products of bytes, which are not used."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, m, d, None, levels=levels, shared=True)
    low, high = (-128, 127) if signed else (0, 255)
    model, _ = check_network(network, rng.choice([low, high], size=(20, d)), (low, high))
    arrays = {one.name: onnx.numpy_helper.to_array(one) for one in model.graph.initializer}
    fast = [arrays[node.input[1]] for node in model.graph.node if node.op_type == "MatMulInteger"]
    assert all(np.abs(weights.astype(int)).max() <= 64 for weights in fast)
    assert fast or levels > 2


@pytest.mark.parametrize(
    ("input_range", "expected"),
    [((0, 200), "UINT8"), ((-1, 1), "INT8"), ((0, 256), "INT16"), (None, "INT16"), ((-40000, 0), "INT32")],
)
def test_inputs_have_the_narrowest_type(input_range, expected):
    model = to_onnx(random_network(np.random.default_rng(0), 4, 3, None), input_range=input_range)
    assert model.graph.input[0].type.tensor_type.elem_type == getattr(onnx.TensorProto, expected)


def test_versions_are_those_of_old_runtimes():
    """IR 7 and opset 13 are those of onnx 1.8; every operator is as old."""
    frame, y = mixed_table()
    classifier = QuantizedNetworkClassifier(**{**FAST, "encoding": "both"}).fit(frame, y)
    network = random_network(np.random.default_rng(0), 7, 5, (1.0, 1.0, 1.0), C=2)
    for model in (to_onnx(classifier), to_onnx(network)):
        assert model.ir_version == 7
        versions = {one.domain: one.version for one in model.opset_import}
        assert versions.items() <= {"": 13, "ai.onnx.ml": 2}.items()
        for node in model.graph.node:
            assert not onnx.defs.get_schema(node.op_type, versions[node.domain], node.domain).deprecated


# -- columns ---------------------------------------------------------------------------------------------------


def check_model(model, X):
    """Compare both evaluators with the model; return the exported one."""
    exported, feed = to_onnx(model), onnx_inputs(model, X)
    for found in (run(exported, feed), evaluate(exported, feed)):
        expected = model.predict(X)
        if "predictions" in found:
            np.testing.assert_allclose(found["predictions"].reshape(expected.shape), expected, rtol=1e-9, atol=1e-9)
        else:
            np.testing.assert_array_equal(found["label"], expected)
            assert ("probabilities" in found) == hasattr(model, "predict_proba")
            if "probabilities" in found:
                np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=1e-12)
            description = describe(model)
            np.testing.assert_allclose(found["scores"], description.scores(description.columns(X)), atol=1e-9)
    return exported


@pytest.mark.parametrize("loss", ["squared", "logistic", "cross_entropy"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers(iris, loss, n_classes):
    X, y = (part[iris[1] < n_classes] for part in iris)
    for activation in ("relu_like", None):
        check_model(QuantizedNetworkClassifier(activation=activation, **{**FAST, "loss": loss}).fit(X, y), X + 0.01)


@pytest.mark.parametrize("classes", [["a", "b", "c"], [-1.0, 0.0, 2.0], [False, True, True]], ids=str)
def test_labels_keep_their_type(iris, classes):
    y = np.array(classes)[iris[1]]
    model = check_model(QuantizedNetworkClassifier(**FAST).fit(iris[0], y), iris[0])
    kind = {"U": "STRING", "f": "DOUBLE", "b": "BOOL"}[y.dtype.kind]
    assert model.graph.output[0].type.tensor_type.elem_type == getattr(onnx.TensorProto, kind)


@pytest.mark.parametrize("encoding", ["standard", "thresholds", "none", MinMaxScaler()])
def test_encodings(iris, encoding):
    check_model(QuantizedNetworkClassifier(**{**FAST, "encoding": encoding}).fit(*iris), iris[0])


def test_regressors(iris):
    X, _ = iris
    check_model(QuantizedNetworkRegressor(**NUMBERS).fit(X[:, :2], X[:, 2:] * [1.0, 50.0]), X[:, :2])
    check_model(QuantizedNetworkRegressor(**NUMBERS).fit(X[:, :2], X[:, 3]), X[:, :2])


@pytest.mark.parametrize("encoding", ["thresholds", "both"])
def test_text_and_holes(encoding):
    frame, y = mixed_table()
    model = QuantizedNetworkClassifier(**{**FAST, "encoding": encoding}).fit(frame, y)
    exported = check_model(model, frame)
    # Columns in use are inputs of their own.
    assert [one.name for one in exported.graph.input] == ["size", "town", "old", "rate"]
    unseen = frame.assign(town="Bergen")
    with pytest.warns(QSDPWarning, match="outside the categories"):
        np.testing.assert_array_equal(run(exported, onnx_inputs(model, unseen))["label"], model.predict(unseen))


@pytest.mark.parametrize(
    "steps",
    [
        [MinMaxScaler(clip=True), RobustScaler()],
        [SimpleImputer(strategy="median"), StandardScaler()],
        [StandardScaler(), TableEncoder("thresholds", n_thresholds=2)],
    ],
    ids=str,
)
def test_pipelines(iris, steps):
    X, y = iris
    check_model(make_pipeline(*steps, QuantizedNetworkClassifier(**{**FAST, "encoding": "none"})).fit(X, y), X + 0.01)


def test_files(iris, tmp_path):
    X, y = iris
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=np.array(["x", "y", "z"])[y])
    frame.to_csv(tmp_path / "iris.csv", index=False)
    table = read_table(tmp_path / "iris.csv")
    for loss in ("cross_entropy", "squared"):
        fitted = QuantizedNetworkClassifier(**{**FAST, "loss": loss, "encoding": "standard"})
        fit_to(fitted, table, "kind").save(tmp_path / "model.qsdp")
        model = qsdp.load(tmp_path / "model.qsdp")
        exported = FORMATS["onnx"].export(model, "model")
        graph = onnx.load_from_string(exported.contents["model.onnx"])
        X = table[list("abcd")]
        found = run(graph, onnx_inputs(model, frame[list("abcd")]))
        np.testing.assert_array_equal(found["label"], model.predict(X))
        if loss != "squared":
            np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=1e-12)
        assert ("outputs", ", ".join(found)) in exported.facts


# -- what is refused -------------------------------------------------------------------------------------------


def test_what_has_no_place_in_onnx(iris):
    X, y = iris
    model = QuantizedNetworkClassifier(**FAST).fit(X, y)
    with pytest.raises(InvalidInputError, match="input_range is for a network alone"):
        to_onnx(model, input_range=(0, 1))
    frame = pd.DataFrame({"": ["a", "b"] * 20, "size": np.arange(40.0)})
    unnamed = QuantizedNetworkRegressor(**{**NUMBERS, "encoding": "standard"}).fit(frame, np.arange(40) % 3)
    with pytest.raises(ExportError, match=r"columns must have names, all different; got \['', 'size'\]"):
        to_onnx(unnamed)
    with pytest.raises(ExportError, match="do not fit into the 64 bits"):
        to_onnx(model.network_, input_range=(-(2**31), 2**31 - 1))
    with pytest.raises(InvalidInputError, match="X must hold integers from 0 to 1; found 2"):
        onnx_inputs(model.network_, np.full((1, model.network_.n_inputs), 2), input_range=(0, 1))
