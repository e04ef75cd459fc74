"""`qsdp report`: pages, and what is refused."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from browser import browser, findings, messages, needs_browser, overflows, resize
from cli_program import figure, inputs, refused, run, split
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import r2_score

import qsdp
from qsdp.report import make_report
from qsdp.tables import read_table

VOID = {"meta", "br"}
LOADING = {"link", "img", "iframe", "object"}


class Page(HTMLParser):
    """Elements of a page, which must be closed in order, and its words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.words = self.scripts = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data if not {"style", "script"} & {*self.open} else ""
        self.scripts += data if "script" in self.open else ""


@pytest.mark.parametrize(("target", "file"), [("label", "messy.csv"), ("price", "messy.csv"), ("kind", "iris.csv")])
def test_page(trained: Path, here: Path, target: str, file: str) -> None:
    model, table = qsdp.load(trained / f"{target}.qsdp"), read_table(trained / file)
    result = run("report", trained / f"{target}.qsdp", trained / file, "--output", "a.html")
    assert (result.exit_code, result.stderr) == (0, "")
    assert figure(result.stdout, "saved") == "a.html"
    measure = "R²" if target == "price" else "accuracy"
    assert figure(result.stdout, measure).endswith(" of test rows")
    text = (here / "a.html").read_text("utf-8")
    page = Page(text)
    # Nothing is loaded, and nothing runs but the script that the policy of the page names.
    assert not LOADING & {*page.tags}
    assert page.tags.count("script") == 1
    digest = b64encode(hashlib.sha256(page.scripts.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'\"" in text
    assert not re.search(r"https?:|\bsrc=|url\(|@import|\bon\w+=|\bimport\b", text)
    certificate, network = model.certificate_, model.network_
    share = f"{100 * certificate.relative_gap:.3g}\u00a0%"
    shown = [f"{certificate.lower_bound:.6g}", f"{certificate.objective:.6g}", share]
    shown += [f"{-(-network.to_integer_form().n_bits // 8):,}", model.table_.digest, "seed 0", *model.encoder_.dropped_]
    assert [one for one in shown if one not in page.words] == []
    report = make_report(trained / f"{target}.qsdp", trained / file)
    assert list(report.scores) == ["training rows", "test rows"]
    for scores, rows in zip(report.scores.values(), split(table, target), strict=True):
        truth = rows[target].astype(float) if target == "price" else rows[target]
        assert scores[measure] == pytest.approx(model.score(inputs(model, rows), truth), rel=1e-12)
    # A report is a function of its files.
    assert text == report.to_html()


@needs_browser
def test_page_with_rows_is_for_everybody(trained: Path, here: Path) -> None:
    with browser() as driver:
        for target, file in (("price", "messy.csv"), ("kind", "iris.csv")):
            assert run("report", trained / f"{target}.qsdp", trained / file).exit_code == 0
            driver.get((here / f"{target}.html").as_uri())
            for width, dark in ((1280, False), (390, True)):
                resize(driver, width, dark=dark)
                assert findings(driver) == []
                assert not overflows(driver)
                # Wide tables scroll by keyboard, too.
                assert all(one.get_attribute("tabindex") for one in driver.find_elements("class name", "scroll"))
            assert driver.find_element("id", "trial").is_displayed()
            assert messages(driver) == []


def difference(gains: np.ndarray) -> str:
    """A paired difference in points and its standard error, as the page writes them."""
    mean, error = 100.0 * gains.mean(), 100.0 * gains.std(ddof=1) / np.sqrt(len(gains))
    return f"{mean:+.1f} ± {error:.1f}".replace("-", "\u2212")


@pytest.mark.filterwarnings("ignore")
def test_scores_beside_rivals(trained: Path) -> None:
    model, table = qsdp.load(trained / "kind.qsdp"), read_table(trained / "iris.csv")
    judged = make_report(trained / "kind.qsdp", trained / "iris.csv").facts["judged"]
    fitted, held_out = split(table, "kind")
    truth = held_out["kind"].to_numpy()
    predicted = model.predict(inputs(model, held_out))
    for row, name in zip(judged["confusion"], model.classes_, strict=True):
        for (_, text), other in zip(row, model.classes_, strict=True):
            assert int(text) == np.count_nonzero((truth == name) & (predicted == other))
    linear = LogisticRegression(max_iter=300)
    linear.fit(model.network_inputs(inputs(model, fitted)), fitted["kind"].tolist())
    for weights in (linear.coef_, linear.intercept_):
        unit = np.abs(weights).max() / 127
        weights[:] = unit * np.round(weights / unit)
    right = (linear.predict(model.network_inputs(inputs(model, held_out))) == truth).astype(float)
    # Three outputs of four inputs and a constant, with a scale each; four deviations of columns.
    size = -(-(8 * 3 * linear.coef_.shape[1] + 8 * 3 + 2 * 32 + 4 * 16) // 8)
    boosted = HistGradientBoostingClassifier(random_state=0)
    boosted.fit(inputs(model, fitted).astype(float), fitted["kind"].tolist())
    found = (boosted.predict(inputs(model, held_out).astype(float)) == truth).astype(float)
    ours = (predicted == truth).astype(float)
    always = (truth == pd.Series(fitted["kind"]).mode()[0]).astype(float)
    expected = [
        (f"{100.0 * right.mean():.1f} %", difference(right - ours)),
        (f"{100.0 * found.mean():.1f} %", difference(found - ours)),
        (f"{100.0 * always.mean():.1f} %", difference(always - ours)),
    ]
    first, *others = judged["rivals"]
    bits = min(model.network_.n_bits, model.network_.to_integer_form().n_bits)
    network = -(-(bits + 4 * 2 * 16) // 8)
    assert first == ("this network", f"{100.0 * ours.mean():.1f} %", f"{network:,}", "")
    assert [line[0] for line in others[:2]] == ["logistic regression in 8 bits", "boosted trees"]
    assert [(line[1], line[3]) for line in others] == expected
    assert (others[0][2], others[2][2]) == (f"{size:,}", "")
    # Boosted trees take a hundred stages of three trees.
    assert int(others[1][2].replace(",", "")) > 100 * size
    importances = model.effects(inputs(model, fitted)).importances
    assert [value for _, value, _ in judged["effects"]["bars"]] == pytest.approx(sorted(importances)[::-1])


@pytest.mark.filterwarnings("ignore")
def test_numbers_beside_rivals(trained: Path) -> None:
    model, table = qsdp.load(trained / "price.qsdp"), read_table(trained / "messy.csv")
    report = make_report(trained / "price.qsdp", trained / "messy.csv")
    fitted, held_out = split(table, "price")
    X, X_test = (model.network_inputs(inputs(model, rows)) for rows in (fitted, held_out))
    y, y_test = (rows["price"].to_numpy(float) for rows in (fitted, held_out))
    linear = RidgeCV(np.logspace(-3, 4, 15)).fit(X, (y - y.mean()) / y.std())
    unit = np.abs(linear.coef_).max() / 127
    linear.coef_ = unit * np.round(linear.coef_ / unit)
    predicted = y.mean() + y.std() * linear.predict(X_test)
    ours = model.predict(inputs(model, held_out))
    gains = ((ours - y_test) ** 2 - (predicted - y_test) ** 2) / y_test.var()
    first, ridge, trees = report.facts["judged"]["rivals"]
    assert (first[0], first[1]) == ("this network", f"{r2_score(y_test, ours):.3f}")
    assert (ridge[0], trees[0]) == ("ridge regression in 8 bits", "boosted trees")
    # The intercept of standardised targets is nearly zero.
    assert float(ridge[1]) == pytest.approx(r2_score(y_test, predicted), abs=2e-3)
    mean, error = ridge[3].replace("\u2212", "-").split(" ± ")
    assert float(mean) == pytest.approx(gains.mean(), abs=2e-3)
    assert float(error) == pytest.approx(gains.std(ddof=1) / np.sqrt(len(gains)), abs=2e-3)


def test_less_data_gives_less(trained: Path, here: Path) -> None:
    model = trained / "price.qsdp"
    titles = ["Try it", "Certificate", "Importances of the columns", "Size", "Provenance"]
    assert re.findall("<h2>(.*?)</h2>", make_report(model).to_html()) == titles
    lines = (trained / "messy.csv").read_bytes().splitlines(keepends=True)
    (here / "other.csv").write_bytes(b"".join(lines[:40]))
    other = make_report(model, "other.csv")
    assert list(other.scores) == ["rows"]
    assert other.facts["judged"]["rivals"] == []
    assert other.to_html().count("on the line: exact.") == 1


def test_names_are_text(here: Path) -> None:
    rows = "\n".join(f"{i % 7},{'<i>|`*' if i % 2 else 'b'},{'<u>' if i % 3 else 'x|y'}" for i in range(40))
    (here / "odd.csv").write_text(f'<b>a</b>|,"c\nd",<script>\n{rows}\n')
    fit = ("fit", "odd.csv", "--target", "<script>", "--encoding", "standard", "--refine", "none", "--beta", "5%")
    assert run(*fit).exit_code == 0
    assert run("report", "odd.qsdp", "odd.csv", "--output", "o.html").exit_code == 0
    tags = Page((here / "o.html").read_text()).tags
    assert not {"b", "i", "u"} & {*tags}
    assert tags.count("script") == 1


def test_refusals_leave_nothing(trained: Path, here: Path) -> None:
    model, data = trained / "label.qsdp", trained / "messy.csv"
    (here / "label.html").write_text("mine")
    assert "'label.html' exists; overwrite it with --force" in refused("report", model, data)
    assert "--output must end in .html; got 'x.pdf'" in refused("report", model, data, "--output", "x.pdf")
    assert "does not exist" in refused("report", model, data, "--output", "none/x.html")
    assert "is not a qsdp file" in refused("report", data, "--output", "x.html")
    assert "none.csv" in refused("report", model, "none.csv", "--output", "x.html")
    (here / "columns.csv").write_text("age,label\n1,yes\n")
    assert "has no columns" in refused("report", model, "columns.csv", "--output", "x.html")
    (here / "unknown.csv").write_text("age,income [EUR],city,sex,label\n1,2,Oslo,m,NA\n")
    assert "has no row in which the target 'label'" in refused("report", model, "unknown.csv", "--output", "x.html")
    assert (here / "label.html").read_text() == "mine"
    assert sorted(path.name for path in here.iterdir()) == ["columns.csv", "label.html", "unknown.csv"]
    assert run("report", model, "--force").exit_code == 0
    assert (here / "label.html").read_text() != "mine"
