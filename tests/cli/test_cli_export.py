"""`qsdp export`: what it prints, refuses and leaves behind."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from c_flags import FLAGS
from cli_program import figure, inputs, refused, run

import qsdp
from qsdp.export import describe, to_c, to_js, to_onnx, to_verilog
from qsdp.tables import read_table

NETWORK = qsdp.BilinearNetwork([[1, -1]], [[1, 1]], [0.5])


@pytest.mark.parametrize("target", ["label", "price", "kind"])
def test_export_as_c(trained: Path, here: Path, target: str) -> None:
    result = run("export", trained / f"{target}.qsdp", "--to", "c")
    assert (result.exit_code, result.stderr) == (0, "")
    assert figure(result.stdout, "saved") == f"{target}.c, {target}.h"
    assert sorted(path.name for path in here.iterdir()) == [f"{target}.c", f"{target}.h"]
    code = to_c(qsdp.load(trained / f"{target}.qsdp"), name=target)
    assert ((here / f"{target}.c").read_text(), (here / f"{target}.h").read_text()) == (code.source, code.header)
    assert f"{code.model.layout.table.size} bytes" in figure(result.stdout, "weights")


def test_export_with_an_example(trained: Path, here: Path) -> None:
    for target in ("label", "price", "kind"):
        folder = here / target
        folder.mkdir()
        model = trained / f"{target}.qsdp"
        result = run("export", model, "--to", "c", "--example", "--output", folder / f"{target}.c")
        assert (result.exit_code, result.stderr) == (0, "")
        assert sorted(path.name for path in folder.iterdir()) == sorted([f"{target}.c", f"{target}.h", "main.c"])
        assert "main.c" in figure(result.stdout, "saved")
        subprocess.run(["gcc", *FLAGS, "main.c", f"{target}.c", "-o", "main"], cwd=folder, check=True)
        lines = subprocess.run(["./main"], cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()
        assert len(lines) == 8
        assert all(line.endswith(": agrees") for line in lines)
    (here / "main.c").write_text("mine")
    assert "'main.c' exists; overwrite it with --force" in refused("export", model, "--to", "c", "--example")
    assert (here / "main.c").read_text() == "mine"
    assert not (here / "kind.c").exists()
    assert "--example is not an option of --to onnx" in refused("export", model, "--to", "onnx", "--example")


def test_models_of_series_are_exported_as_c_alone(here: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2, 12)), rng.integers(0, 2, 40)
    options = {"encoding": qsdp.encoding.Windows(2, segments=2), "refine": "exact", "beta": "30%", "random_state": 0}
    qsdp.QuantizedNetworkClassifier(**options).fit(X, y).save(here / "waves.qsdp")
    for to in ("js", "onnx", "verilog"):
        assert "only" in refused("export", "waves.qsdp", "--to", to)
    assert [path.name for path in here.iterdir()] == ["waves.qsdp"]
    result = run("export", "waves.qsdp", "--to", "c", "--example")
    assert (result.exit_code, result.stderr) == (0, "")
    assert figure(result.stdout, "memory").endswith(" bytes between samples")
    subprocess.run(["gcc", *FLAGS, "main.c", "waves.c", "-o", "main"], cwd=here, check=True)
    done = subprocess.run(["./main"], cwd=here, capture_output=True, check=True, text=True)
    assert done.stdout.count("agrees") == 8


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler is installed")
@pytest.mark.parametrize(("target", "file"), [("label", "messy.csv"), ("kind", "iris.csv")])
def test_compiled_code_predicts_as_the_model_of_the_file(trained: Path, target: str, file: str) -> None:
    model, table = qsdp.load(trained / f"{target}.qsdp"), read_table(trained / file)
    X = inputs(model, table)
    code = to_c(model)
    scores = describe(model).scores(code.model.description.columns(X))
    margin = np.abs(scores[:, 0]) if scores.shape[1] == 1 else -np.diff(np.sort(scores)[:, -2:])[:, 0]
    sure = np.abs(margin) > 2.0 * code.rounding_error.max()
    assert sure.mean() > 0.9
    assert code.compile().predict(X)[sure].tolist() == model.predict(X)[sure].tolist()


@pytest.mark.parametrize("target", ["label", "price", "kind"])
def test_export_as_onnx(trained: Path, here: Path, target: str) -> None:
    pytest.importorskip("onnx")
    result = run("export", trained / f"{target}.qsdp", "--to", "onnx")
    assert (result.exit_code, result.stderr) == (0, "")
    exported = to_onnx(qsdp.load(trained / f"{target}.qsdp"))
    assert (here / f"{target}.onnx").read_bytes() == exported.SerializeToString()
    assert figure(result.stdout, "outputs") == ", ".join(one.name for one in exported.graph.output)
    NETWORK.save("net.qsdp")
    assert figure(run("export", "net.qsdp", "--to", "onnx").stdout, "input range") == "[-32768, 32767]"


def test_export_as_javascript(trained: Path, here: Path) -> None:
    result = run("export", trained / "label.qsdp", "--to", "js")
    assert (result.exit_code, result.stderr) == (0, "")
    module = to_js(qsdp.load(trained / "label.qsdp"), name="label")
    assert {path.name: path.read_bytes() for path in here.iterdir()} == module.files()
    assert figure(result.stdout, "exports") == ", ".join(module.exports)
    assert figure(result.stdout, "size") == f"{module.n_data} bytes of model, {module.n_code} of code"
    NETWORK.save("net.qsdp")
    assert figure(run("export", "net.qsdp", "--to", "js").stdout, "exports") == "columns, predict"


def test_export_as_verilog(trained: Path, here: Path) -> None:
    assert "is a numeric input" in refused("export", trained / "label.qsdp", "--to", "verilog")
    NETWORK.save("net.qsdp")
    assert figure(run("export", "net.qsdp", "--to", "verilog").stdout, "inputs") == "2 bits"
    assert (here / "net.v").read_text() == to_verilog(NETWORK, name="net").source
    assert "identifier of Verilog" in refused("export", "net.qsdp", "--to", "verilog", "--output", "wire.v")
    assert sorted(path.name for path in here.iterdir()) == ["net.qsdp", "net.v"]


def test_what_exists_stays_unless_forced(trained: Path, here: Path) -> None:
    model = trained / "label.qsdp"
    (here / "label.h").write_text("mine")
    assert "'label.h' exists; overwrite it with --force" in refused("export", model, "--to", "c")
    assert [path.name for path in here.iterdir()] == ["label.h"]
    assert run("export", model, "--to", "c", "--force").exit_code == 0
    assert (here / "label.h").read_text() != "mine"
    assert run("export", model, "--to", "c", "--output", "other.c", "--width", 32, "--column-width", 16).exit_code == 0
    assert "const int16_t column[" in (here / "other.h").read_text()


def test_refusals_leave_nothing(trained: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = trained / "label.qsdp"
    assert "--to must be one of" in refused("export", model, "--to", "cobol")
    assert "--output must end in .c for --to c" in refused("export", model, "--to", "c", "--output", "x.h")
    assert "C identifier" in refused("export", model, "--to", "c", "--output", "x-y.c")
    assert "width must be 16, 32 or 64; got 24" in refused("export", model, "--to", "c", "--width", 24)
    assert "column_width must be 16 or 32; got 8" in refused("export", model, "--to", "c", "--column-width", 8)
    assert "--column-width is not an option of --to onnx" in refused(
        "export", model, "--to", "onnx", "--column-width", 16
    )
    assert "does not exist" in refused("export", model, "--to", "c", "--output", "none/x.c")
    assert "is not a qsdp file" in refused("export", trained / "iris.csv", "--to", "c")
    assert "none.qsdp" in refused("export", "none.qsdp", "--to", "c")
    assert list(here.iterdir()) == []
