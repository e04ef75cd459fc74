"""Networks on images as JavaScript: equal to Python from the pixels, and images of another size are named."""

from itertools import pairwise

import numpy as np
import pytest
from digit_models import digit_classifier, digits
from javascript_engines import ENGINES, MAX_CODE, call, call_each, close, needs
from sklearn.datasets import load_digits
from test_c_blocks import GEOMETRIES, fitted, images, network

import qsdp
from qsdp import BilinearNetwork, QuantizedNetworkClassifier, QuantizedNetworkRegressor
from qsdp.encoding import Patches, Windows
from qsdp.exceptions import ExportError
from qsdp.export import to_js

pytestmark = pytest.mark.filterwarnings("ignore:the certified gap:qsdp.QSDPWarning")

needs_node = needs("node")


@needs_node
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_networks_of_every_geometry(geometry, tmp_path):
    rng = np.random.default_rng(len(geometry))
    encoder = fitted(*GEOMETRIES[geometry])
    X = images(rng, GEOMETRIES[geometry][0], 100)
    calls = [["predict", one] for one in X.tolist()]
    modules, expected = [], []
    for C, kind in ((None, "integers"), (4, "single"), (2, "floats")):
        one = network(rng, encoder, C, kind)
        for other in (one, one.to_integer_form()) if kind != "floats" else (one,):
            modules.append(to_js(other, encoder=encoder))
            assert modules[-1].exports == ("contributions", "predict", "shape")
            assert modules[-1].n_code <= MAX_CODE
            expected.append(encoder.predict(one, X))
    for found, outputs in zip(call_each([(one, calls) for one in modules], tmp_path), expected, strict=True):
        close(found, outputs)


@needs_node
def test_parts_of_regions_add_up(tmp_path):
    """Each part is the output of the neurons of its region alone."""
    rng = np.random.default_rng(0)
    encoder = fitted(*GEOMETRIES["colours"])
    X, one = images(rng, (6, 6, 3), 50), network(rng, encoder, 3, "single")
    found = call(to_js(one, encoder=encoder), [["contributions", image] for image in X.tolist()], tmp_path)
    for region in range(4):
        mine = np.where(one.block == region, 1.0, 0.0)
        part = BilinearNetwork(one.U, one.V, one.alpha * mine[:, None], one.block, one.sizes)
        values = [[own["terms"][region]["value"] for own in row] for row in found]
        np.testing.assert_allclose(values, encoder.predict(part, X), atol=1e-12)
        assert {tuple(own["terms"][region]["region"]) for own in found[0]} == {divmod(region, 2)}
    assert [own["output"] for own in found[0]] == ["output 0", "output 1", "output 2"]


#: One loss for each engine.
LOSSES = {"node": "cross_entropy", "chromium": "logistic"}


@pytest.mark.parametrize("engine", ENGINES)
def test_classifiers(engine, tmp_path):
    """Hundreds of images, most of which are noise on digits."""
    n, (X, _), model = 300, digits(), digit_classifier(LOSSES[engine])
    module = to_js(model)
    assert module.exports == ("classes", "contributions", "predict", "predictProba", "scores", "shape")
    rng = np.random.default_rng(0)
    noise = rng.integers(-40, 40, (n, 8, 8)) * (rng.random((n, 1, 1)) < 0.9)
    other = np.clip(X[rng.integers(0, len(X), n)] + noise, 0, 255).astype(np.uint8)
    few, calls = other[:100], [["predict", one] for one in other.tolist()]
    for name in ("predictProba", "scores", "contributions"):
        calls += [[name, one] for one in few.tolist()]
    answers = call(module, calls, tmp_path, engine)
    found, probabilities, outputs, explained = (
        answers[start:stop] for start, stop in pairwise([0, n, n + 100, n + 200, n + 300])
    )
    assert found == model.predict(other).tolist()
    assert len(set(found)) > 1
    scores = model.decision_function(few)
    close(probabilities, model.predict_proba(few))
    close(outputs, scores)
    sums = [[own["constant"] + sum(term["value"] for term in own["terms"]) for own in row] for row in explained]
    np.testing.assert_allclose(np.squeeze(sums), scores, atol=1e-12 * np.abs(scores).max())


@needs_node
def test_floats_and_two_classes(tmp_path):
    X = load_digits().images / 16.0
    settings = {"n_neurons": 40, "beta": "3%", "refine": "none", "random_state": 0}
    encoder = Patches(2, regions=2, downsample=2, centre=0.3, padding=1)
    model = QuantizedNetworkRegressor(encoding=encoder, **settings).fit(X[:200], X[:200].mean(axis=(1, 2)))
    close(call(to_js(model), [["predict", one] for one in X[:300].tolist()], tmp_path), model.predict(X[:300]))
    labels = X[:, :4].sum(axis=(1, 2)) > X[:, 4:].sum(axis=(1, 2))
    model = QuantizedNetworkClassifier(encoding=encoder, **settings).fit(X[:200], labels[:200])
    found = call(to_js(model), [["predict", one] for one in X[:300].tolist()], tmp_path)
    assert found == model.predict(X[:300]).tolist()
    # A model that was saved is exported as it was.
    model.save(tmp_path / "model.qsdp")
    assert to_js(qsdp.load(tmp_path / "model.qsdp")) == to_js(model)


WRONG = [
    (np.zeros((8, 7)).tolist(), "an image must have 8 x 8 numbers, flat or nested; got 8 x 7"),
    (np.zeros((28, 28)).tolist(), "an image must have 8 x 8 numbers, flat or nested; got 28 x 28"),
    (np.zeros(63).tolist(), "an image must have 8 x 8 numbers, flat or nested; got 63"),
    ([[0.0] * 8] * 7 + [[0.0] * 9], "an image must have 8 x 8 numbers, flat or nested; got 9 in place of 8"),
    ([[0.0] * 8] * 7 + [3.0], "an image must have 8 x 8 numbers, flat or nested; got 3 in place of 8"),
    ([], "an image must have 8 x 8 numbers, flat or nested; got 0"),
    (None, "an image must have 8 x 8 numbers, flat or nested; got null"),
    ("digit", 'an image must have 8 x 8 numbers, flat or nested; got "digit"'),
    ([0.0] * 63 + ["1"], 'pixel 63 must be a finite number; got "1"'),
    ([0.0] * 10 + [None] + [0.0] * 53, "pixel 10 must be a finite number; got null"),
    ([0.0] * 63 + [1e101], "pixel 63 must be a finite number; got 1e+101"),
]


@needs_node
def test_images_that_are_wrong(tmp_path):
    rng = np.random.default_rng(0)
    encoder = fitted(*GEOMETRIES["plain"])
    module = to_js(network(rng, encoder, 3), encoder=encoder)
    for name in ("predict", "contributions"):
        assert call(module, [[name, one] for one, _ in WRONG], tmp_path) == [message for _, message in WRONG]
        options = [{"unknown": "ignore"}, 3]
        assert call(module, [[name, np.zeros(64).tolist(), one] for one in options], tmp_path) == [
            '"unknown" is not an option; there are no options',
            "options must be an object; got 3; in a map, call (row) => predict(row)",
        ]
    image = rng.integers(0, 2, (8, 8))
    right = [image.tolist(), image.ravel().tolist(), image[..., None].tolist(), image.astype(bool).tolist()]
    found = call(module, [["predict", one] for one in right], tmp_path)
    assert found == [found[0]] * 4
    colours = fitted(*GEOMETRIES["colours"])
    module = to_js(network(rng, colours), encoder=colours)
    assert call(module, [["predict", image.tolist()]], tmp_path) == [
        "an image must have 6 x 6 x 3 numbers, flat or nested; got 8 x 8"
    ]


def test_what_is_refused():
    rng = np.random.default_rng(0)
    encoder = fitted(*GEOMETRIES["plain"])
    windows = Windows(4).fit(np.ones((3, 1, 20)) * np.arange(20))
    for one, message in ((windows, "series are exported by to_c only"), (None, "needs encoder")):
        with pytest.raises(ExportError, match=message):
            to_js(network(rng, one or encoder), encoder=one)
    both = Patches(size=(2, 3), regions=1).fit(rng.normal(size=(5, 6, 6)))
    with pytest.raises(ExportError, match="only networks on patches of one setting can be exported"):
        to_js(network(rng, both), encoder=both)
