"""What objects show of themselves in notebooks and IPython: valid, escaped, bounded and true."""

import dataclasses
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pytest

import qsdp
from qsdp.baselines import AffineForm, History, TrainedLayer, quantize_layers
from qsdp.baselines.backprop import FloatNetwork, ReLUNetwork

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
FORBIDDEN = {"script", "style", "link", "img", "iframe", "object", "embed", "foreignObject", "use", "image", "a"}

FORM = qsdp.QuadraticForm([[1.0, 0.5, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, -2.0]], s=[0.0, 0.0, 3.0])
RELU = ReLUNetwork(np.random.default_rng(0).standard_normal((20, 3)), bias=0.5, alpha=np.ones(20), intercept=0.0)
HISTORY = History(
    loss=[4.0, 1.0, 2.0], score=[0.5, 0.9, 0.8], seconds=[0.5, 0.25, 0.25], extra={"norm": [1.0, 3.0, 2.0]}
)


class Checker(HTMLParser):
    """Checks that tags are balanced and nothing is fetched or run; collects the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag, attrs):
        assert tag not in FORBIDDEN
        for name, value in attrs:
            assert not name.startswith("on")
            assert name not in {"href", "src", "xlink:href", "id", "class"}
            assert "url(" not in value
            assert "background:" not in value.replace("background:none", "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.remove(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def parsed(shown):
    """Return the element tree after checking the HTML, twice: as HTML and as XML."""
    checker = Checker()
    checker.feed(shown)
    checker.close()
    assert checker.open == []
    assert len(shown) < 20_000
    assert "\n" not in shown
    return ET.fromstring(shown)


def table(shown):
    rows = parsed(shown).iter("tr")
    return {row.find("th").text: row.find("td").text or "" for row in rows}


@pytest.fixture(scope="module")
def shown():
    """Objects of every class that has a face, by name."""
    X, y = qsdp.datasets.make_planted(n=60, d=5, n_neurons=3, random_state=0)
    problem = qsdp.TrainingProblem(X, y, beta=0.5)
    iris = qsdp.datasets.load_bundled("iris")
    result = qsdp.solve_and_sample(X, y, n_neurons=40, beta=0.5, random_state=0)
    return {
        "result": result,
        "refined": qsdp.solve_and_sample(X, y, n_neurons=40, beta=0.5, refine="exact", random_state=0),
        "vector": qsdp.solve_and_sample(
            iris.X, np.eye(3)[iris.y], 60, 5.0, activation="relu_like", levels=4, random_state=0
        ),
        "certificate": result.certificate,
        "relaxation": result.relaxation,
        "covariance": result.covariance,
        "network": result.network,
        "polynomial": result.network.to_polynomial(),
        "generation": qsdp.column_generation(problem),
        "bound": qsdp.maxcut_bound(np.eye(4) + 1.0),
        "chain": quantize_layers([TrainedLayer(AffineForm(np.eye(3, 5))), TrainedLayer(FORM)], X, 60, random_state=0),
        "relu": RELU,
        "quantized relu": RELU.quantized(3),
        "float": FloatNetwork(np.random.default_rng(0).standard_normal((2, 4, 3)), np.ones((4, 2))),
        "rounding": RELU.rounding(3),
        "form": FORM,
        "forms": qsdp.QuadraticForm(np.stack([np.eye(5), np.ones((5, 5))])),
        "problem": problem,
        "classes": iris,
        "regression": qsdp.datasets.load_bundled("diabetes"),
        "planted": qsdp.datasets.make_planted(n=60, d=5, n_neurons=3, random_state=0),
        "history": HISTORY,
        "no history": History(),
    }


NAMES = (
    "result", "refined", "vector", "certificate", "relaxation", "covariance", "network",
    "polynomial", "generation", "bound", "chain", "relu",
    "quantized relu", "float", "rounding", "form", "forms", "problem", "classes", "regression", "planted", "history",
    "no history",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_valid_and_named_after_the_class(shown, name):
    one = shown[name]
    assert parsed(one._repr_html_())[0].text == type(one).__name__
    facts = one._summary().rows
    assert table(one._repr_html_()).keys() == {name for name, _ in facts}
    bundle = one._repr_mimebundle_()
    assert bundle["text/html"] == one._repr_html_()
    first, *lines = bundle["text/plain"].splitlines()
    assert first == type(one).__name__
    # Further lines of long values are indented.
    names = [re.split(" {2,}", line)[1] for line in lines if not line.startswith("   ")]
    assert names == [name for name, _ in facts]


def test_names_of_data_are_escaped():
    evil = "<script>alert(1)</script>"
    names = {"feature_names": (evil, "b", "c", "d"), "target_names": (evil, "e", "f")}
    data = dataclasses.replace(qsdp.datasets.load_bundled("iris"), name=evil, description=f"{evil}\nmore", **names)
    rows = table(data._repr_html_())
    assert rows["name"] == rows["about"] == evil
    assert rows["columns"] == f"{evil}, b, c, d"
    assert rows["classes"] == f"{evil} (50), e (50), f (50)"
    history = History(loss=[1.0], score=[1.0], extra={evil: [1.0]}, stopped=evil)
    assert table(history._repr_html_())["stopped"] == evil
    assert evil in table(history._repr_html_())
