"""What notebooks show of objects: well-formed HTML with escaped text, and the same facts as in IPython."""

import dataclasses
import re
import xml.etree.ElementTree as ET

import numpy as np

import qsdp
from qsdp.baselines import AffineForm, History, TrainedLayer, quantize_layers
from qsdp.baselines.backprop import FloatNetwork, ReLUNetwork


def facts(html):
    """Return the facts of a summary by name; its HTML must be well-formed, and load and run nothing."""
    tree = ET.fromstring(html)
    assert {element.tag for element in tree.iter()} <= {"div", "table", "caption", "tbody", "tr", "th", "td", "b", "br"}
    assert {name for element in tree.iter() for name in element.attrib} <= {"style", "scope"}
    return {row.find("th").text: row.find("td").text or "" for row in tree.iter("tr")}


def test_objects_show_the_same_facts_in_notebooks_and_terminals():
    X, y = qsdp.datasets.make_planted(n=60, d=5, n_neurons=3, random_state=0)
    problem, form = qsdp.TrainingProblem(X, y, beta=0.5), qsdp.QuadraticForm(np.eye(3), s=[0.0, 0.0, 3.0])
    result = qsdp.solve_and_sample(X, y, n_neurons=40, beta=0.5, random_state=0)
    iris = qsdp.datasets.load_bundled("iris")
    options = {"activation": "relu_like", "levels": 4, "random_state": 0}
    relu = ReLUNetwork(np.random.default_rng(0).standard_normal((20, 3)), bias=0.5, alpha=np.ones(20), intercept=0.0)
    layers = [TrainedLayer(AffineForm(np.eye(3, 5))), TrainedLayer(form)]
    objects = [
        result, result.certificate, result.relaxation, result.covariance, result.network, problem, form, relu,
        result.network.to_polynomial(), qsdp.column_generation(problem), qsdp.maxcut_bound(np.eye(4) + 1.0),
        quantize_layers(layers, X, 60, random_state=0), relu.quantized(3), relu.rounding(3),
        FloatNetwork(np.random.default_rng(0).standard_normal((2, 4, 3)), np.ones((4, 2))),
        qsdp.solve_and_sample(X, y, n_neurons=40, beta=0.5, refine="exact", random_state=0),
        qsdp.solve_and_sample(iris.X, np.eye(3)[iris.y], 60, 5.0, **options),
        iris, History(loss=[4.0, 1.0], score=[0.5, 0.9], seconds=[0.5, 0.2]), History(),
    ]  # fmt: skip
    for shown in objects:
        bundle = shown._repr_mimebundle_()
        assert bundle["text/html"] == shown._repr_html_()
        first, *lines = bundle["text/plain"].splitlines()
        assert first == type(shown).__name__
        # Further lines of long values are indented.
        names = [re.split(" {2,}", line)[1] for line in lines if not line.startswith("   ")]
        assert names == list(facts(bundle["text/html"]))


def test_names_of_data_are_escaped():
    evil = "<script>alert(1)</script>"
    names = {"feature_names": (evil, "b", "c", "d"), "target_names": (evil, "e", "f")}
    data = dataclasses.replace(qsdp.datasets.load_bundled("iris"), name=evil, description=f"{evil}\nmore", **names)
    rows = facts(data._repr_html_())
    assert rows["name"] == rows["about"] == evil
    assert rows["columns"] == f"{evil}, b, c, d"
    assert rows["classes"] == f"{evil} (50), e (50), f (50)"
    history = History(loss=[1.0], score=[1.0], extra={evil: [1.0]}, stopped=evil)
    assert facts(history._repr_html_())["stopped"] == evil
    assert evil in facts(history._repr_html_())
