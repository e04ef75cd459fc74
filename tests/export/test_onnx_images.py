"""Networks on images as ONNX: integer outputs are those of the code in C, from the pixels alone."""

import numpy as np
import pytest
from digit_models import digit_classifier, digits
from test_c_blocks import GEOMETRIES, fitted, images, network, sums_of_pixels

from qsdp import BilinearNetwork
from qsdp.exceptions import ExportError, InvalidInputError
from qsdp.export import onnx_inputs, to_c, to_onnx

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.filterwarnings("ignore:the certified gap:qsdp.QSDPWarning")


def run(model, feed):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([one.name for one in session.get_outputs()], session.run(None, feed), strict=True))


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_equal_to_the_code_in_c(geometry):
    rng = np.random.default_rng(len(geometry))
    encoder = fitted(*GEOMETRIES[geometry])
    X = images(rng, GEOMETRIES[geometry][0], 500)
    for C, kind in ((None, "integers"), (4, "single"), (2, "floats")):
        one = network(rng, encoder, C, kind)
        feed = onnx_inputs(one, X, encoder=encoder)
        assert feed["X"].dtype == np.uint8
        found = run(to_onnx(one, encoder=encoder), feed)
        code = to_c(one, encoder=encoder, layout="form").model
        np.testing.assert_array_equal(found["outputs"], code.outputs(code.columns(X)))
        np.testing.assert_array_equal(found["scores"], found["outputs"] * code.network.unit)
        scores = sums_of_pixels(encoder, one, X) @ one.output_weights
        assert np.all(np.abs(found["scores"] - scores) <= code.error + 1e-12 * np.abs(scores).max())


@pytest.mark.parametrize(("loss", "n_classes"), [("squared", 2), ("cross_entropy", 10)])
def test_classifiers(loss, n_classes):
    model, X = digit_classifier(loss, n_classes), digits()[0][digits()[1] < n_classes]
    found = run(to_onnx(model), onnx_inputs(model, X))
    np.testing.assert_array_equal(found["label"], model.predict(X))
    assert ("probabilities" in found) == (loss == "cross_entropy")
    if loss == "cross_entropy":
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=1e-4)
    else:
        scores = model.decision_function(X)
        np.testing.assert_allclose(found["scores"].reshape(scores.shape), scores, atol=1e-3)


def test_what_is_refused():
    rng = np.random.default_rng(0)
    encoder = fitted((8, 8), {"size": 3, "regions": 2})
    one = network(rng, encoder, 3)
    with pytest.raises(InvalidInputError, match="input_range is not for a network on images"):
        to_onnx(one, encoder=encoder, input_range=(0, 255))
    with pytest.raises(ExportError, match="a network on blocks without an estimator needs encoder"):
        to_onnx(one)
    large = fitted((1, 1), {"size": 1, "regions": 1, "constant": 2**25})
    with pytest.raises(ExportError, match=r"exceed 2\^24"):
        to_onnx(BilinearNetwork.on_blocks(large.layout_, *np.ones((2, 1, 2)), [1.0], [0]), encoder=large)
