"""Commands on additive models, whose networks have real weights and neurons on the columns of a table."""

from __future__ import annotations

import csv
import html
import io
import re
from pathlib import Path

import numpy as np
import pytest
from cli_program import figure, flowers, inputs, messy, refused, run, split

import qsdp
import qsdp_check
from qsdp.report import make_report
from qsdp.tables import read_table

TARGETS = {"label": ("messy.csv", "price", "id"), "price": ("messy.csv", "label", "id"), "kind": ("iris.csv",)}


@pytest.fixture(scope="module")
def additive(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A folder with tables and additive models of two classes, of a number and of three classes, and their reports."""
    folder = tmp_path_factory.mktemp("additive")
    (folder / "messy.csv").write_bytes(messy())
    (folder / "iris.csv").write_text(flowers())
    printed = {}
    for target, (file, *drop) in TARGETS.items():
        left_out = [word for name in drop for word in ("--drop", name)]
        result = run(
            "fit", folder / file, "--target", target, *left_out, "--encoding", "additive", "--beta", "5%",
            "--output", folder / f"{target}.qsdp",
        )  # fmt: skip
        assert result.exit_code == 0, result.stderr
        printed[target] = result.stdout
    return folder, printed


@pytest.mark.parametrize("target", TARGETS)
def test_fit_and_predict(additive: tuple[Path, dict[str, str]], target: str) -> None:
    folder, printed = additive
    model, table = qsdp.load(folder / f"{target}.qsdp"), read_table(folder / TARGETS[target][0])
    network, text = model.network_, printed[target]
    weights = np.count_nonzero(network.weights)
    # The price is a product of two columns.
    assert bool(weights) == (target != "price")
    parts = f"{network.n_neurons} neurons" + (f" and {weights} real weights" if weights else "")
    assert figure(text, "network").startswith(f"{parts}, bilinear")
    assert figure(text, "refined").startswith("column generation: ")
    assert figure(text, "size").split("  ")[0] == f"{network.n_bits:,} bits"
    assert figure(text, "lower bound").split()[0] == f"{model.certificate_.lower_bound:.6g}"
    encoder = model.encoder_.inputs_
    assert f"{encoder.encoding_.width} inputs" in figure(text, "data")
    for column in encoder.encoding_.columns:
        if encoder.dropped_.get(column.name) == "no gain":
            read = (
                ""
                if column.kind == "number"
                else f"{len(column.categories)} values, "
                if column.categories
                else "dates, "
            )
            assert f"{column.name!r} ({read}no gain)" in figure(text, "dropped")
    result = run("predict", folder / f"{target}.qsdp", folder / TARGETS[target][0])
    assert result.exit_code == 0, result.stderr
    found = [row["prediction"] for row in csv.DictReader(io.StringIO(result.stdout))]
    expected = model.predict(inputs(model, table))
    if target == "price":
        np.testing.assert_allclose(np.array(found, dtype=float), expected, rtol=1e-12)
    else:
        assert found == [str(label) for label in expected.tolist()]


@pytest.mark.parametrize("target", TARGETS)
def test_the_page_has_weights_curves_and_interactions(additive: tuple[Path, dict[str, str]], target: str) -> None:
    folder, _ = additive
    model, table = qsdp.load(folder / f"{target}.qsdp"), read_table(folder / TARGETS[target][0])
    report = make_report(folder / f"{target}.qsdp", folder / TARGETS[target][0])
    page, outputs = html.unescape(report.to_html()), report.facts["judged"]["effects"]["outputs"]
    fitted, _ = split(table, target)
    assert len(outputs) == (3 if target == "kind" else 1)
    # Outputs are folded, and each is on the page.
    sections = page.partition("<h2>Effects of the columns")[2].partition("<h2>Size")[0].split('<div class="curves">')
    assert len(sections) == len(outputs) + 1
    curves = 0
    for k, section in enumerate(sections[1:]):
        explanation = model.explain(inputs(model, fitted), output=k)
        shown = [column for column in explanation.columns if column.size > 0.0]
        captions = re.findall(r"<figcaption><strong>(.*?)</strong> size (\S+?)(?:; (.*?))?</figcaption>", section)
        assert [(name, size) for name, size, _ in captions] == [(c.name, f"{c.size:.4g}") for c in shown]
        values = [effect for column in shown for _, effect in column.curve]
        drawn = iter(re.findall(r'<polyline class="line" points="(.*?)"', section))
        for column, (_, _, weights) in zip(shown, captions, strict=True):
            x, y = np.array([point for point in column.curve if isinstance(point[0], float)]).reshape(-1, 2).T
            for value, effect in column.curve:
                name = "missing" if value is None else str(value)
                if not isinstance(value, float):
                    assert re.search(
                        rf">{re.escape(name)}</th>\s*<td class=\"number\">{re.escape(f'{effect:.4g}')}<", section
                    )
            if len(x):
                points = np.array([point.split(",") for point in next(drawn).split()], dtype=float)
                # The widths and heights of pictures are 200 and 80, with the largest effect on top.
                np.testing.assert_allclose(points[:, 0], 200 * (x - x[0]) / (x[-1] - x[0]), atol=0.051)
                heights = 80 * (max(values) - y) / (max(values) - min(values))
                np.testing.assert_allclose(points[:, 1], heights, atol=0.051)
                slopes = [f"weight {weight:.4g}" for term, weight in column.weights if term == column.name]
                steps = sum(">" in term for term, _ in column.weights)
                slopes += [f"{steps} step{'s' if steps > 1 else ''}"] if steps else []
                assert weights == ", ".join(slopes)
                curves += 1
        assert next(drawn, None) is None
        pairs = [effect for effect in explanation.interactions if effect.size > 0.0]
        listed = re.findall(r'<th scope="row">(\S+ \* \S+)</th>\s*<td class="number">(\S+)</td>', section)
        assert listed == [(effect.name, f"{effect.size:.4g}") for effect in pairs[:12]]
    assert curves or target == "price"


@pytest.mark.parametrize("bound_type", ["sdp", "exact"])
@pytest.mark.parametrize("target", TARGETS)
def test_certify(
    additive: tuple[Path, dict[str, str]],
    here: Path,
    capsys: pytest.CaptureFixture[str],
    target: str,
    bound_type: str,
) -> None:
    folder, _ = additive
    model, file = folder / f"{target}.qsdp", folder / TARGETS[target][0]
    options = ["--bound-type", bound_type, "--time-limit", "10"]
    for flags, data in (([], []), (["--no-data"], ["--data", "out.cert.npz"])):
        result = run("certify", model, file, "--output", "out.cert", "--force", *options, *flags)
        assert result.exit_code == 0, result.stderr
        capsys.readouterr()
        assert qsdp_check.main(["out.cert", *data]) == 0
        # The digest of a report is that of the certificate.
        assert qsdp.load(model).table_.digest in capsys.readouterr().out
    certificate = qsdp.load_certificate("out.cert")
    assert certificate.objective == pytest.approx(qsdp.load(model).certificate_.objective, rel=1e-12)
    assert certificate.lower_bound <= certificate.objective


def test_another_table_has_no_certificate(additive: tuple[Path, dict[str, str]], here: Path) -> None:
    folder, _ = additive
    (here / "other.csv").write_bytes(messy(seed=1))
    message = refused("certify", folder / "label.qsdp", "other.csv")
    assert "is not the file this model was trained on" in message
    assert not list(here.glob("*.cert*"))


@pytest.mark.parametrize("target", TARGETS)
def test_report(additive: tuple[Path, dict[str, str]], here: Path, target: str) -> None:
    folder, _ = additive
    file = folder / TARGETS[target][0]
    result = run("report", folder / f"{target}.qsdp", file, "--output", "a.html")
    assert result.exit_code == 0, result.stderr
    model = qsdp.load(folder / f"{target}.qsdp")
    report = make_report(folder / f"{target}.qsdp", file)
    assert (here / "a.html").read_text("utf-8") == report.to_html()
    measure = "R²" if target == "price" else "accuracy"
    parts = [(inputs(model, rows), rows[target]) for rows in split(read_table(file), target)]
    if target == "price":
        parts = [(X, y.astype(float)) for X, y in parts]
    found = [scores[measure] for scores in report.scores.values()]
    assert found == pytest.approx([model.score(*part) for part in parts], rel=1e-12)
    assert len(report.facts["judged"]["rivals"]) >= 2
    width = model.encoder_.inputs_.encoding_.width
    assert report.facts["weights"] == "binary first-layer weights beside real weights of the inputs"
    assert f", {width} inputs" in report.facts["network"]
    effects = model.effects(parts[0][0])
    assert report.facts["judged"]["effects"]["bars"][0][1] == pytest.approx(effects.importances.max())
    assert report.facts["certificate"].lower_bound == model.certificate_.lower_bound
    assert report.facts["script"] is not None
    alone = make_report(folder / f"{target}.qsdp")
    assert (alone.scores, bool(alone.facts["importances"])) == ({}, True)


@pytest.mark.parametrize("to", ["c", "js", "onnx"])
def test_export(additive: tuple[Path, dict[str, str]], here: Path, to: str) -> None:
    if to == "onnx":
        pytest.importorskip("onnx")
    folder, _ = additive
    result = run("export", folder / "label.qsdp", "--to", to)
    assert result.exit_code == 0, result.stderr
    assert list(here.glob(f"label*.{to}"))
