"""`qsdp report`: pages and cards, and what is refused."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from browser import browser, messages, needs_browser, overflows, resize, serious_findings
from cli_program import figure, refused, run

import qsdp
from qsdp.report import make_report
from qsdp.tables import read_table
from qsdp.tables.scored import scored_rows
from qsdp.tables.training import inputs_of, numbers_of, split

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
def test_page_and_card(trained: Path, here: Path, target: str, file: str) -> None:
    yaml = pytest.importorskip("yaml")
    model, table = qsdp.load(trained / f"{target}.qsdp"), read_table(trained / file)
    arguments = (trained / f"{target}.qsdp", trained / file, "--draws", 2, "--output", "a.html", "--output", "a.md")
    result = run("report", *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert figure(result.stdout, "saved") == "a.html, a.md"
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
    share = f"{100 * certificate.relative_gap:.3g} %"
    parts, problem = scored_rows(model, table)
    shown = [f"{certificate.lower_bound:.6g}", f"{certificate.objective:.6g}", share, f"{network.n_bits:,} bits"]
    shown += [f"{network.form_bits:,} bits", model.table_.digest, "seed 0", *model.encoder_.dropped_]
    assert [one for one in shown if one not in page.words] == []
    assert problem.objective(network) == certificate.objective
    assert [one.name for one in parts] == ["training rows", "test rows"]
    # A report is a function of its files.
    again = make_report(trained / f"{target}.qsdp", trained / file, n_draws=2)
    assert text == again.to_html()
    head, _, body = (here / "a.md").read_text("utf-8").removeprefix("---\n").partition("\n---\n")
    fields = yaml.safe_load(head)
    task = "tabular-regression" if target == "price" else "tabular-classification"
    assert (fields["pipeline_tag"], fields["library_name"]) == (task, "qsdp")
    results = [one["metrics"] for one in fields["model-index"][0]["results"]]
    assert {metric["type"] for metric in results[0]} == set(fields["metrics"])
    name = {"R²": "r_squared"}.get(measure, measure)
    values = [metric["value"] for metrics in results for metric in metrics if metric["type"] == name]
    assert values == pytest.approx([one.score() for one in parts], abs=1e-6)
    assert share in body
    lengths = {len(re.findall(r"(?<!\\)\|", line)) for line in body.splitlines() if line.startswith("| virginica")}
    assert lengths == ({5} if target == "kind" else set())


@needs_browser
def test_page_with_rows_is_for_everybody(trained: Path, here: Path) -> None:
    for target, file in (("price", "messy.csv"), ("kind", "iris.csv")):
        assert run("report", trained / f"{target}.qsdp", trained / file, "--draws", 1).exit_code == 0
        with browser() as driver:
            driver.get((here / f"{target}.html").as_uri())
            for width in (1400, 480):
                resize(driver, width, dark=target == "kind")
                assert serious_findings(driver) == []
                assert not overflows(driver)
                # Wide tables scroll by keyboard, too.
                assert all(one.get_attribute("tabindex") for one in driver.find_elements("class name", "scroll"))
            assert driver.find_element("id", "trial").is_displayed()
            assert messages(driver) == []


def test_what_the_sections_measure(trained: Path) -> None:
    report = make_report(trained / "kind.qsdp", trained / "iris.csv", n_draws=3)
    model, table = qsdp.load(trained / "kind.qsdp"), read_table(trained / "iris.csv")
    judged, classes = report.facts["judged"], report.facts["classes"]
    fitted, held_out = split(model.table_, table)
    truth, predicted = held_out["kind"].tolist(), model.predict(inputs_of(model, held_out)).tolist()
    for row, name in zip(judged["confusion"], classes, strict=True):
        for (_, text), other in zip(row, classes, strict=True):
            pairs = zip(truth, predicted, strict=True)
            assert int(text) == sum((a, b) == (name, other) for a, b in pairs)
    gaps, scores = judged["curves"]
    assert [len(gaps["dots"]), len(scores["dots"])] == [6, 6]
    assert judged["sizes_header"] == ["neurons", "bits", "relative gap", "accuracy"]
    assert [row[0] for row in judged["sizes"]] == ["10", "30", "100", "300", "1,000", "3,000"]
    means = [float(row[2].removesuffix(" %")) for row in judged["sizes"]]
    assert 100.0 >= means[0] > means[-1] >= 0.0
    importances = model.effects(inputs_of(model, fitted)).importances
    assert [value for _, value, _ in report.facts["effects"]["bars"]] == pytest.approx(sorted(importances)[::-1])


def test_errors_are_weighted_as_the_score_is(here: Path) -> None:
    rng = np.random.default_rng(0)
    a, w = rng.normal(size=60), rng.integers(1, 9, size=60)
    y = a**2 + rng.normal(size=60)
    lines = [f"{x},{target},{weight}" for x, target, weight in zip(a, y, w, strict=True)]
    (here / "weighted.csv").write_text("\n".join(["a,y,w", *lines]) + "\n")
    assert run("fit", "weighted.csv", "--target", "y", "--weights", "w", "--encoding", "standard").exit_code == 0
    facts = dict(make_report("weighted.qsdp", "weighted.csv").facts["judged"]["errors"])
    model = qsdp.load("weighted.qsdp")
    rows = split(model.table_, read_table("weighted.csv"))[1]
    errors = model.predict(inputs_of(model, rows)) - numbers_of(rows, "y")
    weights = numbers_of(rows, "w")
    expected = np.sqrt(np.average(errors**2, weights=weights)), np.average(np.abs(errors), weights=weights)
    found = facts["root mean square error"], facts["mean absolute error"]
    assert [float(text) for text in found] == pytest.approx(expected, rel=1e-3)


def test_less_data_gives_less(trained: Path, here: Path) -> None:
    model = trained / "price.qsdp"
    without = make_report(model)
    titles = ["Certificate", "Network and size", "Importances of columns", "Encoding of columns", "Provenance"]
    assert re.findall("<h2>(.*?)</h2>", without.to_html()) == ["Try it", *titles]
    assert "model-index" not in without.to_card()
    lines = (trained / "messy.csv").read_bytes().splitlines(keepends=True)
    (here / "other.csv").write_bytes(b"".join(lines[:40]))
    other = make_report(model, "other.csv", n_draws=1)
    assert list(other.scores) == ["rows"]
    (_,) = other.facts["judged"]["curves"]
    assert other.to_html().count("<svg") == 2
    qsdp.load(model).resample(50, 0).save("new.qsdp")
    assert "is not known" in make_report("new.qsdp").to_html()
    assert "is not known" not in make_report("new.qsdp", trained / "messy.csv", n_draws=1).to_html()


def test_a_folder_of_parquet_files_is_a_table(trained: Path, here: Path) -> None:
    pytest.importorskip("pyarrow")
    table = read_table(trained / "messy.csv").head(40)
    (here / "rows").mkdir()
    for name, part in (("b", table[20:]), ("a", table[:20])):
        part.to_parquet(here / "rows" / f"{name}.parquet", index=False)
    report = make_report(trained / "price.qsdp", "rows", n_draws=1)
    assert list(report.scores) == ["rows"]
    digest = hashlib.sha256(b"".join((here / "rows" / f"{name}.parquet").read_bytes() for name in "ab")).hexdigest()
    assert ("data", "rows", digest) in report.facts["files"]


def plain_files(folder: Path) -> dict[str, tuple[Path, list[str]]]:
    """Write a file of every other kind; return what it holds, its path, and words that a report of it has."""
    X, y = qsdp.datasets.make_planted(n=40, d=4, n_neurons=3, random_state=0)
    result = qsdp.solve_and_sample(X, y, n_neurons=20, activation="quadratic", random_state=0)
    network, certificate = result.network, result.certificate
    saved = {
        "network": (network.save, [f"{network.n_bits:,} bits", "20 neurons", "x0 * x1"]),
        "polynomial": (network.to_polynomial().save, ["quantized network of", "x1^2"]),
        "integers": (partial(network.save, form="integers"), ["integer coefficients"]),
        "certificate": (certificate.save, [f"{certificate.objective:.6g}", "squared", "40", "20 neurons"]),
        "hidden": (partial(certificate.save, include_data=False), ["saved without its data"]),
        "statistics": (qsdp.SufficientStatistics().partial_fit(X, y).save, ["40 rows", "not known"]),
        "outputs": (qsdp.BilinearNetwork([[1, -1]], [[1, 1]], [[0.5, -2.0]]).save, ["2 outputs", "-2"]),
    }
    for name, (save, _) in saved.items():
        save(folder / f"{name}.file")
    return {name: (folder / f"{name}.file", words) for name, (_, words) in saved.items()}


def test_files_without_a_table(here: Path) -> None:
    yaml = pytest.importorskip("yaml")
    for name, (path, words) in plain_files(here).items():
        arguments = (path, "--output", f"{name}.html", "--output", f"{name}.md")
        result = run("report", *arguments)
        assert (result.exit_code, result.stderr) == (0, ""), name
        page, card = Page((here / f"{name}.html").read_text("utf-8")), (here / f"{name}.md").read_text("utf-8")
        assert [one for one in [*words, "What is not known"] if one.lower() not in page.words.lower()] == [], name
        fields = yaml.safe_load(card.removeprefix("---\n").partition("\n---\n")[0])
        assert "script" not in page.tags
        assert set(fields) == {"library_name", "tags"}
        assert f"{name}.file" in card
        assert "predict new.csv" not in card
        refused_data = refused("report", path, "none.csv", "--output", "x.html")
        assert "data are for models; " in " ".join(refused_data.split())
    assert not (here / "x.html").exists()


def test_other_versions_are_refused(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qsdp.networks.storage._VERSION", "2")
    qsdp.BilinearNetwork([[1]], [[1]], [1.0]).save("new.net")
    monkeypatch.undo()
    monkeypatch.chdir(here)
    (here / "old.cert").write_bytes(b"qsdp certificate 1\nother")
    assert "has format version '2'; expected '1'" in refused("report", "new.net")
    assert "not a valid certificate: it has no certificate header" in refused("report", "old.cert")
    assert sorted(path.name for path in here.iterdir()) == ["new.net", "old.cert"]


def test_names_are_text(here: Path) -> None:
    rows = "\n".join(f"{i % 7},{'<i>|`*' if i % 2 else 'b'},{'<u>' if i % 3 else 'x|y'}" for i in range(40))
    (here / "odd.csv").write_text(f'<b>a</b>|,"c\nd",<script>\n{rows}\n')
    fit = ("fit", "odd.csv", "--target", "<script>", "--encoding", "standard", "--refine", "none", "--beta", "5%")
    assert run(*fit).exit_code == 0
    assert run("report", "odd.qsdp", "odd.csv", "--draws", 1, "--output", "o.html", "--output", "o.md").exit_code == 0
    tags = Page((here / "o.html").read_text()).tags
    assert not {"b", "i", "u"} & {*tags}
    assert tags.count("script") == 1
    card = (here / "o.md").read_text()
    assert not re.search("<[a-z]", card)
    widths = [len(re.findall(r"(?<!\\)\|", line)) for line in card.splitlines() if re.match(r"\| (&lt;b|c d)", line)]
    assert set(widths) <= {3, 4, 5}


def test_refusals_leave_nothing(trained: Path, here: Path) -> None:
    model, data = trained / "label.qsdp", trained / "messy.csv"
    (here / "label.html").write_text("mine")
    assert "'label.html' exists; overwrite it with --force" in refused("report", model, data)
    assert "exists" in refused("report", model, data, "--output", "a.md", "--output", "label.html")
    assert "ending of --output must be one of" in refused("report", model, data, "--output", "x.pdf")
    assert "--draws must be" in refused("report", model, data, "--draws", 0)
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
