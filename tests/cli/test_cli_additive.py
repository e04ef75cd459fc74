"""Commands on additive models, whose networks have real weights and neurons on the columns of a table."""

from __future__ import annotations

import csv
import io
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
    assert f"{model.encoder_.inputs_.encoding_.width} inputs" in figure(text, "data")
    result = run("predict", folder / f"{target}.qsdp", folder / TARGETS[target][0])
    assert result.exit_code == 0, result.stderr
    found = [row["prediction"] for row in csv.DictReader(io.StringIO(result.stdout))]
    expected = model.predict(inputs(model, table))
    if target == "price":
        np.testing.assert_allclose(np.array(found, dtype=float), expected, rtol=1e-12)
    else:
        assert found == [str(label) for label in expected.tolist()]


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
