"""Reports of models of tables: sizes and scores of rivals, files of Python, and text that stays text."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import qsdp
from qsdp.exceptions import InvalidInputError
from qsdp.report import make_report

HOSTILE = "<script>alert('x')</script> | `a` & *b* {{ 7 * 7 }} {% raw %}\n# heading"


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
