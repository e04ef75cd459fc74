"""What objects show of themselves in notebooks and IPython: valid, escaped, bounded and true."""

import dataclasses
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pytest

import qsdp
from benchmarks.papers.noel import MultiStart, QuadraticLogisticRegression, StartStatistics
from benchmarks.papers.tomic import BPLSRegressor, BPLSReport
from qsdp._utils.summary import Summary, format_bits, format_numbers, format_seconds
from qsdp.baselines import AffineForm, BackpropClassifier, History, TrainedLayer, quantize_layers
from qsdp.baselines.backprop import FloatNetwork, ReLUNetwork, round_to_levels

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
        "starts": MultiStart(QuadraticLogisticRegression(n_epochs=5), 3, random_state=0).fit(X, np.sign(y)),
        "untrained": MultiStart(QuadraticLogisticRegression()),
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
        "passes": BPLSRegressor((4,), passes=3, references=True, random_state=0).fit(X, y).report_,
        "no passes": BPLSReport(),
        "accuracies": StartStatistics.of([0.5, 0.75, np.nan]),
        "diverged": StartStatistics.of([np.nan]),
    }


NAMES = (
    "result", "refined", "vector", "certificate", "relaxation", "covariance", "network",
    "polynomial", "generation", "bound", "chain", "starts", "untrained", "relu",
    "quantized relu", "float", "rounding", "form", "forms", "problem", "classes", "regression", "planted", "history",
    "no history", "passes", "no passes", "accuracies", "diverged",
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


def test_all_names_are_shown(shown):
    assert set(shown) == set(NAMES)


def test_certificate_says_what_it_knows():
    one = qsdp.Certificate(lower_bound=30.0, objective=40.0, bound_type="exact")
    assert table(one._repr_html_()) == {
        "objective": "40 of this network",
        "lower bound": "30 of every network",
        "gap": "10, relative 0.25",
        "bound type": "exact",
    }


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.0), (-1.0, 2.0), (0.0, 1e300), (0.0, np.nan)])
def test_certificates_of_any_numbers(low, high):
    parsed(qsdp.Certificate(low, high)._repr_html_())


def test_result_has_certificate_bits_and_timings(shown):
    result = shown["result"]
    rows = table(result._repr_html_())
    assert rows["objective"] == f"{result.certificate.objective:.6g} of this network"
    assert rows["lower bound"] == f"{result.certificate.lower_bound:.6g} of every network"
    assert rows["storage"].startswith(f"{result.network.n_bits:,} bits")
    assert rows["network"] == "40 neurons, 5 inputs"
    assert rows["shaping"] == f"adaptive, c = {result.covariance.constant:.4g}"
    assert "refinement" not in rows
    stages = [f"{stage} {format_seconds(seconds)}" for stage, seconds in result.timings.items()]
    assert rows["time"] == ", ".join(stages)
    assert table(shown["refined"]._repr_html_())["refinement"] == "exact"


def test_vector_result_of_a_lift(shown):
    rows = table(shown["vector"]._repr_html_())
    assert rows["network"] == "60 neurons, 4 inputs, 3 outputs"
    assert rows["first layer"] == "4 levels"
    assert rows["activation"] == "0.0937 t^2 +0.5 t +0.4688"
    rhos = table(shown["vector"].relaxation._repr_html_())["rho"].split(", ")
    np.testing.assert_allclose([float(rho) for rho in rhos], shown["vector"].relaxation.rho[:, 0], rtol=1e-3)


def test_polynomial_networks_name_their_largest_weight(shown):
    rows = table(shown["polynomial"]._repr_html_())
    assert rows["first layer"] == f"integers up to {shown['polynomial'].largest_weight}"
    assert rows["activation"] == "1 t^2 +0 t +0"


def test_column_generation_shows_its_course(shown):
    result = shown["generation"]
    rows = table(result._repr_html_())
    assert rows["status"] == "optimal"
    assert rows["rounds"].startswith(f"{result.rounds} in ")


# --- trained networks, their trainings and their data ----------------------------------------------


def test_chain_names_the_gap_of_every_layer(shown):
    chain = shown["chain"]
    rows = table(chain._repr_html_())
    assert rows["layers"] == "2"
    assert rows["storage"].startswith(f"{chain.n_bits:,} bits")
    for k, match in enumerate(chain.matches):
        assert f"; gap {match.certificate.relative_gap:.3g}" in rows[f"layer {k + 1}"]


def test_history_shows_course_and_end():
    rows = table(HISTORY._repr_html_())
    assert rows == {
        "epochs": "3 in 1 s",
        "stopped": "finished",
        "loss": "2 in the end, smallest 1",
        "accuracy": "0.8 in the end, largest 0.9",
        "norm": "2 in the end, largest 3",
    }
    rows = table(History(measure="r2", loss=[1.0], score=[0.2], stopped="diverged", diverged=2)._repr_html_())
    assert rows["stopped"] == "diverged in epoch 2"
    assert rows["R²"].startswith("0.2 in the end")


def test_least_squares_shows_its_designs_and_simpler_models(shown):
    report = shown["passes"]
    best = report.passes[report.best - 1]
    rows = table(report._repr_html_())
    assert rows["passes"].startswith("3 in ")
    assert rows["best"] == f"pass {report.best}"
    assert rows["loss"] == f"{best.loss:.6g} after pass {report.best}"
    for layer in best.layers:
        design = layer.designs[0]
        assert rows[f"layer {layer.number}"].startswith(f"rank {design.rank} of {design.n_columns}, ")
    for name, one in report.references.items():
        assert rows[name].startswith(f"loss {one.loss:.6g}, ")
    none = BPLSReport(passes=report.passes, best=0)
    assert table(none._repr_html_())["best"] == "the random weights, before any pass"
    assert table(shown["no passes"]._repr_html_()) == {"passes": "0 in 0 s"}


def test_statistics_of_starts(shown):
    rows = table(shown["accuracies"]._repr_html_())
    assert rows == {"starts": "3, of which 1 diverged", "mean": "62.5 % ± 17.7 %", "range": "50.0 % to 75.0 %"}
    assert table(shown["diverged"]._repr_html_()) == {"starts": "1, of which 1 diverged", "mean": "none of them"}


def test_starts_say_whether_they_are_trained(shown):
    rows = table(shown["starts"]._repr_html_())
    assert (rows["starts"], rows["diverged"]) == ("3", "none")
    assert rows["epochs"].startswith("5 in ")
    assert rows["mean loss"] == f"{shown['starts'].history_.loss[-1]:.6g} in the end"
    assert table(shown["untrained"]._repr_html_())["trained"] == "not yet"


def test_networks_of_relu(shown):
    rows = table(RELU._repr_html_())
    assert rows["network"] == "20 neurons, 3 inputs"
    assert rows["parameters"] == "101"
    network = shown["quantized relu"]
    rows = table(network._repr_html_())
    assert rows["first layer"] == "3 levels"
    assert rows["storage"].startswith(f"{network.n_bits:,} bits")


def test_float_networks_name_their_outputs(shown):
    rows = table(shown["float"]._repr_html_())
    assert rows["network"] == "4 neurons, 3 inputs, 2 outputs"
    assert rows["activation"] == "bilinear"
    assert rows["parameters"] == "32"


def test_rounding_names_its_error_and_scales():
    rounding = round_to_levels([[0.9, -0.1, 0.2], [3.0, -3.0, 0.0]], levels=3)
    rows = table(rounding._repr_html_())
    assert rows["relative error"] == f"{rounding.relative_error:.4g}"
    assert rows["scales"] == "0.45 to 1.5"
    zero = table(round_to_levels([[0.0, 0.0]], levels=3)._repr_html_())
    assert zero["scales"] == "0"


def test_short_formulas_are_written_out(shown):
    rows = table(FORM._repr_html_())
    assert rows["formula"] == "x1^2 + x1 x2 - 2 x3^2 + 3 x3"
    rows = table(shown["forms"]._repr_html_())
    assert rows["outputs"] == "2"
    assert "formula" not in table(qsdp.QuadraticForm(np.ones((5, 5)))._repr_html_())


def test_problem_shows_the_objective_of_zero(shown):
    problem = shown["problem"]
    rows = table(problem._repr_html_())
    assert rows["data"] == "60 samples, 5 columns"
    assert rows["network"] == "bilinear, 2 levels, D = 5"
    assert rows["zero network"] == f"objective {np.sum(problem.y**2):.6g}"


def test_data_sets_count_their_classes(shown):
    rows = table(shown["classes"]._repr_html_())
    assert (rows["name"], rows["data"], rows["task"]) == ("iris", "150 samples, 4 columns", "multiclass")
    assert rows["classes"] == "setosa (50), versicolor (50), virginica (50)"
    y = shown["regression"].y
    assert table(shown["regression"]._repr_html_())["target"] == f"progression, {y.min():g} to {y.max():g}"


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


# --- estimators: below scikit-learn's diagram ---------------------------------------------------------


def below(estimator):
    """Return what stands below the diagram, after checking that both ways of notebooks show it."""
    assert estimator._repr_html_().endswith(estimator._panel())
    assert estimator._repr_mimebundle_()["text/html"].endswith(estimator._panel())
    return estimator._panel()


def test_fitted_estimators_show_their_certificate(shown):
    X, y = shown["planted"]
    estimator = qsdp.QuantizedNetworkRegressor(30, beta=0.5, encoding="standard", random_state=0)
    assert below(estimator) == ""
    estimator.fit(X, y)
    assert table(below(estimator))["objective"] == f"{estimator.certificate_.objective:.6g} of this network"
    assert "<script" in estimator._repr_html_()  # scikit-learn's diagram is there


def test_trained_estimators_show_their_history(shown):
    X, y = shown["planted"]
    estimator = BackpropClassifier(3, n_epochs=2, random_state=0)
    assert below(estimator) == ""
    rows = table(below(estimator.fit(X, np.sign(y))))
    assert rows["epochs"].startswith("2 in ")


# --- names that are not to be trusted, and objects that are large ------------------------------


def test_text_is_escaped_and_bounded():
    evil = "</td><script>alert(1)</script>&\"'"
    tree = parsed(Summary(evil, [(evil, evil)]).html())
    assert tree[0].text == tree.find(".//th").text == tree.find(".//td").text == evil
    long = Summary("x" * 10_000, [("y" * 10_000, "z" * 10_000)])
    assert [len(element.text) for element in parsed(long.html()).iter() if element.text] == [120, 120, 8 * 120]
    assert len(long.text()) < 2500


def test_long_values_are_wrapped_and_not_cut():
    stages = [f"stage {number} {number}.25 ms" for number in range(20)]
    summary = Summary("Result", [("objective", "1.5"), ("time", ", ".join(stages))])
    lines = summary.text().split("\n")
    assert all(len(line) <= 140 and line.startswith("  ") for line in lines[1:])
    assert " ".join(line.strip() for line in lines[2:]) == "time       " + ", ".join(stages)
    assert {line[:13] for line in lines[3:]} == {" " * 13}
    assert parsed(summary.html()).findall(".//td")[1].text == ", ".join(stages)


def test_solver_status_is_escaped(shown):
    relaxation = dataclasses.replace(shown["relaxation"], solver_status="<b>failed & gone</b>")
    assert "<b>failed & gone</b>" in table(relaxation._repr_html_())["solver"]


def test_many_outputs_are_cut_short():
    assert format_numbers(list(range(1, 4))) == "1, 2, 3"
    assert format_numbers([0.5] * 1000) == ", ".join(["0.5"] * 8) + ", … (1000 in all)"


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.0, "0 s"), (2.5e-5, "0.025 ms"), (0.0356, "35.6 ms"), (1.0, "1 s"), (123.4, "123 s")]
)
def test_durations(seconds, shown):
    assert format_seconds(seconds) == shown


@pytest.mark.parametrize(("bits", "shown"), [(20, "2.5 bytes"), (17_064, "2.083 KiB"), (8 * 2**20, "1 MiB")])
def test_sizes(bits, shown):
    assert format_bits(bits) == f"{bits:,} bits ({shown})"
