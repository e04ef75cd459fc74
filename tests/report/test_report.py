"""Reports: which measure leads, models of estimators, and text that stays text."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import balanced_accuracy_score, precision_score, recall_score, roc_auc_score

import qsdp
from qsdp.encoding import Patches, Union, Windows
from qsdp.exceptions import InvalidInputError
from qsdp.report import make_report
from qsdp.report._charts import Axis, curve, scatter
from qsdp.report._content import measured, measures
from qsdp.report._model import Judged
from qsdp.report._rendering import RENDERINGS, render
from qsdp.tables.scored import ScoredRows

HOSTILE = "<script>alert('x')</script> | `a` & *b* {{ 7 * 7 }} {% raw %}\n# heading"


def rows_of(truth: np.ndarray, outputs: np.ndarray, weights: np.ndarray | None = None) -> ScoredRows:
    """Return rows whose scores of two classes are their inputs."""
    return ScoredRows("rows", model_of(["a", "b"]), outputs, outputs, truth, weights)


def model_of(classes: list[str]) -> SimpleNamespace:
    network = SimpleNamespace(predict=lambda X: X)
    return SimpleNamespace(
        network_=network, classes_=classes, target_scaling_=SimpleNamespace(decode=lambda outputs: outputs)
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_measures_are_those_of_scikit_learn(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    truth, outputs = rng.integers(0, 2, 60), rng.standard_normal(60)
    weights = rng.uniform(0.1, 3.0, 60) if weighted else None
    other = SimpleNamespace(predict=lambda X: X**3 - 0.2)
    for network, scores in ((None, outputs), (other, outputs**3 - 0.2)):
        found = [measured(rows_of(truth, outputs, weights), name, network) for name in ("AUC", "balanced accuracy")]
        expected = (
            roc_auc_score(truth, scores, sample_weight=weights),
            balanced_accuracy_score(truth, scores > 0, sample_weight=weights),
        )
        assert found == pytest.approx(expected, rel=1e-12)
    # Rows of classes that training did not have belong to no recall and no curve.
    unknown = rows_of(np.r_[truth, -1, -1], np.r_[outputs, 9.0, -9.0])
    known = rows_of(truth, outputs)
    for name in ("AUC", "balanced accuracy"):
        assert measured(unknown, name) == measured(known, name)
    assert np.isnan(measured(rows_of(np.ones(4), np.ones(4)), "AUC"))


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((50, 50), ("accuracy", "AUC", "balanced accuracy")),
        ((65, 35), ("accuracy", "AUC", "balanced accuracy")),
        ((90, 10), ("AUC", "balanced accuracy", "accuracy")),
        ((30, 30, 31), ("accuracy", "balanced accuracy")),
        ((60, 30, 30), ("balanced accuracy", "accuracy")),
        ((60, 60, 0), ("balanced accuracy", "accuracy")),
    ],
)
def test_uneven_classes_are_led_by_what_they_do_not_flatter(counts: tuple[int, ...], expected: tuple[str, ...]) -> None:
    truth = np.repeat(np.arange(len(counts)), counts)
    # Training and test rows count together.
    parts = [rows_of(some, np.zeros(len(some))) for some in (truth[::3], np.r_[truth[1::3], truth[2::3]])]
    assert measures(Judged(model_of(["a", "b", "c"][: len(counts)]), parts, None)) == expected


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with saved estimators of Python: of a data frame with hostile names and labels, and of an array."""
    pd = pytest.importorskip("pandas")
    folder = tmp_path_factory.mktemp("saved")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({HOSTILE: rng.standard_normal(80), "b": rng.choice(["<i>x</i>", "y|`"], 80)})
    y = np.where(X[HOSTILE] + (X["b"] == "y|`") > 0.3, HOSTILE, "<b>no</b>")
    settings = {"encoding": "standard", "refine": "none", "beta": "5%", "random_state": 0}
    qsdp.QuantizedNetworkClassifier(40, **settings).fit(X, y).save(folder / "hostile.qsdp")
    numbers, target = rng.standard_normal((60, 3)), rng.standard_normal(60)
    regressor = qsdp.QuantizedNetworkRegressor(40, **{**settings, "encoding": "none"})
    regressor.fit(numbers, target).save(folder / "arrays.qsdp")
    regressor.fit(numbers, numbers @ np.ones((3, 2))).save(folder / "two.qsdp")
    del settings["beta"]
    qsdp.QuantizedNetworkClassifierCV(40, betas=3, cv=2, **settings).fit(X, y).save(folder / "cv.qsdp")
    return folder


@pytest.mark.filterwarnings("ignore:the certified gap is")
@pytest.mark.parametrize("name", ["hostile", "arrays", "two", "cv"])
def test_saved_estimators_have_reports(saved: Path, name: str) -> None:
    path = saved / f"{name}.qsdp"
    model, report = qsdp.load(path), make_report(path)
    page, card = report.to_html(), report.to_card()
    for text in (page, card):
        assert f"{model.certificate_.lower_bound:.6g}" in text
        assert f"{model.certificate_.objective:.6g}" in text
        assert f"{model.network_.n_bits:,} bits" in text
        assert f"{100.0 * max(model.feature_importances_):.1f} %" in text
    assert report.task == ("tabular-classification" if hasattr(model, "classes_") else "tabular-regression")
    assert report.scores == {}
    np.savez(saved / "part.npz", X=np.ones((2, 3)))
    (saved / "table.csv").write_text("a,b\n1,2\n")
    for data in ("part.npz", "table.csv"):
        with pytest.raises(InvalidInputError, match=r"must hold arrays X and y, as numpy\.savez\(path, X=X, y=y\)"):
            make_report(path, saved / data)


@pytest.mark.filterwarnings("ignore:the certified gap is")
def test_estimators_saved_in_python_are_scored_on_arrays(saved: Path) -> None:
    rng = np.random.default_rng(0)
    # As in the fixture, after its table.
    _ = rng.standard_normal(80), rng.choice(["<i>x</i>", "y|`"], 80)
    X, y = rng.standard_normal((60, 3)), rng.standard_normal(60)
    model = qsdp.load(saved / "arrays.qsdp")
    np.savez(saved / "train.npz", X=X, y=y)
    np.savez(saved / "weighted.npz", X=X[:30], y=y[:30], sample_weight=np.arange(30.0))
    report = make_report(saved / "arrays.qsdp", saved / "train.npz", n_draws=1)
    assert report.scores["training rows"]["R²"] == pytest.approx(model.score(X, y), rel=1e-12)
    assert "relative gap" in report.facts["judged"]["sizes_header"]
    assert [bar[0] for bar in report.facts["effects"]["bars"]] == sorted(
        ["x0", "x1", "x2"], key=lambda name: -model.effects(X).importances[int(name[1])]
    )
    report = make_report(saved / "arrays.qsdp", saved / "weighted.npz", n_draws=1)
    score = model.score(X[1:30], y[1:30], np.arange(1.0, 30.0))
    assert report.scores["rows"]["R²"] == pytest.approx(score, rel=1e-12)
    assert "Rows are weighted by the column <code>sample_weight</code>" in report.to_html()
    assert "relative gap" not in report.facts["judged"]["sizes_header"]
    np.savez(saved / "two.npz", X=X, y=np.ones((60, 2)))
    with pytest.raises(InvalidInputError, match=r"y must be of shape \(n,\), as a report scores one target; got"):
        make_report(saved / "two.qsdp", saved / "two.npz")


def test_recalls_and_precisions_of_weighted_rows_count_weights(tmp_path: Path) -> None:
    X, y = qsdp.datasets.load_bundled("iris")
    model = qsdp.QuantizedNetworkClassifier(8, beta="20%", encoding="standard", refine="none", random_state=0)
    model.fit(X[::2], y[::2]).save(tmp_path / "iris.qsdp")
    weights = np.random.default_rng(0).integers(1, 9, len(y))
    np.savez(tmp_path / "rows.npz", X=X, y=y, sample_weight=weights)
    judged = make_report(tmp_path / "iris.qsdp", tmp_path / "rows.npz", n_draws=1).facts["judged"]
    found, options = model.predict(X), {"average": None, "sample_weight": weights, "zero_division": 0.0}
    assert (found != y).any()
    for column, score in ((2, recall_score), (3, precision_score)):
        assert [line[column] for line in judged["by_class"]] == [
            f"{100.0 * one:.1f} %" for one in score(y, found, **options)
        ]
    assert [line[1] for line in judged["by_class"]] == ["50", "50", "50"]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models of images and series, and arrays."""
    folder = tmp_path_factory.mktemp("pictures")
    images, digits = load_digits().images.astype(np.uint8), load_digits().target
    np.savez(folder / "train.npz", X=images[:150], y=digits[:150])
    np.savez(folder / "test.npz", X=images[150:200], y=digits[150:200])
    settings = {"beta": "5%", "refine": "none", "random_state": 0}
    encoder = Union([Patches(3, regions=2), Patches(2, regions=1, constant=0)])
    for name, one in (("images", Patches(3, regions=2)), ("union", encoder)):
        model = qsdp.QuantizedNetworkClassifier(60, encoding=one, **settings)
        model.fit(images[:150], digits[:150]).save(folder / f"{name}.qsdp")
    speeds = np.linspace(0.1, 0.5, 40)
    series = np.sin(np.arange(30) * speeds[:, None])
    np.savez(folder / "series.npz", X=series, y=speeds)
    regressor = qsdp.QuantizedNetworkRegressor(20, encoding=Windows(4, segments=2, lags=(1, 3)), **settings)
    regressor.fit(series, speeds).save(folder / "series.qsdp")
    return folder


@pytest.mark.filterwarnings("ignore:the certified gap is")
@pytest.mark.parametrize(
    ("name", "data"),
    [("images", None), ("images", "train"), ("images", "test"), ("union", "test"), ("series", "series")],
)
def test_models_of_images_and_series_have_reports(pictures: Path, name: str, data: str | None) -> None:
    model = qsdp.load(pictures / f"{name}.qsdp")
    report = make_report(pictures / f"{name}.qsdp", None if data is None else pictures / f"{data}.npz", n_draws=1)
    assert report.task == {"images": "image-classification", "union": None, "series": None}[name]
    page, card = report.to_html(), report.to_card()
    for text in (page, card):
        assert f"{model.certificate_.lower_bound:.6g}" in text
        assert f"{model.certificate_.objective:.6g}" in text
        assert f"{model.network_.n_bits:,} bits" in text
        assert "qsdp predict" not in text
    # There is no form, and nothing runs.
    assert not re.search("<script|<form|Effects and interactions|Encoding of columns", page)
    filters = report.facts["filters"]
    regions = [region for one in filters for region in one["regions"]]
    names = {
        "images": ["row 1, column 1", "row 1, column 2", "row 2, column 1", "row 2, column 2"],
        "series": ["lag 1, segment 1", "lag 1, segment 2", "lag 3, segment 1", "lag 3, segment 2"],
    }
    names["union"] = [*names["images"], "row 1, column 1"]
    assert [region["name"] for region in regions] == names[name]
    assert [int(region["count"]) for region in regions] == np.bincount(
        model.network_.block, minlength=len(regions)
    ).tolist()
    assert sum(float(region["share"].removesuffix(" %")) for region in regions) == pytest.approx(100.0, abs=0.5)
    if data is not None:
        with np.load(pictures / f"{data}.npz") as arrays:
            score = model.score(arrays["X"], arrays["y"])
        rows = "rows" if data == "test" else "training rows"
        assert report.scores[rows]["R²" if name == "series" else "accuracy"] == pytest.approx(score, rel=1e-12)
        assert ("relative gap" in report.facts["judged"]["sizes_header"]) == (data != "test")


def test_pictures_are_those_of_the_signs(pictures: Path) -> None:
    model = qsdp.load(pictures / "union.qsdp")
    network, encoder = model.network_, model.encoder_
    first, second = make_report(pictures / "union.qsdp").facts["filters"]
    prices = np.abs(network.output_weights) * encoder.layout_.prices[network.block][:, None]
    for block, region in enumerate([*first["regions"], *second["regions"]]):
        mine = np.flatnonzero(network.block == block)
        largest = mine[np.argsort(-prices[mine].max(axis=1), kind="stable")[:4]]
        size, constant = (3, True) if block < 4 else (2, False)
        assert len(region["neurons"]) == len(largest)
        for (u, v, text), j in zip(region["neurons"], largest, strict=True):
            for picture, signs in ((u, network.U[j]), (v, network.V[j])):
                assert (picture["width"], picture["height"]) == (size, size)
                assert picture["constant"] == (signs[9] if constant else 0)
                drawn = -np.ones((size, size), dtype=int)
                for x, y in re.findall(r"M(\d+) (\d+)h1v1h-1z", picture["path"]):
                    drawn[int(y), int(x)] = 1
                np.testing.assert_array_equal(drawn.ravel(), signs[: size**2])
            output = int(prices[j].argmax())
            assert text == f"{output}: {np.sign(network.output_weights[j, output]) * prices[j, output]:+.2g}"


def without_script(page: str) -> str:
    """Return a page without its only script, which ends the body."""
    parts = re.fullmatch(r"(.*)<script type=\"module\">(.*)</script>\s*</body>\s*</html>\s*", page, re.DOTALL)
    assert parts
    for part in parts.groups():
        assert not re.search("</?script|<!--", part)
    return parts[1]


@pytest.mark.filterwarnings("ignore:the certified gap is")
def test_hostile_names_and_labels_stay_text(saved: Path) -> None:
    report = make_report(saved / "hostile.qsdp")
    page, card = without_script(report.to_html()), report.to_card()
    assert not re.search(r"<[bi]>", page)
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;" in page
    assert not re.search("<[a-z]", card)
    assert "\n# heading" not in card
    # Nothing that a name says is run as a template.
    assert "{{ 7 * 7 }}" in page
    assert "49" not in re.sub(r"[0-9a-f]{64}|\d\.\d+", "", page)


@pytest.mark.parametrize("ending", RENDERINGS)
@pytest.mark.parametrize("target", ["name", HOSTILE])
def test_values_in_code_and_cells_are_escaped(saved: Path, ending: str, target: str) -> None:
    report = make_report(saved / "arrays.qsdp")
    facts = {**report.facts, "target": target, "kind": "model", "name": target, "task": report.task, "results": []}
    facts |= {"columns": [(target,) * 4], "width": 1, "dropped": [(target, target)], "options": [(target, target)]}
    text = render(ending, facts)
    if target is HOSTILE:
        assert "<script>" not in text
        if ending == ".md":
            assert "\n# heading" not in text
            rows = [line for line in text.splitlines() if line.startswith("| &lt;script")]
            assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [5, 3, 3]


@pytest.mark.parametrize("make", [Axis.around, Axis.around_sizes])
@pytest.mark.parametrize("values", [[1.0], [2.0, 2.0], [1e-9, 3e9], [0.93, 0.97], [10.0, 3000.0], [1e6, 1.0001e6]])
def test_axes_hold_their_values(make, values: list[float]) -> None:
    axis = make(np.array(values))
    shares = axis.shares(values)
    assert np.all((shares > 0.0) & (shares < 1.0))
    ticks = axis.ticks()
    assert len(ticks) <= 25
    assert np.all((axis.shares(ticks) >= -1e-9) & (axis.shares(ticks) <= 1.0 + 1e-9))
    if make == Axis.around:
        assert len(ticks) >= 3


def test_charts_are_drawn_to_scale() -> None:
    values = np.array([[0.0, 1.0], [1.0, 1.0]])
    chart = curve([10, 1000], values, (100.0, 0.5), percent=True)
    (left, low), (right, high) = chart["line"]
    # The lines and the point are on common scales, the horizontal one logarithmic; up is less in SVG.
    assert chart["star"] == pytest.approx((0.5 * (left + right), low), abs=0.11)
    assert high < low
    assert chart["band"] == [(left, 2 * low - high), (right, high), (right, high), (left, high)]
    assert {text[-1] for _, text in chart["y_ticks"]} == {"%"}
    flat = scatter(np.zeros(3), np.zeros(3))
    middle = round((flat["left"] + flat["right"]) / 2, 1)
    assert flat["dots"] == [(middle, 119.0)] * 3
    assert flat["line"] == [(round(flat["left"], 1), 226.0), (round(flat["right"], 1), 12.0)]


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (2e5, 1e6, ["200,000", "400,000", "600,000", "800,000", "1,000,000"]),
        (0.0, 0.4, ["0.0", "0.1", "0.2", "0.3", "0.4"]),
        (-3.0, 3.0, ["-2", "0", "2"]),
        (0.0, 2e8, ["0", "5.0e+07", "1.0e+08", "1.5e+08", "2.0e+08"]),
        (1e-6, 4e-6, ["1e-06", "2e-06", "3e-06", "4e-06"]),
    ],
)
def test_labels_are_in_one_notation_and_inside_the_picture(low: float, high: float, labels: list[str]) -> None:
    chart = scatter(np.array([low, high]), np.array([low, high]))
    assert [text for _, text in chart["y_ticks"]] == [text for _, text in chart["x_ticks"]] == labels
    # Digits of the system fonts of the page are at most 0.56 em wide, and an em of a label is 13.
    widths = [0.56 * 13 * len(text) for text in labels]
    assert chart["left"] - 6 - max(widths) > 0
    assert all(
        x - width / 2 > 0 and x + width / 2 <= chart["width"]
        for (x, _), width in zip(chart["x_ticks"], widths, strict=True)
    )
