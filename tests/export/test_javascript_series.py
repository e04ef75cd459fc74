"""Networks on series as JavaScript: equal to Python for series of any length, and what is wrong with one is named."""

import json
import re

import numpy as np
import pytest
from javascript_engines import ENGINES, MOST_CODE, call, close, needs
from test_c_series import GEOMETRIES, fitted, network

import qsdp
from qsdp import QuantizedNetworkClassifier, QuantizedNetworkRegressor
from qsdp.encoding import Windows
from qsdp.export import to_js

pytestmark = pytest.mark.filterwarnings("ignore:the certified gap:qsdp.QSDPWarning")

needs_node = needs("node")


def compare(module, name, X, expected, folder, engine="node"):
    """Compare what a function returns for series with numbers, to 1e-12 of the largest."""
    close(call(module, [[name, one.tolist()] for one in X], folder, engine), expected)


@needs_node
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_networks_of_every_geometry(geometry, tmp_path):
    rng = np.random.default_rng(len(geometry))
    encoder = fitted(rng, geometry)
    channels, least, _ = GEOMETRIES[geometry]
    X = [rng.normal(size=(channels, length)) * 30.0 for length in rng.integers(least, 3 * least + 1, 200)]
    for C, exact in ((None, True), (4, True), (2, False)):
        one = network(rng, encoder, C, exact=exact)
        same = [(one, "neurons"), (one, "form"), (one, "auto")]
        if exact:
            same.append((one.to_integer_form(), "auto"))
        for other, layout in same:
            module = to_js(other, encoder=encoder, layout=layout)
            assert module.exports == ("channels", "contributions", "predict")
            assert module.n_code <= MOST_CODE
            compare(module, "predict", X, encoder.predict(one, X), tmp_path)


def waves(rng, n):
    """Return series of two channels and different lengths, and the kind of their first channel."""
    kinds = rng.integers(0, 3, n)
    times = [np.arange(length) for length in rng.integers(20, 60, n)]
    clean = [np.stack([np.sin(t * (0.3 + 0.4 * kind)), np.cos(0.2 * t)]) for t, kind in zip(times, kinds, strict=True)]
    return [one + rng.normal(size=one.shape) * 0.5 for one in clean], np.array(["slow", "even", "fast"])[kinds]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers(n_classes, engine, tmp_path):
    rng = np.random.default_rng(0)
    X, y = waves(rng, 300)
    y = y if n_classes == 3 else np.where(y == "slow", "slow", "other")
    encoder = Windows(size=3, segments=2, lags=(1, 4))
    settings = {"n_neurons": 40, "beta": "3%", "refine": "none", "random_state": 0}
    model = QuantizedNetworkClassifier(encoding=encoder, loss="logistic", **settings).fit(X[:200], y[:200])
    module = to_js(model)
    assert module.exports == ("channels", "classes", "contributions", "predict", "predictProba", "scores")
    found = call(module, [["predict", one.tolist()] for one in X], tmp_path, engine)
    assert found == model.predict(X).tolist()
    assert len(set(found)) == n_classes
    compare(module, "predictProba", X, model.predict_proba(X), tmp_path, engine)
    scores = model.decision_function(X)
    compare(module, "scores", X, scores, tmp_path, engine)
    explained = call(module, [["contributions", one.tolist()] for one in X], tmp_path, engine)
    sums = [[own["constant"] + sum(term["value"] for term in own["terms"]) for own in row] for row in explained]
    np.testing.assert_allclose(np.squeeze(sums), scores, atol=1e-12 * np.abs(scores).max())
    assert [tuple(term["region"]) for term in explained[0][0]["terms"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]


@needs_node
def test_regressors_and_saved_models(tmp_path):
    X, _ = waves(np.random.default_rng(1), 60)
    encoder = Windows(size=2, stride=2, standardize=False, constant=0)
    model = QuantizedNetworkRegressor(20, encoding=encoder, beta="3%", refine="none", random_state=0)
    model.fit(X, np.array([one.std() for one in X]))
    compare(to_js(model), "predict", X, model.predict(X), tmp_path)
    model.save(tmp_path / "model.qsdp")
    assert to_js(qsdp.load(tmp_path / "model.qsdp")) == to_js(model)


WRONG = [
    ([[0.0] * 9], "a series must be an array of 2 channels; got 1"),
    ([0.0] * 9, "a series must be an array of 2 channels; got 9"),
    (None, "a series must be an array of 2 channels; got null"),
    ([[0.0] * 9, 3.0], "channel 1 must be an array of samples; got 3"),
    ([[0.0] * 9, [0.0] * 8], "channels must have equally many samples; got 9 and 8"),
    ([[0.0] * 6] * 2, "a series must have at least 7 samples; got 6"),
    ([[0.0] * 9, [0.0] * 8 + ["1"]], 'sample 8 of channel 1 must be a finite number; got "1"'),
    ([[0.0, None] + [0.0] * 7, [0.0] * 9], "sample 1 of channel 0 must be a finite number; got null"),
    ([[1e101] + [0.0] * 8, [0.0] * 9], "sample 0 of channel 0 must be a finite number; got 1e+101"),
]


@needs_node
def test_series_that_are_wrong(tmp_path):
    rng = np.random.default_rng(0)
    encoder = Windows(size=3, segments=2, stride=2, lags=(1, 2)).fit(rng.normal(size=(5, 2, 12)))
    many = network(rng, encoder, 3)
    module = to_js(many, encoder=encoder)
    for name in ("predict", "contributions"):
        assert call(module, [[name, one] for one, _ in WRONG], tmp_path) == [message for _, message in WRONG]
    # The shortest series has a window in each segment, as in Python.
    X = rng.normal(size=(1, 2, 7))
    compare(module, "predict", X, encoder.predict(many, X), tmp_path)
    alone = Windows(size=2).fit(rng.normal(size=(5, 12)))
    one = network(rng, alone)
    flat = rng.normal(size=12)
    found = call(to_js(one, encoder=alone), [["predict", flat.tolist()], ["predict", [flat.tolist()]]], tmp_path)
    np.testing.assert_allclose(found, [alone.predict(one, flat[None])[0]] * 2, rtol=1e-12)


def test_declarations():
    rng = np.random.default_rng(0)
    encoder = fitted(rng, "lags")
    module = to_js(network(rng, encoder, 3), encoder=encoder)
    declared = re.findall(r"export declare (?:const|function) (\w+)", module.declarations)
    assert sorted(declared) == list(module.exports)
    assert "channels: 2;" in module.declarations
    assert json.loads(module.source.split("const MODEL = ")[1].split(";\n")[0])["series"]["lags"] == [5, 1, 2]
