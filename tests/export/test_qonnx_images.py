"""Networks on images as QONNX: exact in its executor, and refused where single precision is not."""

import json

import numpy as np
import pytest
from test_c_blocks import GEOMETRIES, fitted, network, sums_of_pixels

from qsdp import BlockNetwork, QuantizedNetworkClassifier
from qsdp.encoding import Patches, Windows
from qsdp.exceptions import ExportError, InvalidInputError
from qsdp.export import FORMATS, to_qonnx
from qsdp.networks.compact import integer_weights

pytest.importorskip("onnx")
pytest.importorskip("qonnx")
pytest.importorskip("onnxruntime")

from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.transformation.infer_datatypes import InferDataTypes
from qonnx.util.cleanup import cleanup_model

pytestmark = pytest.mark.filterwarnings("ignore:the certified gap:qsdp.QSDPWarning")


def about(model):
    return {entry.key: json.loads(entry.value) for entry in model.metadata_props}


def execute(model, X):
    """Return the outputs of all images in qonnx's executor, after the clean-up with which its users begin."""
    wrapped = cleanup_model(ModelWrapper(model), override_inpsize=len(X)).transform(InferDataTypes())
    kind = wrapped.get_tensor_datatype(wrapped.graph.node[0].output[0]).name
    assert kind == "BINARY" or kind.startswith("UINT")
    shape = wrapped.get_tensor_shape("global_in")
    feed = {wrapped.graph.input[0].name: X.reshape(shape).astype(np.float32)}
    (found,) = execute_onnx(wrapped, feed).values()
    return found


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_equal_to_neurons_at_every_patch(geometry):
    rng = np.random.default_rng(len(geometry))
    shape, arguments = GEOMETRIES[geometry]
    # Nothing in the patches is far above the pixels.
    small = {name: int(np.sign(arguments[name])) for name in {"centre", "constant"} & {*arguments}}
    encoder = fitted(shape, {"constant": 1, **arguments, **small})
    for C, kind, most in ((None, "integers", 3), (3, "integers", 2), (4, "single", 1), (2, "floats", 3)):
        one = network(rng, encoder, C, kind)
        model = to_qonnx(one, encoder=encoder, input_range=(0, most))
        X = rng.integers(0, most, (250, *shape), endpoint=True)
        X[:3], X[3:100] = np.array([0, most, most // 2]).reshape(3, *[1] * len(shape)), most * (X[3:100] > most / 2)
        outputs, facts = execute(model, X), about(model)
        assert facts["bound"] < 2**24
        values = sums_of_pixels(encoder, one, X)
        if kind != "floats":
            np.testing.assert_array_equal(outputs, values @ integer_weights(one.output_weights)[0])
        scores = values @ one.output_weights
        found = outputs * np.array(facts["unit"]) + np.array(facts["offset"])
        assert np.all(np.abs(found - scores) <= np.array(facts["error"]) + 1e-9 * np.abs(scores).max())


def test_sums_at_the_limit():
    """Sums just below 2^24 are exact; one more neuron, or larger pixels, are refused."""
    encoder = fitted((3, 4), {"size": 3, "regions": 1, "constant": 15})

    def ones(m):
        return BlockNetwork.of(encoder.layout_, np.ones((m, 10)), np.ones((m, 10)), np.full(m, 0.5), np.zeros(m, int))

    model = to_qonnx(ones(372), encoder=encoder, input_range=(0, 15))
    assert about(model)["bound"] == 372 * 2 * 150**2 == 16_740_000
    assert execute(model, np.full((1, 3, 4), 15)).item() == 16_740_000
    with pytest.raises(ExportError, match="sums may reach 16785000, and QONNX is exact below"):
        to_qonnx(ones(373), encoder=encoder, input_range=(0, 15))
    with pytest.raises(ExportError, match="take a smaller input_range"):
        to_qonnx(ones(372), encoder=encoder)


def test_estimators_of_digits():
    from sklearn.datasets import load_digits

    X, y = load_digits().images.astype(np.uint8), load_digits().target
    model = QuantizedNetworkClassifier(
        n_neurons=10, encoding=Patches(3, regions=2), beta="3%", refine="none", random_state=0
    ).fit(X[:1000], y[:1000])
    exported = to_qonnx(model, input_range=(0, 16))
    found = execute(exported, X[-1000:]) * about(exported)["unit"] + about(exported)["offset"]
    np.testing.assert_allclose(found, model.decision_function(X[-1000:]), atol=np.max(about(exported)["error"]))
    assert np.mean(found.argmax(axis=1) == model.predict(X[-1000:])) > 0.99


def test_what_is_refused():
    rng = np.random.default_rng(0)
    encoder = fitted((8, 8), {"size": 3, "regions": 2})
    one = network(rng, encoder, 3)
    with pytest.raises(InvalidInputError, match=r"input_range must begin at 0 for images; got \(1, 3\)"):
        to_qonnx(one, encoder=encoder, input_range=(1, 3))
    windows = Windows(4).fit(np.ones((3, 1, 20)) * np.arange(20))
    with pytest.raises(ExportError, match="series are exported by to_c and to_js only"):
        to_qonnx(network(rng, windows), encoder=windows)
    with pytest.raises(ExportError, match="a network on blocks without an estimator needs encoder"):
        FORMATS["qonnx"].export(one, "net")
