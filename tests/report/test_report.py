"""Reports of models of tables: sizes and scores of rivals, files of Python, and text that stays text."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import qsdp
from qsdp.exceptions import InvalidInputError
from qsdp.report import make_report
from qsdp.report._scatter import scatter
from qsdp.report.rivals import mean_and_error
from qsdp.report.sizes import rounded_linear

HOSTILE = "<script>alert('x')</script> | `a` & *b* {{ 7 * 7 }} {% raw %}\n# heading"


# -- numbers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rounded_linear_models_have_numbers_of_eight_bits(n_classes: int) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), np.arange(60) % n_classes
    linear = LogisticRegression().fit(X, y)
    rounded, bits = rounded_linear(linear)
    outputs = 1 if n_classes == 2 else n_classes
    assert bits == 8 * outputs * 5 + 2 * 32
    for name in ("coef_", "intercept_"):
        exact, found = getattr(linear, name), getattr(rounded, name)
        unit = np.abs(exact).max() / 127
        np.testing.assert_allclose(found / unit, np.rint(found / unit), atol=1e-9)
        assert np.abs(found - exact).max() <= unit / 2 * (1 + 1e-9)
    flat = rounded_linear(Ridge().fit(X, np.zeros(60)))[0]
    assert not flat.predict(X).any()


def test_means_of_rows_and_their_errors() -> None:
    values = np.random.default_rng(0).normal(size=50)
    mean, error = mean_and_error(values)
    assert mean == pytest.approx(values.mean(), rel=1e-12)
    assert error == pytest.approx(values.std(ddof=1) / np.sqrt(50), rel=1e-12)
    assert mean_and_error(values, np.full(50, 3.0)) == pytest.approx((mean, error), rel=1e-12)
    counts = np.arange(50.0)
    assert mean_and_error(values, counts)[0] == pytest.approx(np.average(values, weights=counts), rel=1e-12)
    # A row of weight zero is no row.
    some = mean_and_error(values[:20])
    assert mean_and_error(values, np.r_[np.ones(20), np.zeros(30)])[0] == pytest.approx(some[0], rel=1e-12)
    assert mean_and_error(np.ones(1)) == (1.0, 0.0)


# -- models that were saved in Python ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with saved estimators: of a data frame with hostile names and labels, and of arrays."""
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
    return folder


@pytest.mark.filterwarnings("ignore:the certified gap is")
@pytest.mark.parametrize("name", ["hostile", "arrays", "two"])
def test_saved_estimators_have_reports(saved: Path, name: str) -> None:
    path = saved / f"{name}.qsdp"
    model, report = qsdp.load(path), make_report(path)
    page = report.to_html()
    network = model.network_
    # Two means and deviations of 16 bits for the one column of numbers.
    encoding = 32 if name == "hostile" else 0
    expected = [
        f"{model.certificate_.lower_bound:.6g}",
        f"{model.certificate_.objective:.6g}",
        f"{-(-(min(network.n_bits, network.to_integer_form().n_bits) + encoding) // 8):,} bytes",
        f"{100.0 * max(model.feature_importances_):.1f} %",
    ]
    assert [text for text in expected if text not in page] == []
    assert report.scores == {}
    assert "<h2>Scores" not in page
    (saved / "table.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidInputError, match="was saved in Python and does not know which column is its target"):
        make_report(path, saved / "table.csv")


def test_other_files_have_no_report(tmp_path: Path) -> None:
    X, y = qsdp.datasets.make_planted(n=40, d=4, n_neurons=3, random_state=0)
    result = qsdp.solve_and_sample(X, y, n_neurons=20, random_state=0)
    result.network.save(tmp_path / "network")
    images = np.random.default_rng(0).integers(0, 16, (20, 8, 8)).astype(np.uint8)
    model = qsdp.QuantizedNetworkClassifier(
        30, encoding=qsdp.encoding.Patches(3, regions=2), refine="none", beta="50%", random_state=0
    )
    model.fit(images, np.arange(20) % 2).save(tmp_path / "images")
    for name in ("network", "images"):
        with pytest.raises(InvalidInputError, match=r"reports are for models of tables; .* holds another object"):
            make_report(tmp_path / name)
    result.certificate.save(tmp_path / "certificate")
    qsdp.SufficientStatistics().partial_fit(X, y).save(tmp_path / "statistics")
    for name in ("certificate", "statistics"):
        with pytest.raises(qsdp.exceptions.QSDPError):
            make_report(tmp_path / name)


def test_pages_end_in_html(saved: Path, tmp_path: Path) -> None:
    report = make_report(saved / "arrays.qsdp")
    report.save(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text("utf-8") == report.to_html()
    with pytest.raises(InvalidInputError, match=r"the name of a report must end in \.html; got '.*a\.md'"):
        report.save(tmp_path / "a.md")
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def without_script(page: str) -> str:
    """Return a page without its only script, which ends the body."""
    parts = re.fullmatch(r"(.*)<script type=\"module\">(.*)</script>\s*</body>\s*</html>\s*", page, re.DOTALL)
    assert parts
    for part in parts.groups():
        assert not re.search("</?script|<!--", part)
    return parts[1]


@pytest.mark.filterwarnings("ignore:the certified gap is")
def test_hostile_names_and_labels_stay_text(saved: Path) -> None:
    page = without_script(make_report(saved / "hostile.qsdp").to_html())
    assert not re.search(r"<[bi]>", page)
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;" in page
    # Nothing that a name says is run as a template.
    assert "{{ 7 * 7 }}" in page
    assert "49" not in re.sub(r"[0-9a-f]{64}|\d\.\d+|sha256-[^']*'", "", page)


# -- the scatter plot ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [[1.0], [2.0, 2.0], [0.0], [1e-9, 3e9], [0.93, 0.97], [1e6, 1.0001e6]])
def test_points_are_inside_the_axes(values: list[float]) -> None:
    chart = scatter(np.array(values), np.array(values))
    for x, y in chart["points"]:
        assert chart["left"] < x < chart["right"]
        assert chart["top"] < y < chart["bottom"]
        # On the diagonal.
        share = (x - chart["left"]) / (chart["right"] - chart["left"])
        assert y == pytest.approx(chart["bottom"] + share * (chart["top"] - chart["bottom"]), abs=0.2)
    assert 3 <= len(chart["x_ticks"]) <= 7


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
